//! The first protocols: measured against closed forms, and judged over many seeds.

use baton_protocol::ProcessId;
use baton_sim::app::mutex::Load;
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{ElectionReport, MutexReport, Report};
use baton_sim::run::{Options, run};

const SIZES: [usize; 5] = [2, 3, 5, 8, 17];

fn mutex(options: &Options) -> MutexReport {
    match run(options, None) {
        Ok(Report::Mutex(report)) => *report,
        other => panic!("{options:?} gave {other:?}"),
    }
}

fn election(options: &Options) -> ElectionReport {
    match run(options, None) {
        Ok(Report::Election(report)) => *report,
        other => panic!("{options:?} gave {other:?}"),
    }
}

fn measured(algorithm: &str, n: usize, load: Load) -> MutexReport {
    let mut options = Options::new(algorithm, n);
    options.workload.load = load;
    mutex(&options)
}

/// Asserts exact messages per entry and client delay; the synchronization delay under the load `all` only.
fn exactly(algorithm: &str, messages: fn(f64) -> f64, solo_client_delay: f64, sync_delay: f64) {
    for n in SIZES {
        let solo = measured(algorithm, n, Load::Solo);
        assert_eq!(solo.messages_per_entry, Some(messages(n as f64)), "{algorithm}, solo, n = {n}");
        let delay = solo.client_delay.unwrap();
        assert_eq!((delay.mean, delay.max), (solo_client_delay, solo_client_delay), "{algorithm}, solo, n = {n}");
        let all = measured(algorithm, n, Load::All);
        assert_eq!(all.messages_per_entry, Some(messages(n as f64)), "{algorithm}, all, n = {n}");
        assert_eq!(all.sync_delay.unwrap().mean, sync_delay, "{algorithm}, all, n = {n}");
        // Client delay in a fair closed loop: n (E + S) - E.
        let closed_loop = n as f64 * (1.0 + sync_delay) - 1.0;
        assert_eq!(all.client_delay.unwrap().mean, closed_loop, "{algorithm}, all, n = {n}");
    }
}

#[test]
fn central_takes_3_messages_2_delays_and_2_delays_to_hand_over() {
    exactly("central", |_| 3.0, 2.0, 2.0);
}

#[test]
fn ricart_agrawala_takes_twice_the_others() {
    exactly("ricart-agrawala", |n| 2.0 * (n - 1.0), 2.0, 1.0);
}

#[test]
fn suzuki_kasami_takes_n_messages_and_none_where_the_token_is() {
    exactly("suzuki-kasami", |n| n, 2.0, 1.0);
    let mut options = Options::new("suzuki-kasami", 5);
    options.workload.entries = 1;
    assert_eq!(mutex(&options).messages, 0, "P0 has the token from the start");
}

#[test]
fn voting_alone_takes_three_messages_a_vote() {
    for (n, coordinators, votes) in [(2, 2, 2), (3, 3, 2), (5, 5, 3), (5, 8, 5), (4, 8, 6)] {
        let mut options = Options::new("voting", n);
        options.workload.load = Load::Solo;
        options.params.coordinators = Some(coordinators);
        options.params.votes = Some(votes);
        let report = mutex(&options);
        assert_eq!(report.messages_per_entry, Some(3.0 * votes as f64));
        assert_eq!(report.client_delay.unwrap().max, 2.0);
        options.params.variant = Some("ask-all".into());
        assert_eq!(mutex(&options).messages_per_entry, Some(3.0 * coordinators as f64));
    }
}

