//! What `baton sim` and `baton check` print: names, scenarios, verdicts and figures.

use std::path::PathBuf;
use std::process::Command;

use baton_protocol::registry::{ALGORITHMS, Family};
use serde_json::Value;

/// The exit status and the output of a command, with each run of spaces squeezed to one.
fn baton(arguments: &str) -> (i32, String) {
    let quoted = arguments.split('\'').enumerate();
    let words = quoted.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_baton")).args(words).current_dir(root).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn json(arguments: &str) -> Value {
    let (_, text) = baton(arguments);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments}: {error}: {text}"))
}

fn assert_prints(arguments: &str, status: i32, parts: &[&str]) {
    let (found, text) = baton(arguments);
    let missing: Vec<_> = parts.iter().filter(|part| !text.contains(**part)).collect();
    assert!(found == status && missing.is_empty(), "{arguments}: {found}, without {missing:?}, in\n{text}");
}

#[test]
fn a_part_of_a_name_is_enough_everywhere() {
    assert_prints("sim ricart --entries 30", 0, &["ricart-agrawala, n = 5", "(in theory 8 = 2(n-1))"]);
    assert_prints("check ricart -n 2", 0, &["ricart-agrawala, n = 2"]);
    assert_prints("algorithms agrawala", 0, &["ricart-agrawala"]);
    assert_prints("group init --algorithm suzuki --size 3", 0, &["algorithm = \"suzuki-kasami\""]);
    let several = ["`ring` fits permission-ring, token-ring, ring-list; write more of the name"];
    assert_prints("sim ring", 2, &several);
    assert_prints("check ring -n 2", 2, &several);
    let no_value = ["the variant `k-ary:K` needs a value; write for example `k-ary:3`"];
    assert_prints("sim raymond --variant k-ary", 2, &no_value);
}

#[test]
fn scenarios_have_names_and_a_list() {
    let expected = "the result is as expected, in 1 run";
    assert_prints("sim --scenario split-brain-bully", 0, &["Split brain: bully", expected]);
    assert_prints("sim --scenario scenarios/split-brain-bully.toml", 0, &[expected]);
    assert_prints(
        "sim --scenario split-brain",
        2,
        &["there is no scenario `split-brain`; similar are split-brain-bully"],
    );
    assert_prints("sim --scenario nonsense.toml", 2, &["cannot read nonsense.toml"]);
    let hint = "the scenario of that name is part of the program: --scenario split-brain-bully";
    assert_prints("sim --scenario split-brain-bully.toml", 2, &["cannot read split-brain-bully.toml", hint]);
    assert_prints("sim --scenarios", 0, &["split-brain-bully Split brain: bully", "token-lost The token is lost"]);
    assert_prints("sim --scenarios --seed 3", 2, &["cannot be used with"]);
    let list = json("sim --scenarios --json");
    let all = list["scenarios"].as_array().unwrap();
    let one = all.iter().find(|scenario| scenario["name"] == "split-brain-bully").unwrap();
    assert_eq!(
        (&one["title"], &one["algorithm"], &one["runs"]),
        (&"Split brain: bully".into(), &"bully".into(), &1.into())
    );
    assert!(all.len() > 40 && one["story"].as_str().unwrap().contains("cut off"));
}

/// The file says what to expect of its own run, and of no other.
#[test]
fn options_replace_those_of_a_scenario_and_its_expectations_then_do_not_apply() {
    let other = "the options change the run, so the expected result of the scenario does not apply";
    let broken = ["bully, n = 7, seed 1", other, "a promise was broken in 1 of 1 run"];
    assert_prints("sim --scenario split-brain-bully -n 7 --fault 'partition 0,1|2,3,4,5,6 @ 30 for 60'", 1, &broken);
    let held = ["seed 5", other, "a promise was broken in 0 of 3 runs"];
    assert_prints("sim --scenario split-brain-bully-quorum --seed 5 --runs 3", 0, &held);
    let (_, text) = baton("sim --scenario split-brain-bully --seed 2 -n 7");
    assert!(text.starts_with("the options change the run: the story"), "before the story: {text}");
    assert_prints("sim --scenario split-brain-bully --seed 1 -n 5", 0, &["the result is as expected"]);
    let changed = json("sim --scenario split-brain-bully --seed 2 -n 7 --json");
    assert_eq!((&changed["changed"], &changed["differences"]), (&true.into(), &Value::Array(Vec::new())));
    assert_eq!(json("sim --scenario split-brain-bully --json")["changed"], false);
    assert_prints("sim --scenario split-brain-bully --runs 0", 2, &["--runs cannot be 0"]);
    assert_prints("sim bully --scenario split-brain-bully", 2, &["cannot be used with"]);
}

