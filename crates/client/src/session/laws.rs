//! Invariants of the session under random schedules: the client never believes more than the server's acknowledgements
//! allow.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::frames::{self, EndReason, ToClient, ToServer};
use baton_types::locks::{Answer, CancelOutcome, Operation};
use baton_types::refusal::{Refusal, RefusalCode};
use frames::Operation::Locks;
use proptest::prelude::*;

use super::*;

const TTL_MS: u64 = 3_000;

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        timeout_ms: Option<u64>,
    },
    GiveUp(u64),
    Close,
    Wait(u64),
    Connected,
    Disconnected,
    Opened,
    /// Acknowledges one of the keep-alives, also one of an earlier connection.
    Alive(usize),
    /// Answers one of the sent requests, possibly for the second time.
    Answer(usize, u8),
    Revoked(u64),
    Hopeless(u64),
    Ended,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::option::of(0u64..4_000).prop_map(|timeout_ms| Step::Acquire { timeout_ms }),
        3 => (1u64..12).prop_map(Step::GiveUp),
        1 => Just(Step::Close),
        6 => (0u64..1_500).prop_map(Step::Wait),
        1 => (1_500u64..9_000).prop_map(Step::Wait),
        3 => Just(Step::Connected),
        2 => Just(Step::Disconnected),
        4 => Just(Step::Opened),
        6 => (0usize..4).prop_map(Step::Alive),
        8 => (0usize..8, 0u8..5).prop_map(|(which, how)| Step::Answer(which, how)),
        1 => (1u64..12).prop_map(Step::Revoked),
        1 => (1u64..12).prop_map(Step::Hopeless),
        1 => Just(Step::Ended),
    ]
}

/// Observes the session from outside: it records what the session sent and when, and what the server answered.
#[derive(Default)]
struct Witness {
    operations: BTreeMap<u64, frames::Operation>,
    sent_on_this_connection: Vec<u64>,
    keep_alives: Vec<(u64, Millis)>,
    open_sent_at: Millis,
    attempts: u64,
    confirmed_at: Option<Millis>,
    answered: BTreeSet<u64>,
    settled: BTreeSet<AcquireNumber>,
    given_up: BTreeSet<AcquireNumber>,
    revoked: BTreeSet<AcquireNumber>,
    granted: BTreeSet<AcquireNumber>,
    lost: bool,
}

impl Witness {
    fn watch(&mut self, now: Millis, session: &mut Session) {
        while let Some(output) = session.poll() {
            match output {
                Output::Connect { .. } | Output::Disconnect => {}
                Output::Send(said) => self.watch_frame(now, said),
                Output::Event(event) => self.watch_event(event),
            }
        }
    }

    fn watch_frame(&mut self, now: Millis, said: ToServer) {
        match said {
            ToServer::Open(open) => {
                assert_eq!(open.attempt, self.attempts + 1, "an attempt was counted twice, or not at all");
                self.attempts = open.attempt;
                self.open_sent_at = now;
                self.sent_on_this_connection.clear();
                self.keep_alives.clear();
            }
            ToServer::KeepAlive { number } => self.keep_alives.push((number, now)),
            ToServer::Request(request) => {
                let operation = request.operation;
                let first = self.operations.entry(request.number).or_insert_with(|| operation.clone());
                assert_eq!(*first, operation, "request {} changed", request.number);
                let last = self.sent_on_this_connection.last().copied().unwrap_or_default();
                assert!(request.number > last, "request {} was sent after {last}", request.number);
                self.sent_on_this_connection.push(request.number);
                assert!(!self.answered.contains(&request.number), "request {} was answered", request.number);
                // A Close makes earlier requests pointless. The session drops them and never sends them again.
                let closes = matches!(operation, frames::Operation::Close);
                self.judge_seen(request.number, request.seen, &request.missing, closes);
            }
        }
    }

    /// A request reports exactly the answers that came before it. (In these tests there are never more than
    /// `MISSING_MAX`.)
    fn judge_seen(&self, number: u64, seen: u64, missing: &[u64], closes: bool) {
        assert!(missing.is_sorted_by(|a, b| a < b), "{missing:?} are not in order");
        assert!(seen < number && missing.last() < Some(&seen), "{number} says {seen} and {missing:?}");
        for (earlier, _) in self.operations.range(..number) {
            let told = *earlier <= seen && !missing.contains(earlier);
            let answered = self.answered.contains(earlier);
            assert!(told == answered || told && closes, "{number} says {seen} but {missing:?} of {earlier}");
        }
    }

    fn watch_event(&mut self, event: Event) {
        match event {
            Event::Granted { acquire, .. } => {
                assert!(!self.lost && !self.given_up.contains(&acquire), "acquire {acquire} was granted too late");
                assert!(self.settled.insert(acquire), "acquire {acquire} was settled twice");
                self.granted.insert(acquire);
            }
            Event::Refused { acquire, .. } => {
                assert!(self.settled.insert(acquire), "acquire {acquire} was settled twice");
            }
            Event::Lost(_) => assert!(!std::mem::replace(&mut self.lost, true), "lost twice"),
            Event::Revoked { acquire } => drop(self.revoked.insert(acquire)),
            Event::Hopeless { acquire, .. } => {
                let is_over = self.settled.contains(&acquire) || self.given_up.contains(&acquire);
                assert!(!is_over, "acquire {acquire} does not wait");
            }
            Event::Answered { .. } => panic!("nothing else was asked"),
            Event::Opened | Event::Released { .. } | Event::AtRisk | Event::Confirmed | Event::Finished { .. } => {}
        }
    }

