//! A module that is no lock: requests, a limit, a timer, a call, changes, and records.

use baton_types::counter as types;

use super::*;
use crate::state::counter::{Command as OfCounter, RESET_AFTER_MS, VALUE_MAX, What};
use crate::state::{Effect, Record, Timer};

fn value(stream: u64, number: u64, value: u64) -> Output {
    answer(stream, number, types::Answer(value))
}

fn node() -> Node {
    let mut node = Node::new();
    node.opened(1, 1);
    node
}

fn add(node: &mut Node, number: u64, by: u64) -> Vec<Output> {
    node.request(1, number, types::Operation::Add(by));
    node.apply_all();
    node.said()
}

#[test]
fn a_session_adds_and_reads() {
    let mut node = node();
    assert_eq!(add(&mut node, 1, 3), [value(1, 1, 3)]);
    assert_eq!(add(&mut node, 2, 4), [value(1, 2, 7)]);
    node.request(1, 3, types::Operation::Read);
    node.apply_all();
    assert_eq!(node.said(), [value(1, 3, 7)]);
    // A request that comes again, because its answer was lost, is not applied again.
    node.hears(
        1,
        ToServer::Request(Request { number: 3, seen: 1, missing: vec![], operation: types::Operation::Read.into() }),
    );
    node.apply_all();
    assert_eq!(node.said(), [value(1, 3, 7)]);
    assert_eq!(node.state.counter().value, 7);
}

#[test]
fn the_front_end_refuses_what_is_beyond_the_limit_of_a_module() {
    let mut node = node();
    node.request(1, 1, types::Operation::Add(VALUE_MAX - 10));
    // What is on its way counts.
    node.request(1, 2, types::Operation::Add(11));
    assert_eq!(node.proposed.len(), 1);
    assert_eq!(refusal(&node.said()), RefusalCode::Unavailable);
    node.apply_all();
    assert_eq!(node.said(), [value(1, 1, VALUE_MAX - 10)]);
    node.tell(|frontend, _, _| frontend.space(Some(1), 2));
    assert_eq!(refusal(&add(&mut node, 3, 1)), RefusalCode::LowSpace);
    node.request(1, 4, types::Operation::Read);
    node.apply_all();
    assert_eq!(node.said(), [value(1, 4, VALUE_MAX - 10)]);
}

/// Also one that a new leader takes over, with its full time.
#[test]
fn a_timer_of_a_module_ends_once() {
    let mut node = node();
    add(&mut node, 1, 3);
    node.after(RESET_AFTER_MS - 100);
    add(&mut node, 2, 3);
    node.after(RESET_AFTER_MS);
    assert_eq!((node.proposed.len(), node.state.counter().value), (0, 6));
    node.after(1);
    let end = Command::Counter(OfCounter::EndOf { generation: 2 });
    assert_eq!(node.proposed, [(1, end)]);
    node.apply_all();
    assert_eq!(node.state.counter().value, 0);
    assert_eq!(node.state.pending_timers().timers, []);
    add(&mut node, 3, 5);
    let timers = node.state.pending_timers().timers;
    assert!(matches!(timers[..], [(Timer::Counter(_), RESET_AFTER_MS)]), "{timers:?}");
    node.tell(|frontend, _, _| frontend.elected(2));
    node.apply_all();
    node.after(RESET_AFTER_MS + 1);
    node.apply_all();
    assert_eq!(node.state.counter().value, 0);
}

#[test]
fn a_call_of_a_module_gets_one_answer() {
    let mut node = node();
    add(&mut node, 1, 9);
    for (call, from) in [(7, 9), (8, 0)] {
        node.tell(|frontend, _, _| frontend.call(CallId(call), OfCounter::Reset.into()));
        node.apply_all();
        let reply = Reply::Counter(super::super::counter::Reply(from));
        assert_eq!(node.said(), [Output::Reply { call: CallId(call), reply }]);
    }
    // The leadership ends before the answer.
    node.tell(|frontend, _, _| frontend.call(CallId(9), OfCounter::Reset.into()));
    node.tell(|frontend, _, _| frontend.deposed());
    let Some(Output::Reply { call: CallId(9), reply: Reply::Unknown(why) }) = node.said().pop() else { panic!() };
    assert!(why.ends_with("it is not known whether the counter was reset"), "{why}");
}

#[test]
fn a_module_has_changes_and_records() {
    let mut node = node();
    node.request(1, 1, types::Operation::Add(3));
    let (_, command) = node.proposed.pop_front().unwrap();
    let mut outcome = Outcome::default();
    node.state.apply(1, 1, &command, &mut outcome);
    let [change] = &outcome.changes[..] else { panic!("{outcome:?}") };
    assert_eq!(change.what, state::What::Counter(What { before: 0, after: 3 }));
    assert!(matches!(outcome.effects[..], [Effect::Answer { .. }, Effect::Counter(_)]), "{outcome:?}");
    let mut records: Vec<Record> = node.state.records().collect();
    assert_eq!(State::restore::<String>(records.iter().cloned().map(Ok)), Ok(node.state.clone()));
    for record in &mut records {
        if let Record::Counter(counter) = record {
            counter.value = VALUE_MAX + 1;
        }
    }
    let restored = State::restore::<String>(records.into_iter().map(Ok));
    assert_eq!(restored.unwrap_err(), format!("the counter is at {}", VALUE_MAX + 1));
}