#[test]
fn a_report_tells_what_was_not_tested_and_which_command_tests_it() {
    let untested = "order not tested `baton check central -n 3 --property order` tests it; here no application message";
    assert_prints("sim central", 0, &[untested]);
    assert_prints("check central -n 3 --property order", 1, &["order is violated"]);
    assert_eq!(json("sim central --json")["properties"]["order"], "untested");
    assert_prints("sim central --app-messages", 0, &["order held, not promised fence held"]);
    assert_prints("sim phi-accrual", 0, &["safety held, not promised liveness held order"]);
    assert_prints("sim heartbeat", 0, &["safety held liveness held order"]);
}

/// The suggested command shows that an algorithm without a promise violates the order.
#[test]
fn the_command_that_tests_the_order_finds_the_violation() {
    let mut tried = 0;
    for about in ALGORITHMS.iter().filter(|about| about.family == Family::Mutex) {
        let variants = about.variants.iter().filter(|variant| !variant.name.contains(':'));
        let named = variants.map(|variant| format!(" --variant {}", variant.name));
        for variant in [String::new()].into_iter().chain(named) {
            let n = if variant.ends_with(" plane") { 7 } else { 9 };
            let (_, text) = baton(&format!("sim {} -n {n}{variant}", about.name));
            let Some((_, told)) = text.split_once("order not tested `baton ") else { continue };
            let (command, _) = told.split_once('`').unwrap();
            // With the sets of Ricart and Agrawala the requests enter in order, although it is not promised. Some
            // algorithms that are broken on purpose keep their promise of order.
            let holds = about.promises.order || command.contains("generalized -n 2");
            let status = if holds { 0 } else { 1 };
            assert_prints(command, status, &[]);
            tried += 1;
        }
    }
    assert!(tried > 30, "only {tried}");
    for variant in ["central -n 5 --variant lease:5", "raymond -n 5 --variant k-ary:3"] {
        let command = format!("sim {variant} --app-messages --network async");
        assert_prints(&format!("sim {variant}"), 0, &[&format!("order not tested `baton {command}` tests it")]);
        assert_prints(&command, 0, &["order violated, not promised"]);
    }
}

#[test]
fn an_election_shows_the_leader_of_each_side_and_messages_that_add_up() {
    let cut = "sim bully -n 5 --variant quorum --fault 'partition 0,1,2|3,4 @ 30'";
    let (_, text) = baton(cut);
    assert!(text.contains(" on the side of P0, P1, P2; none on the side of P3, P4"), "{text}");
    assert!(text.contains("leader P2, term "), "{text}");
    assert!(text.contains(" time 7.000 T on the side of P0, P1, P2; - on the side of P3, P4 rivals"), "{text}");
    let (_, row) = text.split_once(" messages ").unwrap();
    let (total, rest) = row.split_once(" (").unwrap();
    let (kinds, rest) = rest.split_once(')').unwrap();
    let counts = kinds.split(", ").map(|kind| kind.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), total.parse::<u64>().unwrap(), "{text}");
    assert!(rest.starts_with("; ") && rest.contains(" in the whole run"), "{text}");
    assert_prints("sim --help", 0, &["A process that no side of a partition names reaches every side"]);
}

#[test]
fn extremes_and_the_time_of_the_run_are_shown_and_no_costs_of_a_run_that_got_stuck() {
    let (_, text) = baton("sim central -n 5 --fault 'pause 2 @ 4 for 1000000'");
    assert!(text.contains("in the whole run sync delay"), "{text}");
    assert!(text.contains(" time 1000") && text.contains("theory none, because the run has faults"), "{text}");
    let stuck = ["per entry no mean, because a request still waits at the end bytes", "liveness VIOLATED"];
    assert_prints("sim central -n 3 --fault 'crash 3 @ 60' --ignore-assumptions", 1, &stuck);
    let no_entry = ["entries 0 ", "no process has entered bytes", "bypass - safety"];
    assert_prints("sim maekawa-no-inquire -n 9", 1, &no_entry);
    assert_prints("sim no-lock", 1, &["messages 0 (none)"]);
    let store = json("sim central --variant lease:5 --store lease-checked --json")["store"].clone();
    assert_eq!((&store["kind"], &store["fencing"]), (&"lease-checked".into(), &false.into()));
}

/// A lease may end while its paused holder is inside, so such a run does not promise safety. The report, the diagram and
/// the judge of the trace agree on that.
#[test]
fn what_a_run_does_not_promise_is_no_broken_promise_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let (svg, trace) = (folder.path().join("run.svg"), folder.path().join("run.ndjson"));
    let (svg_name, trace_name) = (svg.to_str().unwrap(), trace.to_str().unwrap());
    let play = format!("sim --scenario fencing-pause-fenced --svg {svg_name} --trace {trace_name}");
    assert_prints(&play, 0, &["safety violated, not promised P1 and P0 are"]);
    let picture = std::fs::read_to_string(svg).unwrap();
    assert!(picture.contains(">safety, which is not promised: P1 and P0 are in"), "{picture}");
    assert!(!picture.contains("violates safety"), "{picture}");
    assert_prints(&format!("trace check {trace_name}"), 0, &["safety violated, not promised"]);
}

