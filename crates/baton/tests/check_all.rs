//! The exit status of `baton check --all`, with a few algorithms that are checked quickly.

use std::process::Command;

fn status(arguments: &[&str]) -> Option<i32> {
    let mut baton = Command::new(env!("CARGO_BIN_EXE_baton"));
    baton.args(["check", "--all"]).args(arguments).output().unwrap().status.code()
}

#[test]
fn the_status_is_that_of_what_should_hold() {
    // no-lock is broken on purpose, so its violation does not count.
    assert_eq!(status(&["--only", "no-lock"]), Some(0));
    assert_eq!(status(&["--only", "no-lock,central", "--limit", "100"]), Some(3));
    assert_eq!(status(&["--only", "central", "--minutes", "0.0000001"]), Some(3));
    assert_eq!(status(&["--only", "nobody"]), Some(2));
    assert_eq!(status(&["--only", "central", "--minutes", "0"]), Some(2));
}

#[test]
fn one_check_says_which_limit_was_reached_and_how_many_states_were_seen() {
    let mut baton = Command::new(env!("CARGO_BIN_EXE_baton"));
    let output = baton.args(["check", "central", "--memory", "1MiB"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no verdict: the limit of 1 MiB is reached, and "), "{text}");
}
