//! The leader's timers: one test for each rule about sessions, leases and time.

use baton_state::leases::{KeepAlive, Leases};
use baton_state::state::cluster;
use baton_state::state::locks::Command::{CancelWait, EndLockDelay};
use baton_state::state::locks::Effect::{LockDelay, Waits};
use baton_state::state::locks::{self, Acquire, Answer, Mode};
use baton_state::state::sessions::{self, EndReason, Open};
use baton_state::state::{
    self, Caller, Command, Effect, Operation, Outcome, OwnerId, PendingTimers, Request, SessionId, State,
};

const TTL_MS: u64 = 10_000;
const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);

/// Leads in term 1 since time 0, with these sessions.
fn leading(sessions: &[SessionId]) -> Leases {
    let mut leases = Leases::default();
    let sessions = sessions.iter().map(|&session| (session, TTL_MS)).collect();
    leases.lead(0, 1, &PendingTimers { sessions, ..PendingTimers::default() });
    leases
}

fn expire(session: SessionId) -> Command {
    sessions::Command::Expire { session, term: 1 }.into()
}

fn ended(session: SessionId) -> Effect {
    Effect::Ended { session, reason: EndReason::Expired }
}

/// A session that sends nothing is expired after its TTL, in the term in which its lease was counted.
#[test]
fn a_silent_session_is_expired_after_its_time_to_live() {
    let mut leases = leading(&[A]);
    assert_eq!(leases.next_wake(), Some(TTL_MS + 1));
    assert_eq!(leases.due(TTL_MS), []);
    assert_eq!(leases.due(TTL_MS + 1), [expire(A)]);
}

#[test]
fn a_keep_alive_extends_the_lease_when_it_arrives() {
    let mut leases = leading(&[A, B]);
    assert_eq!(leases.keep_alive(A, 4_000), KeepAlive::Extended);
    assert_eq!((leases.expires_in(A, 4_000), leases.expires_in(B, 4_000)), (Some(TTL_MS), Some(6_001)));
    assert_eq!(leases.due(TTL_MS + 1), [expire(B)]);
    assert_eq!(leases.due(TTL_MS + 4_000), []);
    assert_eq!(leases.due(TTL_MS + 4_001), [expire(A)]);
}

/// A follower has no leases, and neither has a former leader.
#[test]
fn only_the_leader_extends_leases() {
    assert_eq!(Leases::default().keep_alive(A, 0), KeepAlive::NotLeading);
    let mut leases = leading(&[A]);
    assert!(leases.is_live(A));
    leases.step_down();
    assert_eq!(leases.keep_alive(A, 10), KeepAlive::NotLeading);
    assert_eq!((leases.next_wake(), leases.due(u64::MAX), leases.sessions()), (None, vec![], 0));
    assert!(!leases.is_live(A));
}

/// Once Expire is proposed for a session, nothing saves it.
#[test]
fn a_condemned_session_is_not_kept_alive() {
    let mut leases = leading(&[A, B]);
    assert_eq!(leases.keep_alive(B, 500), KeepAlive::Extended);
    assert_eq!(leases.due(TTL_MS + 11), [expire(A)]);
    assert_eq!(leases.keep_alive(A, TTL_MS + 12), KeepAlive::Condemned);
    assert_eq!(leases.expires_in(A, TTL_MS + 12), Some(0));
    assert_eq!((leases.is_condemned(A), leases.is_live(A)), (true, false));
    assert_eq!((leases.is_condemned(B), leases.is_live(B)), (false, true));
    assert_eq!(leases.sessions(), 2);
    // An Open before the Expire in the log does not help: the client must not believe that the session goes on.
    assert!(!leases.observe(TTL_MS + 13, &Effect::Opened { session: A, ttl_ms: TTL_MS }));
    assert!(leases.observe(TTL_MS + 13, &Effect::Opened { session: B, ttl_ms: TTL_MS }));
    // Expire is proposed once.
    assert_eq!(leases.next_wake(), Some(2 * TTL_MS + 14));
    assert!(leases.observe(TTL_MS + 14, &ended(A)));
    assert_eq!(leases.keep_alive(A, TTL_MS + 15), KeepAlive::Unknown);
    assert_eq!((leases.expires_in(A, TTL_MS + 15), leases.is_condemned(A)), (None, false));
    // A new session with the same number is independent of the old one.
    assert!(leases.observe(TTL_MS + 16, &Effect::Opened { session: A, ttl_ms: TTL_MS }));
    assert_eq!(leases.keep_alive(A, TTL_MS + 17), KeepAlive::Extended);
}

