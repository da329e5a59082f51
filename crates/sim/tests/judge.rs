//! A trace is judged by its events alone. The verdicts are those of the run that wrote it, also after the trace was split
//! into traces of members with wrong clocks and merged again. Every mutation of a good trace is found.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::rc::Rc;

use baton_protocol::registry::{ALGORITHMS, About, Family};
use baton_sim::judge::{JudgeError, JudgedProperty, Judgement, judge};
use baton_sim::oracle::Verdict;
use baton_sim::report::Report;
use baton_sim::run::run;
use baton_sim::spec::{NetworkKind, Spec};
use baton_trace::merge::{Merged, Part, merge};
use baton_trace::{Event, Header, Record, Trace, Unit};

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

fn traced(spec: &Spec) -> (Report, Trace) {
    let sink = Sink::default();
    let report = run(&spec.options().unwrap(), Some(Box::new(sink.clone()))).unwrap();
    let trace = Trace::read(sink.0.borrow().as_slice()).unwrap();
    (report, trace)
}

fn spec(algorithm: &str, seed: u64) -> Spec {
    let network = if seed.is_multiple_of(2) { NetworkKind::Sync } else { NetworkKind::Async };
    Spec { algorithm: algorithm.into(), n: Some(4), entries: Some(16), seed: Some(seed), network, ..Spec::default() }
}

/// The algorithms whose traces have enough events, also those of real processes.
fn judged() -> impl Iterator<Item = &'static About> {
    ALGORITHMS.iter().copied().filter(|about| matches!(about.family, Family::Mutex | Family::Election))
}

fn synchronous(about: &About, seed: u64) -> Spec {
    let entries = (about.family == Family::Mutex).then_some(16);
    let spec = Spec { entries, ..spec(about.name, seed) };
    if about.assumes.synchronous { Spec { network: NetworkKind::Sync, ..spec } } else { spec }
}

/// The trace without what the simulator itself found.
fn without_findings(mut trace: Trace) -> Trace {
    trace.records.retain(|record| !matches!(record.event, Event::Violation { .. }));
    trace
}

fn property<'a>(judgement: &'a Judgement, name: &str) -> &'a JudgedProperty {
    judgement.resources[0].properties.iter().find(|judged| judged.property == name).unwrap()
}

fn broken(judgement: &Judgement) -> Vec<&str> {
    let all = judgement.resources.iter().flat_map(|resource| &resource.properties);
    all.filter(|judged| judged.is_broken()).map(|judged| judged.property.as_str()).collect()
}

#[test]
fn the_verdicts_are_those_of_the_simulator() {
    let mut violated = 0;
    for about in ALGORITHMS {
        for seed in 1..=6 {
            let app_messages = about.family == Family::Mutex && seed > 3;
            let (report, trace) = traced(&Spec { app_messages, ..synchronous(about, seed) });
            let trace = without_findings(trace);
            let judgement = judge(&trace.header, &trace.records).unwrap();
            for (property_name, finding) in report.properties().each() {
                let name = property_name.name();
                let Some(judged) = judgement.resources[0].properties.iter().find(|judged| judged.property == name)
                else {
                    assert_eq!(finding.verdict, Verdict::Unchecked, "{} {seed}: {name}", about.name);
                    continue;
                };
                violated += u32::from(finding.verdict == Verdict::Violated);
                assert_eq!(judged.finding.verdict, finding.verdict, "{} {seed}: {judged:?} {finding:?}", about.name);
                let is_shown = judged.events.iter().all(|place| trace.records[0].t <= place.t);
                assert!(
                    is_shown && judged.events.is_empty() == (finding.verdict != Verdict::Violated)
                        || name == "liveness"
                );
            }
            for name in ["links", "pairs"] {
                let rule = judgement.resources[0].properties.iter().find(|judged| judged.property == name);
                assert!(
                    rule.is_none_or(|rule| rule.finding.verdict == Verdict::Held),
                    "{} {seed}: {rule:?}",
                    about.name
                );
            }
        }
    }
    assert!(violated > 10, "the broken ones break: {violated}");
}

