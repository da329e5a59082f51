//! An acquire that waits behind others anyway goes into the log with the next proposal.

use super::*;

/// Session 1 holds the lock, session 2 waits for it, and sessions 3 and 4 are idle.
fn queue() -> Node {
    let mut node = Node::new();
    (1..=4).for_each(|id| node.opened(id, id));
    node.acquire(1, 1, "a");
    node.acquire(2, 1, "a");
    node.apply_all();
    assert_eq!(node.said(), [answer(1, 1, Answer::Granted { fence: 1 })]);
    node
}

fn sessions(proposed: &VecDeque<(u64, Command)>) -> Vec<u64> {
    let session = |command: &Command| match command {
        Command::Request(request) => request.session.0,
        other => panic!("{other:?}"),
    };
    proposed.iter().map(|(_, command)| session(command)).collect()
}

#[test]
fn it_goes_before_the_next_proposal() {
    let mut node = queue();
    node.acquire(3, 1, "a");
    assert_eq!(sessions(&node.proposed), [0; 0]);
    node.acquire(4, 1, "a");
    node.request(1, 2, Operation::Release { acquire: 1 });
    assert_eq!(sessions(&node.proposed), [3, 4, 1]);
    node.apply_all();
    for (session, fence) in [(2, 2), (3, 3)] {
        assert!(node.said().contains(&answer(session, 1, Answer::Granted { fence })));
        node.request(session, 2, Operation::Release { acquire: 1 });
        node.apply_all();
    }
    assert!(node.said().contains(&answer(4, 1, Answer::Granted { fence: 4 })));
}

#[test]
fn it_goes_alone_after_a_short_time() {
    let mut node = queue();
    node.acquire(3, 1, "a");
    node.after(HELD_BACK_MS - 1);
    node.acquire(4, 1, "a");
    assert_eq!(node.frontend.next_wake(), Some(node.now_ms + 1));
    node.after(1);
    assert_eq!(sessions(&node.proposed), [3, 4]);
}

#[test]
fn an_acquire_that_may_get_an_answer_at_once_is_not_held_back() {
    let mut node = queue();
    node.acquire(3, 1, "free");
    let Operation::Acquire(acquire) = acquire("a") else { unreachable!() };
    node.request(4, 1, Operation::Acquire(Acquire { timeout_ms: Some(0), ..acquire }));
    assert_eq!(sessions(&node.proposed), [3, 4]);
    node.apply_all();
    // The answer was lost with a stream. The client asks again.
    node.acquire(3, 1, "free");
    assert_eq!(sessions(&node.proposed), [3]);
}

#[test]
fn it_ends_with_the_term() {
    let mut node = queue();
    node.acquire(3, 1, "a");
    node.tell(|frontend, _, _| frontend.deposed());
    node.tell(|frontend, _, _| frontend.elected(2));
    node.apply_all();
    node.after(HELD_BACK_MS);
    assert_eq!((node.proposed.len(), node.state.waiters_of("a")), (0, 1));
}
