//! `--replay` repeats a trace with the same result: the same exit status and the same verdicts.

use std::path::Path;
use std::process::{Command, Output};

fn baton(args: &[&str], trace: &Path) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_baton")).args(args).arg(trace).output().expect("the binary starts");
    assert!(stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
    (status.code(), String::from_utf8_lossy(&stdout).into_owned())
}

/// Writes a trace with this command, and repeats it. Returns the statuses of both runs, and the output of the second.
fn repeated(command: &str) -> (Option<i32>, Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let words: Vec<&str> = command.split_whitespace().chain(["--trace"]).collect();
    let (status, _) = baton(&words, &trace);
    let (again, told) = baton(&["sim", "--replay"], &trace);
    (status, again, told)
}

#[test]
fn a_counterexample_counts_though_the_property_is_not_promised() {
    let (status, again, told) = repeated("check central --property order");
    assert_eq!((status, again), (Some(1), Some(1)), "{told}");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "central: 12 records repeated step by step, 1 entry");
    // The text of the violation is the text of the check.
    assert_eq!(
        format!("{} {}", lines[1], lines[2].trim_start()),
        "order VIOLATED, though not promised; the trace was written to show it: \
         P1 enters, and the request of P0, which happened before, still waits"
    );
    assert!(lines[2].starts_with("  ") && lines.iter().all(|line| line.len() <= 100), "{told}");
    assert_eq!(lines[3], "held: safety, fence");
    assert_eq!(lines.len(), 4);
}

#[test]
fn what_a_counterexample_does_not_show_counts_only_if_it_is_promised() {
    let (status, again, told) = repeated("check raymond-greedy --property liveness");
    assert_eq!((status, again), (Some(1), Some(1)), "{told}");
    assert!(told.contains("order violated, not promised: ") && told.contains("liveness VIOLATED: "), "{told}");
}

#[test]
fn a_run_that_breaks_what_is_not_promised_keeps_its_promises_in_a_replay_too() {
    let run = "sim central -n 3 --load random --think 3 --network async --app-messages --entries 60 --seed 2";
    let (status, again, told) = repeated(run);
    assert_eq!((status, again), (Some(0), Some(0)), "{told}");
    assert!(told.contains("order violated, not promised: "), "{told}");
}

/// The lease of P0 ends while it is paused, so neither safety nor growing fences are promised in this run.
#[test]
fn a_run_a_check_of_its_trace_and_a_replay_judge_alike() {
    let folder = tempfile::tempdir().unwrap();
    let judged = |options: &str, pause: &[&str], verdicts: [&str; 2]| {
        let trace = folder.path().join("trace");
        let words: Vec<&str> = options.split(' ').chain(pause.iter().copied()).chain(["--trace"]).collect();
        let squeezed =
            |(status, text): (Option<i32>, String)| (status, text.split_whitespace().collect::<Vec<_>>().join(" "));
        let [run, check, replay] =
            [&words[..], &["trace", "check"], &["sim", "--replay"]].map(|words| squeezed(baton(words, &trace)));
        assert_eq!((check.0, replay.0), (run.0, run.0), "{}\n{}\n{}", run.1, check.1, replay.1);
        for text in [&run.1, &check.1] {
            assert!(verdicts.iter().all(|verdict| text.contains(verdict)), "{verdicts:?} in {text}");
        }
        replay.1
    };
    let run = "sim central --variant lease:5 --store unfenced -n 2 --entries 2 --fault";
    let told = judged(run, &["pause 0 @ 2.4 for 10"], ["safety violated, not promised", "fence held, not promised"]);
    let parts = ["safety violated, not promised: ", "held: liveness", "held, not promised: fence"];
    assert!(parts.iter().all(|part| told.contains(part)) && !told.contains("order"), "{told}");
    let told = judged("sim phi-accrual --entries 2", &[], ["safety held, not promised", "liveness held"]);
    assert!(told.ends_with("held: liveness held, not promised: safety"), "{told}");
}

#[test]
fn a_clean_replay_tells_what_held() {
    let (status, again, told) = repeated("sim lamport -n 3 --entries 4");
    assert_eq!((status, again), (Some(0), Some(0)));
    assert!(told.ends_with("repeated step by step, 4 entries\nheld: safety, liveness, order, fence\n"), "{told}");
    let (status, again, told) = repeated("sim central -n 3 --entries 9");
    assert_eq!((status, again), (Some(0), Some(0)));
    assert!(told.ends_with("\nheld: safety, liveness, fence\n"), "order is not promised, and was not tested: {told}");
    let (status, again, told) = repeated("sim bully");
    assert_eq!((status, again), (Some(0), Some(0)));
    assert!(told.ends_with("repeated step by step\nheld: safety, liveness\n"), "{told}");
    for run in ["sim record-append -n 3 --entries 9", "sim heartbeat --entries 2 --drift 0.02 --variant drift:2"] {
        let (status, again, told) = repeated(run);
        assert_eq!((status, again), (Some(0), Some(0)), "{run}");
        assert!(told.ends_with("repeated step by step\nheld: safety, liveness\n"), "{told}");
    }
}

#[test]
fn a_detector_errs_in_a_replay_as_it_did_in_the_run() {
    let run = "sim heartbeat --network async --ignore-assumptions --entries 20 --variant period:2+timeout:0.2";
    let (status, again, told) = repeated(run);
    assert_eq!((status, again), (Some(1), Some(1)), "{told}");
    assert!(told.contains("\nsafety VIOLATED: P") && told.contains("held: liveness"), "{told}");
}

#[test]
fn what_is_violated_is_not_told_to_hold() {
    let (status, again, told) = repeated("check bully --suspect 1");
    assert_eq!((status, again), (Some(1), Some(1)));
    assert!(told.contains("\nsafety VIOLATED: ") && !told.contains("held"), "{told}");
}

#[test]
fn a_counterexample_is_cut_short_and_says_nothing_of_liveness() {
    let (status, again, told) = repeated("check ricart-agrawala-time-only -n 2");
    assert_eq!((status, again), (Some(1), Some(1)));
    assert!(told.contains("\nsafety VIOLATED: ") && !told.contains("liveness"), "{told}");
}
