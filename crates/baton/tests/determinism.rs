//! The same seed gives the same run, byte for byte, in different processes.

use std::fs;
use std::path::Path;
use std::process::Command;

use baton_protocol::registry::ALGORITHMS;

/// Runs `baton sim` in a new process, and returns all that it wrote, without the measured speed, which may differ.
fn sim(folder: &Path, algorithm: &str, more: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.args(["sim", algorithm, "-n", "4", "--json", "--ignore-assumptions"]).args(more).current_dir(folder);
    let output = command.output().expect("the binary was built for this test");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{algorithm}: {}", String::from_utf8_lossy(&output.stderr));
    let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    forget_speed(&mut report);
    let mut written = serde_json::to_vec(&report).unwrap();
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        written.extend(fs::read(&file).unwrap());
        fs::remove_file(&file).unwrap();
    }
    written
}

fn forget_speed(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.remove("events_per_s");
            fields.values_mut().for_each(forget_speed);
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(forget_speed),
        _ => {}
    }
}

/// Options that make all parts of a run random: delays, loss, clocks, faults and choices.
const ROUGH: [&str; 9] =
    ["--network", "async", "--loss", "0.02", "--duplicate", "0.05", "--drift", "0.1", "--fault=random"];

#[test]
fn two_processes_write_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for about in ALGORITHMS {
        let run = |seed| {
            let one = ["--seed", seed, "--trace", "trace", "--svg", "svg"];
            sim(folder.path(), about.name, &[&ROUGH[..], &one].concat())
        };
        let first = run("3");
        assert!(first.windows(5).any(|bytes| bytes == b"</svg"), "{}: nothing was drawn", about.name);
        assert_eq!(first, run("3"), "{}", about.name);
        assert_ne!(first, run("4"), "{}: another seed is another run", about.name);
    }
}

#[test]
fn two_processes_find_the_same_failures() {
    let folder = tempfile::tempdir().unwrap();
    let mut failures = 0;
    for about in ALGORITHMS {
        let run = || sim(folder.path(), about.name, &[&ROUGH[..], &["--runs", "5"]].concat());
        let first = run();
        failures += usize::from(!first.ends_with(b"\"failures\":[],\"runs\":5}"));
        assert_eq!(first, run(), "{}", about.name);
    }
    assert!(failures > 5, "reports of {failures} are compared");
}

/// `--scenario` shows, writes and draws the run with the most violations. `--replay` repeats and draws that trace.
#[test]
fn what_a_scenario_shows_is_written_drawn_and_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let baton = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_baton")).arg("sim").args(args).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        (output.status.code(), report)
    };
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/voting-forgetful.toml");
    let (trace, svg, again) = (file("trace"), file("svg"), file("again"));
    let (status, played) = baton(&["--scenario", scenario, "--json", "--trace", &trace, "--svg", &svg]);
    assert_eq!((status, &played["runs"], &played["differences"]), (Some(0), &50.into(), &serde_json::json!([])));
    let report = &played["report"];
    assert_eq!((&report["properties"]["safety"], &report["algorithm"]), (&"violated".into(), &"voting".into()));
    let (status, replayed) = baton(&["--replay", &trace, "--json", "--svg", &again]);
    assert_eq!((status, &replayed["entries"]), (Some(1), &report["entries"]));
    let violations = replayed["violations"].as_array().unwrap();
    let detail = report["properties"]["detail"]["safety"].as_str().unwrap();
    let same = |violation: &&serde_json::Value| detail.starts_with(violation["detail"].as_str().unwrap());
    let found = violations.iter().find(same).expect("what the scenario tells");
    assert_eq!((&found["property"], &found["promised"]), (&"safety".into(), &true.into()));
    assert_eq!(fs::read(svg).unwrap(), fs::read(again).unwrap());
}
