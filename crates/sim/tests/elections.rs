//! Elections: costs, promises and known failures. Also mutual exclusion with an elected coordinator.

use baton_protocol::ProcessId;
use baton_sim::app::mutex::Load;
use baton_sim::faults::{Fault, FaultKind};
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{ElectionReport, MutexReport, Report};
use baton_sim::run::{Options, run};
use baton_sim::time::{T, ticks};

const SIZES: [usize; 6] = [2, 3, 4, 7, 10, 25];

const RINGS: [(&str, &str); 5] = [
    ("chang-roberts", ""),
    ("chang-roberts", "descending"),
    ("ring-list", ""),
    ("ring-list", "lowest"),
    ("ring-list", "multicast"),
];

const GUARDED: [(&str, &str); 8] = [
    ("bully", "quorum"),
    ("bully", "witness"),
    ("chang-roberts", "quorum"),
    ("chang-roberts", "witness"),
    ("ring-list", "quorum"),
    ("ring-list", "witness"),
    ("ring-list", "lowest+quorum"),
    ("ring-list", "multicast+witness"),
];

const DELAYS: [Delay; 3] = [Delay::Constant(1.0), Delay::Uniform(0.1, 1.0), Delay::Pareto(1.0, 1.5)];

fn options(algorithm: &str, variant: &str, n: usize) -> Options {
    let mut options = Options::new(algorithm, n);
    options.params.variant = (!variant.is_empty()).then(|| variant.into());
    options
}

fn with_load(mut options: Options, load: Load) -> Options {
    options.workload.load = load;
    options
}

fn with_delay(mut options: Options, delay: Delay) -> Options {
    options.network.delay = delay;
    options.params.delay_max = delay.guess();
    options
}

fn with_faults(mut options: Options, faults: &[&str]) -> Options {
    options.faults = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    options
}

fn election(options: &Options) -> ElectionReport {
    match run(options, None).unwrap() {
        Report::Election(report) => *report,
        _ => panic!("{} elects nobody", options.algorithm),
    }
}

fn mutex(options: &Options) -> MutexReport {
    match run(options, None).unwrap() {
        Report::Mutex(report) => *report,
        _ => panic!("{} lets nobody enter", options.algorithm),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Crashed processes stay down.
    Crash,
    /// Crashed processes may recover, with or without their memory.
    Recover,
}

/// Faults drawn from the seed. At most `down_max` processes are down at a time.
fn swarm(seed: u64, processes: usize, down_max: usize, fate: Fate) -> Vec<Fault> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut down: Vec<ProcessId> = Vec::new();
    let mut faults = Vec::new();
    let mut at = 0.0;
    for _ in 0..rng.usize(1..8) {
        at += rng.f64() * rng.choice([1.0, 5.0, 30.0]).unwrap();
        let up: Vec<_> = (0..processes).filter(|process| !down.contains(process)).collect();
        if down.len() < down_max && (down.is_empty() || rng.bool()) {
            let process = rng.choice(up).unwrap();
            down.push(process);
            faults.push(Fault { at: ticks(at), kind: FaultKind::Crash(process) });
        } else if fate == Fate::Recover && !down.is_empty() {
            at += 10.0;
            let process = down.swap_remove(rng.usize(..down.len()));
            let kind = FaultKind::Recover { process, memory: rng.bool() };
            faults.push(Fault { at: ticks(at), kind });
        }
    }
    faults
}

/// Runs many seeds, and asserts that no promise is broken.
fn all_hold(options: &Options, seeds: std::ops::Range<u64>, faults: impl Fn(u64) -> Vec<Fault>) {
    for seed in seeds {
        let options = Options { seed, faults: faults(seed), ..options.clone() };
        let report = run(&options, None).unwrap();
        let (name, variant, n) = (&options.algorithm, &options.params.variant, options.params.n);
        let context = || {
            let (delay, faults) = (options.network.delay, &options.faults);
            format!("{name} {variant:?}, n = {n}, {delay}, seed {seed}, {faults:?}: {:?}", report.properties())
        };
        assert!(report.broken_promises().is_empty(), "{}", context());
    }
}

