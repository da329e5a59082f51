//! Rings and trees: token-ring, permission-ring, raymond, and their broken variants.
//!
//! Measured costs must equal the closed forms where these are exact. Promises must hold on every schedule.

use baton_sim::app::mutex::Load;
use baton_sim::network::Delay;
use baton_sim::report::{MutexReport, Report};
use baton_sim::run::{Options, run};

/// Constant delays of 1 T.
fn options(algorithm: &str, variant: Option<&str>, n: usize, load: Load) -> Options {
    let mut options = Options::new(algorithm, n);
    options.params.variant = variant.map(Into::into);
    options.workload.load = load;
    options.workload.think = if load == Load::Random { n as f64 } else { 0.0 };
    options.events_max = 1_000_000;
    options
}

fn report(options: &Options) -> MutexReport {
    match run(options, None).unwrap() {
        Report::Mutex(report) => *report,
        _ => unreachable!("all of these are for mutual exclusion"),
    }
}

fn messages_per_entry(options: &Options) -> f64 {
    report(options).messages_per_entry.unwrap()
}

fn assert_near(measured: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((measured - expected).abs() <= tolerance * expected, "{what}: {measured}, expected {expected}");
}

/// Asserts that every promise is kept with heavy-tailed delays, unordered links, and every load.
fn assert_promises_are_kept(algorithm: &str, variant: Option<&str>) {
    for seed in 0..200 {
        let n = 2 + seed as usize % 6;
        let load = if seed % 2 == 0 { Load::All } else { Load::Random };
        let mut options = options(algorithm, variant, n, load);
        options.network.delay = Delay::Pareto(1.0, 1.5);
        options.workload.entries = 8 * n as u64;
        options.workload.app_messages = true;
        options.seed = seed;
        let report = report(&options);
        assert_eq!(report.broken_promises, [""; 0], "{algorithm}, {variant:?}, n = {n}, seed {seed}: {report:?}");
        assert_eq!(report.entries, options.workload.entries);
    }
}

mod token_ring {
    use baton_sim::faults::{Fault, FaultKind};
    use baton_sim::time::{T, in_t, ticks};

    use super::*;

    #[test]
    fn plain_costs_one_message_an_entry_if_everybody_wants() {
        for n in [2, 3, 5, 16] {
            let report = report(&options("token-ring", None, n, Load::All));
            assert_eq!(report.messages_per_entry, Some(1.0), "n = {n}");
            let delay = report.sync_delay.unwrap();
            assert_eq!((delay.mean, delay.max), (1.0, 1.0), "n = {n}");
        }
    }

    #[test]
    fn plain_goes_round_though_nobody_stays_inside() {
        let mut options = options("token-ring", None, 4, Load::All);
        options.workload.hold = 0.0;
        assert_eq!(messages_per_entry(&options), 1.0);
    }

    #[test]
    fn parked_costs_n_alone_and_2_if_everybody_wants() {
        for n in [2, 3, 5, 16] {
            for (load, expected) in [(Load::Solo, n as f64), (Load::SoloRandom, n as f64), (Load::All, 2.0)] {
                let report = report(&options("token-ring", Some("parked"), n, load));
                assert_eq!(report.messages_per_entry, Some(expected), "n = {n}, {load:?}");
                if load == Load::All {
                    assert_eq!(report.sync_delay.unwrap().max, 1.0, "n = {n}");
                } else {
                    let delay = report.client_delay.unwrap();
                    assert_eq!((delay.mean, delay.max), (n as f64, n as f64), "n = {n}, {load:?}");
                }
            }
        }
    }

    #[test]
    fn a_request_at_a_random_moment_waits_for_half_a_round() {
        for n in [4, 9] {
            let mut options = options("token-ring", None, n, Load::Random);
            options.workload.think = 20.0 * n as f64;
            options.workload.hold = 0.0;
            options.workload.entries = 4_000;
            let delay = report(&options).client_delay.unwrap();
            assert_near(delay.mean, n as f64 / 2.0, 0.03, "mean delay");
            assert!(delay.max <= n as f64, "n = {n}: {}", delay.max);
        }
    }

    #[test]
    fn order_does_not_hold() {
        let violated = (0..50).any(|seed| {
            let mut options = options("token-ring", None, 4, Load::Random);
            options.workload.app_messages = true;
            options.seed = seed;
            report(&options).properties.order.detail.is_some()
        });
        assert!(violated);
    }

