//! The machine of the readers, against a feed of a state.

use super::*;
use crate::state::feed::{CHANGES_MAX, Leader};
use crate::state::locks::{self, Acquire, Mode};
use crate::state::sessions::{self, Open};
use crate::state::{Caller, Command, Operation, Outcome, OwnerId, Request, SessionId, State, cluster};
use baton_types::events::Kind;

const CLUSTER: ClusterId = ClusterId::MIN;
const ONE: ReaderId = ReaderId(1);

/// A state, and the index of the last entry in it.
struct Node {
    state: State,
    applied: u64,
    readers: Readers,
    requests: u64,
}

impl Node {
    fn new() -> Node {
        let mut node = Node { state: State::default(), applied: 0, readers: Readers::default(), requests: 0 };
        node.apply(cluster::Command::Leads(Leader { node: 1, name: "a".into(), term: 1 }).into());
        let open = Open {
            session: SessionId(1),
            ttl_ms: 10_000,
            label: "x".into(),
            host: "y".into(),
            pid: 7,
            resume: false,
            secret_hash: None,
            caller: Caller::default(),
        };
        node.apply(sessions::Command::Open(open).into());
        node
    }

    fn apply(&mut self, command: Command) {
        self.applied += 1;
        self.state.apply(self.applied, 1, &command, &mut Outcome::default());
    }

    fn request(&mut self, operation: locks::Operation) -> u64 {
        self.requests += 1;
        let (session, number, operation) = (SessionId(1), self.requests, Operation::Locks(operation));
        let (seen, missing, caller) = (number - 1, Vec::new(), Caller::default());
        self.apply(Command::Request(Request { session, number, seen, missing, caller, operation }));
        number
    }

    /// Takes the lock and releases it: two changes.
    fn turn(&mut self, lock: &str) {
        let acquire = Acquire::one(lock, Mode::Exclusive, OwnerId(1));
        let acquire = self.request(locks::Operation::Acquire(acquire));
        self.request(locks::Operation::Release { acquire });
    }

    fn comes(&mut self, id: ReaderId, watch: &Watch) {
        let begin = begin(watch, CLUSTER, self.state.feed(), self.applied).unwrap();
        let Begin::At(place) = begin else { panic!("{begin:?}") };
        self.readers.comes(0, id, watch, place, self.applied).unwrap();
    }

    fn next(&mut self, id: ReaderId) -> Option<Next> {
        self.readers.next(0, id, self.state.feed(), self.applied)
    }

    /// The kinds of all changes that the reader gets now.
    fn kinds(&mut self, id: ReaderId) -> Vec<Kind> {
        let mut kinds = Vec::new();
        while let Some(Next::Changes { changes, .. }) = self.next(id) {
            kinds.extend(changes.iter().map(KeptChange::kind));
        }
        kinds
    }

    fn wakes(&mut self) -> Vec<ReaderId> {
        self.readers.applied(0, self.state.feed(), self.applied)
    }
}

fn prefix(prefix: &str) -> Watch {
    Watch { prefix: prefix.into(), ..Watch::default() }
}

fn from(start: Start) -> Watch {
    Watch { start, ..Watch::default() }
}

fn at(index: u64, number: u32) -> Watch {
    from(Start::Position(Position { cluster: Some(CLUSTER), index, number }))
}

#[test]
fn a_reader_is_named_when_there_is_something_for_it_and_only_then() {
    let mut node = Node::new();
    let (all, few) = (ReaderId(1), ReaderId(2));
    node.comes(all, &Watch::default());
    node.comes(few, &prefix("ab"));
    assert_eq!((node.next(all), node.next(few)), (Some(Next::Nothing), Some(Next::Nothing)));
    assert_eq!(node.wakes(), []);
    node.turn("a");
    assert_eq!(node.wakes(), [all]);
    assert_eq!(node.wakes(), [], "it was named, and has not asked since");
    node.turn("abc");
    assert_eq!(node.wakes(), [few]);
    let turn = [Kind::Granted, Kind::Released];
    assert_eq!(node.kinds(few), turn);
    assert_eq!(node.kinds(all), [turn, turn].concat());
    assert_eq!(node.wakes(), [], "both have got everything");
    node.turn("b");
    assert_eq!((node.wakes(), node.next(few)), (vec![all], Some(Next::Nothing)));
}

#[test]
fn what_is_applied_while_a_reader_asks_is_told_once() {
    let mut node = Node::new();
    node.comes(ONE, &Watch::default());
    node.turn("a");
    assert_eq!(node.kinds(ONE), [Kind::Granted, Kind::Released]);
    assert_eq!(node.wakes(), [], "it has got them already");
    assert_eq!(node.kinds(ONE), []);
}

#[test]
fn a_reader_gets_only_the_kinds_that_it_wants() {
    let mut node = Node::new();
    let kinds = Kinds::of([Kind::Released, Kind::SessionOpened]);
    node.comes(ONE, &Watch { kinds, start: Start::Oldest, ..Watch::default() });
    node.turn("a");
    assert_eq!(node.kinds(ONE), [Kind::SessionOpened, Kind::Released]);
}

