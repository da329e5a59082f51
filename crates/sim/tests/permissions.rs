//! Algorithms that ask for permissions or for a token: their costs, their promises, and how the broken variants fail.
//!
//! Each test cites what it checks: a row of the table of costs, or a sentence about the algorithm.

use baton_sim::app::mutex::Load;
use baton_sim::faults::{Fault, FaultKind};
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{MutexReport, Report};
use baton_sim::run::{Options, RunError, run};
use baton_sim::time::T;

const HEAVY_TAILED: Delay = Delay::Pareto(1.0, 1.5);

fn mutex(options: &Options) -> MutexReport {
    match run(options, None).unwrap() {
        Report::Mutex(report) => *report,
        _ => panic!("{} elects", options.algorithm),
    }
}

/// Constant delays, 40 entries for each client.
fn measured(algorithm: &str, n: usize, load: Load) -> MutexReport {
    let mut options = Options::new(algorithm, n);
    options.network.fifo = algorithm == "lamport";
    options.workload.load = load;
    options.workload.entries = 40 * n as u64;
    let report = mutex(&options);
    assert_eq!(report.entries, options.workload.entries);
    report
}

/// Heavy-tailed delays, FIFO links if the algorithm needs them, ten entries for each client.
fn asynchronous(algorithm: &str, n: usize, load: Load, seed: u64) -> Options {
    let mut options = Options::new(algorithm, n);
    options.network.delay = HEAVY_TAILED;
    options.network.fifo = algorithm == "lamport";
    options.params.delay_max = HEAVY_TAILED.guess();
    options.workload.load = load;
    options.workload.think = if load == Load::Random { 3.0 * n as f64 } else { 0.0 };
    options.workload.app_messages = load == Load::Random;
    options.workload.entries = 10 * n as u64;
    options.seed = seed;
    options
}

/// Asserts that every promise is kept with every seed.
fn keeps_its_promises(algorithm: &str) {
    for n in [2, 3, 5, 8] {
        for load in [Load::Random, Load::All] {
            for seed in 0..200 {
                let report = mutex(&asynchronous(algorithm, n, load, seed));
                assert!(report.broken_promises.is_empty(), "n = {n}, {load:?}, seed {seed}: {:?}", report.properties);
                assert_eq!(report.entries, 10 * n as u64);
            }
        }
    }
}

/// The first of `seeds` seeds with which `wrong` holds.
fn first_seed(seeds: u64, make: impl Fn(u64) -> Options, wrong: impl Fn(&MutexReport) -> bool) -> Option<u64> {
    (0..seeds).find(|&seed| wrong(&mutex(&make(seed))))
}

#[test]
fn lamport_takes_3_times_n_minus_1_messages() {
    for n in [2, 3, 5, 10] {
        for load in [Load::Solo, Load::SoloRandom, Load::All] {
            let report = measured("lamport", n, load);
            assert_eq!(report.messages_per_entry, Some(3.0 * (n as f64 - 1.0)), "n = {n}, {load:?}");
        }
    }
}

#[test]
fn ricart_agrawala_takes_2_times_n_minus_1_messages() {
    for n in [2, 3, 5, 10] {
        for load in [Load::Solo, Load::SoloRandom, Load::All] {
            let report = measured("ricart-agrawala", n, load);
            assert_eq!(report.messages_per_entry, Some(2.0 * (n as f64 - 1.0)), "n = {n}, {load:?}");
        }
    }
}

/// A process keeps a permission until the other process asks for it. A random process that requests must ask n/2 others
/// on average: those that have entered since its last entry.
#[test]
fn carvalho_roucairol_takes_2_times_n_minus_1_messages_or_n_on_average() {
    for n in [2, 3, 5, 10] {
        for load in [Load::Solo, Load::All] {
            let report = measured("carvalho-roucairol", n, load);
            assert_eq!(report.messages_per_entry, Some(2.0 * (n as f64 - 1.0)), "n = {n}, {load:?}");
        }
        assert_mean("carvalho-roucairol", n, n as f64);
    }
}

