//! What every run must do with every algorithm: be repeatable, obey the trace format, end.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_protocol::registry::{ALGORITHMS, Family};
use baton_sim::app::mutex::Load;
use baton_sim::faults::Fault;
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::progress::Watch;
use baton_sim::replay::replay;
use baton_sim::run::{Options, RunError, run};
use baton_trace::{Event, Header, Record};

#[derive(Clone, Default)]
struct Sink(Rc<RefCell<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn trace(options: &Options) -> Vec<u8> {
    let sink = Sink::default();
    run(options, Some(Box::new(sink.clone()))).unwrap();
    sink.0.take()
}

fn faults(texts: &[&str]) -> Vec<Fault> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Every algorithm on an asynchronous network, even if this breaks an assumption.
fn rough(algorithm: &str, seed: u64) -> Options {
    let mut options = Options::new(algorithm, 4);
    options.network.delay = Delay::Pareto(1.0, 1.5);
    options.network.duplicate = 0.05;
    options.network.loss = 0.01;
    options.params.delay_max = options.network.delay.guess();
    options.workload.load = Load::Random;
    options.workload.think = 10.0;
    options.workload.app_messages = true;
    options.ignore_assumptions = true;
    options.drift = 0.1;
    options.faults = faults(&[
        "crash 2 @ 30",
        "recover 2 @ 60",
        "pause 1 @ 20 for 15",
        "partition 0,1|2,3 @ 80 for 10",
        "oneway 0->1 @ 85 for 10",
    ]);
    options.events_max = 20_000;
    options.seed = seed;
    options
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    for about in ALGORITHMS {
        let first = trace(&rough(about.name, 7));
        assert_eq!(first, trace(&rough(about.name, 7)), "{}", about.name);
        assert_ne!(first, trace(&rough(about.name, 8)), "{}", about.name);
    }
}

#[test]
fn traces_keep_the_rules_that_readers_rely_on() {
    for about in ALGORITHMS {
        for seed in 0..10 {
            let bytes = trace(&rough(about.name, seed));
            let (header, records) = baton_trace::read(bytes.as_slice()).unwrap();
            assert_eq!(header.algorithm, about.name);
            obeys_the_format(&header, &records);
        }
    }
}

fn obeys_the_format(header: &Header, records: &[Record]) {
    let (mut sent, mut requested, mut inside) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
    let mut messages = 0;
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.seq, number as u64);
        assert!(number == 0 || record.t >= records[number - 1].t, "time goes on");
        assert!(record.p.is_none_or(|p| p < header.processes));
        match &record.event {
            Event::Send { msg, to, .. } => {
                assert_ne!(Some(*to), record.p, "no process sends to itself");
                assert!(sent.insert(*msg, *to).is_none(), "message ids are unique");
                messages += 1;
            }
            Event::AppSend { msg, to } => assert!(sent.insert(*msg, *to).is_none()),
            Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } | Event::Drop { msg, .. } => {
                assert_eq!(sent.get(msg).copied(), record.p, "every message that arrives was sent to this process");
            }
            Event::Request { req, .. } => assert!(requested.insert(*req)),
            Event::Enter { req, .. } => {
                assert!(requested.contains(req));
                assert!(inside.insert(*req, record.p).is_none(), "one entry a request");
            }
            Event::Exit { req } => assert_eq!(inside.get(req), Some(&record.p)),
            Event::Append { req } => assert!(requested.insert(*req)),
            Event::Appended { req, .. } => assert!(requested.remove(req), "one answer to an append"),
            Event::End { entries, messages: told, .. } => {
                assert_eq!(number + 1, records.len());
                assert_eq!((*entries, *told), (inside.len() as u64, messages));
            }
            _ => {}
        }
    }
    assert!(matches!(records.last().map(|record| &record.event), Some(Event::End { .. })));
}