/// The traces of the members. Member p carries client p, and helpers in turn. The clock of each member is wrong by up to
/// 100 s, and a little too fast or too slow.
fn split(trace: &Trace, random: &mut fastrand::Rng) -> Vec<Part> {
    let Header { clients, .. } = trace.header;
    let part = |member: usize| {
        let (skew, drift) = (200.0 * random.f64() - 100.0, 2e-6 * (random.f64() - 0.5));
        let notes = baton_trace::notes(serde_json::json!({ "kind": "tcp", "started_unix_s": 1.7e9 + skew }));
        let mut header = Header { unit: Unit::Seconds, ..trace.header.clone() };
        (header.network.notes, header.network.member) = (notes, Some(member));
        let mine = |record: &&Record| match (&record.event, record.p) {
            (Event::End { .. }, _) => true,
            (_, Some(p)) => p % clients == member,
            (_, None) => false,
        };
        let local = |record: &Record| Record { t: record.t * (1.0 + drift), ..record.clone() };
        let records = trace.records.iter().filter(mine).map(local).collect();
        Part { name: format!("member {member}"), trace: Trace { header, records, is_cut_off: false } }
    };
    (0..clients).map(part).collect()
}

fn assert_causal(merged: &Merged, parts: &[Part], context: &str) {
    let mut sent = HashMap::new();
    let mut order: BTreeMap<usize, Vec<&Event>> = BTreeMap::new();
    for (seq, record) in (0..).zip(&merged.records) {
        assert_eq!(record.seq, seq);
        match &record.event {
            Event::Send { msg, .. } | Event::AppSend { msg, .. } => assert!(sent.insert(*msg, seq).is_none()),
            Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } => {
                assert!(sent.contains_key(msg), "{context}: message {msg} is delivered before it is sent");
            }
            _ => {}
        }
        if let Some(p) = record.p {
            order.entry(p % merged.header.clients).or_default().push(&record.event);
        }
    }
    assert!(merged.records.is_sorted_by(|one, next| one.t <= next.t), "{context}: the times fall");
    for (member, part) in parts.iter().enumerate() {
        let is_own = |event: &&Event| !matches!(event, Event::End { .. });
        let own: Vec<&Event> = part.trace.records.iter().map(|record| &record.event).filter(is_own).collect();
        assert_eq!(order.remove(&member).unwrap_or_default(), own, "{context}: member {member} keeps its order");
    }
}

#[test]
fn split_and_merged_traces_keep_causality_and_pass() {
    for about in judged().filter(|about| about.broken.is_none()) {
        for seed in 1..=8 {
            let (_, trace) = traced(&synchronous(about, seed));
            let mut random = fastrand::Rng::with_seed(seed);
            let mut parts = split(&without_findings(trace), &mut random);
            random.shuffle(&mut parts);
            let merged = merge(parts.clone()).unwrap();
            parts.sort_by_key(|part| part.trace.header.network.member);
            let context = format!("{}, seed {seed}", about.name);
            assert_causal(&merged, &parts, &context);
            let judgement = judge(&merged.header, &merged.records).unwrap();
            assert!(!judgement.is_broken(), "{context}: {judgement:?}");
            let unchecked =
                judgement.resources[0].properties.iter().find(|judged| judged.finding.verdict != Verdict::Held);
            let is_order = unchecked.is_none_or(|judged| ["order"].contains(&&*judged.property));
            assert!(is_order, "{context}: {unchecked:?}");
        }
    }
}

#[test]
fn without_a_lock_no_clock_can_hide_that_two_may_be_inside() {
    for seed in 1..=8 {
        let (_, trace) = traced(&spec("no-lock", seed));
        let merged = merge(split(&without_findings(trace), &mut fastrand::Rng::with_seed(seed))).unwrap();
        let judgement = judge(&merged.header, &merged.records).unwrap();
        assert_eq!(property(&judgement, "safety").finding.verdict, Verdict::Violated, "seed {seed}: {judgement:?}");
    }
}

/// A merged trace of a good run.
fn good() -> Trace {
    let (_, trace) = traced(&spec("ricart-agrawala", 3));
    let Merged { header, records, .. } = merge(split(&trace, &mut fastrand::Rng::with_seed(3))).unwrap();
    let trace = Trace { header, records, is_cut_off: false };
    assert!(!judge(&trace.header, &trace.records).unwrap().is_broken());
    trace
}

/// The positions of the records with such an event.
fn positions(trace: &Trace, is_such: impl Fn(&Event) -> bool) -> Vec<usize> {
    (0..trace.records.len()).filter(|index| is_such(&trace.records[*index].event)).collect()
}

fn verdict_after(change: impl FnOnce(&mut Vec<Record>)) -> Vec<String> {
    let mut trace = good();
    change(&mut trace.records);
    let judgement = judge(&trace.header, &trace.records).unwrap();
    for judged in judgement.resources[0].properties.iter().filter(|judged| judged.is_broken()) {
        assert!(!judged.events.is_empty(), "{judged:?}");
    }
    broken(&judgement).into_iter().map(str::to_owned).collect()
}

