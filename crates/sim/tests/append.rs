//! Record append. Every test cites the sentence that it checks.

use baton_sim::app::mutex::Load;
use baton_sim::append_or_lock::{Cost, compare};
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{AppendReport, Report};
use baton_sim::run::{Options, RunError, run};

fn append(options: &Options) -> AppendReport {
    match run(options, None) {
        Ok(Report::Append(report)) => *report,
        other => panic!("{options:?} gave {other:?}"),
    }
}

fn options(n: usize, variant: &str) -> Options {
    let mut options = Options::new("record-append", n);
    options.params.variant = Some(variant.to_string());
    options
}

/// "Per append without batching: 2 + 2(r-1) messages for r replicas."
#[test]
fn an_append_takes_2_and_twice_the_other_replicas() {
    for (n, replicas) in [(2, 1), (2, 2), (3, 3), (5, 5), (8, 3)] {
        for load in [Load::Solo, Load::SoloRandom, Load::All] {
            let mut options = options(n, &format!("replicas:{replicas}"));
            options.workload.load = load;
            let report = append(&options);
            assert_eq!(report.messages_per_append, Some(2.0 + 2.0 * (replicas - 1) as f64), "{n} {replicas} {load:?}");
            let delay = report.client_delay.unwrap();
            assert_eq!(delay.max, if replicas == 1 { 2.0 } else { 4.0 }, "no client waits for a lock, under any load");
            assert_eq!((report.appends, report.records), (20 * n as u64, 20 * n as u64));
            assert_eq!((report.padding, report.repeats), (0, 0));
            assert!(report.broken_promises.is_empty());
        }
    }
}

/// "Amortised by batching": 2 + 2(r-1)/b messages if batches are full, and a wait of D if they are not.
#[test]
fn batches_share_the_messages_between_replicas() {
    for (n, replicas, batch) in [(4, 3, 4), (8, 3, 4), (8, 5, 8), (6, 2, 3)] {
        let report = append(&options(n, &format!("replicas:{replicas}+batch:{batch}")));
        let expected = 2.0 + 2.0 * (replicas - 1) as f64 / batch as f64;
        assert_eq!(report.messages_per_append, Some(expected), "{n} {replicas} {batch}");
        assert_eq!(report.client_delay.unwrap().max, 4.0);
    }
    let mut alone = options(4, "batch:2");
    alone.workload.load = Load::Solo;
    let report = append(&alone);
    assert_eq!((report.messages_per_append, report.client_delay.unwrap().max), (Some(6.0), 5.0));
}

/// Loss, duplication, heavy-tailed delays, any order of messages, and crashes of replicas and clients. Detectors and
/// retries are often faster than the network, so that messages arrive long after the crash of their sender was
/// detected.
fn hard(seed: u64) -> Options {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (n, replicas) = (rng.usize(2..5), rng.usize(2..7));
    let mut options = options(n, &format!("replicas:{replicas}+batch:{}", rng.usize(1..4)));
    let delays = [Delay::Constant(1.0), Delay::Uniform(0.1, 5.0), Delay::Pareto(1.0, 1.5)];
    options.network.delay = delays[rng.usize(..3)];
    options.params.delay_max = [options.network.delay.guess(), 300_000][rng.usize(..2)];
    options.network.loss = [0.0, 0.05, 0.2][rng.usize(..3)];
    options.network.duplicate = [0.0, 0.2][rng.usize(..2)];
    options.workload.load = [Load::All, Load::Random][rng.usize(..2)];
    options.workload.think = 3.0 * rng.f64();
    options.seed = seed;
    // The replicas crash in order, so that always the primary or the next primary crashes. At least one replica
    // survives.
    let mut at = 10.0 * rng.f64();
    for replica in n..n + rng.usize(1..replicas) {
        options.faults.push(format!("crash {replica} @ {at}").parse().unwrap());
        at += [1.0, 20.0][rng.usize(..2)] * rng.f64();
    }
    if rng.u8(..4) == 0 {
        options.faults.push(format!("crash 0 @ {}", 20.0 * rng.f64()).parse().unwrap());
    }
    options
}