#[test]
fn a_trace_can_be_repeated_step_by_step_with_the_same_violations() {
    for about in ALGORITHMS.iter().filter(|about| about.family != Family::Detector) {
        for seed in 0..10 {
            let (header, records) = baton_trace::read(trace(&rough(about.name, seed)).as_slice()).unwrap();
            let replayed = replay(&header, &records).unwrap_or_else(|error| panic!("{} {seed}: {error}", about.name));
            let mut traced: Vec<&str> = records.iter().filter_map(|record| violated(&record.event)).collect();
            let mut found: Vec<&str> = replayed.violations.iter().map(|(property, _)| *property).collect();
            // A replay judges liveness only at the end, and only if the trace contains a liveness violation.
            let stuck =
                |record: &Record| matches!(&record.event, Event::Violation { property, .. } if property == "liveness");
            assert_eq!(found.contains(&"liveness"), records.iter().any(stuck), "{} {seed}", about.name);
            found.retain(|property| *property != "liveness");
            if about.family == Family::Election {
                // The simulator reports the first time that two processes lead, a replay every time.
                found.dedup();
                traced.dedup();
            }
            assert_eq!(found, traced, "{} {seed}", about.name);
        }
    }
}

/// With pauses, cuts, losses, copies and clocks that drift; and with crashes one after the other.
#[test]
fn a_trace_of_detectors_is_repeated_with_their_clocks() {
    let (mut suspicions, mut mistaken) = (0, 0);
    for about in ALGORITHMS.iter().filter(|about| about.family == Family::Detector) {
        for seed in 0..10 {
            let short = |mut options: Options| {
                options.params.variant = Some("period:2".into());
                options
            };
            let mut quiet = Options { drift: 0.02, seed, ignore_assumptions: true, ..Options::new(about.name, 3) };
            quiet.workload.entries = 5;
            for options in [rough(about.name, seed), short(rough(about.name, seed)), quiet] {
                let (header, records) = baton_trace::read(trace(&options).as_slice()).unwrap();
                suspicions += records.iter().filter(|record| matches!(record.event, Event::Suspect { .. })).count();
                let replayed = replay(&header, &records).unwrap_or_else(|why| panic!("{} {seed}: {why}", about.name));
                let claimed = records.iter().filter_map(|record| match &record.event {
                    Event::Violation { property, detail } => Some((property.clone(), detail.clone())),
                    _ => None,
                });
                let found = replayed.violations.iter().map(|(property, detail)| (property.to_string(), detail.clone()));
                assert_eq!(found.collect::<Vec<_>>(), claimed.collect::<Vec<_>>(), "{} {seed}", about.name);
                mistaken += usize::from(!replayed.violations.is_empty());
            }
        }
    }
    assert!(suspicions > 100 && mistaken > 5, "too few suspicions or mistakes: {suspicions}, {mistaken}");
}

