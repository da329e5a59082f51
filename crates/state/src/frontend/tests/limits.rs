//! The limits of the server: what they refuse, and that a flood does not fill the memory.

use baton_types::frames::EndReason;

use super::*;

const FREE: u64 = 1_000 << 20;
const MIN: u64 = 100 << 20;

fn space(node: &mut Node, free_bytes: Option<u64>) {
    node.tell(|frontend, _, _| frontend.space(free_bytes, MIN));
}

#[test]
fn on_a_full_disk_locks_are_given_back_and_not_given_out() {
    let mut node = Node::new();
    space(&mut node, Some(FREE));
    node.opened(1, 9);
    node.acquire(1, 1, "a");
    node.apply();
    node.said();
    space(&mut node, Some(MIN - 1));
    assert_eq!(node.said(), [Output::Note(Note::Space { low: true, free_bytes: MIN - 1 })]);
    assert!(node.frontend.is_space_low());
    space(&mut node, Some(MIN - (2 << 20)));
    assert_eq!((node.said(), node.frontend.free_bytes()), (vec![], Some(MIN - (2 << 20))));
    node.acquire(1, 2, "b");
    let message = "the server has too little free space: 98 MiB, and it needs 100 MiB".to_owned();
    // The node noted the low space before. A limit note does not follow.
    assert_eq!(node.said(), [answer(1, 2, words::refuse(RefusalCode::LowSpace, message.clone()))]);
    node.stream(2);
    node.hears(2, open(8));
    let ended = ToClient::Ended { reason: EndReason::LowSpace, message };
    assert_eq!(node.said(), [say(2, ended), close(2, Closing::Ended)]);
    // A node of a cluster tells its name, because followers pass the refusal on.
    node.frontend.is_called("b".to_owned());
    assert_eq!(node.frontend.low_space(), "node b has too little free space: 98 MiB, and it needs 100 MiB");
    // An existing session goes on, and may release.
    node.stream(3);
    node.hears(3, ToServer::Open(resume(9, 2)));
    node.apply();
    node.said();
    node.request(3, 3, Operation::Release { acquire: 1 });
    node.apply();
    assert_eq!(node.said(), [answer(3, 3, Answer::Released)]);
    space(&mut node, Some(MIN));
    assert_eq!(node.said(), [Output::Note(Note::Space { low: false, free_bytes: MIN })]);
    node.acquire(3, 4, "b");
    node.apply();
    assert_eq!(node.said(), [answer(3, 4, Answer::Granted { fence: 2 })]);
    // If the disk does not tell its free space, the server writes until a write fails.
    space(&mut node, None);
    assert!(!node.frontend.is_space_low());
}

/// The client would give the request up, and nobody would release the lock.
#[test]
fn an_acquire_that_the_log_has_is_not_refused_when_it_is_repeated() {
    // Three cases: the acquire waits; it was granted, but the client has not seen the answer; it is on its way.
    for (others, applied) in [(true, true), (false, true), (false, false)] {
        let mut node = Node::new();
        node.opened(1, 8);
        node.opened(2, 9);
        if others {
            node.acquire(2, 1, "a");
            node.apply();
        }
        let wanted = acquire("a");
        node.request(1, 1, wanted.clone());
        if applied {
            node.apply();
        }
        space(&mut node, Some(0));
        node.stream(3);
        node.hears(3, ToServer::Open(resume(8, 2)));
        node.apply_all();
        node.said();
        node.request(3, 1, wanted);
        assert_eq!(node.proposed.len(), 1, "{others} {applied}");
        node.apply();
        let granted = [answer(3, 1, Answer::Granted { fence: 1 })];
        assert_eq!(node.said(), if others { &[][..] } else { &granted });
        node.acquire(3, 2, "b");
        assert_eq!(refusal(&node.said()), RefusalCode::LowSpace);
    }
}