#[test]
fn without_a_detector_a_crash_stops_the_others_and_the_report_names_them() {
    let crash = "sim ricart-agrawala -n 4 --fault 'crash 2 @ 20'";
    assert_prints(crash, 0, &["liveness held"]);
    let refused = ["assumes that a failure detector reports every crash, and there is none"];
    assert_prints(&format!("{crash} --no-detector"), 2, &refused);
    let stopped = ["liveness VIOLATED P0 has waited since", "nothing can happen any more; P1, P3 wait, too"];
    assert_prints(&format!("{crash} --no-detector --ignore-assumptions"), 1, &stopped);
}

#[test]
fn random_faults_are_shown() {
    let report = json("sim ricart-agrawala --fault random --seed 3 --json");
    let faults = report["drawn"]["faults"].as_array().unwrap();
    assert!(!faults.is_empty(), "{report}");
    let first = faults[0].as_str().unwrap();
    assert_prints("sim ricart-agrawala --fault random --seed 3", 0, &[&format!("drawn {first}")]);
    assert!(report.get("theory").is_some() && report["theory"].as_object().unwrap().is_empty(), "{report}");
    assert!(json("sim ricart-agrawala --json").get("drawn").is_none());
    let twice =
        ["the fault `random` is given twice; once is enough, because the seed decides how many faults it draws"];
    assert_prints("sim ricart-agrawala --fault random --fault random", 2, &twice);
}

/// Probabilities have so few digits that people can type them.
#[test]
fn drawn_probabilities_are_short() {
    let mut seen = 0;
    for seed in 1..=40 {
        let drawn = json(&format!("sim voting --fault random --seed {seed} --json"))["drawn"].clone();
        for name in ["loss", "duplicate", "drift"] {
            let Some(value) = drawn.get(name) else { continue };
            assert!(value.to_string().len() <= 5, "seed {seed}: {name} {value}");
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} were drawn");
}

/// Of many runs, those that fail are listed, each with the faults that it drew.
#[test]
fn a_failure_of_many_runs_shows_the_drawn_faults() {
    let runs = "sim ricart-agrawala --fault random --ignore-assumptions --runs 10";
    let (status, text) = baton(runs);
    assert_eq!(status, 1, "{text}");
    let (_, failure) = text.split_once(" seed ").unwrap();
    let seed = failure.split(' ').next().unwrap();
    let alone = json(&format!("sim ricart-agrawala --fault random --ignore-assumptions --seed {seed} --json"));
    let first = alone["drawn"]["faults"][0].as_str().unwrap();
    assert!(failure.contains(&format!(" drawn: {first}")), "without {first}: {failure}");
}

/// A lost write is no property of the algorithm, and must be named all the same.
#[test]
fn a_failure_of_many_runs_shows_the_lost_write() {
    let (status, text) = baton("sim central --store unfenced --variant lease:5 --runs 20 --fault random");
    assert_eq!(status, 1, "{text}");
    let failures: Vec<&str> = text.split(" seed ").skip(1).collect();
    assert!(!failures.is_empty(), "{text}");
    assert!(failures.iter().all(|failure| failure.contains(" store: P")), "{text}");
}

#[test]
fn a_missing_theory_has_a_reason() {
    for (arguments, reason) in [
        ("sim ricart-agrawala --drift 0.1", "none, because clocks drift"),
        ("sim ricart-agrawala --fault random --seed 3", "none, because the run has faults"),
        (
            "sim bully --delay-max 0.4 --ignore-assumptions",
            "none, because the processes believe in another message delay than the network has",
        ),
        (
            "sim ricart-agrawala --entries 7",
            "none, because the run is too short; ask for at least 25 entries (5 rounds)",
        ),
        (
            "sim ricart-agrawala --network async",
            "none for client delay and sync delay, because message delays are not constant",
        ),
        ("sim bully --variant quorum", "none, because there is no formula for bully (quorum)"),
        ("sim bully --load solo-random", "none, because the costs depend on which process notices"),
        ("sim phi-accrual", "none, because there is no formula for phi-accrual"),
    ] {
        let (_, text) = baton(arguments);
        assert!(text.contains(&format!("theory {reason}")), "{arguments}: {text}");
        assert!(json(&format!("{arguments} --json"))["no_theory"].as_str().unwrap().starts_with(reason), "{arguments}");
    }
    let (_, text) = baton("sim ricart-agrawala");
    assert!(!text.contains("theory none") && text.contains("(in theory"), "{text}");
}

/// A mean over few random requests is often far from theory. The report says how far, and what would be enough.
#[test]
fn a_short_run_says_how_far_its_means_may_be_from_theory() {
    let few = "spread a mean over 80 entries may differ by 22 % from theory; with --entries 2020, by 4 %";
    assert_prints("sim token-ring --load random", 0, &[few, "(in theory about 9.758"]);
    assert_prints("sim raymond --load solo-random", 0, &[few]);
    let crashes = "spread a mean over 100 crashes may differ by 20 % from theory; with --entries 2000, by 4 %";
    assert_prints("sim heartbeat", 0, &[crashes]);
    let spread = &json("sim token-ring --load random --json")["spread"];
    assert_eq!((&spread["values"], &spread["entries_enough"]), (&80.into(), &2020.into()));
    // Enough entries, or no value that depends on chance.
    for enough in ["token-ring --load random --entries 2020", "ricart", "ricart --load solo-random", "naimi-trehel"] {
        let (_, text) = baton(&format!("sim {enough}"));
        assert!(text.contains("(in theory") && !text.contains("spread"), "{enough}: {text}");
    }
}

/// Ticks that follow each other are one line, with the numbers of all of them.
#[test]
fn the_steps_of_a_counterexample_have_numbers_without_gaps() {
    let report = json("check bully -n 3 --suspect 1 --json");
    let mut next = 1;
    for line in report["counterexample"].as_array().unwrap() {
        let number = line.as_str().unwrap().split_whitespace().next().unwrap();
        let (first, last) = number.split_once('-').unwrap_or((number, number));
        let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) else { continue };
        assert_eq!(first, next, "{report}");
        next = last + 1;
    }
    assert_eq!(next, report["steps"].as_u64().unwrap() + 1, "{report}");
}

