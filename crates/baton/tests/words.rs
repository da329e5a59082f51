//! Lines of `baton sim` that a reader could misunderstand.

use std::process::Command;

fn told(command: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_baton")).args(command.split_whitespace()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_run_says_how_many_of_its_entries_are_measured() {
    let whole = told("sim lamport -n 5 --entries 100");
    assert!(whole.contains("entries       100; per-entry figures and delays are of 80, after a warm-up\n"), "{whole}");
    let short = told("sim lamport -n 5 --entries 24");
    assert!(short.contains("entries       24\n"), "{short}");
    let json = told("sim lamport -n 5 --entries 100 --json");
    assert!(json.contains("\"entries\":100,\"measured_entries\":80,"), "{json}");
}

#[test]
fn an_election_says_who_is_dead() {
    assert!(told("sim bully").contains("leader    P3; P4 is dead\n"), "{}", told("sim bully"));
    // There is no leader at the start, so no process has to die.
    assert!(told("sim chang-roberts").contains("leader    P4\n"), "{}", told("sim chang-roberts"));
    let json = told("sim bully --json");
    assert!(json.contains("\"dead\":[4]"), "{json}");
}

#[test]
fn theory_has_the_digits_that_it_has_on_paper() {
    let json = told("sim maekawa -n 5 --load solo --json");
    assert!(json.contains("\"value\":7.2,"), "{json}");
}
