//! Failure detectors: how fast they are, and how often they are wrong. Every test cites the sentence that it checks.

use baton_protocol::registry::SetupError;
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{DetectorReport, Report};
use baton_sim::run::{Options, RunError, run};

fn detector(options: &Options) -> DetectorReport {
    match run(options, None) {
        Ok(Report::Detector(report)) => *report,
        other => panic!("{options:?} gave {other:?}"),
    }
}

fn options(algorithm: &str, n: usize, variant: &str, delay: Delay) -> Options {
    let mut options = Options::new(algorithm, n);
    options.params.variant = (!variant.is_empty()).then(|| variant.to_string());
    options.network.delay = delay;
    options.params.delay_max = delay.guess();
    options
}

/// "Synchronous: D known, no mistakes, detection between D and P + 2D after the crash, mean P/2 + D + mean delay."
#[test]
fn heartbeats_on_a_synchronous_network_make_no_mistakes_and_are_as_fast_as_they_should_be() {
    let cases = [
        (2, "", Delay::Constant(1.0), 10.0, 1.0),
        (5, "period:3", Delay::Constant(1.0), 3.0, 1.0),
        (3, "", Delay::Uniform(0.0, 1.0), 10.0, 0.5),
        (5, "period:2", Delay::Uniform(1.0, 2.0), 4.0, 1.5),
    ];
    for (n, variant, delay, period, mean_delay) in cases {
        let mut options = options("heartbeat", n, variant, delay);
        options.workload.entries = 2_000;
        let report = detector(&options);
        let bound = options.params.delay_max as f64 / 1e6;
        let time = report.detection_time.unwrap();
        assert_eq!((report.mistakes, report.crashes, report.period), (0, 2_000, period));
        assert!(report.broken_promises.is_empty(), "{:?}", report.properties);
        assert!(time.max <= period + 2.0 * bound, "{variant} {delay}: {time:?}");
        assert!(time.p50 >= bound, "{variant} {delay}: {time:?}");
        let mean = period / 2.0 + bound + mean_delay;
        // The phase of a crash is uniform over a period. Tolerates four standard errors of the mean of 2,000 crashes.
        let tolerance = 4.0 * period / 12f64.sqrt() / 2_000f64.sqrt();
        assert!((time.mean - mean).abs() < tolerance, "{variant} {delay}: {} for {mean}", time.mean);
    }
}

/// The earliest detection is of a crash just before a heartbeat, the latest of a crash just after one. P3 sends at 0,
/// 10, 20, ...
#[test]
fn a_crash_just_before_a_beat_is_noticed_first_and_one_just_after_it_last() {
    for (at, expected) in [("29.999999", 2.000_002), ("30.000001", 12.0)] {
        let mut options = options("heartbeat", 4, "", Delay::Constant(1.0));
        options.faults = vec![format!("crash 3 @ {at}").parse().unwrap()];
        let time = detector(&options).detection_time.unwrap();
        assert_eq!((time.mean, time.max), (expected, expected), "the last beat arrives at {at}");
    }
}

/// "Watching starts the first wait": a process that crashes before its first heartbeat is suspected, too. A process
/// cannot crash before the start, but after a crash at 0 only the heartbeats of the start are on their way, and the
/// network loses them.
#[test]
fn who_never_beat_is_suspected_too() {
    let mut options = options("heartbeat", 3, "", Delay::Constant(1.0));
    options.network.loss = 1.0;
    options.ignore_assumptions = true;
    options.faults = vec!["crash 2 @ 0".parse().unwrap()];
    let report = detector(&options);
    assert_eq!(report.properties.liveness.verdict, Verdict::Held);
    assert_eq!(report.detection_time.unwrap().max, 11.000_001, "strictly more than P + D");
}

/// "Asynchronous: D is a guess: too small -> the living are suspected (inaccurate); too large -> the dead are taken for
/// living for longer."
#[test]
fn on_an_asynchronous_network_a_timeout_is_either_too_small_or_too_large() {
    let measured = ["timeout:0.2", "timeout:1", "timeout:4"].map(|timeout| {
        let variant = format!("period:2+{timeout}");
        let mut options = options("heartbeat", 4, &variant, Delay::Pareto(1.0, 1.5));
        options.workload.entries = 300;
        options.ignore_assumptions = true;
        let report = detector(&options);
        assert_eq!(report.properties.liveness.verdict, Verdict::Held);
        (report.mistakes, report.detection_time.unwrap().mean)
    });
    let [(often, fast), (sometimes, slower), (hardly, slowest)] = measured;
    assert!(often > 5 * sometimes && sometimes > 10 * hardly.max(1), "{measured:?}");
    assert!(fast < slower && slower < slowest, "{measured:?}");
    assert!(often > 1_000, "{measured:?}");
}