#[test]
fn chang_roberts_with_one_starter_takes_2n_plus_d_messages_and_as_much_time() {
    for n in SIZES {
        for seed in 0..10 {
            let mut options = with_load(options("chang-roberts", "", n), Load::SoloRandom);
            options.seed = seed;
            let report = election(&options);
            let hops = n - 1 - report.noticed[0];
            let expected = 2 * n + hops;
            assert_eq!((report.messages, report.time), (expected as u64, Some(expected as f64)), "n = {n}");
            assert_eq!((report.leader, report.broken_promises.len()), (Some(n - 1), 0));
        }
        let lowest = election(&with_load(options("chang-roberts", "", n), Load::Solo));
        assert_eq!((lowest.noticed, lowest.messages), (vec![0], 3 * n as u64 - 1));
    }
}

#[test]
fn chang_roberts_with_all_starting_takes_3n_minus_1_to_n_n_plus_1_over_2_plus_n_messages_in_2n() {
    for n in SIZES {
        for (variant, expected) in [("", 3 * n - 1), ("descending", n * (n + 1) / 2 + n)] {
            let report = election(&options("chang-roberts", variant, n));
            assert_eq!((report.messages, report.time), (expected as u64, Some(2.0 * n as f64)), "n = {n} {variant}");
            assert_eq!(report.leader, Some(n - 1));
        }
    }
}

/// n H_n + n messages, over rings in random order. The standard deviation of the mean of 400 runs is about 0.6.
#[test]
fn chang_roberts_with_all_starting_takes_n_h_n_plus_n_messages_on_average() {
    let n = 16;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut messages = 0;
    for _ in 0..400 {
        let mut order: Vec<String> = (0..n).map(|id| id.to_string()).collect();
        rng.shuffle(&mut order);
        messages += election(&options("chang-roberts", &format!("ring:{}", order.join(",")), n)).messages;
    }
    let harmonic: f64 = (1..=n).map(|k| 1.0 / k as f64).sum();
    let (mean, expected) = (messages as f64 / 400.0, n as f64 * harmonic + n as f64);
    assert!((mean - expected).abs() < 2.0, "{mean} is not about {expected}");
}

#[test]
fn what_is_no_ring_is_refused() {
    for ring in ["0,1", "0,1,1", "0,1,3", "a,b,c", ","] {
        let refusal = run(&options("chang-roberts", &format!("ring:{ring}"), 3), None).unwrap_err().to_string();
        let right = "write every id from 0 to 2 once, with commas between";
        assert_eq!(refusal, format!("`{ring}` does not work as the order of a ring: {right}"));
    }
}

#[test]
fn the_id_list_takes_2n_messages_for_one_starter_and_n_times_that_if_all_start() {
    for n in SIZES {
        for (variant, each, time) in [("", 2 * n, 2 * n), ("lowest", 2 * n, 2 * n), ("multicast", 2 * n - 1, n + 1)] {
            for (load, starters) in [(Load::Solo, 1), (Load::SoloRandom, 1), (Load::All, n)] {
                let report = election(&with_load(options("ring-list", variant, n), load));
                let leader = if variant == "lowest" { 0 } else { n - 1 };
                assert_eq!((report.leader, report.messages), (Some(leader), (starters * each) as u64), "{n} {variant}");
                assert_eq!(report.time, Some(time as f64), "n = {n} {variant}");
                assert!(report.broken_promises.is_empty());
            }
        }
    }
}

#[test]
fn rings_elect_the_best_through_crashes() {
    for (algorithm, variant) in RINGS {
        for (n, delay) in [2, 3, 5, 8].into_iter().flat_map(|n| DELAYS.map(|delay| (n, delay))) {
            let options = with_delay(options(algorithm, variant, n), delay);
            all_hold(&options, 0..50, |seed| swarm(seed, n, n - 1, Fate::Crash));
        }
    }
}

