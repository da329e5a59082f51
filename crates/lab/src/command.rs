//! The command that does the same as a call.

use baton_sim::spec::{LinkOrder, NetworkKind, Spec};
use serde::Serialize;

/// Collects the words of a command line.
pub struct Words(Vec<String>);

impl Words {
    pub fn new(words: &[&str]) -> Self {
        Words(words.iter().map(|word| quoted(word)).collect())
    }

    /// An option with a value, if there is one.
    pub fn option(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.0.extend([name.to_owned(), quoted(&value.to_string())]);
        }
    }

    pub fn flag(&mut self, name: &str, is_set: bool) {
        self.0.extend(is_set.then(|| name.to_owned()));
    }

    pub fn line(self) -> String {
        self.0.join(" ")
    }
}

/// As a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+=@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The name of an enum's value in JSON, which is also its name on the command line.
fn name(value: &impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

/// `baton sim ...`
pub fn sim(spec: &Spec) -> String {
    let mut words = Words::new(&["baton", "sim", &spec.algorithm]);
    words.option("-n", spec.n);
    words.option("--variant", spec.variant.as_ref());
    words.option("--coordinators", spec.coordinators);
    words.option("--votes", spec.votes);
    words.option("--load", spec.load.as_ref().and_then(name));
    words.option("--entries", spec.entries);
    words.option("--hold", spec.hold);
    words.option("--think", spec.think);
    words.option("--network", (spec.network == NetworkKind::Async).then_some("async"));
    words.option("--delay", spec.delay.as_ref());
    words.option("--delay-max", spec.delay_max);
    words.option("--order", spec.order.map(|order| if order == LinkOrder::Fifo { "fifo" } else { "unordered" }));
    for (option, value) in [("--loss", spec.loss), ("--duplicate", spec.duplicate), ("--drift", spec.drift)] {
        words.option(option, Some(value).filter(|value| *value != 0.0));
    }
    spec.faults.iter().for_each(|fault| words.option("--fault", Some(fault)));
    words.flag("--app-messages", spec.app_messages);
    words.option("--store", spec.store.as_ref().and_then(name));
    words.option("--seed", spec.seed);
    words.flag("--ignore-assumptions", spec.ignore_assumptions);
    words.option("--patience", spec.patience);
    words.line()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_told_as_the_command_that_runs_it() {
        let spec = r#"{"algorithm":"lamport","n":3,"load":"solo-random","network":"async","order":"unordered","loss":0.5,
            "faults":["crash 1 @ 5"],"app-messages":true,"store":"fenced","seed":7,"ignore-assumptions":true}"#;
        assert_eq!(
            sim(&serde_json::from_str(spec).unwrap()),
            "baton sim lamport -n 3 --load solo-random --network async --order unordered --loss 0.5 \
             --fault 'crash 1 @ 5' --app-messages --store fenced --seed 7 --ignore-assumptions"
        );
        assert_eq!(sim(&serde_json::from_str(r#"{"algorithm":"central"}"#).unwrap()), "baton sim central");
    }

    #[test]
    fn a_hostile_name_stays_one_word() {
        let spec = Spec { algorithm: "x'; rm -rf ~ #".into(), ..Spec::default() };
        assert_eq!(sim(&spec), r"baton sim 'x'\''; rm -rf ~ #'");
    }
}