#[test]
fn a_trace_of_detectors_that_does_not_fit_is_refused() {
    let mut options = Options { drift: 0.02, ..Options::new("heartbeat", 3) };
    options.params.variant = Some("drift:2".into());
    options.workload.entries = 2;
    let (header, records) = baton_trace::read(trace(&options).as_slice()).unwrap();
    let place = |wanted: fn(&Event) -> bool| records.iter().position(|record| wanted(&record.event)).unwrap();
    let suspicion = place(|event| matches!(event, Event::Suspect { .. }));
    let refusal = |change: &dyn Fn(&mut Header, &mut Vec<Record>)| {
        let (mut header, mut records) = (header.clone(), records.clone());
        change(&mut header, &mut records);
        replay(&header, &records).unwrap_err().to_string()
    };
    let rates = |rates: Vec<f64>| {
        move |header: &mut Header, _: &mut Vec<Record>| header.network.clock_rates = Some(rates.clone())
    };
    let says = |refused: String, expected: &str| assert!(refused.ends_with(expected), "{refused}");
    says(refusal(&|_, records| _ = records.remove(suspicion)), "P1 first suspects P2");
    says(refusal(&|_, records| records[suspicion].t -= 0.1), "it is not overdue");
    says(refusal(&|_, records| _ = records.remove(place(|event| matches!(event, Event::Trust { .. })))), " again");
    says(
        refusal(&|_, records| _ = records.remove(place(|event| matches!(event, Event::Timer { .. })))),
        "did not happen",
    );
    says(refusal(&|_, records| _ = records.pop()), "its last one must be `end`");
    says(refusal(&rates(vec![1.0])), "but not a positive one for each of its 3 processes");
    says(refusal(&rates(vec![0.0, 1.0, 1.0])), "but not a positive one for each of its 3 processes");
    let slow = refusal(&rates(vec![0.5, 0.5, 0.5]));
    assert!(slow.contains("does not fit"), "{slow}");
    let absurd = refusal(&|_, records| records.iter_mut().skip(9).for_each(|record| record.t = 1e300));
    assert!(absurd.contains("does not fit"), "{absurd}");
    let real = refusal(&|header, _| header.unit = baton_trace::Unit::Seconds);
    says(real, "its processes use their own clocks, which are not in the trace");
}

/// A deadlock, a client that waits for ever while timers fire, a group without a leader, and a grant that comes too
/// late.
#[test]
fn who_waits_in_vain_does_so_in_a_replay_too() {
    let mut voteless = Options::new("voting", 3);
    voteless.faults = faults(&["crash 3 @ 10", "crash 4 @ 10"]);
    let mut leaderless = Options::new("bully", 3);
    leaderless.params.variant = Some("witness".into());
    leaderless.faults = faults(&["crash 3 @ 10"]);
    let mut impatient = Options::new("raymond-greedy", 3);
    impatient.patience = Some(3.0);
    let stuck = [Options::new("maekawa-no-inquire", 5), Options::new("permission-ring-original", 5)];
    for mut options in stuck.into_iter().chain([voteless, leaderless, impatient]) {
        options.ignore_assumptions = true;
        let broken = run(&options, None).unwrap();
        assert_eq!(broken.properties().liveness.verdict, Verdict::Violated, "{}", options.algorithm);
        let (header, records) = baton_trace::read(trace(&options).as_slice()).unwrap();
        let found = replay(&header, &records).unwrap().violations;
        assert!(found.iter().any(|(property, _)| *property == "liveness"), "{}: {found:?}", options.algorithm);
    }
}

/// The records that are left may be right, but they do not show how the run ended.
#[test]
fn a_trace_that_is_cut_off_is_refused() {
    let (header, records) = baton_trace::read(trace(&Options::new("maekawa-no-inquire", 5)).as_slice()).unwrap();
    let refusal = |records: &[Record]| replay(&header, records).unwrap_err().to_string();
    let left = records.len() - 1;
    let told = format!("the trace is cut off after {left} records; its last one must be `end`");
    assert_eq!(refusal(&records[..left]), told);
    assert!(refusal(&records[..0]).starts_with("the trace is cut off after 0 records"));
    // A killed process of a real group writes no last line.
    let real = Header { unit: baton_trace::Unit::Seconds, ..header.clone() };
    assert!(replay(&real, &records[..left]).is_ok());
}

/// The property of a violation, if a replay can see it step by step.
fn violated(event: &Event) -> Option<&str> {
    match event {
        Event::Violation { property, .. } if property != "liveness" => Some(property),
        _ => None,
    }
}

