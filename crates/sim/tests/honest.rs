//! The report of a run says no more than the run has shown, and hides nothing that happened in it.

use baton_protocol::registry::{ALGORITHMS, Family};
use baton_sim::app::mutex::Load;
use baton_sim::oracle::Verdict;
use baton_sim::report::{ElectionReport, MutexReport, Report, Side};
use baton_sim::run::{Options, run};
use baton_sim::spec::Spec;

fn spec(algorithm: &str, n: usize, faults: &[&str]) -> Spec {
    let faults = faults.iter().map(|fault| (*fault).to_owned()).collect();
    Spec { algorithm: algorithm.into(), n: Some(n), faults, ..Spec::default() }
}

fn played(spec: &Spec) -> Report {
    run(&spec.options().unwrap(), None).unwrap()
}

fn mutex(spec: &Spec) -> MutexReport {
    match played(spec) {
        Report::Mutex(report) => *report,
        other => panic!("{other:?}"),
    }
}

fn election(spec: &Spec) -> ElectionReport {
    match played(spec) {
        Report::Election(report) => *report,
        other => panic!("{other:?}"),
    }
}

/// ORDER is about requests that know of each other. Only application messages, or a promise, say more than "not tested".
#[test]
fn order_that_is_not_promised_is_not_tested_without_application_messages() {
    let mut untested = 0;
    for about in ALGORITHMS.iter().filter(|about| about.family == Family::Mutex && about.broken.is_none()) {
        let order = mutex(&spec(about.name, 5, &[])).properties.0.order;
        let name = about.name;
        if about.promises.order {
            assert_eq!(order.verdict, Verdict::Held, "{name}");
            continue;
        }
        if order.verdict == Verdict::Violated {
            continue;
        }
        untested += 1;
        let size = if name == "carvalho-roucairol" { "-n 2 --entries 2" } else { "-n 3" };
        let told = format!(
            "`baton check {name} {size} --property order` tests it; here no application message tells of a request"
        );
        assert_eq!((order.verdict, order.detail), (Verdict::Untested, Some(told)));
    }
    assert!(untested > 5, "only {untested}");
    let told = Spec {
        app_messages: true,
        load: Some(Load::Random),
        think: Some(3.0),
        delay: Some("uniform:0.1,3".into()),
        ..spec("central", 5, &[])
    };
    assert_eq!(mutex(&told).properties.order.verdict, Verdict::Violated, "with application messages it shows");
    let chain = Spec { variant: Some("k-ary:3".into()), ..spec("raymond", 5, &[]) };
    let order = mutex(&chain).properties.0.order.detail.unwrap();
    let command = "`baton sim raymond -n 5 --variant k-ary:3 --app-messages --network async`";
    assert!(order.starts_with(&format!("{command} tests it; here ")), "{order}");
}

#[test]
fn one_request_at_a_time_tests_no_property_that_is_not_promised() {
    let order = mutex(&Spec { load: Some(Load::Solo), ..spec("central", 3, &[]) }).properties.0.order;
    let told = "`baton check central -n 3 --property order` tests it; here no two processes wait at the same time";
    assert_eq!((order.verdict, order.detail.as_deref()), (Verdict::Untested, Some(told)));
    // A holder that is paused past the end of its lease may not be alone.
    let lease = Spec { variant: Some("lease:5".into()), ..spec("central", 3, &["pause 0 @ 4 for 50"]) };
    let safety = mutex(&Spec { load: Some(Load::Solo), ..lease.clone() }).properties.0.safety;
    let told = "no two requests are open at the same time";
    assert_eq!((safety.verdict, safety.detail.as_deref()), (Verdict::Untested, Some(told)));
    assert_ne!(mutex(&lease).properties.safety.verdict, Verdict::Untested);
}