    #[test]
    fn promises_are_kept() {
        assert_promises_are_kept("token-ring", None);
        assert_promises_are_kept("token-ring", Some("parked"));
    }

    /// The holder crashes inside, or while the token is on its way to or from it. Each time the others make exactly one
    /// new token.
    #[test]
    fn a_lost_token_is_replaced_once_whenever_its_holder_crashes() {
        for variant in [None, Some("parked")] {
            for tenth in 1..100 {
                let mut options = options("token-ring", variant, 5, Load::All);
                options.faults = vec![Fault { at: tenth * T / 10, kind: FaultKind::Crash(2) }];
                let report = report(&options);
                assert_eq!(report.broken_promises, [""; 0], "{variant:?}, crash at {tenth}/10 T: {report:?}");
                assert!(report.entries >= options.workload.entries - 1);
                assert_eq!((report.messages_by_kind["INQUIRE"], report.messages_by_kind["REPORT"]), (3, 3));
            }
        }
    }

    /// Crashes and recoveries at random times, with and without memory. At any time a process with a roster is up: one
    /// process survives to the end or, if delays are bounded, until all recovered processes must have joined. No
    /// process recovers before its crash is known, with one exception: processes that have just recovered themselves
    /// may learn of it late, which is more than the algorithm must tolerate. The detection time is often shorter than a
    /// message delay.
    fn with_faults(variant: Option<&str>, seed: u64) -> Options {
        let mut rng = fastrand::Rng::with_seed(seed);
        let n = rng.usize(2..7);
        let load = if rng.bool() { Load::All } else { Load::Random };
        let mut options = options("token-ring", variant, n, load);
        let delays = [Delay::Constant(1.0), Delay::Uniform(0.1, 3.0), Delay::Pareto(1.0, 1.5)];
        options.network.delay = delays[rng.usize(..3)];
        options.network.fifo = rng.bool();
        options.params.delay_max = ticks([0.01, 0.3, 1.0, 5.0][rng.usize(..4)]);
        options.workload.entries = 15 * n as u64;
        options.seed = seed;
        options.events_max = 100_000;
        options.ignore_assumptions = true;
        let survivor = rng.usize(..n);
        let spread = [3.0, 40.0][rng.usize(..2)];
        for process in (0..n).filter(|&process| process != survivor) {
            let mut at = 0.0;
            for _ in 0..rng.usize(..4) {
                at += spread * rng.f64();
                options.faults.push(Fault { at: ticks(at), kind: FaultKind::Crash(process) });
                if rng.u8(..4) == 0 {
                    break;
                }
                at += in_t(2 * options.params.delay_max) + 0.001 + spread * rng.f64();
                let kind = FaultKind::Recover { process, memory: rng.bool() };
                options.faults.push(Fault { at: ticks(at), kind });
            }
        }
        let last = options.faults.iter().map(|fault| fault.at).max();
        if let (Some(last), Some(bound)) = (last, options.network.delay.bound()) {
            let at = last + 2 * options.params.delay_max + 2 * bound + 1;
            options.faults.push(Fault { at, kind: FaultKind::Crash(survivor) });
        }
        options
    }

    #[test]
    fn it_survives_crashes_and_recoveries_at_any_time() {
        for seed in 0..2_000 {
            for variant in [None, Some("parked")] {
                let options = with_faults(variant, seed);
                let report = report(&options);
                assert_eq!(report.broken_promises, [""; 0], "{variant:?}, seed {seed}: {report:?}\n{options:?}");
            }
        }
    }
    fn fault(text: &str) -> Fault {
        text.parse().unwrap()
    }

    /// P1 crashes twice. The others learn of its first recovery so late that they admit P1 only after its second
    /// recovery. Then they learn of the second crash, and replace the token while P1 is in the critical section.
    #[test]
    fn who_is_back_before_its_crash_is_known_is_taken_for_its_earlier_life() {
        let mut options = options("token-ring", None, 3, Load::All);
        options.params.delay_max = 4 * T;
        options.workload.hold = 2.0;
        options.faults = ["crash 1 @ 0.5", "recover 1 @ 3", "crash 1 @ 6", "recover 1 @ 11"].map(fault).into();
        assert_eq!(
            run(&options, None).unwrap_err().to_string(),
            "`token-ring` assumes that no process recovers before every live process knows of its crash, and P1 would \
             recover at 3 T while P2 learns of the crash at 8.5 T (recover P1 after that); --ignore-assumptions \
             runs it all the same"
        );
        options.ignore_assumptions = true;
        assert!(report(&options).broken_promises.contains(&"safety"));
        // The other processes know of the crash at 6 T at 14 T.
        options.faults[3] = fault("recover 1 @ 14.1");
        assert_eq!(report(&options).broken_promises, [""; 0]);
    }