#[test]
fn a_trace_that_does_not_fit_is_refused_with_the_place() {
    let (header, records) = baton_trace::read(trace(&Options::new("central", 2)).as_slice()).unwrap();
    let refusal = |header: &Header, records: &[Record]| replay(header, records).unwrap_err().to_string();
    let place = records.iter().position(|record| matches!(record.event, Event::Enter { .. })).unwrap();
    let mut wrong = records.clone();
    wrong[place].event = Event::Enter { req: 0, fence: 99 };
    assert!(refusal(&header, &wrong).starts_with(&format!("record {place} does not fit: the trace says P0 ")));
    wrong[place].p = Some(77);
    assert!(refusal(&header, &wrong).contains("the processes say P0: Granted"));
    assert!(refusal(&header, &records[1..]).starts_with("record 1 does not fit"));
    let more = Header { processes: 9, ..header.clone() };
    assert_eq!(refusal(&more, &records), "the trace has 9 processes, and `central` with 2 clients has 3");
    let many = Header { clients: usize::MAX, ..header };
    assert!(refusal(&many, &records).contains("at most 1048576"));
}

/// If a trace claims FIFO links, its messages must keep their order. A message arrives only at its receiver.
#[test]
fn a_trace_of_messages_that_cannot_arrive_so_is_refused() {
    let mut options = Options::new("lamport", 3);
    (options.network.fifo, options.network.delay) = (false, "exp:1".parse().unwrap());
    options.ignore_assumptions = true;
    let (header, records) = baton_trace::read(trace(&options).as_slice()).unwrap();
    assert!(replay(&header, &records).is_ok());
    let refusal = |order: &str, records: &[Record]| {
        let network = serde_json::from_value(serde_json::json!({ "order": order })).unwrap();
        replay(&Header { network, ..header.clone() }, records).unwrap_err().to_string()
    };
    let overtakes = "the processes say that an earlier message on this link is still in flight";
    assert!(refusal("fifo", &records).ends_with(overtakes), "{}", refusal("fifo", &records));
    let wibble = "the trace says that the order of its network is `wibble`; there are fifo and unordered";
    assert_eq!(refusal("wibble", &records), wibble);
    let mut elsewhere = records.clone();
    let arrival = elsewhere.iter_mut().find(|record| matches!(record.event, Event::Deliver { .. })).unwrap();
    let to = arrival.p.unwrap();
    arrival.p = Some((to + 1) % 3);
    assert!(
        refusal("unordered", &elsewhere).ends_with(&format!("the processes say that the message was sent to P{to}"))
    );
}

#[test]
fn a_lamport_time_is_later_than_that_of_every_request_before_it() {
    // P0 requests, and its application message makes P1 request. The second request must have a later time.
    let mut options = Options::new("central", 2);
    options.workload.load = Load::Solo;
    options.workload.app_messages = true;
    options.workload.entries = 2;
    let (_, records) = baton_trace::read(trace(&options).as_slice()).unwrap();
    let times: Vec<u64> = records
        .iter()
        .filter_map(|record| match record.event {
            Event::Request { lamport, .. } => Some(lamport),
            _ => None,
        })
        .collect();
    assert_eq!(times.len(), 2);
    assert!(times[0] < times[1], "{times:?}");
}

/// The trigger of an election is the crash of the leader. Of two members one is left, which is no majority.
#[test]
fn where_the_occasion_itself_leaves_no_majority_a_leader_is_not_promised() {
    let mut options = Options::new("bully", 2);
    options.params.variant = Some("quorum".into());
    let report = run(&options, None).unwrap();
    assert_eq!(report.broken_promises(), [""; 0]);
    let liveness = &report.properties().liveness;
    let told = "it assumes that a majority of all members lives in the end, and the crash of the leader leaves 1 of 2";
    assert_eq!((liveness.verdict, liveness.detail.as_deref()), (Verdict::Unchecked, Some(told)));
    options.faults = faults(&["crash 1 @ 10"]);
    options.ignore_assumptions = true;
    assert_eq!(run(&options, None).unwrap().broken_promises(), ["liveness"]);
}