/// Leases start again with their full TTL whenever a process begins to lead.
#[test]
fn a_new_leader_grants_every_lease_in_full() {
    let mut leases = leading(&[A]);
    assert_eq!(leases.due(TTL_MS + 1), [expire(A)]);
    leases.lead(TTL_MS + 2, 5, &PendingTimers { sessions: vec![(A, TTL_MS)], ..PendingTimers::default() });
    assert_eq!(leases.term(), Some(5));
    assert_eq!(leases.keep_alive(A, TTL_MS + 2), KeepAlive::Extended);
    assert_eq!(leases.due(2 * TTL_MS + 2), []);
    assert_eq!(leases.due(2 * TTL_MS + 3), [sessions::Command::Expire { session: A, term: 5 }.into()]);
    assert_eq!(leases.next_wake(), None);
}

#[test]
fn a_session_that_is_opened_has_its_whole_lease() {
    let mut leases = leading(&[]);
    assert!(leases.observe(500, &Effect::Opened { session: A, ttl_ms: 1_000 }));
    assert!(leases.observe(900, &Effect::Opened { session: A, ttl_ms: 1_000 }));
    assert_eq!(leases.due(1_900), []);
    assert_eq!(leases.due(1_901), [expire(A)]);
}

/// A session that ends takes its timers with it.
#[test]
fn an_ended_session_has_no_timers() {
    let mut leases = leading(&[A]);
    for number in [1, 2] {
        assert!(leases.observe(0, &Waits { session: A, number, timeout_ms: 50 }.into()));
    }
    assert!(leases.observe(20, &Effect::Ended { session: A, reason: EndReason::Closed }));
    assert_eq!(leases, leading(&[]));
}

/// A waiting acquire is cancelled once, at its time-out, and not if it was answered before.
#[test]
fn a_wait_is_cancelled_when_its_time_is_over() {
    let mut leases = leading(&[A]);
    for number in [1, 2, 3] {
        assert!(leases.observe(0, &Waits { session: A, number, timeout_ms: 50 }.into()));
    }
    assert!(leases.observe(10, &Effect::Answer { session: A, number: 2, answer: Answer::Granted { fence: 1 }.into() }));
    let cancel = |number| Command::from(CancelWait { session: A, number });
    let (first, third) = (cancel(1), cancel(3));
    assert_eq!(leases.due(49), []);
    assert_eq!(leases.due(50), [first.clone(), third.clone()]);
    // The cancel answers the first acquire. The third waits again before its cancel is applied.
    assert!(leases.observe(60, &Waits { session: A, number: 3, timeout_ms: 50 }.into()));
    assert_eq!(leases.due(109), []);
    assert_eq!(leases.due(110), [third]);
    assert_eq!(leases.due(2_000), []);
}

/// The refusal of another request with the same number is not the answer to the acquire.
#[test]
fn a_wait_goes_on_when_its_number_is_used_again() {
    let mut leases = leading(&[A]);
    assert!(leases.observe(0, &Waits { session: A, number: 1, timeout_ms: 50 }.into()));
    let answer = state::Answer::Refused(sessions::Refusal::NumberReused);
    assert!(leases.observe(10, &Effect::Answer { session: A, number: 1, answer }));
    assert_eq!(leases.due(50), [CancelWait { session: A, number: 1 }.into()]);
}

/// A closed lock is opened when its delay is over. A later delay replaces an earlier one.
#[test]
fn a_lock_delay_is_ended_when_its_time_is_over() {
    let mut leases = leading(&[]);
    let closed = |generation, delay_ms| LockDelay { lock: "deploy".into(), generation, delay_ms }.into();
    let end = |generation| Command::from(EndLockDelay { lock: "deploy".into(), generation });
    assert!(leases.observe(0, &closed(1, 500)));
    assert!(leases.observe(400, &closed(2, 500)));
    assert_eq!(leases.due(900), []);
    assert_eq!(leases.due(901), [end(2)]);
    assert_eq!(leases.due(1_000), []);
    // The lock is closed again before the end of the earlier delay is applied.
    assert!(leases.observe(1_100, &closed(3, 500)));
    assert_eq!(leases.due(1_601), [end(3)]);
    assert_eq!(leases.next_wake(), None);
}