/// The client and the operator read the same sentence, which names the flag that sets the limit.
#[test]
fn a_refusal_names_the_flag_of_its_limit() {
    let roomy = ServerLimits::default();
    let locks = "the server has 1 lock; it takes no more (--max-locks)";
    let waiters = "0 requests wait for this lock already; no more may wait (--max-waiters)";
    let holds = "the session holds or waits for 1 lock; it may have no more (--max-holds)";
    let cases = [
        (ServerLimits { locks: 1, ..roomy }, "b", RefusalCode::TooManyLocks, locks),
        (ServerLimits { waiters: 0, ..roomy }, "a", RefusalCode::TooManyWaiters, waiters),
        (ServerLimits { holds: 1, ..roomy }, "b", RefusalCode::TooManyHolds, holds),
    ];
    for (limits, name, kind, message) in cases {
        let mut node = Node::leader(limits);
        node.opened(1, 9);
        node.acquire(1, 1, "a");
        node.apply();
        node.said();
        node.acquire(1, 2, name);
        let refused = answer(1, 2, words::refuse(kind, message.to_owned()));
        assert_eq!(node.said(), [limit_note(message), refused]);
    }
}

/// Each waiter waits for both locks, and for the client that asks. So its acquire would need a long check.
#[test]
fn an_acquire_that_needs_a_long_check_for_deadlocks_is_refused() {
    let mut node = Node::leader(ServerLimits::default());
    node.opened(1, 9);
    node.opened(2, 8);
    let by_one_owner = |name| {
        let Operation::Acquire(one) = acquire(name) else { unreachable!() };
        Operation::Acquire(Acquire { owner: 1, ..one })
    };
    node.request(1, 1, by_one_owner("a"));
    node.acquire(2, 1, "b");
    node.apply_all();
    node.said();
    for stream in 20..31 {
        node.opened(stream, stream);
        for number in 1..=1_000 {
            let Operation::Acquire(one) = acquire(if number % 2 == 1 { "a" } else { "b" }) else { unreachable!() };
            let owner = stream * 1_000 + number / 2;
            node.request(stream, number, Operation::Acquire(Acquire { owner, ..one }));
        }
        node.apply_all();
        node.said();
    }
    node.request(1, 2, by_one_owner("b"));
    let message = "too many requests wait for each other: the check for a deadlock would read more than 10000 of them";
    let note = Output::Note(Note::Limit { limit: "deadlock checks", message: message.to_owned(), from: None });
    assert_eq!(node.said(), [note, answer(1, 2, words::refuse(RefusalCode::TooManyWaiters, message.to_owned()))]);
    // A request that does not wait needs no check.
    node.acquire(1, 3, "c");
    node.apply();
    assert_eq!(node.said(), [answer(1, 3, Answer::Granted { fence: 3 })]);
}

fn limit_note(message: &str) -> Output {
    let (_, flag) = message.rsplit_once('(').unwrap();
    let flags = ["--max-locks", "--max-waiters", "--max-holds", "--max-sessions", "--max-streams"];
    let flag = flags.into_iter().find(|known| flag.starts_with(known)).unwrap();
    Output::Note(Note::Limit { limit: flag, message: message.to_owned(), from: None })
}

/// One line per refusal would fill the log. A single line for ever would hide the next flood.
#[test]
fn the_operator_is_told_of_a_limit_once_a_minute() {
    let mut node = Node::leader(ServerLimits { locks: 1, ..ServerLimits::default() });
    node.opened(1, 9);
    node.acquire(1, 1, "a");
    node.apply();
    let start_ms = node.now_ms;
    let mut told_ms = Vec::new();
    for number in 2..=131 {
        node.now_ms += 1_000;
        // Keeps the session from expiring.
        node.hears(1, ToServer::KeepAlive { number });
        node.said();
        node.acquire(1, number, "b");
        if node.said().contains(&limit_note("the server has 1 lock; it takes no more (--max-locks)")) {
            told_ms.push(node.now_ms - start_ms);
        }
    }
    assert_eq!(told_ms, [1_000, 61_000, 121_000]);
}