#[test]
fn who_comes_back_counts_among_the_living() {
    let mut options = Options::new("voting", 3);
    options.faults = faults(&["crash 3 @ 10", "crash 4 @ 10", "recover 4 @ 30"]);
    assert_eq!(run(&options, None).unwrap().broken_promises(), [""; 0]);
}

#[test]
fn what_is_cut_and_for_how_long_is_in_the_trace() {
    let mut options = Options::new("central", 3);
    options.ignore_assumptions = true;
    options.faults = faults(&["oneway 0->3 @ 2 for 4", "partition 0|1,2 @ 4 for 1", "partition 0|2 @ 5.5"]);
    let (_, records) = baton_trace::read(trace(&options).as_slice()).unwrap();
    let partition = |groups: &[&[usize]]| {
        let groups = groups.iter().map(|group| group.to_vec()).collect();
        Event::Partition { groups, oneway: None }
    };
    let oneway = Event::Partition { groups: Vec::new(), oneway: Some((0, 3)) };
    let expected = [
        (2.0, oneway.clone()),
        (4.0, partition(&[&[0], &[1, 2]])),
        (5.0, Event::Heal),
        (5.0, oneway),
        (5.5, partition(&[&[0], &[2]])),
        (6.0, Event::Heal),
        (6.0, partition(&[&[0], &[2]])),
    ];
    let cuts = records.iter().filter(|record| matches!(record.event, Event::Partition { .. } | Event::Heal));
    assert_eq!(cuts.map(|record| (record.t, record.event.clone())).collect::<Vec<_>>(), expected);
    let dropped = |record: &&Record| matches!(record.event, Event::Drop { .. }) && (2.0..6.0).contains(&record.t);
    assert!(records.iter().any(|record| dropped(&record)), "and messages are lost by it");
}

#[test]
fn clocks_that_drift_are_in_the_header_and_change_nothing_but_timers() {
    let mut options = Options::new("ricart-agrawala", 3);
    let right = baton_trace::read(trace(&options).as_slice()).unwrap();
    options.drift = 0.25;
    let (header, records) = baton_trace::read(trace(&options).as_slice()).unwrap();
    assert_eq!(records, right.1, "it has no timers");
    assert_eq!(header.network.notes["drift"], 0.25);
    let rates = header.network.clock_rates.as_deref().unwrap();
    assert_eq!(rates.len(), 3);
    assert!(rates.iter().all(|rate| (0.75..=1.25).contains(rate)), "{rates:?}");
    // A lease ends by the clock of the process that gave it: here P2, the coordinator.
    let mut leased = Options::new("central", 2);
    leased.params.variant = Some("lease:5".into());
    leased.workload.hold = 100.0;
    leased.workload.entries = 2;
    leased.drift = 0.25;
    let (header, records) = baton_trace::read(trace(&leased).as_slice()).unwrap();
    let rate = header.network.clock_rates.as_deref().unwrap()[2];
    let fired = records.iter().find(|record| matches!(record.event, Event::Timer { .. })).unwrap();
    assert!((fired.t - (1.0 + 5.0 / rate)).abs() < 1e-5, "the grant leaves at 1 T: {} {rate}", fired.t);
}

#[test]
fn a_run_that_would_never_end_is_a_liveness_verdict() {
    let mut options = Options::new("central", 3);
    options.events_max = 50;
    let report = run(&options, None).unwrap();
    assert_eq!(report.broken_promises(), ["liveness"]);
    let detail = report.properties().liveness.detail.clone().unwrap();
    assert!(detail.ends_with("the limit of events is reached; P1, P2 wait, too"), "{detail}");
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let refusal = run(&Options::new("central", 3), Some(Box::new(Full))).unwrap_err().to_string();
    assert!(refusal.starts_with("cannot write the trace: "), "{refusal}");
}

#[test]
fn beyond_256_clients_order_is_unchecked_and_says_why() {
    let mut options = Options::new("central", 257);
    options.workload.entries = 300;
    let report = run(&options, None).unwrap();
    let order = &report.properties().order;
    assert_eq!(serde_json::to_value(order).unwrap()["verdict"], "unchecked");
    assert_eq!(order.detail.as_deref(), Some("happened-before is kept for up to 256 clients"));
}