#[test]
fn a_stored_fence_takes_two_messages_a_vote_and_two_delays_more() {
    for (n, coordinators, votes) in [(2, 2, 2), (3, 3, 2), (5, 5, 3), (5, 8, 5), (4, 8, 6)] {
        let mut options = Options::new("voting", n);
        options.workload.load = Load::Solo;
        options.params.coordinators = Some(coordinators);
        options.params.votes = Some(votes);
        for (variant, asked) in [("stored-fence", votes), ("ask-all+stored-fence", coordinators)] {
            options.params.variant = Some(variant.into());
            let report = mutex(&options);
            assert_eq!(report.messages_per_entry, Some((3 * asked + 2 * votes) as f64), "{variant}");
            assert_eq!(report.client_delay.unwrap().max, 4.0, "{variant}");
        }
    }
}

#[test]
fn voting_under_contention_takes_2mk_plus_m_plus_the_votes_given_back() {
    let report = measured("voting", 5, Load::All);
    let count = |kind| report.messages_by_kind[kind];
    assert_eq!(count("REQUEST"), count("GRANT") + count("DENY"), "every request is answered");
    assert_eq!(count("RELEASE"), count("GRANT"), "every vote is given back");
    assert!(count("DENY") > 0);
}

#[test]
fn promises_hold_on_asynchronous_networks() {
    for algorithm in ["central", "ricart-agrawala", "suzuki-kasami", "voting"] {
        for seed in 0..100 {
            for load in [Load::All, Load::Random] {
                let n = 2 + seed as usize % 4;
                let mut options = Options::new(algorithm, n);
                options.network.delay = Delay::Pareto(1.0, 1.5);
                options.params.delay_max = options.network.delay.guess();
                options.workload.load = load;
                options.workload.think = if load == Load::Random { 5.0 } else { 0.0 };
                options.workload.app_messages = true;
                options.seed = seed;
                let report = mutex(&options);
                assert!(report.broken_promises.is_empty(), "{algorithm} {load:?} {seed}: {:?}", report.properties);
                assert_eq!(report.entries, 20 * n as u64);
            }
        }
    }
}

/// Number of seeds that show a violation.
fn seeds_that_violate(options: &Options, seeds: u64, verdict: impl Fn(&MutexReport) -> Verdict) -> usize {
    let violated = |seed| verdict(&mutex(&Options { seed, ..options.clone() })) == Verdict::Violated;
    (0..seeds).filter(|&seed| violated(seed)).count()
}

#[test]
fn central_is_not_in_order_and_ricart_agrawala_is() {
    let violations = |algorithm| {
        let mut options = Options::new(algorithm, 4);
        options.network.delay = Delay::Pareto(1.0, 1.5);
        options.workload.load = Load::Random;
        options.workload.think = 20.0;
        options.workload.app_messages = true;
        seeds_that_violate(&options, 50, |report| report.properties.order.verdict)
    };
    assert!(violations("central") > 0);
    assert_eq!(violations("ricart-agrawala"), 0);
}

#[test]
fn comparing_times_alone_is_unsafe() {
    let options = Options::new("ricart-agrawala-time-only", 2);
    let report = mutex(&options);
    assert_eq!(report.broken_promises, ["safety"]);
    let detail = report.properties.0.safety.detail.unwrap();
    assert_eq!(detail, "P1 and P0 are in the critical section at once, at 2 T");
}

#[test]
fn a_dead_coordinator_stalls_everybody() {
    let mut options = Options::new("central", 3);
    options.faults = vec!["crash 3 @ 10".parse().unwrap()];
    options.ignore_assumptions = true;
    let report = mutex(&options);
    assert_eq!(report.broken_promises, ["liveness"]);
    assert!(report.properties.0.liveness.detail.unwrap().ends_with("nothing can happen any more; P1, P2 wait, too"));
}

#[test]
fn a_paused_holder_only_delays_the_others() {
    for algorithm in ["central", "ricart-agrawala", "suzuki-kasami", "voting"] {
        let mut options = Options::new(algorithm, 3);
        options.faults = (0..3).map(|process| format!("pause {process} @ 60 for 50").parse().unwrap()).collect();
        let report = mutex(&options);
        assert!(report.broken_promises.is_empty(), "{algorithm}: {:?}", report.properties);
        assert_eq!(report.entries, 60);
        assert!(report.client_delay.unwrap().max >= 50.0, "{algorithm}");
    }
}