/// A broken algorithm is not trusted: where a run could not have shown a violation, it says so.
#[test]
fn a_run_of_a_broken_algorithm_that_could_show_nothing_says_so() {
    let none = "tests it; here no process enters";
    let parts = ["safety not tested", "liveness VIOLATED", "order not tested", "fence not tested", none];
    assert_prints("sim permission-ring-original -n 5", 1, &parts);
    assert_prints("sim no-lock", 1, &["safety VIOLATED", "order not tested no two processes wait at the same time"]);
    assert_prints("sim ricart-agrawala-time-only", 1, &["safety VIOLATED", "order not tested"]);
    assert_prints("sim ricart-agrawala", 0, &["safety held", "order held", "fence held"]);
}

#[test]
fn rivals_at_the_end_of_a_run_are_named() {
    let cut = "sim ring-list -n 5 --fault 'partition 0,1,2|3,4 @ 30' --ignore-assumptions";
    assert_prints(cut, 1, &["led for 1.000 T until the run ended; P2 and P4 still lead"]);
    assert_eq!(json(&format!("{cut} --json"))["rivals_at_end"], serde_json::json!([2, 4]));
    let (_, healed) = baton("sim bully -n 5 --fault 'partition 0,1,2|3,4 @ 30 for 60' --ignore-assumptions");
    assert!(healed.contains("processes led for") && !healed.contains("still lead"), "{healed}");
}

#[test]
fn processes_on_no_side_of_a_partition_are_told() {
    let told = "P5 and P6 are on no side of `partition 0,1,2|3,4 @ 30 for 60` and reach both";
    assert_prints("sim --scenario split-brain-bully -n 7", 0, &[told]);
    let cut = "sim bully -n 6 --fault 'partition 0|1|3,4,5 @ 30 for 9' --ignore-assumptions";
    let told = "P2 is on no side of `partition 0|1|3,4,5 @ 30 for 9` and reaches all";
    assert!(baton(cut).1.contains(told), "{}", baton(cut).1);
    assert_eq!(json(&format!("{cut} --json"))["notes"], serde_json::json!([told]));
    let (_, whole) = baton("sim bully -n 5 --fault 'partition 0,1,2|3,4 @ 30' --ignore-assumptions");
    assert!(!whole.contains("on no side"), "{whole}");
}

#[test]
fn a_seed_that_changes_nothing_is_not_told_to_change_the_run() {
    let (status, same) = baton("sim --scenario split-brain-bully --seed 7");
    assert_eq!(status, 0, "{same}");
    assert!(!same.contains("change the run") && same.contains("the result is as expected, in 1 run"), "{same}");
    assert_prints("sim --scenario split-brain-bully -n 7", 0, &["the options change the run"]);
}

#[test]
fn capital_letters_do_not_matter_in_names() {
    assert_prints("sim Ricart --entries 30", 0, &["ricart-agrawala, n = 5"]);
    assert_prints("sim BULLY", 0, &["bully, n = 5"]);
    assert_prints("sim Bulli", 2, &["there is no algorithm `Bulli`", "bully"]);
}