#[test]
fn reports_have_the_fields_that_tools_read() {
    for about in ALGORITHMS {
        let options = Options { events_max: 10_000, ..Options::new(about.name, 3) };
        let report = serde_json::to_value(run(&options, None).unwrap()).unwrap();
        let fields: &[&str] = match about.family {
            Family::Mutex => &[
                "algorithm",
                "variant",
                "n",
                "load",
                "seed",
                "entries",
                "messages",
                "messages_per_entry",
                "messages_by_kind",
                "multicasts_per_entry",
                "bytes",
                "entry_messages",
                "exit_messages",
                "client_delay",
                "client_delay_max",
                "sync_delay",
                "sync_delay_max",
                "time",
                "properties",
                "events_per_s",
            ],
            Family::Election => &["algorithm", "n", "seed", "leader", "sides", "messages", "time", "properties"],
            Family::Append => &["algorithm", "n", "seed", "appends", "messages", "messages_per_append", "properties"],
            Family::Detector => &["algorithm", "n", "seed", "detection_time", "mistakes", "mistake_rate", "properties"],
        };
        for field in fields {
            assert!(report.get(field).is_some(), "{}: {field}", about.name);
        }
        for property in ["safety", "liveness", "order", "fence"] {
            let verdict = report["properties"][property].as_str().unwrap();
            assert!(["held", "violated", "unchecked", "untested"].contains(&verdict), "{}: {property}", about.name);
        }
    }
}

/// "Recovery with memory keeps the state and loses timers and messages in flight; without memory it starts anew with a
/// new incarnation": no message that was on its way to or from the process at the recovery arrives.
#[test]
fn nothing_of_an_earlier_life_arrives() {
    for recovery in ["recover 1 @ 3", "recover 1 @ 3 without-memory"] {
        let mut options = Options::new("ricart-agrawala", 3);
        options.network.delay = Delay::Constant(5.0);
        options.params.delay_max = options.network.delay.guess();
        // The process recovers while these messages are still on their way, and before the others know of its crash.
        options.ignore_assumptions = true;
        options.faults = vec!["crash 1 @ 2".parse().unwrap(), recovery.parse().unwrap()];
        let bytes = trace(&options);
        let (_, records) = baton_trace::read(bytes.as_slice()).unwrap();
        // All three processes request at 0. Their messages would arrive at 5.
        let fate = |msg: u64| {
            records.iter().find_map(|record| match &record.event {
                Event::Deliver { msg: other, .. } if *other == msg => Some("arrives"),
                Event::Drop { msg: other, .. } if *other == msg => Some("lost"),
                _ => None,
            })
        };
        let mut lost = 0;
        for record in records.iter().take_while(|record| !matches!(record.event, Event::Crash)) {
            if let Event::Send { msg, to, .. } = record.event {
                let concerned = to == 1 || record.p == Some(1);
                assert_eq!(fate(msg), Some(if concerned { "lost" } else { "arrives" }), "{recovery}, {record:?}");
                lost += usize::from(concerned);
            }
        }
        assert_eq!(lost, 4, "{recovery}");
    }
}

#[test]
fn a_run_ends_soon_after_it_is_stopped() {
    let stop = Arc::new(AtomicBool::new(false));
    let mut options = Options::new("central", 3);
    // Without the stop this would take hours.
    options.workload.entries = 1_000_000_000;
    options.events_max = u64::MAX;
    let by_watcher = Arc::clone(&stop);
    options.watch = Some(Watch(Arc::new(move |_| by_watcher.store(true, Ordering::Relaxed))));
    options.stop = Some(stop);
    assert!(matches!(run(&options, None), Err(RunError::Stopped)));
}
