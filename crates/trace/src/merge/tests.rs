use super::*;
use crate::{Unit, example};

fn header(member: Option<usize>, started_unix_s: f64) -> Header {
    let notes = crate::notes(json!({ "kind": "tcp", "started_unix_s": started_unix_s }));
    let network = Network { notes, member, ..Network::default() };
    Header { seed: 0, network, unit: Unit::Seconds, ..example::header() }
}

fn part(member: usize, started_unix_s: f64, events: impl IntoIterator<Item = (f64, usize, Event)>) -> Part {
    let record = |(seq, (t, p, event))| Record { seq, t, p: Some(p), resource: None, event };
    let records = (0..).zip(events).map(record).collect();
    let header = header(Some(member), started_unix_s);
    Part { name: format!("m{member}"), trace: Trace { header, records, is_cut_off: false } }
}

fn send(msg: u64, to: usize) -> Event {
    Event::Send { msg, to, kind: "K".into(), bytes: 1, body: None }
}

fn deliver(msg: u64, from: usize) -> Event {
    Event::Deliver { msg, from, kind: "K".into() }
}

fn end() -> Event {
    Event::End { reason: "shutdown".into(), entries: 1, messages: 2 }
}

fn exit(req: u64) -> Event {
    Event::Exit { req }
}

/// The merged events, each with its process and time.
fn told(merged: &Merged) -> Vec<(Option<usize>, f64, String)> {
    let name = |event: &Event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned();
    merged.records.iter().map(|record| (record.p, record.t, name(&record.event))).collect()
}