#[test]
fn singhal_takes_n_messages_or_half_of_n_and_1_on_average() {
    for algorithm in ["singhal", "singhal-1989"] {
        for n in [2, 3, 5, 10] {
            for load in [Load::Solo, Load::All] {
                let report = measured(algorithm, n, load);
                assert_eq!(report.messages_per_entry, Some(n as f64), "{algorithm}, n = {n}, {load:?}");
            }
            assert_mean(algorithm, n, n as f64 / 2.0 + 1.0);
        }
    }
}

/// In turns n+1 requests cost 4n-2 messages: n for one of them, and at most 3 for each other. The measured entries are
/// a multiple of n+1.
#[test]
fn naimi_trehel_takes_less_than_4_messages_in_turns_and_about_log_n_on_average() {
    for n in [2, 3, 5, 10, 17] {
        for load in [Load::Solo, Load::All] {
            for hold in [0.25, 1.0, 10.0] {
                let mut options = Options::new("naimi-trehel", n);
                (options.workload.load, options.workload.hold) = (load, hold);
                // Three rounds of warm-up, and one at the end.
                options.workload.entries = n as u64 * (4 + 2 * (n as u64 + 1));
                let report = mutex(&options);
                let expected = (4.0 * n as f64 - 2.0) / (n as f64 + 1.0);
                assert_eq!(report.messages_per_entry, Some(expected), "n = {n}, {load:?}, {hold}");
                let (delay, longest) = (report.client_delay.unwrap(), n as f64);
                match load {
                    Load::Solo => assert_eq!((delay.mean, delay.max), (expected, longest), "n = {n}"),
                    _ => assert_eq!(report.sync_delay.unwrap().max, 1.0, "n = {n}, {hold}"),
                }
            }
        }
    }
    // n H(n-1)/(n-1): for n = 5 it is 5/4 (1 + 1/2 + 1/3 + 1/4).
    for (n, expected) in [(2, 2.0), (3, 2.25), (5, 125.0 / 48.0), (10, 7_129.0 / 2_268.0)] {
        assert_mean("naimi-trehel", n, expected);
    }
}

/// Tolerates 2 percent, over 2,000 entries for each process.
fn assert_mean(algorithm: &str, n: usize, expected: f64) {
    let mut options = Options::new(algorithm, n);
    options.workload.load = Load::SoloRandom;
    options.workload.entries = 2_000 * n as u64;
    let mean = mutex(&options).messages_per_entry.unwrap();
    assert!((mean - expected).abs() <= 0.02 * expected, "{algorithm}, n = {n}: {mean} instead of {expected}");
}

/// Client delay 2T if one process requests at a time. T from exit to the next entry if all request.
#[test]
fn asking_and_being_answered_takes_2_delays_and_a_handover_takes_1() {
    for algorithm in ["lamport", "ricart-agrawala", "carvalho-roucairol", "singhal"] {
        let solo = measured(algorithm, 5, Load::Solo).client_delay.unwrap();
        let all = measured(algorithm, 5, Load::All).sync_delay.unwrap();
        assert_eq!((solo.mean, solo.max), (2.0, 2.0), "{algorithm}");
        assert_eq!((all.mean, all.max), (1.0, 1.0), "{algorithm}");
    }
}

/// A process that has all permissions, or the token, enters at once.
#[test]
fn entering_again_takes_no_time() {
    for algorithm in ["carvalho-roucairol", "singhal", "suzuki-kasami", "naimi-trehel"] {
        let mut options = Options::new(algorithm, 2);
        options.workload.load = Load::Random;
        options.workload.think = 20.0;
        options.workload.entries = 200;
        let delay = mutex(&options).client_delay.unwrap();
        assert_eq!((delay.p50, delay.max > 1.0), (0.0, true), "{algorithm}");
    }
}

#[test]
fn lamport_keeps_its_promises() {
    keeps_its_promises("lamport");
}

#[test]
fn ricart_agrawala_keeps_its_promises() {
    keeps_its_promises("ricart-agrawala");
}

