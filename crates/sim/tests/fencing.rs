//! The pause scenario: the holder is paused, its lease ends, the next holder writes, the first holder resumes and
//! writes. "Must end with the late write refused, and with the data damaged when fencing is off."

use baton_sim::app::mutex::{Load, StoreKind};
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{MutexReport, Report, StoreReport};
use baton_sim::run::{Options, run};

fn mutex(options: &Options) -> MutexReport {
    match run(options, None) {
        Ok(Report::Mutex(report)) => *report,
        other => panic!("{options:?} gave {other:?}"),
    }
}

fn leased(n: usize, lease: &str, store: StoreKind) -> Options {
    let mut options = Options::new("central", n);
    options.params.variant = Some(format!("lease:{lease}"));
    options.workload.store = Some(store);
    options
}

/// P0 enters at 2 T, and would write at 2.5 T. Its lease ends at 6 T.
fn pause_scenario(store: StoreKind) -> (MutexReport, StoreReport) {
    paused(store, "pause 0 @ 2.2 for 10")
}

fn paused(store: StoreKind, pause: &str) -> (MutexReport, StoreReport) {
    let mut options = leased(2, "5", store);
    options.workload.entries = 2;
    options.faults = vec![pause.parse().unwrap()];
    let report = mutex(&options);
    let store = report.store.clone().unwrap();
    (report, store)
}

#[test]
fn a_fenced_store_refuses_the_late_write_and_keeps_the_data() {
    let (report, store) = pause_scenario(StoreKind::Fenced);
    assert_eq!((store.writes, store.refused, store.lost), (1, 1, 0));
    assert_eq!(store.data.verdict, Verdict::Held);
    assert_eq!(report.properties.safety.verdict, Verdict::Violated, "both believed that they were alone");
    assert!(report.broken_promises.is_empty(), "being alone is promised for as long as the lease lasts");
}

#[test]
fn without_fencing_the_late_write_damages_the_data() {
    let (report, store) = pause_scenario(StoreKind::Unfenced);
    assert_eq!((store.writes, store.refused, store.lost), (2, 0, 1));
    assert_eq!(store.data.detail.unwrap(), "P0 overwrote 1, which P1 wrote, with 1, at 12.2 T");
    assert_eq!(report.broken_promises, ["store"]);
}

/// "You cannot fix this problem by inserting a check on the lock expiry just before writing back to storage." P0 checks
/// at 2.25 T and writes at 2.5 T, as it does without a check. So one pause compares all three stores.
#[test]
fn a_check_of_the_lease_helps_only_if_the_pause_is_before_the_check() {
    let (report, store) = paused(StoreKind::LeaseChecked, "pause 0 @ 2.2 for 10");
    assert_eq!((store.writes, store.refused, store.lost), (1, 1, 0));
    assert!(report.broken_promises.is_empty());
    let (report, store) = paused(StoreKind::LeaseChecked, "pause 0 @ 2.4 for 10");
    assert_eq!((store.writes, store.refused, store.lost), (2, 0, 1));
    assert_eq!(store.data.detail.unwrap(), "P0 overwrote 1, which P1 wrote, with 1, at 12.4 T");
    assert_eq!(report.broken_promises, ["store"]);
}

/// The lease of P0 counts from the GRANT at 1 T, not from the entry at 2 T. P0 wakes up just before its lease ends at
/// 6 T, or just then.
#[test]
fn a_holder_knows_when_its_lease_ends() {
    let refused = |pause| paused(StoreKind::LeaseChecked, pause).1.refused;
    assert_eq!([refused("pause 0 @ 2.2 for 3.799"), refused("pause 0 @ 2.2 for 3.8")], [0, 1]);
}

/// A holder that was paused, but not for too long, writes before it leaves.
#[test]
fn a_checked_write_is_not_later_than_the_exit() {
    let mut options = leased(3, "60", StoreKind::LeaseChecked);
    (options.workload.hold, options.workload.entries) = (40.0, 9);
    for at in [5, 15, 25, 35, 38] {
        options.faults = vec![format!("pause 0 @ {at} for 20").parse().unwrap()];
        let store = mutex(&options).store.unwrap();
        assert_eq!((store.writes, store.refused, store.lost), (9, 0, 0), "{at}");
    }
}