/// Chang-Roberts promises this. The ring with an id list does not: without a bound on delays, a recovered process may
/// never learn of the leader.
#[test]
fn rings_take_in_those_who_come_back() {
    for (algorithm, variant) in RINGS {
        let promised = algorithm == "chang-roberts";
        let delays = if promised { &DELAYS[..] } else { &DELAYS[..2] };
        for (n, &delay) in [2, 3, 5, 8].into_iter().flat_map(|n| delays.iter().map(move |delay| (n, delay))) {
            let options = with_delay(options(algorithm, variant, n), delay);
            let options = Options { ignore_assumptions: !promised, ..options };
            all_hold(&options, 0..50, |seed| swarm(seed, n, n - 1, Fate::Recover));
        }
    }
}

#[test]
fn behind_a_guard_who_recovers_must_remember_what_it_gave() {
    let forgets =
        with_faults(options("chang-roberts", "quorum", 3), &["crash 1 @ 30", "recover 1 @ 60 without-memory"]);
    let refusal = run(&forgets, None).unwrap_err().to_string();
    assert!(refusal.contains("no judge forgets which terms it gave, and P1 would"), "{refusal}");
    for variant in ["quorum", "witness"] {
        let remembers = with_faults(options("chang-roberts", variant, 3), &["crash 2 @ 30", "recover 2 @ 60"]);
        let report = election(&remembers);
        assert!(report.broken_promises.is_empty() && report.rivals == 0.0, "{variant}: {:?}", report.properties);
    }
}

#[test]
fn an_election_whose_starter_died_does_not_circle_for_ever() {
    for (algorithm, variant) in RINGS {
        // P4 is the highest. Its election is half way round when P4 crashes, and the run still ends.
        let faults = with_faults(options(algorithm, variant, 5), &["crash 4 @ 2.5"]);
        let report = election(&Options { events_max: 10_000, ..faults });
        assert!(report.broken_promises.is_empty(), "{algorithm} {variant}: {:?}", report.properties);
        assert_eq!(report.leader, Some(if variant == "lowest" { 0 } else { 3 }));
    }
}

#[test]
fn the_crash_of_the_winner_during_the_election_leads_to_another() {
    for (algorithm, variant) in RINGS {
        for tenth in 0..120 {
            let crash = format!("crash 4 @ {}", f64::from(tenth) / 10.0);
            let report = election(&with_faults(options(algorithm, variant, 5), &[&crash]));
            assert!(report.broken_promises.is_empty(), "{algorithm} {variant}, {crash}: {:?}", report.properties);
        }
    }
}

#[test]
fn bully_takes_n_minus_1_messages_and_3t_if_the_runner_up_notices() {
    for n in SIZES {
        let mut options = with_load(options("bully", "", n), Load::SoloRandom);
        let mut by_runner_up = (0..1_000).filter_map(|seed| {
            options.seed = seed;
            Some(election(&options)).filter(|report| report.noticed == [n - 2])
        });
        let report = by_runner_up.next().unwrap();
        // With two processes, no other process is left to receive the result.
        let time = if n == 2 { 2.0 } else { 3.0 };
        assert_eq!((report.messages, report.time), (n as u64 - 1, Some(time)), "n = {n}");
    }
}

#[test]
fn bully_takes_n_squared_minus_n_minus_1_messages_if_the_lowest_notices_or_all_do() {
    for n in SIZES.into_iter().filter(|&n| n > 2) {
        for (load, time) in [(Load::Solo, 4.0), (Load::All, 3.0)] {
            let report = election(&with_load(options("bully", "", n), load));
            assert_eq!((report.messages, report.time), ((n * n - n - 1) as u64, Some(time)), "n = {n}");
        }
    }
}

#[test]
fn bully_elects_the_highest_through_crashes_on_a_synchronous_network() {
    for (n, delay) in [2, 3, 5, 8].into_iter().flat_map(|n| [DELAYS[0], DELAYS[1]].map(|delay| (n, delay))) {
        let options = with_delay(options("bully", "", n), delay);
        all_hold(&options, 0..50, |seed| swarm(seed, n, n - 1, Fate::Crash));
    }
}

