//! A run or a check as the command that a user types.

use baton_check::{Faults, LinkOrder, Options as CheckOptions, Property};
use baton_protocol::registry::Params;
use baton_sim::spec::{LinkOrder as Order, NetworkKind, Spec};
use serde_json::{Map, Value, json};

/// The options of a run that differ from their defaults, by the names that scenarios and the command line use.
pub fn settings(spec: &Spec) -> Vec<(&'static str, Value)> {
    // Without `..`, so that a new option is not forgotten here.
    let Spec {
        algorithm: _,
        n,
        variant,
        coordinators,
        votes,
        load,
        noticed_by,
        entries,
        hold,
        think,
        network,
        delay,
        delay_max,
        order,
        loss,
        duplicate,
        drift,
        faults,
        no_detector,
        detector_spread,
        app_messages,
        store,
        seed,
        ignore_assumptions,
        patience,
        events_max: _,
    } = spec;
    let unless_zero = |number: f64| (number != 0.0).then_some(number);
    let order = order.map(|order| match order {
        Order::Fifo => "fifo",
        Order::Unordered => "unordered",
    });
    let all = [
        ("n", json!(n)),
        ("variant", json!(variant)),
        ("coordinators", json!(coordinators)),
        ("votes", json!(votes)),
        ("load", json!(load)),
        ("noticed-by", json!(noticed_by)),
        ("entries", json!(entries)),
        ("hold", json!(hold)),
        ("think", json!(think)),
        ("network", json!((*network == NetworkKind::Async).then_some("async"))),
        ("delay", json!(delay)),
        ("delay-max", json!(delay_max)),
        ("order", json!(order)),
        ("loss", json!(unless_zero(*loss))),
        ("duplicate", json!(unless_zero(*duplicate))),
        ("drift", json!(unless_zero(*drift))),
        ("faults", json!((!faults.is_empty()).then_some(faults))),
        ("no-detector", json!(no_detector.then_some(true))),
        ("detector-spread", json!(unless_zero(*detector_spread))),
        ("app-messages", json!(app_messages.then_some(true))),
        ("store", json!(store)),
        ("seed", json!(seed)),
        ("patience", json!(patience)),
        ("ignore-assumptions", json!(ignore_assumptions.then_some(true))),
    ];
    all.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// The run as a JSON object with the keys of a scenario file.
pub fn to_json(spec: &Spec) -> Value {
    let algorithm = ("algorithm", json!(spec.algorithm));
    let all = [algorithm].into_iter().chain(settings(spec)).map(|(name, value)| (name.to_owned(), value));
    Value::Object(all.collect::<Map<_, _>>())
}

/// `baton sim ...`
pub fn of_run(spec: &Spec) -> String {
    let mut words = vec!["baton sim".into(), spec.algorithm.clone()];
    for (name, value) in settings(spec) {
        match (name, value) {
            ("faults", Value::Array(faults)) => words.extend(faults.iter().map(|fault| option("fault", fault))),
            (name, value) => words.push(option(name, &value)),
        }
    }
    words.join(" ")
}

/// `baton check ...`, without the limits of states, memory and time.
pub fn of_check(algorithm: &str, params: &Params, options: &CheckOptions) -> String {
    let defaults = CheckOptions::default();
    // Without `..`, so that a new option is not forgotten here.
    let Params { n, variant, coordinators, votes, delay_max } = params;
    let CheckOptions {
        entries,
        order,
        properties,
        app_messages,
        timers,
        delay,
        settled_after,
        detector_spread,
        faults: Faults { loss, duplicate, crash, recover, suspect, detectors_only },
        limit: _,
        memory: _,
        time: _,
        threads: _,
        ignore_assumptions,
        after,
        watch: _,
        stop: _,
    } = options;
    assert!(settled_after.is_none() && after.is_empty(), "no option of `baton check` says this");
    let unless_zero = |number: u8| (number > 0).then_some(number);
    let order = order.map(|order| match order {
        LinkOrder::Fifo => "fifo",
        LinkOrder::Unordered => "unordered",
    });
    let properties = properties.as_ref().map(|all| all.iter().map(|one| one.name()).collect::<Vec<_>>().join(","));
    let all = [
        ("n", json!(n)),
        ("variant", json!(variant)),
        ("coordinators", json!(coordinators)),
        ("votes", json!(votes)),
        ("entries", json!((*entries != defaults.entries).then_some(entries))),
        ("order", json!(order)),
        ("loss", json!(unless_zero(*loss))),
        ("duplicate", json!(unless_zero(*duplicate))),
        ("crash", json!(unless_zero(*crash))),
        ("recover", json!(recover)),
        ("suspect", json!(unless_zero(*suspect))),
        ("detectors-only", json!(detectors_only.then_some(true))),
        ("app-messages", json!(app_messages)),
        ("delay", json!(delay)),
        ("detector-spread", json!(detector_spread)),
        ("delay-max", json!((*delay_max != 1).then_some(delay_max))),
        ("timers", json!((*timers != defaults.timers).then_some(timers))),
        ("property", json!(properties)),
        ("ignore-assumptions", json!(ignore_assumptions.then_some(true))),
    ];
    let given = all.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| option(name, value));
    ["baton check".to_owned(), algorithm.to_owned()].into_iter().chain(given).collect::<Vec<_>>().join(" ")
}