#[test]
fn a_check_of_leases_needs_leases() {
    let refusal = |algorithm: &str| {
        let mut options = Options::new(algorithm, 3);
        options.workload.store = Some(StoreKind::LeaseChecked);
        // Not even for the user who ignores assumptions: there is nothing to check.
        options.ignore_assumptions = true;
        run(&options, None).unwrap_err().to_string()
    };
    for algorithm in ["raymond", "central"] {
        let sentence = format!(
            "the store `lease-checked` checks leases, and this run of `{algorithm}` has none; `central` with \
             --variant lease:5 has them"
        );
        assert_eq!(refusal(algorithm), sentence);
    }
}

const HEAVY_TAILED: Delay = Delay::Pareto(1.0, 1.5);

/// Numbers of writes that the store refused and lost. Pauses strike at random times. On a heavy-tailed network leases
/// end even without pauses.
fn refused_and_lost(store: StoreKind, delay: Delay) -> (u64, u64) {
    let runs = (0..200).map(|seed| {
        let mut options = leased(2 + seed as usize % 4, "2", store);
        options.network.delay = delay;
        options.params.delay_max = options.network.delay.guess();
        options.workload.load = if seed % 2 == 0 { Load::All } else { Load::Random };
        options.workload.think = (seed % 2) as f64 * 5.0;
        options.seed = seed;
        let pause = |at: u64| format!("pause {} @ {} for {}", at % 2, at, 5 + seed % 20).parse().unwrap();
        options.faults = (0..10).map(|number| pause(3 + 17 * number + seed % 11)).collect();
        let report = mutex(&options);
        let store = report.store.unwrap();
        assert_eq!(report.broken_promises.contains(&"store"), store.lost > 0);
        assert_eq!(report.properties.liveness.verdict, Verdict::Held);
        (store.refused, store.lost)
    });
    runs.fold((0, 0), |(refused, lost), run| (refused + run.0, lost + run.1))
}

#[test]
fn fences_protect_the_data_whatever_happens() {
    let (refused, lost) = refused_and_lost(StoreKind::Fenced, HEAVY_TAILED);
    assert!(refused > 100, "{refused}");
    assert_eq!(lost, 0);
    let (refused, lost) = refused_and_lost(StoreKind::Unfenced, HEAVY_TAILED);
    assert_eq!(refused, 0);
    assert!(lost > 100, "{lost}");
}

/// "It does not eliminate the race condition, but makes it less likely." P0 is inside from 2 T to 3 T. Without a check a
/// pause in the first half of the stay does damage; with a check, a pause in the second quarter.
#[test]
fn a_check_of_the_lease_only_narrows_the_race() {
    let damage = |store| {
        let lost = |hundredth: &u64| paused(store, &format!("pause 0 @ 2.{hundredth:02} for 10")).1.lost > 0;
        (1..100).filter(lost).collect::<Vec<u64>>()
    };
    assert!(damage(StoreKind::Unfenced).into_iter().eq(1..=50));
    assert!(damage(StoreKind::LeaseChecked).into_iter().eq(26..=50));
    assert!(damage(StoreKind::Fenced).is_empty());
}

/// A holder counts its lease from when it gets the GRANT. If the GRANT is late, or the holder is paused when it comes,
/// the check passes although the lease is over. Here P0 gets its GRANT of 1 T at 9.5 T, and P2 enters at 10 T.
#[test]
fn a_check_does_not_see_that_a_grant_came_late() {
    let mut options = leased(3, "5", StoreKind::LeaseChecked);
    options.workload.entries = 3;
    options.faults = vec!["pause 0 @ 1.5 for 8".parse().unwrap()];
    let store = mutex(&options).store.unwrap();
    assert_eq!((store.writes, store.refused, store.lost), (3, 0, 1), "{store:?}");
    for delay in [Delay::Constant(1.0), HEAVY_TAILED] {
        let (refused, lost) = refused_and_lost(StoreKind::LeaseChecked, delay);
        let (_, unchecked) = refused_and_lost(StoreKind::Unfenced, delay);
        assert!(
            refused > 0 && lost > 100 && lost < unchecked,
            "{delay}: {refused} refused, {lost} of {unchecked} lost"
        );
    }
}

