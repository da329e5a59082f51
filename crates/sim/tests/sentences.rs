//! Sentences about many algorithms at once. Every test cites the sentence that it checks.

use baton_protocol::registry::{ALGORITHMS, Family};
use baton_sim::app::mutex::{Load, StoreKind};
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{MutexReport, Report};
use baton_sim::run::{Options, run};
use baton_theory::voting::utilization;

fn mutex(options: &Options) -> MutexReport {
    match run(options, None) {
        Ok(Report::Mutex(report)) => *report,
        other => panic!("{options:?} gave {other:?}"),
    }
}

fn locks() -> impl Iterator<Item = &'static str> {
    let healthy = ALGORITHMS.iter().filter(|about| about.family == Family::Mutex && about.broken.is_none());
    healthy.map(|about| about.name)
}

/// An algorithm with its variant and n; crashes that stall it; crashes that do not.
type Crashes = ((&'static str, &'static str, usize), &'static [&'static str], &'static [&'static str]);

/// "Stalls when ... crashes", a column of the table; and the algorithm does not stall when another process crashes. One
/// request at a time, P0 first. A process that crashes at 0.5 T is inside if it has the token, otherwise it has not
/// requested yet.
#[test]
fn each_stalls_when_somebody_crashes_whom_it_needs_and_only_then() {
    let table: [Crashes; 10] = [
        (("central", "", 3), &["crash 3 @ 0.5", "crash 0 @ 2.5"], &["crash 2 @ 0.5"]),
        (("permission-ring", "", 4), &["crash 0 @ 0.5", "crash 1 @ 0.5", "crash 2 @ 0.5", "crash 3 @ 0.5"], &[]),
        (("carvalho-roucairol", "", 4), &["crash 1 @ 0.5", "crash 2 @ 0.5", "crash 3 @ 0.5"], &[]),
        (("maekawa", "", 7), &["crash 1 @ 0.5", "crash 4 @ 0.5", "crash 6 @ 0.5"], &[]),
        (("maekawa", "tree", 7), &["crash 0 @ 20"], &["crash 6 @ 0.5"]),
        (("generalized", "central", 3), &["crash 3 @ 0.5"], &["crash 2 @ 0.5"]),
        (("suzuki-kasami", "", 4), &["crash 0 @ 0.5"], &["crash 1 @ 0.5", "crash 3 @ 0.5"]),
        (("singhal", "", 4), &["crash 0 @ 0.5"], &["crash 1 @ 0.5", "crash 3 @ 0.5"]),
        (("naimi-trehel", "", 4), &["crash 0 @ 0.5", "crash 1 @ 2.5", "crash 0 @ 3.5"], &["crash 3 @ 0.5"]),
        (("raymond", "", 7), &["crash 0 @ 0.5", "crash 1 @ 0.5", "crash 2 @ 0.5"], &["crash 3 @ 0.5", "crash 6 @ 0.5"]),
    ];
    for ((algorithm, variant, n), needed, idle) in table {
        let mut options = Options::new(algorithm, n);
        options.params.variant = (!variant.is_empty()).then(|| variant.into());
        options.workload.load = Load::Solo;
        options.ignore_assumptions = true;
        for (faults, expected) in [(needed, Verdict::Violated), (idle, Verdict::Held)] {
            for fault in faults {
                options.faults = vec![fault.parse().unwrap()];
                assert_eq!(mutex(&options).properties.liveness.verdict, expected, "{algorithm} {variant}, {fault}");
            }
        }
    }
}

/// "The shared counter: without a lock the total falls short, with any of the algorithms it is exactly 10,000,000": here 10,000.
#[test]
fn with_any_lock_no_increment_is_lost() {
    let counted = |algorithm: &str| {
        let mut options = Options::new(algorithm, 10);
        options.workload.entries = 10_000;
        options.workload.store = Some(StoreKind::Unfenced);
        let store = mutex(&options).store.unwrap();
        store.writes - store.lost
    };
    for algorithm in locks() {
        assert_eq!(counted(algorithm), 10_000, "{algorithm}");
    }
    assert!(counted("no-lock") < 10_000);
}

/// "With E = 0 and no think time the holder of a token re-enters for ever at t = 0: warm up with E = 1."
#[test]
fn a_token_does_not_leave_a_holder_that_stays_for_no_time() {
    for algorithm in ["suzuki-kasami", "singhal", "naimi-trehel", "raymond"] {
        let mut options = Options::new(algorithm, 4);
        options.workload.entries = 400;
        options.workload.hold = 0.0;
        let report = mutex(&options);
        assert_eq!(report.entries_by_client[1..], [0, 0, 0], "{algorithm}: only P0");
        assert_eq!(report.client_delay.unwrap().max, 0.0, "{algorithm}");
        options.workload.hold = 1.0;
        let report = mutex(&options);
        let entries = &report.entries_by_client;
        assert!(entries.iter().all(|count| *count == entries[0]), "{algorithm}: {entries:?}");
    }
}

#[test]
fn the_entries_of_the_clients_are_the_measured_ones_even_if_the_run_ends_early() {
    for entries in [3, 60] {
        let mut options = Options::new("central", 3);
        options.workload.entries = entries;
        for faults in [vec![], vec!["crash 3 @ 60".parse().unwrap()]] {
            let report = mutex(&Options { faults, ignore_assumptions: true, ..options.clone() });
            assert_eq!(report.entries_by_client.iter().sum::<u64>(), report.measured_entries, "{entries} entries");
        }
    }
}

/// "Utilization collapses with many competitors": if the back-off does not grow with their number. With a queue it does
/// not collapse.
#[test]
fn utilization_of_voting_collapses_with_many_competitors() {
    let used = |algorithm: &str, variant: Option<&str>, competitors: usize| {
        let mut options = Options::new(algorithm, competitors);
        options.params.variant = variant.map(String::from);
        options.params.coordinators = (algorithm == "voting").then_some(5);
        options.network.delay = Delay::Uniform(0.5, 1.5);
        options.params.delay_max = options.network.delay.guess();
        options.workload.entries = 4 * competitors as u64 + 400;
        utilization(1.0, mutex(&options).sync_delay.unwrap().mean)
    };
    let kept = |algorithm, variant| used(algorithm, variant, 32) / used(algorithm, variant, 8);
    for variant in ["back-off:8", "ask-all+back-off:8"] {
        assert!(kept("voting", Some(variant)) < 1.0 / 3.0, "{variant}");
    }
    assert!(kept("voting", None) > 0.8 && kept("central", None) > 0.95);
}

/// "A denied client waits a random time, after a release too: otherwise the releaser wins for ever." A client that
/// always wins at once waits for 2T, one round trip. Most clients must wait for others.
#[test]
fn the_releaser_of_voting_rests_and_so_lets_others_win() {
    for seed in 1..=5 {
        let mut options = Options::new("voting", 5);
        (options.seed, options.workload.load, options.workload.entries) = (seed, Load::All, 400);
        let waited = mutex(&options).client_delay.unwrap();
        assert!(waited.p50 > 3.0, "seed {seed}: {waited:?}");
    }
}