    /// The session may believe in a lock for at most the whole time to live after the last acknowledged sending time.
    fn judge(&self, now: Millis, session: &Session) {
        let past = self.confirmed_at.is_none_or(|confirmed_at| now >= confirmed_at + TTL_MS);
        for acquire in self.operations.keys().copied() {
            let believed = session.lock_state(now, acquire) != LockState::Lost;
            assert_eq!(believed, session.fence(now, acquire).is_some());
            assert!(!(believed && past), "acquire {acquire} is believed past its deadline");
            assert!(!(believed && self.lost), "acquire {acquire} is believed although the session is lost");
            let over = self.given_up.contains(&acquire) || self.revoked.contains(&acquire);
            assert!(!(believed && over), "acquire {acquire} is believed although it is over");
            assert!(!believed || self.granted.contains(&acquire), "acquire {acquire} was never granted");
        }
        assert!(!self.lost || session.state(now) == SessionState::Lost, "the session revived");
        assert!(session.next_wake().is_none_or(|at| at > now), "tick left something undone");
    }
}

fn answer_to(operation: &frames::Operation, how: u8) -> frames::Answer {
    let refused = |code| frames::Answer::Refused(Refusal::new(code, ""));
    match (operation, how) {
        (Locks(Operation::Acquire(_)), 0..=2) => Answer::Granted { fence: 1 }.into(),
        (Locks(Operation::Acquire(_)), _) => refused(RefusalCode::TimedOut),
        (_, 0) => refused(RefusalCode::TooManyRequests),
        (Locks(Operation::Cancel { .. }), _) => Answer::Cancelled(CancelOutcome::Released).into(),
        (Locks(Operation::Release { .. }), 1) => refused(RefusalCode::NotHolder),
        (Locks(Operation::Release { .. }), _) => Answer::Released.into(),
        (frames::Operation::Close, _) => frames::Answer::Closed,
        #[allow(unreachable_patterns, reason = "only tests have another module")]
        _ => unreachable!("the session asks for nothing else"),
    }
}

fn take(step: Step, now: &mut Millis, session: &mut Session, witness: &mut Witness) {
    match step {
        Step::Acquire { timeout_ms } => {
            let name = b"a".to_vec();
            let wish = Wish { name, mode: Mode::Shared, owner: 1, parent: None, timeout_ms, lock_delay_ms: 0 };
            session.acquire(*now, &wish);
        }
        Step::GiveUp(acquire) => {
            // The session knows only these acquires.
            if witness
                .operations
                .get(&acquire)
                .is_some_and(|operation| matches!(operation, Locks(Operation::Acquire(_))))
            {
                witness.given_up.insert(acquire);
                session.give_up(*now, acquire);
            }
        }
        Step::Close => session.close(*now),
        Step::Wait(ms) => {
            *now += ms;
            witness.judge_unticked(*now, session);
            session.tick(*now);
        }
        Step::Connected => session.connected(*now),
        Step::Disconnected => session.disconnected(*now),
        Step::Opened => {
            if session.engine.connection.as_ref().is_some_and(|connection| !connection.opened) && !witness.lost {
                witness.confirmed_at = witness.confirmed_at.max(Some(witness.open_sent_at));
            }
            session.receive(*now, ToClient::Opened { session: 9, ttl_ms: TTL_MS, cluster: None, closed_ms: 0 });
        }
        Step::Alive(which) => {
            if let Some((number, sent_at)) = witness.keep_alives.get(which).copied() {
                witness.confirmed_at = witness.confirmed_at.max(Some(sent_at));
                session.receive(*now, ToClient::Alive { number });
            }
        }
        Step::Answer(which, how) => {
            if let Some(number) = witness.sent_on_this_connection.iter().rev().nth(which).copied() {
                let answer = answer_to(&witness.operations[&number], how);
                if session.engine.connection.is_some() {
                    witness.answered.insert(number);
                }
                session.receive(*now, ToClient::Answer { number, answer });
            }
        }
        Step::Revoked(acquire) => session.receive(*now, ToClient::Revoked { acquire }),
        Step::Hopeless(acquire) => {
            let why = Hopeless { process: 3, message: String::new() };
            session.receive(*now, ToClient::Hopeless { acquire, why });
        }
        Step::Ended => {
            session.receive(*now, ToClient::Ended { reason: EndReason::Expired, message: String::new() });
        }
    }
}

impl Witness {
    /// A paused process wakes: the first answer must be true although `tick` was not called.
    fn judge_unticked(&self, now: Millis, session: &Session) {
        let past = self.confirmed_at.is_none_or(|confirmed_at| now >= confirmed_at + TTL_MS);
        for acquire in &self.granted {
            assert!(!past || session.fence(now, *acquire).is_none(), "acquire {acquire} is believed after a pause");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_session_never_believes_too_long_and_never_changes_its_mind(steps in prop::collection::vec(step(), 1..80)) {
        let (label, host, open_patience_ms) = (String::new(), String::new(), TTL_MS);
        let config = Config { session: 9, ttl_ms: TTL_MS, label, host, pid: 0, secret: None, open_patience_ms };
        let (mut session, mut witness, mut now) = (Session::new(config), Witness::default(), 50_000);
        session.start();
        for step in steps {
            take(step, &mut now, &mut session, &mut witness);
            witness.watch(now, &mut session);
            witness.judge(now, &session);
        }
        // After any schedule, time ends the session and settles everything.
        session.disconnected(now);
        now += TTL_MS;
        session.tick(now);
        session.close(now);
        witness.watch(now, &mut session);
        for (number, operation) in &witness.operations {
            let open = matches!(operation, Locks(Operation::Acquire(_))) && !witness.given_up.contains(number);
            prop_assert!(!open || witness.settled.contains(number), "acquire {number} was never settled");
        }
    }
}