#[test]
fn sessions_are_limited() {
    let mut node = Node::leader(ServerLimits { sessions: 2, ..ServerLimits::default() });
    node.opened(1, 1);
    node.stream(2);
    node.hears(2, open(2));
    // One session exists, one is on its way.
    node.stream(3);
    node.hears(3, open(3));
    let said = node.said();
    assert_eq!(said[0], limit_note("the server has 2 sessions; it takes no more (--max-sessions)"));
    assert_eq!(end_reason(&said), EndReason::TooManySessions);
    node.apply();
    node.said();
    node.stream(4);
    node.hears(4, open(4));
    // Only the client gets an answer. The operator was told already.
    assert_eq!(node.said().len(), 2);
    // Existing sessions can be resumed, and an ended session makes room.
    node.stream(5);
    node.hears(5, ToServer::Open(resume(1, 2)));
    node.apply();
    node.request(5, 1, frames::Operation::Close);
    node.apply();
    node.said();
    node.opened(6, 6);
    assert_eq!(node.state.counts().sessions, 2);
    // An Open that resumes an unknown session is on its way. It makes no room for an Open that begins this session.
    node.stream(8);
    node.hears(8, ToServer::Open(resume(88, 1)));
    node.stream(9);
    node.hears(9, ToServer::Open(Open { attempt: 2, ..first(88) }));
    assert_eq!(end_reason(&node.said()), EndReason::TooManySessions);
    node.apply();
    node.said();
    // A repeated first Open begins no session.
    node.stream(7);
    node.hears(7, ToServer::Open(Open { attempt: 2, ..first(6) }));
    node.apply();
    assert!(node.listens(7));
}

/// A session counts once, even if its first Open is repeated, and even if a new leader knows no stream of the session.
#[test]
fn a_first_open_that_is_repeated_takes_no_room() {
    let again = |attempt| ToServer::Open(Open { attempt, ..first(1) });
    let mut node = Node::leader(ServerLimits { sessions: 2, ..ServerLimits::default() });
    for attempt in [1, 2] {
        node.stream(attempt);
        node.hears(attempt, again(attempt));
    }
    node.stream(3);
    node.hears(3, open(2));
    node.apply_all();
    assert_eq!(node.state.counts().sessions, 2);
    node.tell(|frontend, _, _| frontend.elected(2));
    node.apply();
    node.said();
    node.stream(4);
    node.hears(4, again(3));
    node.apply();
    assert!(node.listens(4));
}

#[test]
fn locks_are_limited() {
    let mut node = Node::leader(ServerLimits { locks: 2, ..ServerLimits::default() });
    node.opened(1, 8);
    node.opened(2, 9);
    node.acquire(1, 1, "a");
    node.acquire(1, 2, "b");
    node.acquire(1, 3, "c");
    assert_eq!(refusal(&node.said()), RefusalCode::TooManyLocks);
    node.apply_all();
    node.acquire(1, 4, "c");
    assert_eq!(refusal(&node.said()), RefusalCode::TooManyLocks);
    // An invalid request is refused as invalid first.
    node.acquire(1, 9, "");
    assert_eq!(refusal(&node.said()), RefusalCode::Invalid);
    // Requests may wait for existing locks.
    node.acquire(2, 1, "a");
    node.request(1, 5, Operation::Release { acquire: 2 });
    node.apply_all();
    node.said();
    node.acquire(2, 2, "c");
    assert_eq!(node.proposed.len(), 1);
}

#[test]
fn waiters_of_a_lock_are_limited() {
    let mut node = Node::leader(ServerLimits { waiters: 2, ..ServerLimits::default() });
    (1..=5).for_each(|session| node.opened(session, session));
    // One request gets the lock, two wait. Requests on their way count like applied ones.
    (1..=3).for_each(|session| node.acquire(session, 1, "a"));
    node.acquire(4, 1, "a");
    assert_eq!(refusal(&node.said()), RefusalCode::TooManyWaiters);
    node.apply_all();
    node.acquire(4, 2, "a");
    assert_eq!(refusal(&node.said()), RefusalCode::TooManyWaiters);
    node.acquire(4, 3, "b");
    node.apply_all();
    node.request(1, 2, Operation::Release { acquire: 1 });
    node.apply_all();
    node.said();
    node.acquire(5, 1, "a");
    node.apply_all();
    assert_eq!((node.said(), node.state.waiters_of("a")), (Vec::new(), 2));
    // A request that does not wait is refused because the lock is taken, not because of the limit.
    let Operation::Acquire(one) = acquire("a") else { unreachable!() };
    node.request(4, 4, Operation::Acquire(Acquire { timeout_ms: Some(0), ..one }));
    node.apply();
    assert_eq!(refusal(&node.said()), RefusalCode::NotAvailable);
    // With a limit of 0 waiters, a free lock is still granted.
    let mut node = Node::leader(ServerLimits { waiters: 0, ..ServerLimits::default() });
    node.opened(1, 8);
    node.acquire(1, 1, "a");
    node.acquire(1, 2, "a");
    assert_eq!(refusal(&node.said()), RefusalCode::TooManyWaiters);
    node.apply();
    assert_eq!(node.said(), [answer(1, 1, Answer::Granted { fence: 1 })]);
}

