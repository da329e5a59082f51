//! Keep-alives and looks wait for a round that shows that this node led after they came.

use super::*;

fn begins(said: &[Output]) -> Vec<RoundId> {
    said.iter().filter_map(|output| if let Output::BeginRound(round) = output { Some(*round) } else { None }).collect()
}

fn done(node: &mut Node, round: RoundId, led: bool) -> Vec<Output> {
    node.tell(|frontend, now_ms, _| frontend.round_done(now_ms, round, led));
    node.said()
}

fn look(node: &mut Node, call: u64) {
    node.tell(|frontend, now_ms, _| frontend.look(now_ms, CallId(call)));
}

fn current(call: u64) -> Output {
    Output::Reply { call: CallId(call), reply: Reply::Current }
}

fn is_refused(output: &Output, call: u64) -> bool {
    matches!(output, Output::Reply { call: CallId(refused), reply: Reply::Unavailable(_) } if *refused == call)
}

#[test]
fn a_keep_alive_is_acknowledged_by_a_round_that_began_after_it() {
    let mut node = Node::new();
    node.opened(1, 8);
    node.opened(2, 9);
    node.hears(1, ToServer::KeepAlive { number: 1 });
    let first = begins(&node.said())[0];
    node.hears(2, ToServer::KeepAlive { number: 7 });
    let second = begins(&node.said())[0];
    assert_ne!(first, second);
    assert_eq!(done(&mut node, first, true), [say(1, ToClient::Alive { number: 1 })]);
    assert_eq!(done(&mut node, second, true), [say(2, ToClient::Alive { number: 7 })]);
    assert_eq!(done(&mut node, second, true), []);
}

/// There are never more than two rounds. Waiting keep-alives are bounded: a later one of a session replaces the earlier
/// one.
#[test]
fn one_round_serves_all_that_wait() {
    let mut node = Node::new();
    (1..=50).for_each(|session| node.opened(session, session));
    (1..=50).for_each(|session| node.hears(session, ToServer::KeepAlive { number: 2 }));
    for number in [4, 3] {
        node.hears(50, ToServer::KeepAlive { number });
    }
    look(&mut node, 5);
    let rounds = begins(&node.said());
    assert_eq!(rounds.len(), ROUNDS_MAX);
    assert_eq!(done(&mut node, rounds[1], true).len(), 2, "an answer, and the next round");
    let said = done(&mut node, rounds[0], true);
    assert_eq!(said, [say(1, ToClient::Alive { number: 2 })]);
    let said = done(&mut node, RoundId(rounds[1].0 + 1), true);
    assert_eq!(said.len(), 49);
    assert_eq!(said[47], say(50, ToClient::Alive { number: 4 }));
    assert_eq!(said[48], current(5));
}

#[test]
fn after_a_round_that_failed_keep_alives_wait_for_another_and_looks_fail() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.hears(1, ToServer::KeepAlive { number: 1 });
    let first = begins(&node.said())[0];
    look(&mut node, 5);
    let second = begins(&node.said())[0];
    assert_eq!(done(&mut node, first, false), []);
    let said = done(&mut node, second, false);
    assert!(is_refused(&said[0], 5) && said.len() == 1, "{said:?}");
    // The next round does not begin at once.
    assert_eq!(node.frontend.next_wake(), Some(node.now_ms + ROUND_AGAIN_MS));
    node.after(ROUND_AGAIN_MS - 1);
    assert_eq!(node.said(), []);
    node.after(1);
    let third = begins(&node.said())[0];
    assert_eq!(done(&mut node, third, true), [say(1, ToClient::Alive { number: 1 })]);
}

#[test]
fn a_condemned_session_is_not_acknowledged() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.hears(1, ToServer::KeepAlive { number: 1 });
    let round = begins(&node.said())[0];
    node.after(TTL_MS + 1);
    assert_eq!(done(&mut node, round, true), []);
    node.hears(1, ToServer::KeepAlive { number: 2 });
    assert_eq!(node.said(), []);
    node.apply();
    node.said();
    // The session has ended, and nothing more is proposed.
    assert_eq!(node.state.counts().sessions, 0);
    assert_eq!(node.proposed, []);
}

#[test]
fn a_keep_alive_extends_the_lease_when_it_arrives() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.after(TTL_MS - 1);
    node.hears(1, ToServer::KeepAlive { number: 1 });
    node.after(TTL_MS);
    assert_eq!(node.proposed, []);
    node.after(1);
    assert_eq!(node.proposed.len(), 1);
}

/// The lease may be lost if this node missed a change of the term.
#[test]
fn a_session_without_a_lease_has_to_resume() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.frontend.leases.step_down();
    node.hears(1, ToServer::KeepAlive { number: 1 });
    assert_eq!(node.said(), [close(1, Closing::NotLeading)]);
    let mut node = Node::new();
    node.opened(1, 9);
    node.frontend.leases.lead(0, 1, &Default::default());
    node.hears(1, ToServer::KeepAlive { number: 1 });
    assert_eq!(node.said(), [close(1, Closing::NoLease)]);
}

#[test]
fn only_a_leader_serves_looks_and_forced_releases() {
    let mut node = Node::follower(ServerLimits::default());
    look(&mut node, 1);
    node.tell(|frontend, _, _| frontend.force(CallId(2), b"a"[..].into(), false, Caller::default()));
    let said = node.said();
    assert!(is_refused(&said[0], 1) && is_refused(&said[1], 2) && said.len() == 2, "{said:?}");
}
