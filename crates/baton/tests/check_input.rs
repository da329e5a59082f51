//! Input that `baton check` refuses with one sentence and status 2. It ignores no option silently.

use std::process::Command;

fn check(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_baton")).arg("check").args(args).output().expect("the binary starts");
    let text = if output.status.code() == Some(2) { output.stderr } else { output.stdout };
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let cases: &[(&[&str], &str)] = &[
        (&["central", "--delay-max", "5"], "--delay-max means nothing for `central`: models of mutual exclusion"),
        (&["central", "--delay", "2"], "--delay means nothing for `central`: models of mutual exclusion"),
        (&["lamport", "--detectors-only"], "--detectors-only means nothing for `lamport`: models of mutual exclusion"),
        (
            &["bully", "--entries", "2"],
            "--entries means nothing for `bully`: only algorithms for mutual exclusion use it",
        ),
        (
            &["bully", "--app-messages", "1"],
            "--app-messages means nothing for `bully`: only algorithms for mutual exclusion use it",
        ),
        (
            &["bully", "--timers", "1"],
            "--timers means nothing for `bully`: only algorithms for mutual exclusion use it",
        ),
        (
            &["heartbeat", "--entries", "2"],
            "--entries means nothing for `heartbeat`: only algorithms for mutual exclusion use it",
        ),
        (
            &["heartbeat", "--app-messages", "1"],
            "--app-messages means nothing for `heartbeat`: only algorithms for mutual exclusion use it",
        ),
        (
            &["heartbeat", "--timers", "1"],
            "--timers means nothing for `heartbeat`: its processes send heartbeats for ever",
        ),
        (&["heartbeat", "--property", "fence"], "`fence` cannot be asked of `heartbeat`, which is a failure detector"),
        (&["heartbeat", "--suspect", "1"], "--suspect means nothing for `heartbeat`: the check itself"),
        (&["phi-accrual"], "`phi-accrual` cannot be checked: its statistics in floating point"),
        (
            &["central", "--property", "liveness", "--entries", "2"],
            "--entries means nothing for `central`: a check of liveness",
        ),
        (&["central", "--property", "liveness", "--app-messages", "1"], "--app-messages means nothing for `central`"),
        (
            &["token-ring", "--crash", "1", "--property", "liveness", "--app-messages", "1"],
            "--app-messages means nothing for `token-ring`: a check of liveness alone has no application messages",
        ),
        (&["central", "-n", "65", "--property", "liveness"], "starvation cannot be checked for 65 processes"),
        (&["central", "--markdown", "x.md"], "--markdown means nothing for one algorithm: it goes with --all"),
        (&["central", "--only", "nobody"], "--only means nothing for one algorithm: it goes with --all"),
        (&["bully", "--detectors-only"], "--detectors-only means nothing without wrong suspicions"),
        (&["bully", "--crash", "1", "--recover", "1"], "`bully` assumes that a crashed process never recovers"),
        (&["central", "--threads", "0"], "0 threads are too few; allow at least 1"),
        (&["central", "--threads", "100000000"], "100000000 threads are too many; allow at most 1024"),
        (&["central", "--memory", "0"], "invalid value '0' for '--memory <MIB>': give a number of MiB above 0"),
        (&["lamport", "--timers", "3"], "--timers means nothing for `lamport`: it sets no timers; leave it out"),
        (&["central", "--timers", "3"], "--timers means nothing for `central`: it sets no timers; leave it out"),
        (
            &["voting", "--property", "liveness", "--timers", "3"],
            "--timers means nothing for `voting`: a check of liveness",
        ),
        (&["centrall"], "there is no algorithm `centrall`; did you mean central? `baton algorithms` lists them all"),
        (
            &["token-ring", "--crash", "2"],
            "`token-ring` assumes that all processes learn of crashes and recoveries in the same",
        ),
    ];
    for (args, expected) in cases {
        let (status, told) = check(args);
        let told = told.strip_prefix("baton: ").unwrap_or(&told);
        assert!(status == Some(2) && told.starts_with(expected), "{args:?}: {status:?} {told}");
        assert_eq!(told.lines().count(), 1, "{args:?}: {told}");
    }
}

