//! The requests of a session, and that one session does not delay another.

use baton_types::locks::{CancelOutcome, Wait};

use super::*;

#[test]
fn each_session_hears_its_own_answers() {
    let mut node = Node::new();
    node.opened(1, 8);
    node.opened(2, 9);
    node.acquire(1, 1, "a");
    node.acquire(2, 1, "a");
    node.request(2, 2, Operation::Cancel { acquire: 1 });
    node.request(1, 2, Operation::Release { acquire: 1 });
    node.apply_all();
    let said = node.said();
    assert_eq!(said[0], answer(1, 1, Answer::Granted { fence: 1 }));
    assert_eq!(said[1], answer(2, 2, Answer::Cancelled(CancelOutcome::Removed)));
    assert_eq!(refusal(&said[2..3]), RefusalCode::Cancelled);
    assert_eq!(said[3..], [answer(1, 2, Answer::Released)]);
}

#[test]
fn what_makes_no_sense_is_refused_without_the_log() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.acquire(1, 1, "");
    assert_eq!(refusal(&node.said()), RefusalCode::Invalid);
    node.request(1, 2, Operation::Release { acquire: 2 });
    assert_eq!(refusal(&node.said()), RefusalCode::Invalid);
    assert!(node.proposed.is_empty() && node.listens(1));
}

/// The state would ignore it, because its client does not wait for an answer.
#[test]
fn a_request_whose_own_answer_was_seen_is_refused_without_the_log() {
    let mut node = Node::new();
    node.opened(1, 9);
    for (number, seen) in [(1, 1), (1, 2), (7, u64::MAX)] {
        node.hears(1, ToServer::Request(Request { number, seen, missing: Vec::new(), operation: acquire("a").into() }));
        let why = format!(
            "request {number} says that the answers up to {seen} were seen; it can only say so of earlier requests"
        );
        assert_eq!(node.said(), [answer(1, number, words::refuse(RefusalCode::Invalid, why))]);
    }
    assert!(node.proposed.is_empty() && node.listens(1));
    node.acquire(1, 1, "a");
    node.apply_all();
    assert_eq!(node.said(), [answer(1, 1, Answer::Granted { fence: 1 })]);
}

/// The client puts the cycle into words, so the sentence does not repeat it.
#[test]
fn a_refused_deadlock_has_its_cycle_once() {
    let mut node = Node::new();
    node.opened(1, 9);
    let of = |owner: u64, name: &str| match acquire(name) {
        Operation::Acquire(acquire) => Operation::Acquire(Acquire { owner, ..acquire }),
        other => other,
    };
    let asks = [of(1, "one"), of(2, "two"), of(1, "two"), of(2, "one")];
    (1..).zip(asks).for_each(|(number, operation)| node.request(1, number, operation));
    node.apply_all();
    let wait = |owner, lock: &str| Wait { owner, label: "label 9".to_owned(), lock: lock.into() };
    let (message, cycle) = ("the request would wait for itself".to_owned(), vec![wait(2, "one"), wait(1, "two")]);
    let refused = frames::Answer::Refused(Refusal { code: RefusalCode::Deadlock, message, cycle });
    assert_eq!(node.said().pop(), Some(answer(1, 4, refused)));
}

/// A client that pipelines delays only itself: requests beyond its window are parked, and requests of other clients
/// come in between.
#[test]
fn a_stream_has_so_many_requests_under_way_and_no_more() {
    let mut node = Node::new();
    node.opened(1, 8);
    node.opened(2, 9);
    for number in 1..=WINDOW as u64 + 10 {
        node.acquire(1, number, &format!("lock {number}"));
    }
    assert_eq!(node.proposed.len(), WINDOW);
    node.acquire(2, 1, "mine");
    // Keep-alives of the stream are not parked.
    assert!(node.listens(1));
    node.hears(1, ToServer::KeepAlive { number: 1 });
    assert!(matches!(node.said()[..], [Output::BeginRound(_)]));
    // Each applied request makes room for one, behind the requests of other clients.
    node.apply();
    assert_eq!(node.said(), [answer(1, 1, Answer::Granted { fence: 1 })]);
    assert_eq!(node.proposed.len(), WINDOW + 1);
    (0..WINDOW - 1).for_each(|_| node.apply());
    node.said();
    node.apply();
    assert_eq!(node.said(), [answer(2, 1, Answer::Granted { fence: WINDOW as u64 + 1 })]);
    node.apply_all();
    let last = WINDOW as u64 + 10;
    assert_eq!(node.said().pop(), Some(answer(1, last, Answer::Granted { fence: last + 1 })));
}

/// The memory of parked requests is bounded. Beyond the limit, the stream is not read.
#[test]
fn a_stream_that_asks_too_much_at_once_is_not_read() {
    let mut node = Node::new();
    node.opened(1, 9);
    let mut number = 0;
    while node.listens(1) {
        number += 1;
        node.acquire(1, number, &format!("lock {number}"));
    }
    let parked = number as usize - WINDOW;
    assert!((PARKED_BYTES_MAX / 400..PARKED_BYTES_MAX / 50).contains(&parked), "{parked}");
    while !node.listens(1) {
        assert!(!node.said().contains(&Output::Listen(StreamId(1))));
        node.apply();
    }
    assert!(node.said().contains(&Output::Listen(StreamId(1))));
    let left = node.frontend.streams[&StreamId(1)].parked.len();
    assert!((parked / 2 - 2..=parked / 2 + 2).contains(&left), "{left} of {parked}");
    node.apply_all();
    assert_eq!(node.state.claimed_by(SessionId(9)), number as usize);
    // The parked requests end with their stream.
    (1..200).for_each(|more| node.acquire(1, number + more, "x"));
    node.proposed.clear();
    node.tell(|frontend, _, _| frontend.stream_gone(StreamId(1)));
    assert_eq!(node.proposed, []);
}