#[test]
fn every_mutation_of_a_good_trace_is_found() {
    let trace = good();
    for index in positions(&trace, |event| matches!(event, Event::Send { .. })) {
        let found = verdict_after(|records| _ = records.remove(index));
        // The chain of messages from exit to entry may be broken, too.
        assert!(found.contains(&"links".to_owned()), "send {index}: {found:?}");
    }
    for index in positions(&trace, |event| matches!(event, Event::Exit { .. })) {
        let found = verdict_after(|records| _ = records.remove(index));
        assert!(found.contains(&"pairs".to_owned()) || found.contains(&"safety".to_owned()), "exit {index}: {found:?}");
    }
    for index in positions(&trace, |event| matches!(event, Event::Request { .. } | Event::Enter { .. })) {
        let found = verdict_after(|records| _ = records.remove(index));
        assert!(found.contains(&"pairs".to_owned()), "record {index}: {found:?}");
    }
    for index in positions(&trace, |event| matches!(event, Event::Enter { .. })).into_iter().skip(1) {
        let found = verdict_after(|records| {
            if let Event::Enter { fence, .. } = &mut records[index].event {
                *fence = 0;
            }
        });
        assert_eq!(found, ["fence"], "enter {index}");
    }
    for index in positions(&trace, |event| matches!(event, Event::Deliver { .. })) {
        let again = |records: &mut Vec<Record>| records.insert(index, records[index].clone());
        assert_eq!(verdict_after(again), ["links"], "deliver {index} twice");
    }
}

#[test]
fn two_inside_at_once_are_named_with_their_records() {
    let mut trace = good();
    let enters = positions(&trace, |event| matches!(event, Event::Enter { .. }));
    let exits = positions(&trace, |event| matches!(event, Event::Exit { .. }));
    // The first exit moves behind the second entry.
    let exit = trace.records.remove(exits[0]);
    trace.records.insert(enters[1], exit);
    let judgement = judge(&trace.header, &trace.records).unwrap();
    let safety = property(&judgement, "safety");
    assert!(safety.finding.detail.as_ref().unwrap().ends_with(" are in the critical section at once"), "{safety:?}");
    let shown: Vec<u64> = safety.events.iter().map(|place| place.seq).collect();
    assert_eq!(shown, [enters[0] as u64, enters[1] as u64]);
}

#[test]
fn two_leaders_in_one_term_are_found() {
    let guarded = Spec { variant: Some("quorum".into()), entries: None, ..spec("bully", 2) };
    let (_, trace) = traced(&guarded);
    assert!(!judge(&trace.header, &trace.records).unwrap().is_broken());
    let is_report = |event: &Event| matches!(event, Event::Elected { leader: Some(_), term: Some(_) });
    let last = *positions(&trace, is_report).last().unwrap();
    let mut records = trace.records.clone();
    if let Event::Elected { leader: Some(leader), .. } = &mut records[last].event {
        *leader = (*leader + 1) % trace.header.clients;
    }
    let judgement = judge(&trace.header, &records).unwrap();
    let safety = property(&judgement, "safety");
    assert!(
        safety.is_broken() && safety.finding.detail.as_ref().unwrap().contains(" both lead in term "),
        "{safety:?}"
    );
    assert!(safety.events.len() > 1 && safety.events.last().unwrap().seq == last as u64, "{safety:?}");
}

#[test]
fn messages_that_overtake_each_other_break_what_the_algorithm_assumes() {
    let (_, trace) = traced(&spec("lamport", 2));
    assert!(!judge(&trace.header, &trace.records).unwrap().is_broken());
    let mut swapped = 0;
    let deliver = |record: &Record| match record.event {
        Event::Deliver { msg, from, .. } => Some((from, record.p, msg)),
        _ => None,
    };
    for first in 0..trace.records.len() {
        let Some((from, to, _)) = deliver(&trace.records[first]) else { continue };
        let later =
            |other: &usize| matches!(deliver(&trace.records[*other]), Some(next) if (next.0, next.1) == (from, to));
        let Some(second) = (first + 1..trace.records.len()).find(later) else { continue };
        // Only if the second message was sent before the first arrives.
        let (Some((.., msg)), mut records) = (deliver(&trace.records[second]), trace.records.clone()) else { continue };
        let sends = |record: &Record| matches!(record.event, Event::Send { msg: sent, .. } if sent == msg);
        if trace.records[..first].iter().any(sends) {
            records.swap(first, second);
            let judgement = judge(&trace.header, &records).unwrap();
            let links = property(&judgement, "links");
            assert!(links.is_broken() && links.finding.detail.as_ref().unwrap().contains("which was sent later"));
            swapped += 1;
        }
    }
    assert!(swapped > 0);
}