/// `--all` has fixed models. Options for one algorithm do not change them.
#[test]
fn options_of_one_algorithm_do_not_go_with_all() {
    let options: [&[&str]; 19] = [
        &["-n", "2"],
        &["--variant", "quorum"],
        &["--coordinators", "2"],
        &["--votes", "2"],
        &["--entries", "1"],
        &["--order", "fifo"],
        &["--property", "safety"],
        &["--loss", "1"],
        &["--duplicate", "1"],
        &["--crash", "1"],
        &["--recover", "1"],
        &["--suspect", "1"],
        &["--detectors-only"],
        &["--app-messages", "1"],
        &["--timers", "1"],
        &["--delay-max", "2"],
        &["--delay", "2"],
        &["--ignore-assumptions"],
        &["--trace", "x.jsonl"],
    ];
    for option in options {
        let (status, told) = check(&[&["--all"], option].concat());
        assert!(
            status == Some(2) && told.contains(option[0]) && told.contains("--all"),
            "{option:?}: {status:?} {told}"
        );
    }
}

#[test]
fn a_model_that_proves_nothing_is_told_without_steps() {
    let (status, told) = check(&["no-lock", "-n", "2", "--property", "deadlock"]);
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("reachability is violated: two processes never wait at the same time"), "{told}");
}

/// In a trace of the checker, the ticks are the time of all clocks. A trace of the simulator says how fast each clock runs.
#[test]
fn a_counterexample_of_heartbeats_is_repeated_and_so_is_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("beats.jsonl");
    let baton = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_baton")).args(args).arg(&path).output().expect("it starts");
        let told = [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned());
        (output.status.code(), told.concat())
    };
    let (status, told) = baton(&["check", "heartbeat", "-n", "2", "--delay", "4", "--ignore-assumptions", "--trace"]);
    assert_eq!(status, Some(1), "{told}");
    let (status, told) = baton(&["sim", "--replay"]);
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("\nsafety VIOLATED: P0 suspects P1, which is alive\nheld: liveness\n"), "{told}");
    let (status, told) = baton(&["sim", "heartbeat", "-n", "2", "--entries", "1", "--trace"]);
    assert_eq!(status, Some(0), "{told}");
    let (status, told) = baton(&["sim", "--replay"]);
    assert_eq!(status, Some(0), "{told}");
    assert!(told.ends_with("repeated step by step\nheld: safety, liveness\n"), "{told}");
}

#[test]
fn without_a_counterexample_nothing_is_written_and_that_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let [trace, svg] = ["trace.jsonl", "picture.svg"].map(|name| folder.path().join(name).display().to_string());
    let mut baton = Command::new(env!("CARGO_BIN_EXE_baton"));
    let output =
        baton.args(["check", "central", "-n", "2", "--trace", &trace, "--svg", &svg]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(told, format!("baton: there is no counterexample, so {trace} and {svg} were not written\n"));
    assert_eq!(folder.path().read_dir().expect("it is there").count(), 0);
}

#[test]
fn what_is_not_settled_and_what_is_not_checked_has_a_line_of_its_own() {
    let (status, told) = check(&["carvalho-roucairol", "-n", "2"]);
    assert_eq!(status, Some(0), "{told}");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[1], "holds in every state: safety, deadlock, fence");
    assert!(
        lines[2].starts_with("liveness: no verdict: each requests for ever, the limit of 300000 states is reached"),
        "{told}"
    );

    // If liveness is named with --property, the verdict depends on it.
    let (status, told) = check(&["maekawa", "-n", "3", "--property", "deadlock,liveness", "--limit", "5000"]);
    assert_eq!(status, Some(3), "{told}");
    let verdict = told.lines().nth(1);
    assert_eq!(verdict, Some("no verdict: the limit of 5000 states is reached, and 5000 states have been seen"));

    let (status, told) = check(&["central", "-n", "2", "--variant", "lease:3"]);
    assert_eq!(status, Some(0), "{told}");
    assert!(
        told.starts_with("central (lease:3), n = 2, each requests once, unordered links, at most 2 timers: deadlock\n")
    );
    assert!(told.contains("\nnot checked here: safety, fence (a holder is alone only until its lease ends,"), "{told}");

    let (_, told) = check(&["chang-roberts", "--variant", "witness", "--limit", "1000"]);
    assert!(told.starts_with("chang-roberts (witness), n = 3, P3 the witness, unordered links, D = 1: "), "{told}");
}