#[test]
fn the_fixed_one_is_refused_where_it_can_be_wrong_and_the_adaptive_one_is_not() {
    let asynchronous = options("heartbeat", 3, "", Delay::Exponential(1.0));
    let refusal = run(&asynchronous, None).unwrap_err();
    assert!(matches!(refusal, RunError::Assumption { assumes: "a bound on delays", .. }), "{refusal}");
    let mut lossy = options("heartbeat", 3, "", Delay::Constant(1.0));
    lossy.network.loss = 0.1;
    assert!(matches!(run(&lossy, None), Err(RunError::Assumption { assumes: "that no message is lost", .. })));
    for delay in [Delay::Exponential(1.0), Delay::Pareto(1.0, 1.5)] {
        let mut hard = options("phi-accrual", 3, "", delay);
        (hard.network.loss, hard.network.duplicate) = (0.1, 0.1);
        let report = detector(&hard);
        assert!(report.broken_promises.is_empty() && report.crashes == 60);
    }
    let nonsense = options("heartbeat", 3, "period:0", Delay::Constant(1.0));
    assert!(matches!(run(&nonsense, None), Err(RunError::Setup(SetupError::Value { .. }))));
}

/// A lost heartbeat causes a mistake if the detector waits for P + D, and none if it waits for two heartbeats.
#[test]
fn loss_is_tolerated_by_waiting_for_more_than_one_beat() {
    let [one, two] = ["timeout:1", "timeout:11"].map(|variant| {
        let mut options = options("heartbeat", 4, variant, Delay::Constant(1.0));
        options.network.loss = 0.02;
        options.ignore_assumptions = true;
        options.workload.entries = 200;
        detector(&options)
    });
    assert!(one.mistakes > 10 * two.mistakes.max(1), "{} {}", one.mistakes, two.mistakes);
    assert_eq!(two.detection_time.unwrap().mean.round(), one.detection_time.unwrap().mean.round() + 10.0);
}

/// "With drift r wait (P/(1-r) + D)(1+r)": this wait is enough; a shorter wait is not.
#[test]
fn drifting_clocks_need_the_longer_wait() {
    let [plain, longer] = ["", "drift:10"].map(|variant| {
        let mut total = 0;
        for seed in 0..20 {
            let mut options = options("heartbeat", 4, variant, Delay::Uniform(0.0, 1.0));
            options.drift = 0.1;
            let refused =
                matches!(run(&options, None), Err(RunError::Assumption { assumes: "clocks that keep time", .. }));
            assert_eq!(refused, variant.is_empty(), "it allows for as much as it says");
            options.ignore_assumptions = true;
            options.seed = seed;
            options.workload.entries = 50;
            total += detector(&options).mistakes;
        }
        total
    });
    assert!(plain > 100, "{plain}");
    assert_eq!(longer, 0);
}

#[test]
fn phi_accrual_trades_speed_for_accuracy_by_its_threshold() {
    let measured = ["phi:1", "phi:3", "phi:8"].map(|phi| {
        let mut options = options("phi-accrual", 4, &format!("period:2+{phi}"), Delay::Pareto(1.0, 1.5));
        options.workload.entries = 300;
        let report = detector(&options);
        assert_eq!(report.properties.liveness.verdict, Verdict::Held);
        (report.mistakes, report.detection_time.unwrap().mean)
    });
    assert!(measured.windows(2).all(|pair| pair[0].0 > 2 * pair[1].0 && pair[0].1 < pair[1].1), "{measured:?}");
}

/// Phi-accrual learns: after a long time on a steady network it waits for little more than a period, with any
/// `delay_max`.
#[test]
fn phi_accrual_adapts_to_the_network_that_it_sees() {
    let mean = |algorithm, peace: f64| {
        let mut options = options(algorithm, 3, "", Delay::Uniform(0.9, 1.0));
        options.params.delay_max *= 10;
        options.workload.entries = 200;
        options.workload.think = peace;
        let report = detector(&options);
        assert_eq!(report.mistakes, 0);
        report.detection_time.unwrap().mean
    };
    let (fixed, new, used) = (mean("heartbeat", 0.0), mean("phi-accrual", 0.0), mean("phi-accrual", 20_000.0));
    assert!(used < 0.8 * new, "{used} {new}");
    // P/2 + delay + 5.2 standard deviations. The detector assumes a deviation of at least D/4.
    assert!((used - (50.0 + 0.95 + 5.226 * 2.5)).abs() < 7.0, "{used}, fixed {fixed}");
}

#[test]
fn a_pause_is_a_mistake_that_ends_with_the_next_beat() {
    for algorithm in ["heartbeat", "phi-accrual"] {
        let mut options = options(algorithm, 3, "", Delay::Constant(1.0));
        options.faults = vec!["pause 1 @ 95 for 30".parse().unwrap(), "crash 2 @ 300".parse().unwrap()];
        // A paused process keeps messages waiting for longer than any bound.
        let refused = matches!(run(&options, None), Err(RunError::Assumption { assumes: "a bound on delays", .. }));
        assert_eq!(refused, algorithm == "heartbeat");
        options.ignore_assumptions = true;
        let report = detector(&options);
        assert!(report.mistakes >= 2, "both others suspect P1");
        assert_eq!(report.crashes, 1);
        assert!(report.mistake_time.unwrap().max < 30.0);
        assert_eq!(report.properties.liveness.verdict, Verdict::Held);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let mut options = options("phi-accrual", 4, "phi:3", Delay::Pareto(1.0, 1.5));
        options.seed = seed;
        let report = detector(&options);
        (report.messages, report.mistakes, report.detection_time, report.time)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