/// The majority has a leader, although the live processes do not all agree.
#[test]
fn each_side_of_a_partition_has_its_own_leader() {
    let cut = spec("bully", 5, &["partition 0,1,2|3,4 @ 30"]);
    let report = election(&Spec { variant: Some("quorum".into()), ..cut.clone() });
    assert_eq!(report.leader, None);
    let [majority, minority] = report.sides.as_slice() else { panic!("{:?}", report.sides) };
    assert_eq!((&majority.processes[..], majority.leader), (&[0, 1, 2][..], Some(2)));
    assert!(majority.term.is_some());
    assert_eq!(*minority, Side { processes: vec![3, 4], leader: None, term: None, time: None });

    let split = election(&Spec { ignore_assumptions: true, ..cut });
    let leaders: Vec<Option<usize>> = split.sides.iter().map(|side| side.leader).collect();
    assert_eq!(leaders, [Some(2), Some(4)]);
}

#[test]
fn a_partition_that_has_healed_has_no_sides_and_a_process_on_no_side_is_on_all() {
    let healed = spec("bully", 5, &["partition 0,1,2|3,4 @ 30 for 60"]);
    let healed = election(&Spec { variant: Some("quorum".into()), ..healed });
    assert_eq!((healed.sides, healed.leader), (vec![], Some(4)));
    let bridged = Spec { ignore_assumptions: true, ..spec("bully", 5, &["partition 0,1|3,4 @ 30"]) };
    let sides: Vec<Vec<usize>> = election(&bridged).sides.into_iter().map(|side| side.processes).collect();
    assert_eq!(sides, [vec![0, 1, 2], vec![2, 3, 4]]);
}

#[test]
fn the_kinds_of_messages_add_up_to_the_messages() {
    for about in ALGORITHMS.iter().filter(|about| about.family == Family::Election) {
        for faults in [&[][..], &["partition 0,1,2|3,4 @ 30 for 60"]] {
            let report = election(&Spec { ignore_assumptions: true, ..spec(about.name, 5, faults) });
            assert_eq!(report.messages_by_kind.values().sum::<u64>(), report.messages, "{} {faults:?}", about.name);
            assert!(report.messages_in_all >= report.messages);
        }
    }
    let before = election(&spec("bully", 5, &["crash 4 @ 30"]));
    assert!(before.messages_in_all > before.messages, "the first announcement came before the crash");
}

/// A process that waits in the warm-up for a million T is in no average, and still shows.
#[test]
fn the_warm_up_hides_no_extreme() {
    let report = mutex(&spec("central", 5, &["pause 2 @ 4 for 1000000"]));
    assert!(report.client_delay.unwrap().max < 100.0);
    assert!(report.client_delay_max.unwrap() > 999_000.0);
    assert!(report.sync_delay_max.unwrap() > 999_000.0);
    assert!(report.time > 999_000.0);
}

#[test]
fn a_run_that_got_stuck_has_no_costs_per_entry_and_delays_of_all_its_entries() {
    let report = mutex(&Spec { ignore_assumptions: true, ..spec("central", 3, &["crash 3 @ 60"]) });
    assert!(report.entries > 9 && report.entries < 60, "{report:?}");
    assert_eq!((report.measured_entries, report.messages_per_entry), (report.entries, None));
    assert_eq!((report.bytes_per_entry, report.exit_messages, report.multicasts_per_entry), (None, None, None));
    assert_eq!(report.client_delay.unwrap().max, report.client_delay_max.unwrap());
    let report = mutex(&spec("maekawa-no-inquire", 9, &[]));
    assert_eq!((report.entries, report.messages_per_entry_max, report.bypass), (0, None, None));
}

/// The messages of Raymond's and of Naimi and Trehel's algorithms do not name their request.
#[test]
fn the_dearest_entry_is_known_if_its_messages_name_it_or_if_only_one_client_requests_at_a_time() {
    let most = |algorithm: &str, variant: Option<&str>, load: Load| {
        let variant = variant.map(str::to_owned);
        mutex(&Spec { variant, load: Some(load), ..spec(algorithm, 5, &[]) }).messages_per_entry_max
    };
    assert_eq!(most("raymond", Some("chain"), Load::SoloRandom), Some(8), "2(n-1)");
    assert_eq!(most("naimi-trehel", None, Load::Solo), Some(5), "n");
    assert_eq!(most("central", None, Load::Solo), Some(3));
    assert_eq!(most("raymond", Some("chain"), Load::All), None);
    assert_eq!(most("maekawa", None, Load::Solo), most("maekawa", None, Load::SoloRandom));
}