#[test]
fn a_delivery_waits_for_its_send_and_shows_that_a_clock_is_wrong() {
    // The clock of member 1 is 50 s slow: there, the answer arrives before the question.
    let zero = part(0, 1_000.0, [(1.0, 0, send(1, 1)), (3.0, 0, deliver(2, 1)), (4.0, 0, end())]);
    let one = part(1, 950.0, [(2.0, 1, deliver(1, 0)), (2.5, 1, send(2, 0)), (5.0, 1, end())]);
    for parts in [vec![zero.clone(), one.clone()], vec![one, zero]] {
        let merged = merge(parts).unwrap();
        let order: Vec<_> = merged.records.iter().map(|record| (record.p, record.t)).collect();
        let (p0, p1) = (Some(0), Some(1));
        assert_eq!(order, [(p0, 2.0), (p1, 2.0), (p1, 2.5), (p0, 4.0), (None, 4.0)], "{merged:?}");
        assert_eq!(merged.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        let end = Event::End { reason: "shutdown".into(), entries: 0, messages: 2 };
        assert_eq!(merged.records.last().unwrap().event, end);
        assert_eq!(merged.header.network.member, None);
        assert_eq!(merged.header.network.notes["members"], json!([0, 1]));
        assert!(merged.warnings.is_empty(), "{:?}", merged.warnings);
    }
}

#[test]
fn without_messages_the_time_of_day_decides() {
    let zero = part(0, 10.0, [(1.0, 0, exit(0)), (3.0, 0, exit(1)), (3.0, 0, end())]);
    let one = part(1, 11.0, [(1.0, 1, exit(2)), (1.0, 1, end())]);
    let merged = merge(vec![zero, one]).unwrap();
    let times: Vec<_> = told(&merged).into_iter().map(|(p, t, _)| (p, t)).collect();
    assert_eq!(times, [(Some(0), 1.0), (Some(1), 2.0), (Some(0), 3.0), (None, 3.0)]);
}

#[test]
fn a_killed_member_crashes_with_all_its_processes_after_its_last_record() {
    let mut zero = part(0, 0.0, [(1.0, 0, send(1, 1)), (1.5, 2, exit(9))]);
    zero.trace.is_cut_off = true;
    // Member 0 has lost the send of message 7.
    let one = part(1, 0.0, [(1.2, 1, deliver(1, 0)), (1.4, 1, deliver(7, 2)), (2.0, 1, end())]);
    let merged = merge(vec![one, zero]).unwrap();
    let events: Vec<_> = told(&merged).into_iter().map(|(p, _, name)| (p, name)).collect();
    let event = |p, name: &str| (p, name.to_owned());
    let expected = [
        event(Some(0), "send"),
        event(Some(1), "deliver"),
        event(Some(2), "exit"),
        event(Some(0), "crash"),
        event(Some(2), "crash"),
        event(Some(1), "deliver"),
        event(None, "end"),
    ];
    assert_eq!(events, expected);
    let killed = "m0 has no `end`: its member was killed, or still runs; taken as a crash of P0, P2 after line 4, \
         which is cut off, at 1.5 s";
    assert_eq!(merged.warnings, [killed, "m0: 1 message arrives that it has no send of, since it was cut off before"]);
    assert!(matches!(&merged.records[6].event, Event::End { reason, .. } if reason == "killed, shutdown"));
}

#[test]
fn what_is_missing_is_named() {
    let deaf = || part(0, 0.0, [(1.0, 0, deliver(5, 1)), (2.0, 0, end())]);
    let refusal = |parts: Vec<Part>| merge(parts).unwrap_err().to_string();
    let arrives = "m0: in line 2 message 5 arrives from P1, and no file has its send; ";
    let missing = "the trace of member 1, which carries P1, is missing: name its file, too";
    assert_eq!(refusal(vec![deaf()]), format!("{arrives}{missing}"));
    let other = part(1, 0.0, [(1.0, 1, end())]);
    let incomplete = "m1 has the events of P1, but not this one: is it of the same run, and complete?";
    assert_eq!(refusal(vec![deaf(), other]), format!("{arrives}{incomplete}"));
    let alone = merge(vec![part(0, 0.0, [(1.0, 0, end())])]).unwrap();
    assert_eq!(alone.warnings, ["no file is the trace of member 1; its events are missing"]);
}

#[test]
fn traces_that_are_not_of_one_run_are_refused() {
    let good = |member| part(member, 0.0, [(1.0, member, end())]);
    let refusal = |parts: Vec<Part>| merge(parts).unwrap_err().to_string();
    assert_eq!(refusal(Vec::new()), "no trace is given; name the trace of each member");
    let twice = "m1 and m1 are both traces of member 1; name one trace for each member";
    assert_eq!(refusal(vec![good(1), good(1)]), twice);
    let mut whole = good(0);
    whole.trace.header.network.member = None;
    let told = "m0 is not the trace of one member: its header has no `member` in `network`";
    assert_eq!(refusal(vec![whole]), told);
    let mut other = good(1);
    other.trace.header.variant = Some("lease:5".into());
    let told = "m1 and m0 are not of one run: the variant is lease:5 in m1 and the default in m0";
    assert_eq!(refusal(vec![good(0), other]), told);
    let mut other = good(1);
    other.trace.header.params.delay_max = 7;
    assert!(refusal(vec![good(0), other]).contains("the list of parameters is {\"delay_max\":7} in m1"));
    let send_twice = |member| part(member, 0.0, [(1.0, member, send(3, 2)), (1.0, member, end())]);
    let told = "m0 (line 2) and m1 (line 2) both send message 3; are they of one run?";
    assert_eq!(refusal(vec![send_twice(0), send_twice(1)]), told);
    let knot = |member: usize| {
        let other = 1 - member;
        let events = [(1.0, member, deliver(other as u64, other)), (2.0, member, send(member as u64, other))];
        part(member, 0.0, events.into_iter().chain([(3.0, member, end())]))
    };
    let told = "the traces contradict each other: m0 (line 2) needs line 3 of m1 first, and that comes after it; \
         are they of one run?";
    assert_eq!(refusal(vec![knot(0), knot(1)]), told);
}

#[test]
fn a_suspicion_comes_after_the_crash_unless_messages_say_otherwise() {
    let suspect = || Event::Suspect { peer: 0 };
    let order = |zero: Part, one: Part| {
        let merged = merge(vec![one, zero]).unwrap();
        merged.records.iter().map(|record| record.p.unwrap_or(9)).collect::<Vec<_>>()
    };
    // The clock of member 0 is 50 s fast, and no message shows it.
    let zero = || part(0, 50.0, [(1.0, 0, exit(0))]);
    let one = part(1, 0.0, [(2.0, 1, suspect()), (3.0, 1, end())]);
    assert_eq!(order(zero(), one), [0, 0, 1, 2, 9]);
    // The suspicion was wrong: the member was heard of again.
    let trust = Event::Trust { peer: 0 };
    let one = part(1, 0.0, [(2.0, 1, suspect()), (2.5, 1, trust), (3.0, 1, end())]);
    assert_eq!(order(zero(), one), [1, 1, 0, 0, 2, 9]);
    // The suspicion was wrong: the member received an answer later.
    let zero = part(0, 50.0, [(1.0, 0, deliver(4, 1))]);
    let one = part(1, 0.0, [(2.0, 1, suspect()), (2.5, 1, send(4, 0)), (3.0, 1, end())]);
    assert_eq!(order(zero, one), [1, 1, 0, 0, 2, 9]);
}
