//! A cluster that began anew and grants nothing yet, and the longest TTL of a cluster.

use super::*;
use crate::leases::CLOSED_STEP_MS_MIN;
use crate::state::cluster::{self, Command as OfCluster};
use crate::state::{Outcome, Record};

const CLOSED_MS: u64 = 2 * CLOSED_STEP_MS_MIN + 500;

/// A leader in term 1 of a cluster that is closed.
fn closed() -> Node {
    let mut node = Node::follower(ServerLimits::default());
    let record = cluster::Record::Cluster { secret: None, max_ttl_ms: 60_000, closed_ms: CLOSED_MS };
    let records: Vec<Record> = node.state.records().chain([Record::Cluster(record)]).collect();
    node.state = State::restore(records.into_iter().map(Ok::<_, String>)).unwrap();
    lead(&mut node, 1);
    node
}

fn lead(node: &mut Node, term: u64) {
    node.tell(|frontend, _, _| frontend.elected(term));
    node.apply_all();
    node.said();
}

/// Passes the time until the next step of the wait, which is proposed then.
fn step(node: &mut Node, from_ms: u64, to_ms: u64) {
    let wait_ms = from_ms.min(CLOSED_STEP_MS_MIN) + 1;
    node.after(wait_ms - 1);
    assert!(node.proposed.is_empty(), "too early");
    node.after(1);
    assert_eq!(node.proposed, [(node.state.term(), OfCluster::Waited { from_ms, to_ms }.into())]);
}

#[test]
fn a_closed_cluster_grants_after_the_leader_has_counted_all_steps() {
    let mut node = closed();
    node.opened(1, 9);
    node.acquire(1, 1, "a");
    node.apply_all();
    assert_eq!(node.said(), []);
    for (from_ms, to_ms) in [(2_500, 1_500), (1_500, 500)] {
        step(&mut node, from_ms, to_ms);
        node.apply();
        assert_eq!(node.said(), []);
    }
    step(&mut node, 500, 0);
    node.apply();
    assert_eq!(node.said(), [answer(1, 1, Answer::Granted { fence: 1 })]);
    node.acquire(1, 2, "b");
    node.apply();
    assert_eq!(node.said(), [answer(1, 2, Answer::Granted { fence: 2 })]);
    assert_eq!(node.state.pending_timers().closed_ms, None);
}

/// The time that was counted before stays counted.
#[test]
fn another_leader_goes_on_with_the_step_that_was_not_counted() {
    let mut node = closed();
    step(&mut node, 2_500, 1_500);
    node.apply();
    node.after(900);
    lead(&mut node, 2);
    step(&mut node, 1_500, 500);
    // This node loses the leadership before the step is in the log, and another node counts it.
    node.proposed.clear();
    lead(&mut node, 3);
    step(&mut node, 1_500, 500);
    node.apply();
    step(&mut node, 500, 0);
}

#[test]
fn an_acquire_that_does_not_wait_hears_why_and_for_how_long_nothing_is_granted() {
    let mut node = closed();
    node.opened(1, 9);
    let Operation::Acquire(try_once) = acquire("a") else { unreachable!("an acquire") };
    node.request(1, 1, Operation::Acquire(Acquire { timeout_ms: Some(0), ..try_once }));
    let said = node.said();
    assert_eq!((refusal(&said), node.proposed.len()), (RefusalCode::Unavailable, 0));
    assert!(format!("{said:?}").contains("no lock is granted for another 2.5 s,"), "{said:?}");
}

#[test]
fn a_longer_ttl_than_the_cluster_allows_is_refused_with_the_flag() {
    let mut node = Node::new();
    let set = OfCluster::SetMaxTtl { max_ttl_ms: TTL_MS - 500 };
    node.state.apply(9, 9, &set.into(), &mut Outcome::default());
    node.stream(1);
    node.hears(1, open(9));
    let said = node.said();
    assert_eq!((end_reason(&said), node.proposed.len()), (EndReason::Invalid, 0));
    assert!(
        format!("{said:?}").contains("a TTL of 10 s, but this cluster allows at most 9.5 s (`baton serve --max-ttl`)"),
        "{said:?}"
    );
}
