//! The shared counter of `baton demo counter`.

use std::process::Command;

use serde_json::Value;

fn counter(algorithm: &str) -> (Option<i32>, Value) {
    let args = ["demo", "counter", "--processes=10", "--increments=1000", "--json", "--algorithm", algorithm];
    let output = Command::new(env!("CARGO_BIN_EXE_baton")).args(args).output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("one JSON object"))
}

#[test]
fn with_a_lock_it_is_exact_and_without_one_it_falls_short() {
    for algorithm in ["suzuki-kasami", "central", "maekawa"] {
        let (status, counted) = counter(algorithm);
        let (expected, with, never) = (&counted["expected"], &counted["with_lock"], &counted["never_made"]);
        assert_eq!((status, expected, with, never), (Some(0), &10_000.into(), &10_000.into(), &0.into()), "{counted}");
        assert!(counted["without_lock"].as_u64().unwrap() < 10_000, "{counted}");
    }
}

#[test]
fn a_broken_lock_is_told_by_the_exit_status() {
    let (status, counted) = counter("ricart-agrawala-time-only");
    assert_eq!(status, Some(1), "{counted}");
    assert!(counted["with_lock"].as_u64().unwrap() < 10_000, "{counted}");
    let (status, counted) = counter("maekawa-no-inquire");
    assert_eq!((status, &counted["never_made"]), (Some(1), &10_000.into()), "{counted}");
}