/// "Any crash stops Ricart-Agrawala, Lamport, the token ring": without a detector. With one, the others go on.
#[test]
fn without_a_detector_any_crash_stops_the_algorithms_that_need_one() {
    for algorithm in ["ricart-agrawala", "lamport", "token-ring"] {
        for process in 0..4 {
            let crash = format!("crash {process} @ 20");
            let crashed = spec(algorithm, 4, &[&crash]);
            assert!(mutex(&crashed).broken_promises.is_empty(), "{algorithm}: {crash}");
            let alone = Spec { no_detector: true, ignore_assumptions: true, ..crashed.clone() };
            let report = mutex(&alone);
            assert_eq!(report.broken_promises, ["liveness"], "{algorithm}: {crash}");
            let detail = report.properties.0.liveness.detail.unwrap();
            let others = (0..4).filter(|other| *other != process).all(|other| detail.contains(&format!("P{other}")));
            assert!(others && detail.contains("nothing can happen any more"), "{algorithm}: {detail}");
            let refused = Spec { no_detector: true, ..crashed }.options().and_then(|options| run(&options, None));
            assert_eq!(
                refused.unwrap_err().to_string(),
                format!(
                    "`{algorithm}` assumes that a failure detector reports every crash, and there is none; \
                     --ignore-assumptions runs it all the same"
                )
            );
        }
    }
}

#[test]
fn without_a_detector_no_process_replaces_a_dead_leader() {
    let dead = Spec { no_detector: true, ignore_assumptions: true, ..spec("ring-list", 4, &["crash 3 @ 30"]) };
    let report = election(&dead);
    assert_eq!(report.broken_promises, ["liveness"]);
    let detail = report.properties.0.liveness.detail.unwrap();
    assert!(detail.ends_with(": P0 still follows P3, which is dead"), "{detail}");
    let detector = Spec { no_detector: true, ..spec("heartbeat", 3, &[]) };
    assert!(detector.options().unwrap_err().to_string().starts_with("--no-detector means nothing for `heartbeat`"));
}

/// Majority voting needs no detector: a minority of coordinators may crash unnoticed.
#[test]
fn what_needs_no_detector_goes_on_without_one() {
    let unnoticed = Spec { no_detector: true, ..spec("voting", 3, &["crash 3 @ 10"]) };
    assert!(mutex(&Spec { coordinators: Some(5), ..unnoticed }).broken_promises.is_empty());
    let drawn = Spec { no_detector: true, ..spec("ricart-agrawala", 4, &["random"]) };
    for seed in 1..=30 {
        let report = mutex(&Spec { seed: Some(seed), ..drawn.clone() });
        assert!(report.broken_promises.is_empty(), "seed {seed}: {:?}", report.drawn);
    }
}

/// What `random` drew is in the report, in the form in which users write it: written out, it gives the same run.
#[test]
fn the_drawn_faults_written_out_give_the_same_run() {
    let mut written = 0;
    for (algorithm, seed) in ["central", "ricart-agrawala", "voting", "bully"]
        .into_iter()
        .flat_map(|name| (1..=20).map(move |seed| (name, seed)))
    {
        let random = Spec { seed: Some(seed), ..spec(algorithm, 4, &["random"]) };
        let report = played(&random);
        let drawn = report.drawn().unwrap().clone();
        if drawn.faults.is_empty() && algorithm == "bully" {
            continue;
        }
        written += drawn.faults.len();
        let same = Spec {
            faults: drawn.faults,
            loss: drawn.loss.unwrap_or_default(),
            duplicate: drawn.duplicate.unwrap_or_default(),
            drift: drawn.drift.unwrap_or_default(),
            ..random
        };
        let comparable = |report: &Report| {
            let mut value = serde_json::to_value(report).unwrap();
            let fields = value.as_object_mut().unwrap();
            fields.remove("drawn");
            fields.remove("events_per_s");
            value
        };
        assert_eq!(comparable(&played(&same)), comparable(&report), "{algorithm}, seed {seed}");
    }
    assert!(written > 30, "only {written} faults were drawn");
    assert!(run(&Options::new("central", 3), None).unwrap().drawn().is_none());
}
