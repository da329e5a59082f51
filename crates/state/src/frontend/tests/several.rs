//! The limits for claims of several locks. No frame can ask for them yet.

use super::*;
use crate::state::locks::{Acquire, Operation, Want};

/// Wants all these locks at once.
fn claim(node: &mut Node, stream: u64, number: u64, locks: &[&str], timeout_ms: Option<u64>) {
    let wants = locks.iter().map(|lock| Want { lock: LockName::from(lock), mode: state::locks::Mode::Exclusive });
    let one = Acquire::one("", state::locks::Mode::Exclusive, state::OwnerId(fastrand::u64(..)));
    let operation = state::Operation::Locks(Operation::Acquire(Acquire { wants: wants.collect(), timeout_ms, ..one }));
    let (session, seen, missing, caller) = (SessionId(stream), number - 1, Vec::new(), Caller::default());
    let request = state::Request { session, number, seen, missing, caller, operation };
    node.tell(|frontend, now_ms, state| frontend.propose_request(now_ms, state, StreamId(stream), request));
}

fn leader(limits: ServerLimits) -> Node {
    let mut node = Node::leader(limits);
    (1..=4).for_each(|session| node.opened(session, session));
    node
}

/// The refusal of the last request; none if it was proposed.
fn refused(node: &mut Node) -> Option<RefusalCode> {
    let said = node.said();
    (!said.is_empty()).then(|| refusal(&said))
}

#[test]
fn every_new_lock_of_a_claim_counts() {
    let mut node = leader(ServerLimits { locks: 3, ..ServerLimits::default() });
    claim(&mut node, 1, 1, &["a", "b", "c", "d"], None);
    assert_eq!(refused(&mut node), Some(RefusalCode::TooManyLocks));
    claim(&mut node, 1, 2, &["a", "b"], None);
    // Those on their way count, each once.
    claim(&mut node, 2, 1, &["c", "d"], None);
    assert_eq!(refused(&mut node), Some(RefusalCode::TooManyLocks));
    claim(&mut node, 2, 2, &["a", "b", "c"], None);
    assert_eq!(refused(&mut node), None);
    node.apply_all();
    node.said();
    claim(&mut node, 3, 1, &["c", "d"], None);
    assert_eq!(refused(&mut node), Some(RefusalCode::TooManyLocks));
    claim(&mut node, 3, 2, &["c", "a"], None);
    node.apply_all();
    assert_eq!(node.state.counts().used, 3);
}

#[test]
fn a_claim_needs_room_in_every_line() {
    let mut node = leader(ServerLimits { waiters: 1, ..ServerLimits::default() });
    claim(&mut node, 1, 1, &["a"], None);
    claim(&mut node, 2, 1, &["b", "a"], None);
    node.apply_all();
    node.said();
    // The claim waits for the lock b, too, although nobody holds it.
    assert_eq!((node.state.waiters_of("a"), node.state.waiters_of("b")), (1, 1));
    for (number, locks) in [(1, ["c", "a"]), (2, ["c", "b"])] {
        claim(&mut node, 3, number, &locks, None);
        assert_eq!(refused(&mut node), Some(RefusalCode::TooManyWaiters), "{locks:?}");
    }
    claim(&mut node, 3, 3, &["c", "a"], Some(0));
    node.apply_all();
    assert_eq!(refused(&mut node), Some(RefusalCode::NotAvailable), "it does not wait");
}

#[test]
fn a_claim_on_its_way_may_wait_for_a_free_lock() {
    let mut node = leader(ServerLimits { waiters: 1, ..ServerLimits::default() });
    claim(&mut node, 1, 1, &["a"], None);
    node.apply_all();
    node.said();
    claim(&mut node, 2, 1, &["a", "b"], None);
    claim(&mut node, 3, 1, &["b"], None);
    assert_eq!(refused(&mut node), Some(RefusalCode::TooManyWaiters));
    node.apply_all();
    assert_eq!(node.state.waiters_of("b"), 1);
    // Without waiters, free locks are granted together.
    let mut node = leader(ServerLimits { waiters: 0, ..ServerLimits::default() });
    claim(&mut node, 1, 1, &["a", "b"], None);
    node.apply_all();
    assert_eq!(node.said(), [answer(1, 1, Answer::Granted { fence: 1 })]);
    claim(&mut node, 2, 1, &["c", "b"], None);
    assert_eq!(refused(&mut node), Some(RefusalCode::TooManyWaiters));
}

#[test]
fn every_lock_of_a_session_counts() {
    let mut node = leader(ServerLimits { holds: 3, ..ServerLimits::default() });
    claim(&mut node, 1, 1, &["a", "b", "c", "d"], None);
    assert_eq!(refused(&mut node), Some(RefusalCode::TooManyHolds));
    claim(&mut node, 1, 2, &["a", "b"], None);
    claim(&mut node, 1, 3, &["c", "d"], None);
    assert_eq!(refused(&mut node), Some(RefusalCode::TooManyHolds));
    node.apply_all();
    node.said();
    claim(&mut node, 1, 4, &["c", "d"], None);
    assert_eq!(refused(&mut node), Some(RefusalCode::TooManyHolds));
    claim(&mut node, 1, 5, &["c"], None);
    claim(&mut node, 2, 1, &["d", "e"], None);
    node.apply_all();
    assert_eq!(node.said().len(), 2);
    assert_eq!((node.state.claimed_by(SessionId(1)), node.state.claimed()), (3, 5));
}
