//! What holds whatever happens, in whatever order: random schedules against what a client may believe at most.

use std::collections::{BTreeMap, BTreeSet};

use baton_proto::v1::{self, answer, cancelled, client_frame, request::Operation, server_frame};
use proptest::prelude::*;

use super::*;

const TTL_MS: u64 = 3_000;

/// What can happen next.
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
    /// Of the unanswered keep-alives, or of those long gone.
    Alive(usize),
    /// Answers one of the requests that were sent, once more if need be.
    Answer(usize, u8),
    Revoked(u64),
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
        1 => Just(Step::Ended),
    ]
}

/// Watches from outside. It knows what was sent when, and what a server said to it.
#[derive(Default)]
struct Witness {
    operations: BTreeMap<u64, Operation>,
    sent_on_this_connection: Vec<u64>,
    keep_alives: Vec<(u64, Millis)>,
    open_sent_at: Millis,
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
                Output::Connect | Output::Disconnect => {}
                Output::Send(frame) => self.watch_frame(now, frame),
                Output::Event(event) => self.watch_event(event),
            }
        }
    }

    fn watch_frame(&mut self, now: Millis, frame: v1::ClientFrame) {
        match frame.frame.unwrap() {
            client_frame::Frame::Open(_) => {
                self.open_sent_at = now;
                self.sent_on_this_connection.clear();
                self.keep_alives.clear();
            }
            client_frame::Frame::KeepAlive(v1::KeepAlive { number }) => self.keep_alives.push((number, now)),
            client_frame::Frame::Request(request) => {
                let operation = request.operation.unwrap();
                let first = self.operations.entry(request.number).or_insert_with(|| operation.clone());
                assert_eq!(*first, operation, "request {} changed", request.number);
                let last = self.sent_on_this_connection.last().copied().unwrap_or_default();
                assert!(request.number > last, "request {} was sent after {last}", request.number);
                self.sent_on_this_connection.push(request.number);
                assert!(!self.answered.contains(&request.number), "request {} was answered", request.number);
                // What a Close makes pointless is left out, and never sent again.
                let closes = matches!(operation, Operation::Close(_));
                self.judge_seen(request.number, request.seen, &request.missing, closes);
            }
        }
    }

    /// Of what came before it, a request tells exactly what was answered. (There is never too much here to be told.)
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
            Event::Opened | Event::Released { .. } | Event::AtRisk | Event::Confirmed | Event::Finished { .. } => {}
        }
    }

    /// At most what the acknowledgements are good for, with the whole of the time to live.
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

fn answer_to(operation: &Operation, how: u8) -> answer::Answer {
    let refused = |refusal: v1::Refusal| {
        answer::Answer::Refused(v1::Refused { refusal: refusal.into(), ..v1::Refused::default() })
    };
    match (operation, how) {
        (Operation::Acquire(_), 0..=2) => answer::Answer::Granted(v1::Granted { fence: 1 }),
        (Operation::Acquire(_), _) => refused(v1::Refusal::TimedOut),
        (_, 0) => refused(v1::Refusal::TooManyRequests),
        (Operation::Cancel(_), _) => {
            answer::Answer::Cancelled(v1::Cancelled { outcome: cancelled::Outcome::Released.into() })
        }
        (Operation::Release(_), 1) => refused(v1::Refusal::NotHolder),
        (Operation::Release(_), _) => answer::Answer::Released(v1::Released {}),
        (Operation::Close(_), _) => answer::Answer::Closed(v1::Closed {}),
    }
}

fn take(step: Step, now: &mut Millis, session: &mut Session, witness: &mut Witness) {
    let hear = |frame| v1::ServerFrame { frame: Some(frame) };
    match step {
        Step::Acquire { timeout_ms } => {
            let name = b"a".to_vec();
            session.acquire(
                *now,
                &Wish { name, mode: Mode::Shared, owner: 1, parent: None, timeout_ms, lock_delay_ms: 0 },
            );
        }
        Step::GiveUp(acquire) => {
            // Only what exists can be given up.
            if witness.operations.get(&acquire).is_some_and(|operation| matches!(operation, Operation::Acquire(_))) {
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
            if session.connection.as_ref().is_some_and(|connection| !connection.opened) && !witness.lost {
                witness.confirmed_at = witness.confirmed_at.max(Some(witness.open_sent_at));
            }
            session.receive(*now, hear(server_frame::Frame::Opened(v1::Opened { session: 9, ttl_ms: TTL_MS })));
        }
        Step::Alive(which) => {
            if let Some((number, sent_at)) = witness.keep_alives.get(which).copied() {
                witness.confirmed_at = witness.confirmed_at.max(Some(sent_at));
                session.receive(*now, hear(server_frame::Frame::Alive(v1::Alive { number })));
            }
        }
        Step::Answer(which, how) => {
            if let Some(number) = witness.sent_on_this_connection.iter().rev().nth(which).copied() {
                let answer = Some(answer_to(&witness.operations[&number], how));
                if session.connection.is_some() {
                    witness.answered.insert(number);
                }
                session.receive(*now, hear(server_frame::Frame::Answer(v1::Answer { number, answer })));
            }
        }
        Step::Revoked(acquire) => {
            session.receive(*now, hear(server_frame::Frame::Revoked(v1::Revoked { acquire })));
        }
        Step::Ended => {
            session.receive(*now, hear(server_frame::Frame::Ended(v1::Ended::default())));
        }
    }
}

impl Witness {
    /// A paused process wakes: what it asks first must already be true.
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
        let config = Config { session: 9, ttl_ms: TTL_MS, label, host, pid: 0, open_patience_ms };
        let (mut session, mut witness, mut now) = (Session::new(config), Witness::default(), 50_000);
        session.start();
        for step in steps {
            take(step, &mut now, &mut session, &mut witness);
            witness.watch(now, &mut session);
            witness.judge(now, &session);
        }
        // However it went, time ends it, and everything asked for is settled by then.
        session.disconnected(now);
        now += TTL_MS;
        session.tick(now);
        session.close(now);
        witness.watch(now, &mut session);
        for (number, operation) in &witness.operations {
            let open = matches!(operation, Operation::Acquire(_)) && !witness.given_up.contains(number);
            prop_assert!(!open || witness.settled.contains(number), "acquire {number} was never settled");
        }
    }
}