fn option(name: &str, value: &Value) -> String {
    let dashes = if name.len() == 1 { "-" } else { "--" };
    match value {
        Value::Bool(_) => format!("{dashes}{name}"),
        Value::String(text) => format!("{dashes}{name} {}", quoted(text)),
        Value::Number(number) => {
            let text = number.to_string();
            format!("{dashes}{name} {}", text.strip_suffix(".0").unwrap_or(&text))
        }
        other => format!("{dashes}{name} {other}"),
    }
}

/// A word for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || ":.,+=_-".contains(char);
    match text.chars().all(is_plain) && !text.is_empty() {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The options of a check of one property.
pub fn check_of(property: Property) -> CheckOptions {
    CheckOptions { properties: Some(vec![property]), ..CheckOptions::default() }
}

#[cfg(test)]
mod tests {
    use baton_sim::app::mutex::Load;

    use super::*;

    #[test]
    fn only_what_was_given_is_in_the_command() {
        let spec = Spec { algorithm: "central".into(), ..Spec::default() };
        assert_eq!(of_run(&spec), "baton sim central");
        let spec = Spec {
            n: Some(3),
            load: Some(Load::SoloRandom),
            think: Some(2.0),
            hold: Some(0.5),
            faults: vec!["crash 1 @ 5".into(), "recover 1 @ 9".into()],
            ignore_assumptions: true,
            ..spec
        };
        let command = "baton sim central -n 3 --load solo-random --hold 0.5 --think 2 --fault 'crash 1 @ 5' \
                       --fault 'recover 1 @ 9' --ignore-assumptions";
        assert_eq!(of_run(&spec), command);
        let expected = json!({
            "algorithm": "central", "n": 3, "load": "solo-random", "think": 2.0, "hold": 0.5,
            "faults": ["crash 1 @ 5", "recover 1 @ 9"], "ignore-assumptions": true,
        });
        assert_eq!(to_json(&spec), expected);
    }

    #[test]
    fn the_times_of_a_check_are_in_its_command() {
        let options = CheckOptions { delay: Some(3), ..check_of(Property::Safety) };
        let command = of_check("bully", &Params::new(3, 2), &options);
        assert_eq!(command, "baton check bully -n 3 --delay 3 --delay-max 2 --property safety");
        assert_eq!(of_check("bully", &Params::new(3, 1), &CheckOptions::default()), "baton check bully -n 3");
    }

    #[test]
    fn words_with_a_meaning_for_the_shell_are_quoted() {
        assert_eq!(quoted("k-ary:3+x"), "k-ary:3+x");
        assert_eq!(quoted("0,1|1,2"), "'0,1|1,2'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