/// "Too tight a deadline, reused ids or an asynchronous network break SAFE."
#[test]
fn bully_breaks_in_the_three_ways_that_are_known() {
    let mut tight = with_load(options("bully", "", 5), Load::Solo);
    tight.params.delay_max = ticks(0.4);
    let refusal = run(&tight, None).unwrap_err().to_string();
    assert!(refusal.starts_with("`bully` assumes a known bound on delays, and a message may take 1 T"), "{refusal}");
    tight.ignore_assumptions = true;
    let reused = with_faults(options("bully", "", 5), &["crash 4 @ 1", "recover 4 @ 20 without-memory"]);
    let reused = Options { ignore_assumptions: true, ..reused };
    let mut asynchronous = with_delay(options("bully", "", 5), Delay::Pareto(1.0, 1.5));
    asynchronous.ignore_assumptions = true;
    let drifting = Options { drift: 0.05, ignore_assumptions: true, ..options("bully", "", 5) };
    let breaks = |options: &Options| {
        (1..200).any(|seed| {
            let report = election(&Options { seed, ..options.clone() });
            report.properties.safety.verdict == Verdict::Violated
        })
    };
    assert!(breaks(&tight) && breaks(&reused) && breaks(&asynchronous));
    assert!(breaks(&drifting), "and in a fourth one");
}

/// "Synchronous: delay bounded by a known D, drift bounded": the deadlines of bully leave no room for drift, so any
/// drift is refused.
#[test]
fn clocks_that_drift_are_refused_where_timing_matters_and_only_there() {
    let refusal = run(&Options { drift: 0.01, ..options("bully", "", 5) }, None).unwrap_err().to_string();
    assert!(refusal.starts_with("`bully` assumes clocks that keep time, and these drift by up to 0.01"), "{refusal}");
    for algorithm in ["chang-roberts", "ring-list"] {
        let drifting = Options { drift: 0.5, ..options(algorithm, "", 5) };
        assert!(election(&drifting).broken_promises.is_empty());
    }
}

#[test]
fn an_id_that_is_used_again_is_refused_unless_asked_for() {
    let refused = with_faults(options("bully", "", 5), &["crash 4 @ 1", "recover 4 @ 20"]);
    let refusal = run(&refused, None).unwrap_err().to_string();
    assert!(refusal.starts_with("`bully` assumes that no id is used again after a crash, and P4 would"), "{refusal}");
}

/// The guard costs 3(n-1) messages with a majority and n+1 with a witness. ASK and LEADS messages to crashed processes
/// count.
#[test]
fn guards_cost_what_they_should() {
    for n in SIZES {
        let members = n as u64 - 1;
        for (algorithm, free) in [("chang-roberts", 3 * n - 1), ("ring-list", 2 * n)] {
            for (variant, guard) in [("quorum", 3 * members), ("witness", members + 2)] {
                let report = election(&with_load(options(algorithm, variant, n), Load::Solo));
                assert_eq!(report.messages, free as u64 + guard, "{algorithm} {variant}, n = {n}");
                assert_eq!((report.leader, report.term), (Some(n - 1), Some(1)));
            }
        }
    }
    for (variant, guard) in [("quorum", 11), ("witness", 6)] {
        let report = election(&with_load(options("bully", variant, 5), Load::Solo));
        assert_eq!((report.messages, report.term), (19 + guard, Some(2)));
    }
}

/// P0, P1 and P2 are cut off from P3 and P4 for 60 T.
fn split(algorithm: &str, variant: &str) -> Options {
    // The witness, if there is one, is P5. It is on the side of the majority.
    let side = if variant.contains("witness") { "0,1,2,5" } else { "0,1,2" };
    with_faults(options(algorithm, variant, 5), &[&format!("partition {side}|3,4 @ 30 for 60")])
}

#[test]
fn without_a_guard_a_partition_has_two_leaders() {
    for (algorithm, variant) in [("bully", ""), ("chang-roberts", ""), ("ring-list", ""), ("ring-list", "lowest")] {
        let report = election(&Options { ignore_assumptions: true, ..split(algorithm, variant) });
        assert_eq!(report.properties.safety.verdict, Verdict::Violated, "{algorithm} {variant}");
        assert!(report.rivals > 50.0, "{algorithm} {variant}: two led for {} T", report.rivals);
        assert_eq!(report.properties.liveness.verdict, Verdict::Held, "{algorithm} {variant}");
    }
}

