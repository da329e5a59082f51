//! The interface of the checker: refusals, JSON and traces.

use std::collections::HashMap;

use baton_check::{CheckError, Faults, Options, Property, Verdict, check};
use baton_protocol::registry::{ALGORITHMS, Family, Params, SetupError};
use baton_trace::Event;
use expect_test::expect;

fn refusal(algorithm: &str, params: Params, options: Options) -> String {
    check(algorithm, &params, &options).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_checked_is_refused_in_one_sentence() {
    let n = |n| Params::new(n, 1);
    let of = |properties: &[Property]| Options { properties: Some(properties.to_vec()), ..Options::default() };
    let come_back = Faults { crash: 1, recover: Some(1), ..Faults::NONE };
    let two_crashes = Faults { crash: 2, ..Faults::NONE };
    let nobody_errs = Faults { detectors_only: true, ..Faults::NONE };
    let refusals = [
        refusal("central", n(0), Options::default()),
        refusal("central", n(1), Options::default()),
        refusal("central", n(256), Options::default()),
        refusal("central", n(2), Options { entries: 0, ..Options::default() }),
        refusal("central", n(2), Options { limit: 0, ..Options::default() }),
        refusal("central", n(2), of(&[])),
        refusal("central", n(65), of(&[Property::Deadlock, Property::Liveness])),
        refusal("central", n(2), Options { faults: Faults { loss: 1, ..Faults::NONE }, ..Options::default() }),
        refusal("central", n(2), Options { faults: Faults { crash: 1, ..Faults::NONE }, ..Options::default() }),
        refusal("lamport", n(2), Options { faults: Faults { suspect: 1, ..Faults::NONE }, ..Options::default() }),
        refusal("lamport", n(2), Options { faults: Faults { crash: 8, ..Faults::NONE }, ..Options::default() }),
        refusal("lamport", n(17), Options { faults: Faults { crash: 1, ..Faults::NONE }, ..Options::default() }),
        refusal("lamport", n(2), Options { faults: Faults { recover: Some(1), ..Faults::NONE }, ..Options::default() }),
        refusal("bully", n(3), Options { faults: come_back, ..Options::default() }),
        refusal("lamport", n(2), Options { faults: two_crashes, ..Options::default() }),
        refusal("ricart-agrawala", n(3), Options { faults: two_crashes, ..Options::default() }),
        refusal(
            "token-ring",
            n(3),
            Options { faults: Faults { recover: Some(0), ..two_crashes }, ..Options::default() },
        ),
        refusal("bully", n(3), Options { faults: nobody_errs, ..Options::default() }),
        refusal("bully", n(3), of(&[Property::Fence])),
        refusal("bully", Params::new(3, 0), Options::default()),
        refusal("bully", n(3), Options { delay: Some(2), ..Options::default() }),
        refusal("heartbeat", n(2), of(&[Property::Deadlock])),
        refusal("heartbeat", n(2), Options { delay: Some(2), ..Options::default() }),
        refusal("heartbeat", n(2), Options { faults: Faults { loss: 1, ..Faults::NONE }, ..Options::default() }),
        refusal("heartbeat", n(2), Options { faults: Faults { suspect: 1, ..Faults::NONE }, ..Options::default() }),
        refusal("heartbeat", Params { variant: Some("drift:1".into()), ..n(2) }, Options::default()),
        refusal("heartbeat", Params { variant: Some("timeout:0.5".into()), ..n(2) }, Options::default()),
        refusal("central", Params { variant: Some("lease:3".into()), ..n(2) }, of(&[Property::Safety])),
        refusal("phi-accrual", n(2), Options::default()),
        refusal("record-append", n(2), Options::default()),
        "speed".parse::<Property>().unwrap_err().to_string(),
    ];
    expect![[r#"
        a group of 0 is too small; it takes at least 2 processes
        a group of 1 is too small; it takes at least 2 processes
        257 processes, helpers included, are too many; the checker takes at most 256
        the number of entries cannot be 0; ask for at least 1
        a limit of 0 states proves nothing; allow at least 1
        there is nothing to check; ask for at least one property
        starvation cannot be checked for 65 processes; the checker takes at most 64
        `central` assumes that no message is lost, and here one may be; --ignore-assumptions checks it all the same
        `central` assumes that no process crashes, and here processes may; --ignore-assumptions checks it all the same
        `lamport` assumes that no live process is suspected, and here live processes may be; --ignore-assumptions checks it all the same
        8 crashes are too many; the checker takes at most 7
        17 processes, helpers included, are too many with crashes; the checker takes at most 16
        1 recoveries are too many for 0 crashes; each crash has at most one recovery
        `bully` assumes that a crashed process never recovers, and here processes may recover; --ignore-assumptions checks it all the same
        `lamport` assumes that a crash and the recovery from it are over before the next crash, and here they may overlap (with --recover 0 no process recovers); --ignore-assumptions checks it all the same
        `ricart-agrawala` assumes that a crash and the recovery from it are over before the next crash, and here they may overlap (with --recover 0 no process recovers); --ignore-assumptions checks it all the same
        `token-ring` assumes that all processes learn of crashes and recoveries in the same order, and here the orders may differ; --ignore-assumptions checks it all the same
        --detectors-only means nothing without wrong suspicions; allow at least one with --suspect
        `fence` cannot be asked of `bully`, which elects a leader; ask for safety or liveness
        --delay-max cannot be 0; it must be from 1 to 100 ticks
        `bully` assumes that no message takes longer than its bound on delays, and here one may take 2 ticks instead of 1; --ignore-assumptions checks it all the same
        `deadlock` cannot be asked of `heartbeat`, which is a failure detector; ask for safety or liveness
        `heartbeat` assumes that no message takes longer than its bound on delays, and here one may take 2 ticks instead of 1; --ignore-assumptions checks it all the same
        `heartbeat` assumes that no message is lost, and here one may be; --ignore-assumptions checks it all the same
        --suspect means nothing for `heartbeat`: the check itself looks for wrong suspicions; leave it out
        the variant drift means nothing to the checker, where all clocks have the same rate; leave it out
        a timeout of less than one delay cannot be checked: ticks are too coarse for it; use the simulator
        `central` assumes with leases that a holder stops before its lease ends, and here steps have no duration; --ignore-assumptions checks it all the same
        `phi-accrual` cannot be checked: its statistics in floating point have infinitely many states; use the simulator
        `record-append` cannot be checked; only mutual exclusion, elections and heartbeats can
        there is no property `speed`; there are safety, deadlock, liveness, order, fence
    "#]].assert_eq(&format!("{}\n", refusals.join("\n")));
}

#[test]
fn crashes_that_overlap_do_harm_where_they_are_refused_and_none_where_they_are_not() {
    let check = |algorithm: &str, recover, ignore_assumptions| {
        let faults = Faults { crash: 2, recover, ..Faults::NONE };
        check(algorithm, &Params::new(2, 1), &Options { faults, ignore_assumptions, ..Options::default() }).unwrap()
    };
    for (algorithm, property) in
        [("lamport", Property::Fence), ("ricart-agrawala", Property::Fence), ("token-ring", Property::Deadlock)]
    {
        let report = check(algorithm, None, true);
        assert_eq!((report.result, report.property), (Verdict::Violated, Some(property)), "{algorithm}");
    }
    for algorithm in ["lamport", "ricart-agrawala"] {
        assert_eq!(check(algorithm, Some(0), false).result, Verdict::Holds, "{algorithm}");
    }
    assert_eq!(check("central-elected", None, false).result, Verdict::Holds);
}

#[test]
fn what_is_promised_and_not_settled_or_not_checked_is_told() {
    let check = |algorithm: &str, params, faults| {
        let report = check(algorithm, &params, &Options { faults, ..Options::default() }).unwrap();
        assert_eq!(report.result, Verdict::Holds, "{algorithm}");
        let unchecked: Vec<Property> = report.unchecked.iter().map(|unchecked| unchecked.property).collect();
        (report.unsettled, unchecked)
    };
    let crash = Faults { crash: 1, ..Faults::NONE };
    let n = |n| Params::new(n, 1);
    let lease = Params { variant: Some("lease:3".into()), ..n(2) };
    assert_eq!(check("central", n(2), Faults::NONE), (vec![], vec![]));
    assert_eq!(check("carvalho-roucairol", n(2), Faults::NONE), (vec![Property::Liveness], vec![]));
    assert_eq!(check("ricart-agrawala", n(2), crash), (vec![], vec![Property::Order]));
    let safety_and_fence = vec![Property::Safety, Property::Fence];
    assert_eq!(check("central", lease, Faults::NONE), (vec![Property::Liveness], safety_and_fence));
}

#[test]
fn the_steps_of_a_counterexample_are_told_without_names_of_types_and_ticks_in_one_line() {
    let told = |algorithm: &str, n, options: Options| {
        let ignoring = Options { ignore_assumptions: true, ..options };
        let report = check(algorithm, &Params::new(n, 2), &ignoring).unwrap();
        format!("{}\n", report.counterexample.unwrap().join("\n"))
    };
    let only = |property| Options { properties: Some(vec![property]), ..Options::default() };
    expect![[r#"
        1   P0 asks
        2   P1 asks
        3   P2 asks
        4   P0 -> P1 REQUEST {time: 1, request: 1, fence: 0}
        5   P1 -> P2 REQUEST {time: 1, request: 1, fence: 0}
        6   P2 -> P0 REQUEST {time: 1, request: 1, fence: 0}
            deadlock: P0 and P1 and P2 wait, and nothing can happen
    "#]]
    .assert_eq(&told("maekawa-no-inquire", 3, only(Property::Deadlock)));
    expect![[r#"
            P2 has crashed
        1   P0 suspects P2; P0 has no leader
        2   P1 suspects P2; P1 has no leader
        3   a tick passes
        4   P0 -> P1 ELECTION
        5-7 3 ticks pass
        8   P0 timer Answer; P0 leads
        9   P1 timer Answer; P1 leads
            safety: P1 and P0 both lead
    "#]]
    .assert_eq(&told("bully", 3, Options { delay: Some(4), ..only(Property::Safety) }));
    let faults = Faults { suspect: 1, ..Faults::NONE };
    expect![[r#"
        1   P0 asks
        2   P1 asks
        3   P1 -> P0 REQUEST {time: 1}; P0 enters (fence 65536)
        4   P1 wrongly suspects P0; P1 enters (fence 65537)
            safety: P1 and P0 are in the critical section at once
    "#]]
    .assert_eq(&told("lamport", 2, Options { faults, ..only(Property::Safety) }));
}

#[test]
fn names_are_read_as_they_are_written() {
    for property in Property::ALL {
        assert_eq!(property.to_string().parse(), Ok(property));
    }
}

#[test]
fn the_report_as_json_has_the_names_that_tools_rely_on() {
    let mut report = check("ricart-agrawala-time-only", &Params::new(2, 1), &Options::default()).unwrap();
    report.seconds = 0.5;
    expect![[r#"
        {
          "algorithm": "ricart-agrawala-time-only",
          "n": 2,
          "processes": 2,
          "entries": 1,
          "variant": null,
          "order": "unordered",
          "delays": null,
          "timers": null,
          "faults": {
            "loss": 0,
            "duplicate": 0,
            "crash": 0,
            "recover": null,
            "suspect": 0,
            "detectors_only": false
          },
          "ignored_assumptions": false,
          "app_messages": 1,
          "properties": [
            "safety",
            "deadlock",
            "order",
            "fence"
          ],
          "unsettled": [],
          "unchecked": [],
          "states": 218,
          "transitions": 329,
          "depth": 6,
          "seconds": 0.5,
          "complete": false,
          "reached": {
            "entries": 94,
            "waiting_together": 87,
            "suspicions": 0
          },
          "cyclic": null,
          "result": "violated",
          "property": "safety",
          "detail": "P0 and P1 are in the critical section at once",
          "steps": 6,
          "counterexample": [
            "1   P0 asks",
            "2   P1 asks",
            "3   P0 -> P1 REQUEST {time: 1}",
            "4   P1 -> P0 REQUEST {time: 1}",
            "5   P0 -> P1 REPLY {time: 1, request: 1}; P1 enters (fence 65537)",
            "6   P1 -> P0 REPLY {time: 1, request: 1}; P0 enters (fence 65536)",
            "    safety: P0 and P1 are in the critical section at once"
          ]
        }
    "#]]
    .assert_eq(&format!("{}\n", serde_json::to_string_pretty(&report).unwrap()));
}

#[test]
fn a_counterexample_is_a_trace_by_the_rules_of_the_format() {
    let report = check("central", &Params::new(2, 1), &order_only()).unwrap();
    let mut bytes = Vec::new();
    report.trace.unwrap().write(&mut bytes).unwrap();
    expect![[r#"
        {"baton_trace":1,"algorithm":"central","processes":3,"clients":2,"seed":0,"network":{"order":"unordered"},"workload":{"app_messages":1,"entries":1},"params":{"delay_max":1},"unit":"T"}
        {"seq":0,"t":1.0,"p":0,"event":"request","req":0,"lamport":1}
        {"seq":1,"t":1.0,"p":0,"event":"send","msg":0,"to":2,"kind":"REQUEST","bytes":1}
        {"seq":2,"t":2.0,"p":0,"event":"app_send","msg":1,"to":1}
        {"seq":3,"t":3.0,"p":1,"event":"app_deliver","msg":1,"from":0}
        {"seq":4,"t":4.0,"p":1,"event":"request","req":1,"lamport":5}
        {"seq":5,"t":4.0,"p":1,"event":"send","msg":2,"to":2,"kind":"REQUEST","bytes":1}
        {"seq":6,"t":5.0,"p":2,"event":"deliver","msg":2,"from":1,"kind":"REQUEST"}
        {"seq":7,"t":5.0,"p":2,"event":"send","msg":3,"to":1,"kind":"GRANT","bytes":2,"body":{"fence":1}}
        {"seq":8,"t":6.0,"p":1,"event":"deliver","msg":3,"from":2,"kind":"GRANT"}
        {"seq":9,"t":6.0,"p":1,"event":"enter","req":1,"fence":1}
        {"seq":10,"t":6.0,"event":"violation","property":"order","detail":"P1 enters, and the request of P0, which happened before, still waits"}
        {"seq":11,"t":6.0,"event":"end","reason":"violation","entries":1,"messages":3}
    "#]].assert_eq(std::str::from_utf8(&bytes).unwrap());
}

#[test]
fn every_delivery_follows_its_send_and_every_exit_its_entry() {
    let properties = Some(vec![Property::Safety]);
    let two = Options { entries: 2, properties, ..Options::default() };
    for (algorithm, params, options) in [
        ("ricart-agrawala-time-only", Params::new(3, 1), two),
        ("voting", Params { coordinators: Some(3), ..Params::new(2, 1) }, order_only()),
        ("suzuki-kasami", Params::new(3, 1), order_only()),
        ("bully", Params::new(4, 1), Options { delay: Some(2), ignore_assumptions: true, ..Options::default() }),
    ] {
        let trace = check(algorithm, &params, &options).unwrap().trace.unwrap();
        let (mut on_their_way, mut inside) = (HashMap::new(), HashMap::new());
        for (index, record) in trace.records.iter().enumerate() {
            assert_eq!(record.seq, index as u64);
            let p = record.p.unwrap_or(usize::MAX);
            match &record.event {
                Event::Send { msg, to, .. } | Event::AppSend { msg, to } => {
                    assert!(on_their_way.insert(*msg, (p, *to)).is_none() && *to != p);
                }
                Event::Deliver { msg, from, .. } | Event::AppDeliver { msg, from } => {
                    assert_eq!(on_their_way.remove(msg), Some((*from, p)));
                }
                Event::Drop { msg, .. } => assert!(on_their_way.remove(msg).is_some()),
                Event::Enter { req, .. } => assert!(inside.insert(*req, p).is_none()),
                Event::Exit { req } => assert_eq!(inside.remove(req), Some(p)),
                _ => {}
            }
        }
        assert!(matches!(trace.records.last().unwrap().event, Event::End { .. }));
    }
}

fn order_only() -> Options {
    Options { properties: Some(vec![Property::Order]), ..Options::default() }
}

/// Two processes with one request each are enough to see it.
#[test]
fn the_registry_knows_which_algorithms_set_timers() {
    for about in ALGORITHMS.iter().filter(|about| about.family == Family::Mutex) {
        for variant in about.variants.iter().map(|variant| Some(variant.name)).chain([None]) {
            // All variants with timers accept 2.
            let variant = variant.map(|name| name.split_once(':').map_or(name.into(), |(name, _)| format!("{name}:2")));
            let params = Params { variant, ..Params::new(2, 1) };
            let properties = Some(vec![Property::Deadlock]);
            let options = Options { properties, limit: 20_000, ignore_assumptions: true, ..Options::default() };
            match check(about.name, &params, &options) {
                Ok(report) => {
                    assert_eq!(report.timers.is_some(), about.sets_timers(&params), "{} {params:?}", about.name)
                }
                Err(CheckError::Setup(SetupError::Value { .. })) => {}
                Err(error) => panic!("{} {params:?}: {error}", about.name),
            }
        }
    }
}
