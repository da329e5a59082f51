//! `baton algorithms`: the list, and the claims about one algorithm.

use std::process::{Command, Output};

use serde_json::Value;

fn baton(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_baton")).args(args).output().expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_algorithm_shows_what_is_said_and_what_is_measured() {
    let output = baton(&["algorithms", "maekawa"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let expected = [
        "  messages      3 sqrt(n) messages per entry.\n                false: 12 per entry; claimed 9 = 3 sqrt(n).",
        "                $ baton sim maekawa -n 9 --load solo\n",
        "  order         Requests enter in order.\n                false: order violated in 6 steps.",
        "true: liveness violated",
    ];
    for part in expected {
        assert!(shown.contains(part), "without {part}:\n{shown}");
    }
}

#[test]
fn the_claims_of_one_algorithm_are_data() {
    let output = baton(&["algorithms", "bully", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let claims = found["algorithms"][0]["claims"].as_array().unwrap();
    for claim in claims {
        for field in ["subject", "documents", "measured", "verdict", "command"] {
            assert!(claim[field].is_string(), "{field} is missing in {claim}");
        }
    }
    let best = &claims[0];
    assert_eq!((&best["verdict"], &best["command"]), (&"true".into(), &"baton sim bully -n 5 --noticed-by 3".into()));
    assert_eq!(best["spec"], serde_json::json!({ "algorithm": "bully", "n": 5, "noticed-by": 3 }));
    let list: Value = serde_json::from_slice(&baton(&["algorithms", "--json"]).stdout).unwrap();
    assert!(list["algorithms"][0].get("claims").is_none(), "the list runs nothing");
}

#[test]
fn a_process_that_cannot_notice_is_refused() {
    for (args, sentence) in [
        (
            ["sim", "bully", "-n", "5", "--noticed-by", "4"],
            "P4 cannot notice that there is no leader: it leads at first",
        ),
        (
            ["sim", "bully", "-n", "5", "--noticed-by", "9"],
            "P9 cannot notice that there is no leader: the processes are P0 to P4",
        ),
        (["sim", "central", "-n", "5", "--noticed-by", "1"], "--noticed-by means nothing for `central`"),
    ] {
        let output = baton(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(sentence), "{}", text(&output.stderr));
    }
}

#[test]
fn a_run_with_drawn_faults_ignores_which_process_notices() {
    // Seed 1 draws no faults; seed 2 draws some, and they decide which process notices.
    for seed in ["1", "2"] {
        let args = ["sim", "bully", "-n", "5", "--fault", "random", "--noticed-by", "2", "--seed", seed];
        let output = baton(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn a_run_that_draws_no_faults_is_compared_with_theory() {
    let output = baton(&["sim", "bully", "--fault", "random", "--seed", "1"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("no faults") && shown.contains("(in theory "), "{shown}");
    assert!(!shown.contains("because the run has faults"), "{shown}");
}

#[test]
fn a_run_without_entries_has_no_mean_for_this_reason() {
    let faults = ["--fault", "crash 0 @ 0.5", "--fault", "crash 1 @ 0.5", "--ignore-assumptions"];
    let output = baton(&[&["sim", "central", "-n", "2"][..], &faults].concat());
    let shown = text(&output.stdout);
    assert!(shown.contains("no mean, because no process has entered"), "{shown}");
}

#[test]
fn the_process_that_notices_excludes_a_load() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("both.toml");
    let with = |lines: &str| {
        std::fs::write(
            &path,
            format!(
                "title = \"t\"\nstory = \"s\"\n[run]\nalgorithm = \"bully\"\n{lines}\n[expect]\nsafety = \"held\"\n"
            ),
        )
        .unwrap()
    };
    let run = |more: &[&str]| baton(&[&["sim", "--scenario", path.to_str().unwrap()][..], more].concat());
    with("load = \"all\"\nnoticed-by = 2");
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(
        text(&output.stderr).contains("--load means nothing for `bully`: --noticed-by"),
        "{}",
        text(&output.stderr)
    );
    // What the command line says replaces what the file says.
    with("noticed-by = 2");
    assert_eq!(run(&["--load", "solo"]).status.code(), Some(0));
    with("load = \"all\"");
    assert_eq!(run(&["--noticed-by", "2"]).status.code(), Some(0));
}

/// An algorithm that is broken on purpose has promises all the same, and says which one it breaks.
#[test]
fn a_broken_algorithm_says_what_it_promises_and_what_it_breaks() {
    for (name, promises, breaks) in [
        ("no-lock", "safety, liveness, order, fence", "safety, fence"),
        ("permission-ring-original", "safety, liveness, order, fence", "liveness"),
        ("raymond-greedy", "safety, liveness, fence", "liveness"),
        ("bully-late-leads", "safety, liveness", "liveness"),
    ] {
        let shown = text(&baton(&["algorithms", name]).stdout);
        let line = format!("  promises       {promises}; broken on purpose: breaks {breaks}\n");
        assert!(shown.contains(&line), "without {line}:\n{shown}");
        let found: Value = serde_json::from_slice(&baton(&["algorithms", name, "--json"]).stdout).unwrap();
        let found = &found["algorithms"][0];
        assert_eq!(found["promises"], serde_json::json!(promises.split(", ").collect::<Vec<_>>()), "{name}");
        assert_eq!(found["breaks"], serde_json::json!(breaks.split(", ").collect::<Vec<_>>()), "{name}");
    }
}
