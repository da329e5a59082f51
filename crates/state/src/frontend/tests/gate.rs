//! A front end of a member of a peer group: an algorithm grants the locks.

use std::num::NonZeroU64;

use baton_types::frames::Hopeless;

use super::*;

fn admit(node: &mut Node, lock: &str, fence: u64) {
    let fence = NonZeroU64::new(fence).expect("fences go from 1 on");
    let outcome = node.state.admit(9, node.now_ms, &LockName::from(lock), fence);
    node.tell(|frontend, now_ms, state| frontend.admitted(now_ms, state, &outcome));
}

fn hopeless(node: &mut Node, locks: &[&str], process: u64) {
    let locks: Vec<LockName> = locks.iter().map(|lock| LockName::from(*lock)).collect();
    node.tell(|frontend, now_ms, state| frontend.hopeless(now_ms, state, &locks, &why(process)));
}

fn why(process: u64) -> Hopeless {
    Hopeless { process, message: format!("waiting for process {process}") }
}

fn timed(name: &str, timeout_ms: u64) -> Operation {
    let Operation::Acquire(acquire) = acquire(name) else { unreachable!("it is an acquire") };
    Operation::Acquire(Acquire { timeout_ms: Some(timeout_ms), ..acquire })
}

#[test]
fn a_client_hears_of_its_lock_when_the_algorithm_grants_it() {
    let mut node = Node::member();
    node.opened(1, 7);
    node.acquire(1, 1, "a");
    node.apply_all();
    assert_eq!(node.said(), []);
    admit(&mut node, "a", 40);
    assert_eq!(node.said(), [answer(1, 1, Answer::Granted { fence: 40 })]);
    admit(&mut node, "a", 41);
    assert_eq!(node.said(), [], "nobody waits");
    // Proposals go on in their order, although nothing was proposed for the grant.
    node.request(1, 2, Operation::Release { acquire: 1 });
    node.apply_all();
    assert_eq!(node.said(), [answer(1, 2, Answer::Released)]);
}

#[test]
fn a_grant_ends_the_time_out_of_its_acquire() {
    let mut node = Node::member();
    node.opened(1, 7);
    node.request(1, 1, timed("a", 500));
    node.apply_all();
    admit(&mut node, "a", 40);
    node.said();
    node.after(500);
    assert_eq!(node.proposed, []);
}

#[test]
fn a_try_waits_a_little_and_is_recognised_when_it_is_repeated() {
    let mut node = Node::member();
    node.frontend.try_waits(Some(20));
    node.opened(1, 7);
    let tries = timed("a", 0);
    for _ in 0..2 {
        node.request(1, 1, tries.clone());
        node.apply_all();
        assert_eq!(node.said(), []);
    }
    assert_eq!(node.state.counts().waiters, 1);
    node.after(19);
    assert_eq!(node.proposed, []);
    node.after(1);
    node.apply_all();
    assert_eq!(refusal(&node.said()), RefusalCode::TimedOut);
}

#[test]
fn a_session_that_a_member_does_not_know_ends_with_the_reason() {
    let mut node = Node::member();
    node.stream(1);
    node.hears(1, ToServer::Open(resume(7, 1)));
    node.apply_all();
    let said = node.said();
    let told = said.iter().find_map(|output| match output {
        Output::Say { said: ToClient::Ended { reason: EndReason::Unknown, message }, .. } => Some(message),
        _ => None,
    });
    assert!(told.is_some_and(|told| told.starts_with("this member of a peer group does not know")), "{said:?}");
}

#[test]
fn a_denied_client_hears_why() {
    let mut node = Node::member();
    node.opened(1, 7);
    node.acquire(1, 1, "a");
    node.apply_all();
    let outcome = node.state.deny(9, node.now_ms, &LockName::from("a"), "too much".to_owned());
    node.tell(|frontend, now_ms, state| frontend.admitted(now_ms, state, &outcome));
    let message = "too much".to_owned();
    let denied = frames::Answer::Refused(Refusal::new(RefusalCode::Unavailable, message));
    assert_eq!(node.said(), [answer(1, 1, denied)]);
}

#[test]
fn only_waiters_for_the_lock_hear_that_their_wait_is_hopeless_once_a_second() {
    let mut node = Node::member();
    for (stream, lock) in [(1, "a"), (2, "a"), (3, "b")] {
        node.opened(stream, stream);
        node.acquire(stream, 1, lock);
    }
    node.apply_all();
    admit(&mut node, "a", 40);
    node.said();
    let told = |stream, process| say(stream, ToClient::Hopeless { acquire: 1, why: why(process) });
    hopeless(&mut node, &["a", "nobody's"], 3);
    assert_eq!(node.said(), [told(2, 3)], "session 1 holds the lock");
    node.after(999);
    hopeless(&mut node, &["a", "b"], 3);
    assert_eq!(node.said(), [told(3, 3)]);
    node.after(1);
    hopeless(&mut node, &["a", "b"], 4);
    assert_eq!(node.said(), [told(2, 4)]);
}
