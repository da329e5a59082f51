//! Groups that run in views.

use baton_protocol::registry::{ALGORITHMS, About, Family};
use baton_sim::judge::judge;
use baton_sim::replay::replay;
use baton_sim::run::{run, run_traced};
use baton_sim::spec::Spec;
use baton_trace::{Event, Trace};
use serde_json::{Value, json};

/// All algorithms that views can carry.
fn carried() -> impl Iterator<Item = &'static About> {
    let has_views = |about: &&About| about.variants.iter().any(|variant| variant.name == "views");
    ALGORITHMS.iter().copied().filter(has_views).filter(|about| about.broken.is_none())
}

fn spec(about: &About, n: usize, faults: &[&str]) -> Spec {
    Spec {
        algorithm: about.name.into(),
        n: Some(n),
        variant: Some(if about.name == "token-ring" { "parked+views" } else { "views" }.into()),
        faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        events_max: Some(400_000),
        ..Spec::default()
    }
}

/// The report of a run, and its trace.
fn go(spec: &Spec) -> (Value, Trace) {
    let (report, trace) = run_traced(&spec.options().unwrap()).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    (serde_json::to_value(&report).unwrap(), trace)
}

fn refusal(algorithm: &str, n: usize, variant: &str, fault: Option<&str>) -> String {
    let about = ALGORITHMS.iter().find(|about| about.name == algorithm).unwrap();
    let spec = Spec { variant: Some(variant.into()), ..spec(about, n, fault.as_slice()) };
    spec.options().and_then(|options| run(&options, None)).map(|_| ()).unwrap_err().to_string()
}

/// Each process crashes in turn, and one comes back. A replay and the judge find the same as the run.
#[test]
fn every_algorithm_survives_crashes_and_a_return() {
    for about in carried() {
        for crashed in 0..4 {
            let crash = format!("crash {crashed} @ 6.5");
            let other = format!("crash {} @ 70", (crashed + 2) % 4);
            let back = format!("recover {crashed} @ 30 without-memory");
            let spec = spec(about, 4, &[&crash, &back, &other]);
            let (report, trace) = go(&spec);
            assert_eq!(report["broken_promises"], json!([]), "{} {crash}: {report}", about.name);
            let Trace { header, records, .. } = &trace;
            let replayed = replay(header, records).unwrap_or_else(|error| panic!("{} {crash}: {error}", about.name));
            // ORDER holds only within a view.
            let mut violated = replayed.violations.iter().map(|(property, _)| *property);
            assert!(violated.all(|property| property == "order"), "{} {crash}: {:?}", about.name, replayed.violations);
            let judged = judge(header, records).unwrap();
            assert!(!judged.is_broken(), "{} {crash}: {judged:?}", about.name);
            if about.family == Family::Mutex {
                let entries = report["entries"].as_u64().unwrap();
                assert!(entries >= 80 - 3, "{} {crash}: {entries} of 80 entries, and three crashes", about.name);
            }
        }
    }
}

#[test]
fn random_faults_break_no_promise_of_views() {
    for about in carried() {
        for seed in 1..=6 {
            let spread = if seed % 2 == 0 { 5.0 } else { 0.0 };
            let n = 2 + seed as usize % 4;
            let spec = Spec { seed: Some(seed), detector_spread: spread, ..spec(about, n, &["random"]) };
            let (report, _) = go(&spec);
            assert_eq!(report["broken_promises"], json!([]), "{}, seed {seed}: {report}", about.name);
        }
    }
}

/// The cut member learns that its lease is over before the others begin a view without it.
#[test]
fn a_member_that_is_cut_off_loses_its_lock_and_comes_back() {
    for about in carried().filter(|about| about.family == Family::Mutex) {
        let mut lost = 0;
        for cut in 0..3 {
            let fault = format!("partition {cut}|{},{},3 @ 4 for 40", (cut + 1) % 3, (cut + 2) % 3);
            let spec = Spec { ignore_assumptions: true, hold: Some(12.0), ..spec(about, 3, &[&fault]) };
            let (report, trace) = go(&spec);
            for property in ["safety", "fence", "liveness"] {
                assert_eq!(report["properties"][property], "held", "{} {fault}: {report}", about.name);
            }
            lost += trace.records.iter().filter(|record| matches!(record.event, Event::Lost { .. })).count();
            replay(&trace.header, &trace.records).unwrap_or_else(|error| panic!("{} {fault}: {error}", about.name));
        }
        assert!(lost > 0, "{}: no holder lost the lock", about.name);
    }
}

#[test]
fn what_views_cannot_do_is_refused_in_one_sentence() {
    assert_eq!(
        refusal("token-ring", 3, "views", None),
        "`views` does not work as a variant: a token that never rests leaves no step at which a view could end; add the \
         variant parked"
    );
    assert_eq!(
        refusal("central", 3, "lease:5+views", None),
        "`views` and `lease` exclude each other; ask for one of them"
    );
    assert_eq!(
        refusal("bully", 3, "quorum+views", None),
        "`views` and `quorum` exclude each other; ask for one of them"
    );
    assert_eq!(
        refusal("central", 5_000, "views", None),
        "5000 processes are too many; at most 4096, since each process keeps state for every other process or sends it \
         messages"
    );
    assert_eq!(
        refusal("central", 3, "views", Some("crash 3 @ 5")),
        "`central` assumes that the source of views never crashes, and P3 is the source and would; --ignore-assumptions \
         runs it all the same"
    );
    assert_eq!(refusal("no-lock", 3, "views", None), "`no-lock` has no variant `views`; it has none");
}