#[test]
fn locks_of_a_session_are_limited() {
    let mut node = Node::leader(ServerLimits { holds: 2, ..ServerLimits::default() });
    node.opened(1, 8);
    node.opened(2, 9);
    node.acquire(1, 1, "a");
    node.acquire(1, 2, "b");
    node.acquire(1, 3, "c");
    assert_eq!(refusal(&node.said()), RefusalCode::TooManyHolds);
    node.apply_all();
    node.acquire(1, 4, "c");
    assert_eq!(refusal(&node.said()), RefusalCode::TooManyHolds);
    node.acquire(2, 1, "c");
    node.request(1, 5, Operation::Release { acquire: 2 });
    node.apply_all();
    node.said();
    node.acquire(1, 6, "c");
    node.apply();
    assert_eq!(node.state.claimed_by(SessionId(8)), 2);
    node.acquire(1, 7, "d");
    assert_eq!(refusal(&node.said()), RefusalCode::TooManyHolds);
}

#[test]
fn streams_of_a_connection_are_limited() {
    let mut node = Node::leader(ServerLimits { streams: 2, ..ServerLimits::default() });
    node.stream_on(1, 77);
    node.stream_on(2, 77);
    node.stream_on(3, 78);
    assert_eq!(node.said(), []);
    node.stream_on(4, 77);
    let said = node.said();
    let why = Closing::TooManyStreams { limit: 2 };
    assert_eq!(said, [limit_note(&why.to_string()), close(4, why)]);
    node.tell(|frontend, _, _| frontend.stream_gone(StreamId(1)));
    node.stream_on(5, 77);
    assert_eq!(node.said(), []);
    for stream in [2, 3, 5] {
        node.tell(|frontend, _, _| frontend.stream_gone(StreamId(stream)));
    }
    assert_eq!((node.frontend.connections.len(), node.frontend.silent.len()), (0, 0));
}

/// A hundred thousand of each kind. The memory stays at the limit.
#[test]
fn memory_is_bounded_under_each_flood() {
    const FLOOD: u64 = 100_000;
    let limits =
        ServerLimits { sessions: 100, locks: 200, waiters: 50, holds: 120, streams: 30, ..ServerLimits::DEFAULT };
    let mut node = Node::leader(limits);
    for stream in 0..FLOOD {
        node.stream_on(1_000 + stream, 77);
    }
    assert_eq!(node.frontend.streams.len(), 30);
    for stream in 0..FLOOD {
        node.tell(|frontend, _, _| frontend.stream_gone(StreamId(1_000 + stream)));
    }
    for session in 1..=FLOOD {
        node.stream(session);
        node.hears(session, open(session));
        node.apply_all();
        node.said();
    }
    assert_eq!((node.state.counts().sessions, node.frontend.streams.len()), (100, 100));
    assert_eq!(node.frontend.sessions.len(), 100);
    for number in 1..=FLOOD {
        let (session, name) = (number % 100 + 1, format!("lock {number}"));
        node.acquire(session, number, &name);
        node.apply_all();
        node.said();
    }
    assert_eq!(node.state.counts().used, 200);
    for number in FLOOD + 1..=2 * FLOOD {
        node.acquire(1, number, "lock 1");
        node.apply_all();
        node.said();
    }
    let counts = node.state.counts();
    assert_eq!((counts.used, counts.waiters), (200, 50));
    assert!(node.state.claimed_by(SessionId(1)) <= 120);
    assert_eq!(node.frontend.modules.locks.under_way(), 0);
}
