//! One seed is one run, byte for byte, in whatever process it happens.

use std::fs;
use std::path::Path;
use std::process::Command;

use baton_protocol::registry::ALGORITHMS;

/// Runs `baton sim` in a process of its own, and gives back all that it wrote. How fast it went is a measurement, and
/// the only thing that may differ.
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

/// Everything that is random in a run: delays, loss, clocks, faults, choices, who asks when.
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