#[test]
fn carvalho_roucairol_keeps_its_promises() {
    keeps_its_promises("carvalho-roucairol");
}

#[test]
fn singhal_keeps_its_promises() {
    keeps_its_promises("singhal");
}

#[test]
fn naimi_trehel_keeps_its_promises() {
    keeps_its_promises("naimi-trehel");
}

/// Unordered links break SAFE with two processes. The simulator refuses to run Lamport on them.
#[test]
fn lamport_needs_links_that_keep_the_order() {
    let unordered = |seed| {
        let mut options = asynchronous("lamport", 2, Load::All, seed);
        options.network.fifo = false;
        options
    };
    assert!(matches!(run(&unordered(0), None), Err(RunError::Assumption { .. })));
    let ignored = |seed| Options { ignore_assumptions: true, ..unordered(seed) };
    let two_inside = |report: &MutexReport| report.broken_promises.contains(&"safety");
    assert!(first_seed(20, ignored, two_inside).is_some());
}

/// Carvalho-Roucairol breaks ORDER, and does not promise it.
#[test]
fn carvalho_roucairol_loses_order() {
    let out_of_order = |report: &MutexReport| report.properties.order.verdict == Verdict::Violated;
    for n in [2, 3, 5] {
        let make = |seed| asynchronous("carvalho-roucairol", n, Load::Random, seed);
        assert!(first_seed(20, make, out_of_order).is_some(), "n = {n}");
    }
}

/// As published, the algorithm is not live, even on FIFO links. With two processes this does not show.
#[test]
fn singhal_as_published_is_not_live() {
    for fifo in [true, false] {
        assert_eq!(first_stuck("singhal-1989", 2, fifo), None);
        assert!(first_stuck("singhal-1989", 3, fifo).is_some(), "fifo: {fifo}");
        assert_eq!(first_stuck("singhal", 3, fifo), None);
    }
}

/// Without the check for outdated requests the token gets stuck.
#[test]
fn suzuki_kasami_without_its_check_strands_the_token() {
    for fifo in [true, false] {
        assert!(first_stuck("suzuki-kasami-no-outdated-check", 4, fifo).is_some(), "fifo: {fifo}");
        assert_eq!(first_stuck("suzuki-kasami", 4, fifo), None);
    }
}

/// The first of 500 seeds with which a client waits for ever and no other promise is broken. Delays are long and
/// entries few, because later requests can free a stuck request.
fn first_stuck(algorithm: &str, n: usize, fifo: bool) -> Option<u64> {
    let make = |seed| {
        let mut options = Options::new(algorithm, n);
        options.network.delay = Delay::Exponential(10.0);
        options.network.fifo = fifo;
        options.workload.load = Load::Random;
        options.workload.think = 30.0;
        options.workload.entries = 5 * n as u64;
        options.seed = seed;
        options
    };
    first_seed(500, make, |report| report.broken_promises == ["liveness"])
}

/// One of the processes except P0 crashes, four times, at times drawn from the seed.
fn with_crashes(algorithm: &str, n: usize, load: Load, delay: Delay, seed: u64) -> Options {
    let mut options = asynchronous(algorithm, n, load, seed);
    options.network.delay = delay;
    options.params.delay_max = delay.guess();
    options.workload.entries = 30 * n as u64;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut at = 0;
    options.faults = (0..4)
        .map(|_| {
            at += random.u64(1..20 * delay.guess());
            Fault { at, kind: FaultKind::Crash(random.usize(1..n)) }
        })
        .collect();
    options
}

/// The same, and each crashed process recovers, with or without its memory. Some recover before the others have noticed
/// the crash, which is more than the algorithms must tolerate. The next crash comes after the recovery is complete.
/// Without a bound on delays there is only one crash.
fn with_recoveries(algorithm: &str, n: usize, load: Load, delay: Delay, seed: u64) -> Options {
    let mut options = with_crashes(algorithm, n, load, delay, seed);
    options.ignore_assumptions = true;
    let mut random = fastrand::Rng::with_seed(!seed);
    let detection = 2 * delay.guess();
    let mut earlier = 0;
    let crashes = std::mem::take(&mut options.faults);
    for Fault { at, kind } in crashes {
        let FaultKind::Crash(process) = kind else { continue };
        let recovered = earlier + at + random.u64(1..2 * detection);
        options.faults.push(Fault { at: earlier + at, kind });
        options.faults.push(Fault { at: recovered, kind: FaultKind::Recover { process, memory: random.bool() } });
        earlier = recovered + 10 * detection - at;
        if delay.bound().is_none() {
            break;
        }
    }
    options
}