#[test]
fn a_killed_member_voids_its_requests_and_says_nothing_of_the_others() {
    let (_, trace) = traced(&spec("ricart-agrawala", 3));
    let mut cut = 0;
    for kept in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55] {
        let mut parts = split(&without_findings(trace.clone()), &mut fastrand::Rng::with_seed(kept));
        // What other members still heard of member 2 stays: only the tail of its file is lost.
        parts[2].trace.records.truncate(kept as usize);
        for part in &mut parts {
            if let Some(Record { event: Event::End { reason, .. }, .. }) = part.trace.records.last_mut() {
                *reason = "shutdown".into();
            }
        }
        let is_short = parts[2].trace.records.len() == kept as usize;
        let merged = merge(parts).unwrap();
        let judgement = judge(&merged.header, &merged.records).unwrap();
        let links = property(&judgement, "links");
        assert_eq!(links.finding.verdict, Verdict::Held, "{kept}: {links:?}");
        cut += u32::from(is_short && links.checked.contains("their sends are missing"));
        assert_eq!(property(&judgement, "liveness").finding.verdict, Verdict::Held, "{kept}");
        assert_eq!(property(&judgement, "pairs").finding.verdict, Verdict::Held, "{kept}");
    }
    assert!(cut > 5);
}

#[test]
fn a_request_that_waits_at_the_end_of_a_stopped_run_is_not_judged() {
    let mut trace = good();
    let request = positions(&trace, |event| matches!(event, Event::Request { .. }))[0];
    let mut late = trace.records[request].clone();
    if let Event::Request { req, .. } = &mut late.event {
        *req = 99;
    }
    let last = trace.records.len() - 1;
    trace.records.insert(last, late);
    let judgement = judge(&trace.header, &trace.records).unwrap();
    assert_eq!(broken(&judgement), ["liveness"], "the run has done all that was planned");
    if let Event::End { reason, .. } = &mut trace.records[last + 1].event {
        *reason = "shutdown".into();
    }
    let judgement = judge(&trace.header, &trace.records).unwrap();
    let liveness = property(&judgement, "liveness");
    assert_eq!(liveness.finding.verdict, Verdict::Unchecked);
    assert!(liveness.finding.detail.as_ref().unwrap().ends_with(" waits at the end, but the run was stopped"));
    let without_end = judge(&trace.header, &trace.records[..=last]).unwrap();
    let detail = property(&without_end, "liveness").finding.detail.clone().unwrap();
    assert!(detail.ends_with("but the trace has no end"), "{detail}");
}

#[test]
fn a_cancelled_request_does_not_wait() {
    let with = |events: &[Event]| {
        let events: Vec<Event> = events.to_vec();
        verdict_after(|records| {
            let end = records.pop().unwrap();
            let (seq, t) = (end.seq, end.t);
            records.extend(events.into_iter().map(|event| Record { seq, t, p: Some(0), resource: None, event }));
            records.push(end);
        })
    };
    let (request, cancel) = (|req| Event::Request { req, lamport: 99 }, |req| Event::Cancel { req });
    assert!(with(&[request(98), cancel(98)]).is_empty());
    // Two callers of one process; the second gives up first.
    assert!(with(&[request(98), request(99), cancel(99), cancel(98)]).is_empty());
    assert_eq!(with(&[request(98), request(99), cancel(98)]), ["liveness"]);
    assert_eq!(with(&[cancel(98)]), ["pairs"]);
}

#[test]
fn each_resource_is_judged_alone() {
    let trace = good();
    let mut records = Vec::new();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        for record in &trace.records[..trace.records.len() - 1] {
            let mut record = Record { resource: Some(name.into()), ..record.clone() };
            shift(&mut record.event, 10_000 * number as u64);
            records.push(record);
        }
    }
    records.push(trace.records.last().unwrap().clone());
    let judgement = judge(&trace.header, &records).unwrap();
    assert!(!judgement.is_broken(), "{judgement:?}");
    let names: Vec<Option<&str>> = judgement.resources.iter().map(|resource| resource.resource.as_deref()).collect();
    assert_eq!(names, [Some("a"), Some("b")], "the end is of no resource");
    let exit = |record: &Record| matches!(record.event, Event::Exit { .. }) && record.resource.as_deref() == Some("b");
    let index = records.iter().position(exit).unwrap();
    records.remove(index);
    let judgement = judge(&trace.header, &records).unwrap();
    assert!(!judgement.resources[0].is_broken() && judgement.resources[1].is_broken());
}