/// "At least once, each record whole". Every acknowledged record is at its offset in every live replica; the files of
/// the replicas are equal at the end; readers see each record once.
#[test]
fn what_was_acknowledged_survives_everything() {
    let (mut padding, mut repeats) = (0, 0);
    for seed in 0..1_500 {
        let options = hard(seed);
        let report = append(&options);
        assert!(report.broken_promises.is_empty(), "seed {seed}: {:?} {:?}", report.properties, options.faults);
        assert_eq!(report.properties.safety.verdict, Verdict::Held);
        let unanswered = report.records - report.appends;
        assert!(unanswered <= 1, "seed {seed}: only the client that crashed may lack an answer");
        padding += report.padding;
        repeats += report.repeats;
    }
    assert!(padding > 100, "\"what a failed write leaves behind is padding that readers skip\": {padding}");
    assert!(repeats > 100, "\"a primary that crashed may not know, so readers skip repeats\": {repeats}");
}

#[test]
fn one_replica_must_survive() {
    let mut options = options(2, "replicas:2");
    options.faults = vec!["crash 2 @ 10.5".parse().unwrap(), "crash 3 @ 30.5".parse().unwrap()];
    options.workload.entries = 100;
    let refusal = run(&options, None).unwrap_err().to_string();
    let expected = "`record-append` assumes that one replica never crashes, and all of them, P2 to P3, would";
    assert!(refusal.starts_with(expected), "{refusal}");
    options.ignore_assumptions = true;
    assert_eq!(append(&options).broken_promises, ["liveness"]);
}

#[test]
fn a_replica_that_recovers_gets_the_file() {
    for recovery in ["recover 2 @ 50", "recover 2 @ 50 without-memory"] {
        let mut options = options(2, "replicas:3");
        options.workload.entries = 100;
        options.faults = vec!["crash 2 @ 10.5".parse().unwrap()];
        assert_eq!(append(&options).copies, 2);
        // P2 has the lowest number, but it does not become the primary again. The crash of P3 leaves P4 as the only
        // replica that never crashed.
        options.faults.push(recovery.parse().unwrap());
        options.faults.push("crash 3 @ 90.5".parse().unwrap());
        let report = append(&options);
        assert!(report.broken_promises.is_empty(), "{recovery}: {:?}", report.properties);
        assert_eq!((report.copies, report.appends), (2, 100), "{recovery}");
    }
}

/// A client that recovers with its memory continues its numbers. The replicas would ignore a client that forgets them.
#[test]
fn clients_must_remember_their_numbers() {
    let mut options = options(2, "replicas:2");
    options.faults = vec!["crash 0 @ 10.5".parse().unwrap(), "recover 0 @ 30".parse().unwrap()];
    assert!(append(&options).broken_promises.is_empty());
    options.faults[1] = "recover 0 @ 30 without-memory".parse().unwrap();
    let refusal = run(&options, None).unwrap_err();
    assert!(matches!(refusal, RunError::Assumption { assumes: "that no client forgets its numbers", .. }), "{refusal}");
    options.ignore_assumptions = true;
    options.workload.entries = 20;
    assert_eq!(append(&options).broken_promises, ["liveness"]);
}

/// "Compare with lock + read + write + release on the same load": 3 + 2 + 2 + 2(r-1) messages against 2 + 2(r-1). If
/// all clients want to append, each of them waits for all others.
#[test]
fn a_lock_costs_5_messages_more_and_lets_only_one_at_a_time() {
    for n in [2, 5, 10] {
        let mut options = options(n, "replicas:3");
        let all = compare(&options, "central").unwrap().unwrap();
        let n = n as f64;
        assert_eq!(all.append, Cost { messages: 6.0, delay: 4.0, throughput: n / 4.0 });
        // In a fair closed loop with a stay of 6 T and a synchronization delay of 2 T.
        assert_eq!(all.lock, Cost { messages: 11.0, delay: 8.0 * n, throughput: 0.125 });
        options.workload.load = Load::Solo;
        let solo = compare(&options, "central").unwrap().unwrap();
        assert_eq!(solo.append, Cost { messages: 6.0, delay: 4.0, throughput: 0.25 });
        assert_eq!(solo.lock, Cost { messages: 11.0, delay: 8.0, throughput: 0.125 });
    }
}