#[test]
fn a_position_is_kept_or_gone_or_of_the_future() {
    let mut node = Node::new();
    let begin = |node: &Node, watch: &Watch| begin(watch, CLUSTER, node.state.feed(), node.applied);
    assert_eq!(begin(&node, &at(1, 0)), Ok(Begin::At(Place { index: 1, number: 0 })));
    assert_eq!(begin(&node, &at(0, 9)), Ok(Begin::Listing { gone: true }));
    assert_eq!(begin(&node, &at(3, 0)), Ok(Begin::At(Place { index: 3, number: 0 })), "the next entry");
    assert_eq!(begin(&node, &at(3, 1)), Ok(Begin::NotYet));
    assert_eq!(begin(&node, &at(u64::MAX, u32::MAX)), Ok(Begin::NotYet));
    let Start::Position(mut other) = at(2, 0).start else { panic!() };
    other.cluster = ClusterId::new(77);
    assert_eq!(begin(&node, &from(Start::Position(other))), Ok(Begin::Listing { gone: true }));
    assert_eq!(begin(&node, &from(Start::Position(other.short()))), Ok(Begin::At(Place { index: 2, number: 0 })));
    assert_eq!(begin(&node, &from(Start::Listing)), Ok(Begin::Listing { gone: false }));
    assert_eq!(begin(&node, &prefix(&"x".repeat(513))), Err(Refusal::Prefix { bytes: 513 }));
    node.state = State::default();
    assert_eq!(begin(&node, &Watch::default()), Err(Refusal::NotKept));
}

#[test]
fn a_reader_of_what_is_there_ends_there() {
    let mut node = Node::new();
    node.comes(ONE, &Watch { is_over_at_end: true, start: Start::Oldest, ..Watch::default() });
    node.turn("a");
    assert!(matches!(node.next(ONE), Some(Next::Changes { changes, next }) if changes.len() == 2 && next.index == 3));
    assert_eq!((node.next(ONE), node.next(ONE)), (Some(Next::Over), None));
    assert!(node.readers.is_empty());
}

#[test]
fn a_reader_that_has_fallen_behind_the_kept_changes_is_told_where_to_go_on() {
    let mut node = Node::new();
    node.comes(ONE, &Watch::default());
    for _ in 0..=CHANGES_MAX / 2 {
        node.turn("a");
    }
    assert_eq!(node.next(ONE), Some(Next::TooSlow { next: Place { index: 3, number: 0 } }));
    assert_eq!(node.next(ONE), None);
}

#[test]
fn a_reader_that_wants_little_never_falls_behind() {
    let mut node = Node::new();
    node.comes(ONE, &prefix("b"));
    assert_eq!(node.next(ONE), Some(Next::Nothing));
    let mut last = Place::default();
    for _ in 0..CHANGES_MAX {
        node.turn("a");
        for id in node.wakes() {
            assert_eq!(id, ONE);
            while let Some(Next::Changes { changes, next }) = node.next(ONE) {
                assert!(changes.is_empty() && next > last);
                last = next;
            }
        }
    }
    assert!(last.index + 2 * PROGRESS_ENTRIES > node.applied, "it was told how far it can go on: {last:?}");
    node.turn("b");
    assert_eq!((node.wakes(), node.kinds(ONE)), (vec![ONE], vec![Kind::Granted, Kind::Released]));
}

/// A snapshot of the leader may skip changes that an idle reader has not seen.
#[test]
fn an_idle_reader_hears_of_changes_that_are_gone() {
    let mut node = Node::new();
    node.comes(ONE, &prefix("b"));
    assert_eq!((node.next(ONE), node.wakes()), (Some(Next::Nothing), vec![]));
    for _ in 0..=CHANGES_MAX / 2 {
        node.turn("a");
    }
    assert_eq!(node.wakes(), [ONE]);
    assert_eq!(node.next(ONE), Some(Next::TooSlow { next: Place { index: 3, number: 0 } }));
}

#[test]
fn a_batch_has_a_limit_and_the_next_one_goes_on_after_it() {
    let mut node = Node::new();
    node.comes(ONE, &Watch::default());
    (0..BATCH_MAX).for_each(|_| node.turn("a"));
    let mut told = Vec::new();
    while let Some(Next::Changes { changes, next }) = node.next(ONE) {
        assert!(changes.len() <= BATCH_MAX && changes.iter().all(|change| change.place < next));
        told.extend(changes);
    }
    let all: Vec<KeptChange> = node.state.feed().from(Place { index: 3, number: 0 }).cloned().collect();
    assert_eq!((told.len(), told), (2 * BATCH_MAX, all));
}

#[test]
fn readers_that_do_not_read_are_cut_and_cost_nothing_then() {
    let mut node = Node::new();
    for id in 0..READERS_MAX as u64 {
        node.comes(ReaderId(id), &prefix("a"));
    }
    assert_eq!(node.readers.comes(0, ReaderId(9_999), &prefix("a"), Place::default(), 0), Err(Refusal::TooMany));
    assert_eq!(node.readers.next(1, ReaderId(5), node.state.feed(), node.applied), Some(Next::Nothing));
    assert_eq!(node.readers.cut(SLOW_MS - 1), []);
    assert_eq!(node.readers.cut(SLOW_MS).len(), READERS_MAX - 1, "one has nothing to read");
    assert_eq!((node.readers.len(), node.readers.prefixes.len()), (1, 1));
    node.readers.goes(ReaderId(5));
    assert!(node.readers.prefixes.is_empty() && node.readers.lengths.is_empty());
}
