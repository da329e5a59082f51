//! LIVE within a bound: every request must be granted before the patience ends, counted from the last fault. Also
//! bypasses: how often later requests are granted first.

use baton_sim::app::mutex::Load;
use baton_sim::oracle::Verdict;
use baton_sim::oracle::bypass::BypassSummary;
use baton_sim::report::{MutexReport, Report};
use baton_sim::run::{Options, run};

fn mutex(options: &Options) -> MutexReport {
    match run(options, None) {
        Ok(Report::Mutex(report)) => *report,
        other => panic!("{options:?} gave {other:?}"),
    }
}

#[test]
fn whoever_is_granted_too_late_is_a_violation() {
    let mut options = Options::new("central", 3);
    // Every client delay is n(E+S) - E = 8 T, except at the start.
    options.patience = Some(8.0);
    assert_eq!(mutex(&options).properties.liveness.verdict, Verdict::Held);
    options.patience = Some(7.9);
    let report = mutex(&options);
    let detail = report.properties.0.liveness.detail.unwrap();
    assert_eq!(detail, "P2 was granted after more than 7.9 T; it had waited since 0 T, at 8 T");
    assert_eq!((report.broken_promises, report.entries), (vec!["liveness"], 60));
}

#[test]
fn faults_excuse_a_delay_and_only_while_they_last() {
    let mut options = Options::new("central", 3);
    options.faults = vec!["pause 3 @ 5 for 100".parse().unwrap()];
    options.patience = Some(12.0);
    assert_eq!(mutex(&options).properties.liveness.verdict, Verdict::Held);
    options.faults = vec!["pause 3 @ 5 for 100".parse().unwrap(), "pause 3 @ 5 for 50".parse().unwrap()];
    options.patience = Some(2.0);
    assert_eq!(mutex(&options).properties.liveness.verdict, Verdict::Violated);
}

/// Timers keep the run going, so only the patience or the limit of events ends it.
#[test]
fn whoever_waits_for_ever_is_found_out_while_others_are_busy() {
    let mut options = Options::new("permission-ring-original", 2);
    options.params.variant = Some("retry".into());
    let report = mutex(&options);
    let detail = report.properties.0.liveness.detail.unwrap();
    assert_eq!(detail, "P0 has waited since 0 T, and no process has entered since 0 T; P1 waits, too");
    assert_eq!(report.entries, 0);
}

#[test]
fn nobody_is_bypassed_where_requests_are_served_as_they_come() {
    for algorithm in ["central", "lamport", "ricart-agrawala", "permission-ring"] {
        for load in [Load::All, Load::Solo] {
            let mut options = Options::new(algorithm, 5);
            options.workload.load = load;
            assert_eq!(mutex(&options).bypass, Some(BypassSummary { mean: 0.0, max: 0 }), "{algorithm}");
        }
    }
    assert_eq!(mutex(&Options::new("central", 257)).bypass, None, "too many to watch");
}

#[test]
fn greed_bypasses_everybody_unless_it_is_bounded() {
    let greedy = mutex(&Options::new("raymond-greedy", 5)).bypass.unwrap();
    // All requests, except one of each other client, and except the first of P0, which was made at the same time as
    // theirs.
    assert_eq!(greedy.max, 100 - 4 - 1);
    let mut bounded = Options::new("raymond", 5);
    bounded.params.variant = Some("greedy:3".into());
    let bounded = mutex(&bounded).bypass.unwrap().max;
    assert!((4..=18).contains(&bounded), "{bounded}");
    let fair = mutex(&Options::new("raymond", 5)).bypass.unwrap();
    assert!(fair.max < 4, "{fair:?}");
}