fn shift(event: &mut Event, by: u64) {
    match event {
        Event::Request { req, .. } | Event::Enter { req, .. } | Event::Exit { req } => *req += by,
        Event::Send { msg, .. } | Event::Deliver { msg, .. } | Event::Drop { msg, .. } => *msg += by,
        _ => {}
    }
}

/// The violations in a trace after a change of its records.
fn broken_by(trace: &Trace, change: impl Fn(&mut Vec<Record>)) -> Vec<String> {
    let mut records = trace.records.clone();
    change(&mut records);
    let judgement = judge(&trace.header, &records).unwrap();
    broken(&judgement).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_suspicion_of_a_live_process_and_an_unnoticed_crash_are_found() {
    let faults = vec!["crash 1 @ 25".into()];
    let (_, beats) = traced(&Spec { network: NetworkKind::Sync, entries: None, faults, ..spec("heartbeat", 2) });
    assert_eq!(broken_by(&beats, |_| {}), [""; 0]);
    let is_suspicion = |record: &Record| matches!(record.event, Event::Suspect { .. });
    assert_eq!(broken_by(&beats, |records| records.retain(|record| !is_suspicion(record))), ["liveness"]);
    let is_crash = |record: &Record| matches!(record.event, Event::Crash);
    assert_eq!(broken_by(&beats, |records| records.retain(|record| !is_crash(record))), ["safety"]);
}

/// Whatever the algorithm is: a violation does not count if the header says that the run does not promise the property.
#[test]
fn a_violation_of_what_the_run_does_not_promise_does_not_count() {
    for algorithm in ["central", "bully", "heartbeat", "record-append"] {
        let (_, mut trace) = traced(&Spec { network: NetworkKind::Sync, entries: None, ..spec(algorithm, 2) });
        let detail = "as the trace says".to_owned();
        for property in ["safety", "liveness"] {
            let mut end = trace.records.last().unwrap().clone();
            end.event = Event::Violation { property: property.into(), detail: detail.clone() };
            trace.records.insert(trace.records.len() - 1, end);
        }
        assert_eq!(broken_by(&trace, |_| {}), ["safety", "liveness"], "{algorithm}");
        trace.header.workload.not_promised = vec!["safety".into(), "liveness".into()];
        assert_eq!(broken_by(&trace, |_| {}), [""; 0], "{algorithm}");
    }
}

#[test]
fn an_offset_that_two_appends_have_and_an_append_without_one_are_found() {
    let (_, appends) = traced(&Spec { entries: Some(5), ..spec("record-append", 2) });
    assert_eq!(broken_by(&appends, |_| {}), [""; 0]);
    let is_answer = |record: &Record| matches!(record.event, Event::Appended { .. });
    let last = appends.records.iter().rposition(is_answer).unwrap();
    assert_eq!(broken_by(&appends, |records| _ = records.remove(last)), ["liveness"]);
    let first = appends.records.iter().position(is_answer).unwrap();
    assert_eq!(broken_by(&appends, |records| _ = records.remove(first)), ["liveness"], "its process appends again");
    let same = |records: &mut Vec<Record>| {
        for record in records {
            if let Event::Appended { offset, .. } = &mut record.event {
                *offset = 7;
            }
        }
    };
    assert_eq!(broken_by(&appends, same), ["safety"]);
    let another = |records: &mut Vec<Record>| {
        if let Event::Appended { req, .. } = &mut records[last].event {
            *req += 1;
        }
    };
    assert_eq!(broken_by(&appends, another), ["safety"]);
}

#[test]
fn what_cannot_be_judged_is_refused_or_said() {
    let trace = good();
    let mut member = trace.header.clone();
    member.network.member = Some(1);
    assert_eq!(judge(&member, &trace.records).unwrap_err(), JudgeError::OneMember { member: 1 });
    let mut other = trace.header.clone();
    other.processes = 9;
    let told = "the trace has 9 processes, and `ricart-agrawala` with 4 clients has 4";
    assert_eq!(judge(&other, &trace.records).unwrap_err().to_string(), told);
    other.algorithm = "dance".into();
    assert!(judge(&other, &trace.records).unwrap_err().to_string().starts_with("there is no algorithm `dance`"));
    let (_, mut beats) = traced(&Spec { network: NetworkKind::Sync, entries: Some(2), ..spec("heartbeat", 2) });
    beats.header.unit = Unit::Seconds;
    let judgement = judge(&beats.header, &beats.records).unwrap();
    assert_eq!(property(&judgement, "safety").finding.verdict, Verdict::Unchecked);
    assert!(!judgement.is_broken(), "{judgement:?}");
}