#[test]
fn while_nobody_outstays_its_lease_all_is_as_without_one() {
    for seed in 0..100 {
        let n = 2 + seed as usize % 4;
        let mut options = leased(n, "2", StoreKind::Unfenced);
        options.network.delay = Delay::Uniform(0.0, 1.0);
        options.seed = seed;
        let report = mutex(&options);
        assert!(report.broken_promises.is_empty(), "{seed}: {:?}", report.properties);
        assert_eq!(report.properties.safety.verdict, Verdict::Held);
        assert_eq!(report.messages_per_entry, Some(3.0));
        assert_eq!(report.store.unwrap().writes, 20 * n as u64);
    }
    let mut tight = leased(2, "3", StoreKind::Unfenced);
    tight.workload.hold = 8.0;
    let report = mutex(&tight);
    assert_eq!(report.properties.safety.verdict, Verdict::Violated);
    assert_eq!(report.broken_promises, ["store"], "safety is not promised for a stay that is longer than the lease");
}

/// A lease ends by the clock of the process that gave it. Safety is promised only if the lease is long enough on the
/// fastest clock.
#[test]
fn drift_eats_into_a_lease() {
    // The grant takes up to 1 T to arrive, and the holder stays for 1.4 T. That is 2.4 T of 3 T.
    let mut options = leased(3, "3", StoreKind::Unfenced);
    options.workload.hold = 1.4;
    options.network.delay = Delay::Uniform(0.0, 1.0);
    let run = |drift, seed| mutex(&Options { drift, seed, ..options.clone() });
    for seed in 0..50 {
        assert_eq!(run(0.2, seed).properties.safety.verdict, Verdict::Held);
    }
    let outstayed: Vec<_> = (0..50).map(|seed| run(0.5, seed)).collect();
    assert!(outstayed.iter().any(|report| report.properties.safety.verdict == Verdict::Violated));
    assert!(outstayed.iter().all(|report| !report.broken_promises.contains(&"safety")), "it was not promised");
}

/// "What leases buy": with a lease the other clients continue after the crash of a holder. Without a lease they wait
/// for ever.
#[test]
fn a_lease_outlives_a_dead_holder() {
    for (lease, verdict) in [(Some("lease:5"), Verdict::Held), (None, Verdict::Violated)] {
        let mut options = Options::new("central", 3);
        options.params.variant = lease.map(str::to_string);
        options.faults = vec!["crash 0 @ 2.5".parse().unwrap()];
        options.ignore_assumptions = true;
        assert_eq!(mutex(&options).properties.liveness.verdict, verdict, "{lease:?}");
    }
}

/// The fences of every algorithm work with the store: a fenced store refuses no write while the algorithm keeps its
/// promises.
#[test]
fn no_rightful_write_is_refused() {
    for about in baton_protocol::registry::ALGORITHMS {
        if about.family != baton_protocol::registry::Family::Mutex || about.broken.is_some() {
            continue;
        }
        for seed in 0..10 {
            let mut options = Options::new(about.name, 4);
            options.network.delay = Delay::Uniform(0.1, 3.0);
            options.network.fifo = about.assumes.fifo;
            options.params.delay_max = options.network.delay.guess();
            options.workload.store = Some(StoreKind::Fenced);
            options.seed = seed;
            let store = mutex(&options).store.unwrap();
            assert_eq!((store.writes, store.refused, store.lost), (80, 0, 0), "{}, seed {seed}", about.name);
        }
    }
}