/// A new leader arms all pending timers of the state. Driven together, everything ends.
#[test]
fn a_new_leader_takes_up_the_timers_of_the_state() {
    let (mut state, mut outcome) = (State::default(), Outcome::default());
    let (caller, index) = (Caller::default(), 1);
    let open = |session| {
        let (label, host, caller) = ("job".to_string(), "host".to_string(), caller.clone());
        let (pid, resume, secret_hash) = (1, false, None);
        sessions::Command::Open(Open { session, ttl_ms: TTL_MS, label, host, pid, resume, secret_hash, caller }).into()
    };
    let acquire = |session, number, lock: &str, timeout_ms| {
        let one = Acquire::one(lock, Mode::Exclusive, OwnerId(session));
        let operation = locks::Operation::Acquire(Acquire { timeout_ms, lock_delay_ms: 700, ..one });
        let (session, operation) = (SessionId(session), Operation::Locks(operation));
        Command::Request(Request { session, number, seen: 0, missing: Vec::new(), caller: caller.clone(), operation })
    };
    let lead = sessions::Command::Lead { term: 1 }.into();
    for command in [open(A), open(B), acquire(1, 1, "one", None), acquire(2, 1, "one", Some(300)), lead] {
        state.apply(index, 0, &command, &mut outcome);
    }
    let mut leases = Leases::default();
    leases.lead(0, 1, &state.pending_timers());
    let mut told = Vec::new();
    while let Some(now_ms) = leases.next_wake() {
        for command in leases.due(now_ms) {
            outcome.effects.clear();
            state.apply(index, now_ms, &command, &mut outcome);
            assert!(outcome.effects.iter().all(|effect| leases.observe(now_ms, effect)));
            told.push((now_ms, command));
        }
    }
    let end = EndLockDelay { lock: "one".into(), generation: 1 }.into();
    let cancel = CancelWait { session: B, number: 1 }.into();
    assert_eq!(told, [(300, cancel), (10_001, expire(A)), (10_001, expire(B)), (10_702, end)]);
    assert_eq!(state.pending_timers(), PendingTimers::default());
    assert_eq!(leases, leading(&[]));
}

/// Each step of the wait of a closed cluster is an entry of the log. A long wait has fewer of them than seconds.
#[test]
fn the_wait_of_a_closed_cluster_is_counted_in_steps_that_are_a_hundredth_of_what_is_left() {
    let steps = |closed_ms: u64| {
        let mut leases = Leases::default();
        leases.lead(0, 1, &PendingTimers { closed_ms: Some(closed_ms), ..PendingTimers::default() });
        let (mut left_ms, mut steps) = (closed_ms, Vec::new());
        while let Some(at_ms) = leases.next_wake() {
            assert_eq!(leases.due(at_ms - 1), []);
            let due = leases.due(at_ms);
            let [Command::Cluster(cluster::Command::Waited { from_ms, to_ms })] = due[..] else { panic!("{due:?}") };
            assert!(from_ms == left_ms && to_ms < from_ms, "{due:?}");
            steps.push(from_ms - to_ms);
            left_ms = to_ms;
            assert!(leases.observe(at_ms, &Effect::Cluster(cluster::Effect::Closed { left_ms })));
            assert!(at_ms >= closed_ms - left_ms, "the wait is never shorter");
        }
        assert_eq!(left_ms, 0);
        steps
    };
    assert_eq!(steps(2_500), [1_000, 1_000, 500]);
    let (minutes, day) = (steps(600_000), steps(86_400_000));
    assert_eq!(
        (minutes[0], day[0], day.last().copied()),
        (6_000, 60_000, day.last().copied().filter(|ms| *ms <= 1_000))
    );
    assert!(minutes.len() < 300 && day.len() < 2_000, "{} {}", minutes.len(), day.len());
}