const LOADS_AND_DELAYS: [(Load, Delay); 4] = [
    (Load::All, Delay::Constant(1.0)),
    (Load::All, HEAVY_TAILED),
    (Load::Random, Delay::Uniform(0.1, 3.0)),
    (Load::Random, HEAVY_TAILED),
];

/// Lamport and Ricart-Agrawala continue without the crashed processes.
#[test]
fn the_living_go_on_without_the_dead() {
    for algorithm in ["lamport", "ricart-agrawala"] {
        for n in [2, 3, 5] {
            for (load, delay) in LOADS_AND_DELAYS {
                for seed in 0..60 {
                    let report = mutex(&with_crashes(algorithm, n, load, delay, seed));
                    let what = format!("{algorithm}, n = {n}, {load:?}, {delay}, seed {seed}");
                    assert!(report.broken_promises.is_empty(), "{what}: {:?}", report.properties);
                }
            }
        }
    }
}

/// The others ask a recovered process again, and its timestamps are not below its earlier ones. The process stamps a
/// request of its user only after the others have let it back in, so ORDER holds, too.
#[test]
fn who_recovers_is_let_back_in() {
    for algorithm in ["lamport", "ricart-agrawala"] {
        for n in [2, 3, 5] {
            for (load, delay) in LOADS_AND_DELAYS {
                for seed in 0..60 {
                    let report = mutex(&with_recoveries(algorithm, n, load, delay, seed));
                    let what = format!("{algorithm}, n = {n}, {load:?}, {delay}, seed {seed}");
                    assert!(report.broken_promises.is_empty(), "{what}: {:?}", report.properties);
                }
            }
        }
    }
}

/// A process that was down when another process crashed learns of that crash when it recovers. Otherwise it would wait
/// for ever.
#[test]
fn who_recovers_is_told_of_the_dead() {
    for algorithm in ["lamport", "ricart-agrawala"] {
        for memory in [true, false] {
            let mut options = Options::new(algorithm, 3);
            options.network.fifo = true;
            options.faults = vec![
                Fault { at: 5 * T, kind: FaultKind::Crash(2) },
                Fault { at: 10 * T, kind: FaultKind::Crash(1) },
                Fault { at: 20 * T, kind: FaultKind::Recover { process: 2, memory } },
            ];
            let report = mutex(&options);
            assert!(report.broken_promises.is_empty() && report.entries >= 58, "{algorithm}: {report:?}");
        }
    }
}

/// A process that waits for the holder when the holder crashes enters as soon as the crash is detected.
#[test]
fn a_crash_inside_delays_the_next_by_the_time_of_detection() {
    for algorithm in ["lamport", "ricart-agrawala"] {
        let mut options = Options::new(algorithm, 3);
        options.network.fifo = true;
        options.workload.entries = 3;
        options.workload.hold = 10.0;
        options.faults = vec![Fault { at: 5 * T, kind: FaultKind::Crash(0) }];
        let report = mutex(&options);
        assert!(report.broken_promises.is_empty() && report.entries == 3, "{algorithm}: {report:?}");
        // All request at 0. P0 enters at 2, or at 1 with Lamport, because there the requests of the others count as
        // answers. P1 enters at 5 + 2, when the crash is detected, and P2 at 17 + 1.
        let first = if algorithm == "lamport" { 1.0 } else { 2.0 };
        let delay = report.client_delay.unwrap();
        assert_eq!((delay.mean, delay.p50, delay.max), ((first + 7.0 + 18.0) / 3.0, 7.0, 18.0), "{algorithm}");
    }
}