    /// P1 is not yet admitted when P0, the last member, crashes.
    #[test]
    fn it_stands_still_when_nobody_lives_who_has_a_roster() {
        let mut options = options("token-ring", None, 2, Load::All);
        options.faults = vec![fault("crash 1 @ 1"), fault("recover 1 @ 6"), fault("crash 0 @ 8.5")];
        let report = report(&options);
        assert_eq!(report.broken_promises, ["liveness"]);
        options.faults[2] = fault("crash 0 @ 10.5");
        assert_eq!(super::report(&options).broken_promises, [""; 0]);
    }
}

mod permission_ring {
    use super::*;

    #[test]
    fn it_costs_n_messages_an_entry_whoever_wants() {
        for n in [2, 3, 5, 16] {
            for load in [Load::Solo, Load::SoloRandom, Load::All, Load::Random] {
                let report = report(&options("permission-ring", None, n, load));
                assert_eq!(report.messages, n as u64 * report.entries, "n = {n}, {load:?}");
            }
        }
    }

    #[test]
    fn a_lone_request_goes_once_round() {
        for n in [2, 3, 5, 16] {
            let delay = report(&options("permission-ring", None, n, Load::Solo)).client_delay.unwrap();
            assert_eq!((delay.mean, delay.max), (n as f64, n as f64));
        }
    }

    #[test]
    fn from_exit_to_the_next_entry_it_takes_one_hop_if_everybody_wants() {
        for n in [2, 3, 5, 16] {
            let delay = report(&options("permission-ring", None, n, Load::All)).sync_delay.unwrap();
            assert_eq!((delay.mean, delay.max), (1.0, 1.0), "n = {n}");
        }
    }

    /// (n-1)T is the longest way of a parked request. A request that was still on its way when the last holder left can
    /// take longer. It takes even longer than nT if it then waits for a smaller timestamp that was given out after it.
    #[test]
    fn from_exit_to_the_next_entry_it_can_take_more_than_a_round() {
        let n = 3;
        let longest = (0..20).map(|seed| {
            let mut options = options("permission-ring", None, n, Load::Random);
            options.seed = seed;
            report(&options).sync_delay.map_or(0.0, |delay| delay.max)
        });
        assert!(longest.fold(0.0, f64::max) > n as f64);
    }

    #[test]
    fn promises_are_kept() {
        assert_promises_are_kept("permission-ring", None);
    }

    #[test]
    fn two_of_the_original_swallow_each_others_requests() {
        let report = report(&options("permission-ring-original", None, 2, Load::All));
        assert_eq!((report.entries, report.messages, report.broken_promises), (0, 2, vec!["liveness"]));
    }

    #[test]
    fn trying_again_does_not_help() {
        let mut options = options("permission-ring-original", Some("retry"), 2, Load::All);
        options.events_max = 10_000;
        let report = report(&options);
        assert_eq!((report.entries, report.broken_promises), (0, vec!["liveness"]));
        assert!(report.messages > 4_000, "{}", report.messages);
    }

    #[test]
    fn one_of_the_original_is_served() {
        let report = report(&options("permission-ring-original", None, 4, Load::Solo));
        assert_eq!((report.messages_per_entry, report.broken_promises), (Some(4.0), vec![]));
    }
}

mod raymond {
    use std::cell::RefCell;
    use std::io::{self, Write};
    use std::rc::Rc;

    use baton_protocol::topology::tree::Tree;

    use super::*;

    const TREES: [&str; 6] = ["chain", "star", "binary", "k-ary:3", "k-ary:1", "edges:5-0,5-1,1-2,1-3,0-4,4-6,4-7,6-8"];

    fn tree(options: &Options) -> Tree {
        Tree::from_variant(&options.params).unwrap()
    }

    #[test]
    fn everybody_wanting_costs_4_times_n_minus_1_over_n() {
        for (variant, n) in
            TREES.map(|variant| (variant, 9)).into_iter().chain([("binary", 2), ("star", 3), ("chain", 20)])
        {
            let measured = messages_per_entry(&options("raymond", Some(variant), n, Load::All));
            assert_eq!(measured, 4.0 * (n - 1) as f64 / n as f64, "{variant}, n = {n}");
        }
    }