/// A disk that hangs must not fill the memory.
#[test]
fn what_is_on_its_way_is_bounded() {
    let mut node = Node::new();
    node.opened(1, 8);
    node.opened(2, 9);
    for _ in 0..UNDER_WAY_MAX {
        node.frontend.under_way.push_back(UnderWay::Timer);
    }
    node.acquire(1, 1, "a");
    assert_eq!(node.said(), [close(1, Closing::Busy)]);
    node.stream(3);
    node.hears(3, ToServer::Open(resume(8, 2)));
    assert_eq!(node.said(), [close(3, Closing::Busy)]);
    node.tell(|frontend, _, _| frontend.force(CallId(5), b"a"[..].into(), false, Caller::default()));
    let busy = Reply::Unavailable(Closing::Busy.to_string());
    assert_eq!(node.said(), [Output::Reply { call: CallId(5), reply: busy }]);
    assert_eq!(node.proposed, []);
    // Keep-alives of the session still work.
    node.hears(2, ToServer::KeepAlive { number: 1 });
    assert!(matches!(node.said()[..], [Output::BeginRound(_)]));
}

/// Requests that were on their way when a stream ended do not count for the next stream.
#[test]
fn a_stream_that_comes_anew_has_a_window_of_its_own() {
    let mut node = Node::new();
    node.opened(1, 9);
    (1..=WINDOW as u64).for_each(|number| node.acquire(1, number, &format!("lock {number}")));
    node.tell(|frontend, _, _| frontend.stream_gone(StreamId(1)));
    node.stream(2);
    node.hears(2, ToServer::Open(resume(9, 2)));
    node.apply_all();
    let said = node.said();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(node.listens(2));
}

#[test]
fn a_client_that_does_not_read_is_hung_up_on_and_its_session_lives_on() {
    let mut node = Node::new();
    node.opened(1, 9);
    node.tell(|frontend, _, _| frontend.stream_slow(StreamId(1)));
    assert_eq!(node.said(), [close(1, Closing::Slow)]);
    node.acquire(1, 1, "a");
    assert_eq!(node.proposed, []);
    assert_eq!(node.frontend.leases().sessions(), 1);
}

#[test]
fn a_forced_release_names_those_whom_it_hits_when_it_is_applied() {
    let mut node = Node::new();
    node.opened(1, 8);
    node.opened(2, 9);
    node.acquire(1, 1, "a");
    node.apply();
    node.said();
    let from = "127.0.0.1:7".parse().ok();
    let caller = Caller { from, ..Caller::default() };
    // The holder changes between the call and the place of the Force in the log.
    node.request(1, 2, Operation::Release { acquire: 1 });
    node.acquire(2, 1, "a");
    node.tell(|frontend, _, _| frontend.force(CallId(5), b"a"[..].into(), false, caller));
    node.apply_all();
    let said = node.said();
    let (revoked, reply) = match &said[2..] {
        [reply, revoked, note] => {
            let lock = b"a"[..].into();
            assert_eq!(
                *note,
                Output::Note(Note::Locks(locks::Note::Forced { lock, now: false, holders: 1, by: from }))
            );
            (revoked.clone(), reply.clone())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(revoked, say(2, ToClient::Revoked { acquire: 1 }));
    let Output::Reply { call: CallId(5), reply: Reply::Locks(locks::Reply::Forced(holders)) } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(holders.len(), 1);
    assert_eq!((holders[0].session, holders[0].fence, holders[0].label.as_str()), (9, 2, "label 9"));
    assert_eq!((holders[0].deadline_in_ms, holders[0].pid), (Some(TTL_MS), 7));
    // The lock has no holder, so the answer is empty.
    node.tell(|frontend, _, _| frontend.force(CallId(6), b"free"[..].into(), true, Caller::default()));
    node.apply();
    assert_eq!(node.said(), [Output::Reply { call: CallId(6), reply: Reply::Locks(locks::Reply::Forced(Vec::new())) }]);
}

/// A wait is cancelled when it times out, and a lock opens after its lock-delay.
#[test]
fn what_time_brings_about_is_proposed_once() {
    let mut node = Node::new();
    node.opened(1, 8);
    node.opened(2, 9);
    let Operation::Acquire(one) = acquire("a") else { unreachable!() };
    node.request(1, 1, Operation::Acquire(Acquire { lock_delay_ms: 500, ..one.clone() }));
    node.request(2, 1, Operation::Acquire(Acquire { timeout_ms: Some(50), owner: 3, ..one }));
    node.apply_all();
    node.said();
    assert_eq!(node.frontend.next_wake(), Some(node.now_ms + 50));
    node.after(50);
    node.after(1);
    assert_eq!(node.proposed.len(), 1);
    node.apply();
    assert_eq!(refusal(&node.said()), RefusalCode::TimedOut);
    node.hears(2, ToServer::KeepAlive { number: 1 });
    node.after(TTL_MS - 50);
    node.apply();
    node.said();
    assert_eq!(node.state.counts().sessions, 1);
    node.acquire(2, 2, "a");
    node.apply();
    assert_eq!(node.said(), []);
    node.hears(2, ToServer::KeepAlive { number: 2 });
    node.after(501);
    node.said();
    node.apply();
    assert_eq!(node.said(), [answer(2, 2, Answer::Granted { fence: 2 })]);
    assert_eq!(node.proposed, []);
}