#[test]
fn behind_a_guard_a_partition_has_one_leader_at_a_time() {
    for (algorithm, variant) in GUARDED {
        let report = election(&split(algorithm, variant));
        assert!(report.broken_promises.is_empty(), "{algorithm} {variant}: {:?}", report.properties);
        // When the partition begins, the detectors of both sides report at the same time, and an election takes longer
        // than stepping down. When it ends, the better process gets a new term only after the current leader has
        // resigned.
        assert_eq!(report.rivals, 0.0, "{algorithm} {variant}");
        assert!(report.term > Some(1), "{algorithm} {variant}: {:?}", report.term);
    }
}

/// The process behind the cut link hears nothing, and the sender does not know. Agreement is not promised then: during
/// an election Chang-Roberts can lose a message on the link and never repeat it. Here a leader exists, and the group
/// recovers.
#[test]
fn behind_a_guard_all_agree_again_after_a_link_was_cut_one_way() {
    for (algorithm, variant) in GUARDED {
        let last = if variant.contains("witness") { 3 } else { 2 };
        let links = (0..=last).flat_map(|from| (0..=last).map(move |to| (from, to)));
        for (from, to) in links.filter(|(from, to)| from != to) {
            let cut = format!("oneway {from}->{to} @ 30 for 50");
            let options = with_faults(options(algorithm, variant, 3), &[&cut]);
            assert!(run(&options, None).unwrap_err().to_string().contains("cut both ways"));
            let report = election(&Options { ignore_assumptions: true, ..options });
            assert!(report.broken_promises.is_empty(), "{algorithm} {variant}, {cut}: {:?}", report.properties);
            // A process that does not hear the leader may try to replace it, but the judges still hear the leader.
            assert_eq!(report.rivals, 0.0, "{algorithm} {variant}, {cut}");
        }
    }
}

/// "A second channel (a witness such as a shared disk)": both sides reach the witness, and it hears that the leader is
/// up.
#[test]
fn a_witness_that_both_sides_reach_lets_the_leader_in_office_lead_on() {
    for (algorithm, variant) in GUARDED.into_iter().filter(|(_, variant)| variant.contains("witness")) {
        let cut = with_faults(options(algorithm, variant, 5), &["partition 0,1|2,3,4 @ 60 for 200"]);
        let report = election(&cut);
        assert!(report.broken_promises.is_empty(), "{algorithm} {variant}: {:?}", report.properties);
        assert_eq!((report.leader, report.term, report.rivals), (Some(4), Some(1), 0.0), "{algorithm} {variant}");
        // When the leader crashes, the witness gives the lead to another process, and in the end to the best.
        let crash = with_faults(cut, &["partition 0,1|2,3,4 @ 60 for 200", "crash 4 @ 100"]);
        let report = election(&crash);
        assert!(report.broken_promises.is_empty(), "{algorithm} {variant}: {:?}", report.properties);
        assert_eq!((report.leader, report.rivals), (Some(3), 0.0), "{algorithm} {variant}");
    }
}

/// Partitions of the group of n, and of its witness if it has one, at random and several times. All heal in the end.
/// Some processes may reach both sides.
fn cuts(seed: u64, processes: usize) -> Vec<Fault> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut at = 0.0;
    let mut faults = Vec::new();
    for _ in 0..rng.usize(1..5) {
        at += rng.f64() * 30.0;
        let mut ids: Vec<ProcessId> = (0..processes).collect();
        rng.shuffle(&mut ids);
        let mut right = ids.split_off(rng.usize(1..processes));
        if rng.bool() {
            right.truncate(rng.usize(1..=right.len()));
        }
        let lasts = Some(ticks(rng.f64() * 40.0));
        faults.push(Fault { at: ticks(at), kind: FaultKind::Partition { groups: vec![ids, right], lasts } });
    }
    faults
}