    #[test]
    fn alone_it_costs_twice_the_distance() {
        for variant in TREES {
            let n = 9;
            let options = options("raymond", Some(variant), n, Load::Solo);
            let tree = tree(&options);
            let distances: Vec<usize> = (0..n).map(|process| tree.distance(process, (process + 1) % n)).collect();
            let report = report(&options);
            let expected = 2.0 * distances.iter().sum::<usize>() as f64 / n as f64;
            assert_eq!(report.messages_per_entry, Some(expected), "{variant}");
            let delay = report.client_delay.unwrap();
            assert_eq!(delay.max, 2.0 * distances.into_iter().max().unwrap() as f64, "{variant}");
        }
    }

    #[test]
    fn alone_and_at_random_it_costs_twice_the_mean_distance() {
        for n in [4, 10, 25] {
            let chain = 2.0 * (n + 1) as f64 / 3.0;
            let star = 4.0 * (n - 1) as f64 / n as f64;
            for (variant, expected) in [("chain", chain), ("star", star)] {
                let mut options = options("raymond", Some(variant), n, Load::SoloRandom);
                options.workload.entries = 8_000;
                assert_near(messages_per_entry(&options), expected, 0.03, variant);
            }
        }
    }

    #[test]
    fn from_exit_to_the_next_entry_it_takes_at_most_the_diameter() {
        for variant in TREES {
            let n = 9;
            let options = options("raymond", Some(variant), n, Load::All);
            let tree = tree(&options);
            let diameter =
                (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).map(|(a, b)| tree.distance(a, b)).max().unwrap();
            let delay = report(&options).sync_delay.unwrap();
            assert_eq!(delay.mean, 2.0 * (n - 1) as f64 / n as f64, "{variant}");
            assert!(delay.max <= diameter as f64, "{variant}: {} > {diameter}", delay.max);
        }
    }

    #[test]
    fn heavy_tails_make_it_cheaper_if_everybody_wants() {
        let mut options = options("raymond", None, 9, Load::All);
        options.network.delay = Delay::Pareto(1.0, 1.5);
        options.workload.entries = 2_000;
        let measured = messages_per_entry(&options);
        assert!(measured < 4.0 * 8.0 / 9.0, "{measured}");
    }

    #[test]
    fn promises_are_kept() {
        for variant in ["chain", "star", "binary", "greedy:1", "greedy:3+k-ary:3"] {
            assert_promises_are_kept("raymond", Some(variant));
        }
    }

    #[test]
    fn order_does_not_hold() {
        let violated = (0..50).any(|seed| {
            let mut options = options("raymond", None, 4, Load::Random);
            options.workload.app_messages = true;
            options.seed = seed;
            report(&options).properties.order.detail.is_some()
        });
        assert!(violated);
    }

    #[derive(Clone, Default)]
    struct Sink(Rc<RefCell<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The most entries of one process during one wait of another process.
    fn bypasses(options: &Options) -> u64 {
        let sink = Sink::default();
        run(options, Some(Box::new(sink.clone()))).unwrap();
        let trace = String::from_utf8(sink.0.take()).unwrap();
        let n = options.params.n;
        let mut entries_while_waiting = vec![None; n];
        let mut most = 0;
        for line in trace.lines().skip(1) {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let Some(process) = event["p"].as_u64().map(|process| process as usize) else { continue };
            match event["event"].as_str().unwrap() {
                "request" => entries_while_waiting[process] = Some(vec![0; n]),
                "enter" => {
                    entries_while_waiting[process] = None;
                    for entries in entries_while_waiting.iter_mut().flatten() {
                        entries[process] += 1;
                        most = most.max(entries[process]);
                    }
                }
                _ => {}
            }
        }
        most
    }

    #[test]
    fn greed_starves_the_others_unless_it_is_bounded() {
        let n = 6;
        let mut options = options("raymond", None, n, Load::All);
        options.workload.entries = 600;
        let fair = bypasses(&options);
        options.params.variant = Some("greedy:3".into());
        let bounded = bypasses(&options);
        options.params.variant = None;
        options.algorithm = "raymond-greedy".into();
        let unbounded = bypasses(&options);
        // Each process enters three times in a row, and the token passes P0 and P1 up to three times before every
        // process has had it.
        assert_eq!((fair, bounded), (1, 9));
        // Every other process enters once, at the end. The first entry of P0 is before their requests.
        assert_eq!(unbounded, 600 - n as u64);
    }
}