#[test]
fn voting_survives_a_minority_of_crashed_coordinators_and_no_more() {
    for seed in 0..20 {
        let mut options = Options::new("voting", 3);
        options.params.coordinators = Some(5);
        options.seed = seed;
        options.faults = ["crash 3 @ 10", "crash 4 @ 15", "recover 3 @ 60"].map(|fault| fault.parse().unwrap()).into();
        let report = mutex(&options);
        assert!(report.broken_promises.is_empty(), "{seed}: {:?}", report.properties);
        options.faults.push("crash 5 @ 70".parse().unwrap());
        options.faults.push("crash 6 @ 70".parse().unwrap());
        options.workload.entries = 1_000;
        options.events_max = 100_000;
        options.ignore_assumptions = true;
        assert_eq!(mutex(&options).broken_promises, ["liveness"], "{seed}");
    }
}

#[test]
fn forgetful_coordinators_make_voting_unsafe() {
    let mut options = Options::new("voting", 4);
    options.params.coordinators = Some(3);
    options.ignore_assumptions = true;
    // A coordinator that recovers loses the messages on their way to it. The crashes are frequent enough to strike
    // while a client is in the critical section, and rare enough to let clients enter.
    options.workload.hold = 8.0;
    for at in (0..200).step_by(5) {
        let coordinator: ProcessId = 4 + at % 3;
        options.faults.push(format!("crash {coordinator} @ {at}").parse().unwrap());
        options.faults.push(format!("recover {coordinator} @ {at}.5 without-memory").parse().unwrap());
    }
    assert!(seeds_that_violate(&options, 20, |report| report.properties.safety.verdict) > 0);
}

#[test]
fn bully_takes_n_squared_minus_n_minus_1_messages_if_the_lowest_or_all_notice() {
    for n in SIZES {
        for (load, time) in [(Load::Solo, 4.0), (Load::All, 3.0)] {
            let mut options = Options::new("bully", n);
            options.workload.load = load;
            let report = election(&options);
            assert_eq!(report.leader, Some(n - 2));
            assert_eq!(report.messages, (n * n - n - 1) as u64, "n = {n}");
            // With two processes the lowest process is also the highest live process, and no process answers it.
            let (time, messages_last) = if n == 2 { (2.0, 1) } else { (time, report.messages) };
            assert_eq!((report.time, report.messages), (Some(time), messages_last), "n = {n}");
            assert!(report.broken_promises.is_empty());
        }
    }
}

#[test]
fn bully_follows_whoever_is_highest_through_crashes_and_recoveries() {
    for seed in 0..20 {
        let mut options = Options::new("bully", 5);
        options.network.delay = Delay::Uniform(0.1, 1.0);
        options.params.delay_max = options.network.delay.guess();
        options.seed = seed;
        options.faults = ["crash 4 @ 1", "crash 3 @ 2"].map(|fault| fault.parse().unwrap()).into();
        let report = election(&options);
        assert_eq!((report.leader, report.broken_promises.len()), (Some(2), 0), "{seed}: {:?}", report.properties);
        options.faults.push("recover 4 @ 40 without-memory".parse().unwrap());
        options.ignore_assumptions = true;
        assert_eq!(election(&options).leader, Some(4), "{seed}");
    }
}

#[test]
fn forgetful_coordinators_give_out_a_fence_twice() {
    let mut options = Options::new("voting", 4);
    options.params.coordinators = Some(3);
    options.workload.hold = 8.0;
    options.ignore_assumptions = true;
    options.faults = ["crash 4 @ 20", "recover 4 @ 20.5 without-memory"].map(|fault| fault.parse().unwrap()).into();
    assert!(seeds_that_violate(&options, 20, |report| report.properties.fence.verdict) > 0);
}