#[test]
fn behind_a_guard_at_most_one_leads_whatever_is_cut_and_all_agree_in_the_end() {
    for (algorithm, variant) in GUARDED {
        for n in [2, 3, 5] {
            let processes = n + usize::from(variant.contains("witness"));
            for delay in [DELAYS[0], DELAYS[1]] {
                let options = with_delay(options(algorithm, variant, n), delay);
                let rivals = |seed| {
                    let faults = cuts(seed, processes);
                    election(&Options { faults, seed, ..options.clone() }).rivals
                };
                let rivalled: Vec<(u64, f64)> =
                    (0..40).map(|seed| (seed, rivals(seed))).filter(|(_, rivals)| *rivals > 0.0).collect();
                assert_eq!(rivalled, [], "{algorithm} {variant}, n = {n}, {delay}");
                all_hold(&options, 0..40, |seed| cuts(seed, processes));
            }
        }
    }
}

#[test]
fn a_minority_has_no_leader_while_it_is_cut_off() {
    // P4 was the leader. It steps down when its detector leaves it with one other process out of five.
    for algorithm in ["bully", "chang-roberts", "ring-list"] {
        let cut_for_good = with_faults(options(algorithm, "quorum", 5), &["partition 0,1,2|3,4 @ 30"]);
        let report = election(&cut_for_good);
        assert_eq!(report.properties.safety.verdict, Verdict::Held);
        assert_eq!(report.properties.liveness.verdict, Verdict::Unchecked);
        // In parts without a majority no process leads, so there are no two leaders.
        let nobody = with_faults(options(algorithm, "quorum", 4), &["partition 0,1|2,3 @ 30"]);
        assert_eq!(election(&nobody).rivals, 0.0);
    }
}

#[test]
fn central_elected_takes_3_messages_and_none_for_the_coordinator() {
    for n in SIZES {
        for load in [Load::Solo, Load::All] {
            let report = mutex(&with_load(options("central-elected", "", n), load));
            let expected = 3.0 * (n as f64 - 1.0) / n as f64;
            assert!((report.messages_per_entry.unwrap() - expected).abs() < 1e-9, "n = {n}, {load:?}");
            assert!(report.broken_promises.is_empty());
        }
        // With a think time, no RELEASE is on its way when the coordinator itself requests.
        let mut thinking = with_load(options("central-elected", "", n), Load::Solo);
        thinking.workload.think = 2.0;
        let solo = mutex(&thinking).client_delay.unwrap();
        assert!((solo.mean - 2.0 * (n as f64 - 1.0) / n as f64).abs() < 1e-5, "{solo:?}");
    }
}

#[test]
fn central_elected_goes_on_through_crashes() {
    for (n, delay) in [2, 3, 5].into_iter().flat_map(|n| DELAYS.map(|delay| (n, delay))) {
        for load in [Load::All, Load::Random] {
            let mut options = with_load(with_delay(options("central-elected", "", n), delay), load);
            options.workload.entries = 12 * n as u64;
            options.workload.think = if load == Load::Random { 5.0 } else { 0.0 };
            options.workload.app_messages = load == Load::Random;
            all_hold(&options, 0..60, |seed| swarm(seed, n, n - 1, Fate::Crash));
        }
    }
}

/// Not promised: if all processes that know the latest epoch crash before the recovered process learns of it, fences
/// start again.
#[test]
fn central_elected_takes_in_those_who_come_back_while_another_lives_who_knows() {
    for (n, delay) in [3, 5].into_iter().flat_map(|n| [DELAYS[0], DELAYS[1]].map(|delay| (n, delay))) {
        let mut options = with_delay(options("central-elected", "", n), delay);
        options.workload.entries = 30 * n as u64;
        options.ignore_assumptions = true;
        all_hold(&options, 0..50, |seed| swarm(seed, n, 1, Fate::Recover));
    }
}

#[test]
fn central_elected_replaces_its_coordinator_and_its_fences_go_on() {
    let at_work = with_faults(options("central-elected", "", 5), &["crash 4 @ 20.5", "crash 3 @ 40.5"]);
    let report = mutex(&at_work);
    assert!(report.broken_promises.is_empty(), "{:?}", report.properties);
    assert!(report.messages_by_kind["INQUIRE"] >= 5, "{:?}", report.messages_by_kind);
    // No client waits longer than detection, election, inquiry and the queue together take.
    assert!(report.client_delay.unwrap().max < (T as f64) && report.entries >= 60);
}
