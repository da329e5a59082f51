//! Failure detectors that report at different times.

use baton_protocol::registry::{ALGORITHMS, About, Crashes, Family};
use baton_sim::run::run;
use baton_sim::spec::Spec;
use serde_json::json;

fn spec(algorithm: &str, n: usize, faults: &[&str]) -> Spec {
    Spec {
        algorithm: algorithm.into(),
        n: Some(n),
        faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        detector_spread: 8.0,
        // A group that elects for ever ends the run with a violation.
        events_max: Some(200_000),
        ..Spec::default()
    }
}

/// Every algorithm that survives crashes keeps its promises while its detectors report one after the other.
#[test]
fn detectors_that_report_one_after_the_other_break_no_promise() {
    let survives = |about: &&&About| {
        about.broken.is_none() && about.assumes.crashes != Crashes::Never && about.family != Family::Detector
    };
    for about in ALGORITHMS.iter().filter(survives) {
        let variants =
            about.variants.iter().map(|variant| variant.name).filter(|name| !name.contains(':') && *name != "views");
        for variant in variants.map(|name| Some(name.to_owned())).chain([None]) {
            for seed in 1..=12 {
                let n = 3 + seed as usize % 4;
                let spec = Spec { variant: variant.clone(), seed: Some(seed), ..spec(about.name, n, &["random"]) };
                let report = spec.options().and_then(|options| run(&options, None)).unwrap();
                let report = serde_json::to_value(&report).unwrap();
                assert_eq!(report["broken_promises"], json!([]), "{} {variant:?}, seed {seed}: {report}", about.name);
            }
        }
    }
}

/// A process that was suspected for a moment follows the leader again, whoever learns first that it is alive.
#[test]
fn a_short_cut_leaves_one_leader_although_the_sides_learn_of_it_at_different_times() {
    for algorithm in ["chang-roberts", "ring-list"] {
        for (seed, cut) in (0..60).flat_map(|seed| [(seed, "for 0.3"), (seed, "for 30")]) {
            let fault = format!("partition 0,2|1 @ 20 {cut}");
            let spec = Spec {
                variant: Some("quorum".into()),
                seed: Some(seed),
                ..spec(algorithm, 3, &["crash 0 @ 5", fault.as_str()])
            };
            // Two of three remain, and they must hear each other.
            let report = spec.options().and_then(|options| run(&options, None)).unwrap();
            let report = serde_json::to_value(&report).unwrap();
            assert_eq!(
                (&report["broken_promises"], &report["leader"]),
                (&json!([]), &json!(2)),
                "{fault}, seed {seed}"
            );
        }
    }
}

#[test]
fn a_spread_that_means_nothing_or_breaks_an_assumption_is_refused() {
    let refusal = |spec: Spec| match spec.options().and_then(|options| run(&options, None)) {
        Ok(_) => panic!("{spec:?} runs"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        refusal(Spec { no_detector: true, ..spec("ricart-agrawala", 3, &[]) }),
        "--detector-spread means nothing for `ricart-agrawala`: --no-detector leaves no detector that could report; leave it out"
    );
    assert_eq!(
        refusal(Spec { detector_spread: -1.0, ..spec("ricart-agrawala", 3, &[]) }),
        "--detector-spread cannot be -1; it must be from 0 to 1,000,000 T"
    );
    assert_eq!(
        refusal(spec("token-ring", 3, &["crash 1 @ 5", "recover 1 @ 40"])),
        "`token-ring` assumes that a recovered process learns of each change no later than the others, and its detector may \
         report up to 8 T later; --ignore-assumptions runs it all the same"
    );
}
