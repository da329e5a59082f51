//! The life of each acquire: waiting, held, given up.

use std::collections::{BTreeMap, BTreeSet};

use baton_types::frames::{self, ToClient};
use baton_types::locks::{Answer, Operation};
use baton_types::refusal::{Refusal, RefusalCode};
use baton_types::sentences;

use super::engine::{Engine, Phase, User};
use super::words::Timeout;
use super::{
    AcquireNumber, Event, Hopeless, LockState, Loss, Millis, NotGranted, ReleaseFailure, Session, SessionState, Wish,
};

/// The locks of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    /// The acquires that the user waits for or holds.
    claims: BTreeMap<AcquireNumber, Claim>,
    /// The acquires that the user has given up, until the server confirms the end of them.
    given_up: BTreeMap<AcquireNumber, GivenUp>,
    timeouts: BTreeSet<Timeout>,
    /// Acquires whose cancel or release the server refused. The session repeats it with the next keep-alive.
    again: Vec<AcquireNumber>,
}

/// An acquire that the user waits for or holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Waiting {
        timeout_at: Option<Millis>,
        /// The server revoked the lock before the session received the grant.
        revoked: bool,
    },
    /// The user holds the lock, if the session is alive.
    Held { fence: u64 },
    /// The server revoked the lock. The user must release it when the work has stopped.
    Revoked,
}

/// An acquire that the user has given up, until the server confirms the end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// The user saw no grant. The server is asked to cancel the request.
    Abandoned,
    /// The user held the lock. The server is asked to release it.
    Releasing,
}

impl Session {
    /// Requests a lock. Exactly one event with this number answers: granted or refused.
    pub fn acquire(&mut self, now: Millis, wish: &Wish) -> AcquireNumber {
        self.tick(now);
        if let Some(loss) = self.loss(now) {
            let acquire = self.engine.next_number;
            self.engine.next_number += 1;
            self.engine.event(Event::Refused { acquire, refusal: NotGranted::Lost(loss) });
            return acquire;
        }
        let acquire = self.engine.request(Operation::Acquire(wish.clone()));
        // A request that does not wait needs no time-out, because the server answers it at once.
        let patience = wish.timeout_ms.filter(|timeout_ms| *timeout_ms > 0);
        let timeout_at = patience.map(|timeout_ms| now.saturating_add(timeout_ms));
        self.locks.timeouts.extend(timeout_at.map(|at| Timeout { at, acquire }));
        self.locks.claims.insert(acquire, Claim::Waiting { timeout_at, revoked: false });
        acquire
    }

    /// The user gives up an acquire: a waiting request is cancelled, a held lock is released. For a held lock an event
    /// follows when the server has confirmed the release. A second call for the same acquire does nothing.
    pub fn give_up(&mut self, now: Millis, acquire: AcquireNumber) {
        self.tick(now);
        let is_closing = matches!(&self.engine.phase, Phase::Leaving { loss: Loss::Closed, .. });
        let gives_back = self.engine.phase == Phase::Live || self.engine.is_connected();
        match self.locks.claims.get(&acquire) {
            Some(Claim::Waiting { .. }) => self.locks.abandon(&mut self.engine, acquire),
            Some(Claim::Held { .. } | Claim::Revoked) if is_closing => {
                self.locks.claims.remove(&acquire);
                self.locks.given_up.insert(acquire, GivenUp::Releasing);
            }
            Some(Claim::Held { .. } | Claim::Revoked) if gives_back => self.locks.give_back(&mut self.engine, acquire),
            Some(Claim::Held { .. } | Claim::Revoked) => {
                self.locks.claims.remove(&acquire);
                let loss = self.loss(now).unwrap_or(Loss::Unacknowledged);
                self.engine.event(Event::Released { acquire, result: Err(ReleaseFailure::Unconfirmed(loss)) });
            }
            None => {}
        }
    }

    /// Whether the server has confirmed every cancel and release, or the session is over.
    pub fn is_settled(&self) -> bool {
        self.locks.given_up.is_empty()
    }

    /// The state of the lock at `now`. A lock that is not held is Lost.
    pub fn lock_state(&self, now: Millis, acquire: AcquireNumber) -> LockState {
        match (self.locks.claims.get(&acquire), self.state(now)) {
            (Some(Claim::Held { .. }), SessionState::Alive) => LockState::Held,
            (Some(Claim::Held { .. }), SessionState::AtRisk) => LockState::AtRisk,
            _ => LockState::Lost,
        }
    }

    /// The fence of the lock, if the lock is held at `now`.
    pub fn fence(&self, now: Millis, acquire: AcquireNumber) -> Option<u64> {
        match self.locks.claims.get(&acquire) {
            Some(Claim::Held { fence }) if self.lock_state(now, acquire) != LockState::Lost => Some(*fence),
            _ => None,
        }
    }

    /// Why the granted lock is lost, if it is.
    pub fn lock_loss(&self, now: Millis, acquire: AcquireNumber) -> Option<Loss> {
        match self.locks.claims.get(&acquire) {
            Some(Claim::Revoked) => Some(Loss::Revoked),
            _ => self.loss(now),
        }
    }
}

impl User for Locks {
    fn answered(&mut self, engine: &mut Engine, number: u64, operation: &frames::Operation, answer: frames::Answer) {
        match operation {
            frames::Operation::Locks(Operation::Acquire(_)) => self.on_acquire_answered(engine, number, answer),
            frames::Operation::Locks(Operation::Cancel { acquire }) => self.on_cancel_answered(*acquire, &answer),
            frames::Operation::Locks(Operation::Release { acquire }) => {
                self.on_release_answered(engine, *acquire, answer);
            }
            _ => engine.event(Event::Answered { number, answer }),
        }
    }

    fn told(&mut self, engine: &mut Engine, said: ToClient) {
        match said {
            ToClient::Revoked { acquire } => self.on_revoked(engine, acquire),
            ToClient::Hopeless { acquire, why } => self.on_hopeless(engine, acquire, why),
            _ => {}
        }
    }

    fn tick(&mut self, engine: &mut Engine, now: Millis) {
        self.time_out(engine, now);
    }

    fn next_wake(&self) -> Option<Millis> {
        self.timeouts.first().map(|timeout| timeout.at)
    }

    fn kept_alive(&mut self, engine: &mut Engine) {
        self.ask_again(engine);
    }

    fn lost(&mut self, engine: &mut Engine, loss: &Loss) {
        self.lose_claims(engine, loss);
    }

    fn closed(&mut self, engine: &mut Engine) {
        self.forget_wishes(engine, &Loss::Closed);
    }

    fn is_idle(&self) -> bool {
        self.claims.is_empty() && self.given_up.is_empty()
    }

    fn ended(&mut self, engine: &mut Engine, confirmed: bool, loss: &Loss) {
        self.end_claims(engine, confirmed, loss);
    }
}

impl Locks {
    fn give_back(&mut self, engine: &mut Engine, acquire: AcquireNumber) {
        self.claims.remove(&acquire);
        self.given_up.insert(acquire, GivenUp::Releasing);
        engine.request(Operation::Release { acquire });
    }

    fn on_acquire_answered(&mut self, engine: &mut Engine, acquire: AcquireNumber, answer: frames::Answer) {
        // After an abandon, the answer to the cancel decides.
        let Some(Claim::Waiting { timeout_at, revoked }) = self.claims.get(&acquire).cloned() else { return };
        if let Some(at) = timeout_at {
            self.timeouts.remove(&Timeout { at, acquire });
        }
        match answer {
            frames::Answer::Locks(Answer::Granted { .. }) if revoked => {
                engine.event(Event::Refused { acquire, refusal: NotGranted::Lost(Loss::Revoked) });
                self.give_back(engine, acquire);
            }
            frames::Answer::Locks(Answer::Granted { fence }) => {
                self.claims.insert(acquire, Claim::Held { fence });
                engine.event(Event::Granted { acquire, fence });
            }
            frames::Answer::Refused(refusal) => {
                self.claims.remove(&acquire);
                engine.event(Event::Refused { acquire, refusal: NotGranted::Refused(refusal) });
            }
            other => {
                // The answer has the wrong kind. Cancel the request, so that nothing stays behind on the server.
                let message = format!("the server answered an acquire by {other:?}, which makes no sense");
                let refusal = NotGranted::Refused(Refusal::new(RefusalCode::Invalid, message));
                engine.event(Event::Refused { acquire, refusal });
                self.abandon(engine, acquire);
            }
        }
    }

    fn on_cancel_answered(&mut self, acquire: AcquireNumber, answer: &frames::Answer) {
        match answer {
            frames::Answer::Locks(Answer::Cancelled(_)) => drop(self.given_up.remove(&acquire)),
            _ => self.again.push(acquire),
        }
    }

    fn on_release_answered(&mut self, engine: &mut Engine, acquire: AcquireNumber, answer: frames::Answer) {
        let result = match answer {
            frames::Answer::Locks(Answer::Released) => Ok(()),
            frames::Answer::Refused(Refusal { code: RefusalCode::NotHolder, message, .. }) => {
                Err(ReleaseFailure::NotHeld(message))
            }
            _ => return self.again.push(acquire),
        };
        if self.given_up.remove(&acquire).is_some() {
            engine.event(Event::Released { acquire, result });
        }
    }

    fn on_revoked(&mut self, engine: &mut Engine, acquire: AcquireNumber) {
        match self.claims.get_mut(&acquire) {
            Some(Claim::Waiting { revoked, .. }) => *revoked = true,
            Some(claim @ Claim::Held { .. }) => {
                *claim = Claim::Revoked;
                engine.event(Event::Revoked { acquire });
            }
            Some(Claim::Revoked) | None => {}
        }
    }

    /// The frame may be late: the acquire has its answer, or the user has given it up.
    fn on_hopeless(&mut self, engine: &mut Engine, acquire: AcquireNumber, why: Hopeless) {
        if matches!(self.claims.get(&acquire), Some(Claim::Waiting { .. })) {
            engine.event(Event::Hopeless { acquire, why });
        }
    }

    /// Refuses every request whose time-out is over. The user learns of the time-out at once. The server may have
    /// granted the lock meanwhile, so the session cancels the request; the user never learns of such a grant.
    fn time_out(&mut self, engine: &mut Engine, now: Millis) {
        while let Some(Timeout { acquire, .. }) = self.timeouts.first().filter(|timeout| now >= timeout.at).copied() {
            let timed_out = Refusal::new(RefusalCode::TimedOut, sentences::TIMED_OUT);
            engine.event(Event::Refused { acquire, refusal: NotGranted::Refused(timed_out) });
            self.abandon(engine, acquire);
        }
    }

    fn abandon(&mut self, engine: &mut Engine, acquire: AcquireNumber) {
        if let Some(Claim::Waiting { timeout_at: Some(at), .. }) = self.claims.remove(&acquire) {
            self.timeouts.remove(&Timeout { at, acquire });
        }
        self.given_up.insert(acquire, GivenUp::Abandoned);
        engine.request(Operation::Cancel { acquire });
    }

    /// Repeats each cancel and release that the server refused, with a new request number.
    fn ask_again(&mut self, engine: &mut Engine) {
        for acquire in std::mem::take(&mut self.again) {
            match self.given_up.get(&acquire) {
                Some(GivenUp::Abandoned) => drop(engine.request(Operation::Cancel { acquire })),
                Some(GivenUp::Releasing) => drop(engine.request(Operation::Release { acquire })),
                None => {}
            }
        }
    }

    /// The session is lost, although the server may not know it yet.
    fn lose_claims(&mut self, engine: &mut Engine, loss: &Loss) {
        let failure = match loss {
            Loss::Ended(because) => ReleaseFailure::NotHeld(because.clone()),
            loss => ReleaseFailure::Unconfirmed(loss.clone()),
        };
        self.settle_releases(engine, &Err(failure));
        let is_waiting = |(acquire, claim)| matches!(claim, &Claim::Waiting { .. }).then_some(acquire);
        let waiting: Vec<AcquireNumber> = self.claims.iter().filter_map(is_waiting).copied().collect();
        for acquire in waiting {
            engine.event(Event::Refused { acquire, refusal: NotGranted::Lost(loss.clone()) });
            self.abandon(engine, acquire);
        }
    }

    /// The user closed the session. The Close cancels and releases everything, so no other request has to be sent.
    fn forget_wishes(&mut self, engine: &mut Engine, loss: &Loss) {
        self.timeouts.clear();
        self.given_up.retain(|_, given_up| *given_up == GivenUp::Releasing);
        for (acquire, claim) in std::mem::take(&mut self.claims) {
            match claim {
                Claim::Waiting { .. } => {
                    engine.event(Event::Refused { acquire, refusal: NotGranted::Lost(loss.clone()) });
                }
                Claim::Held { .. } | Claim::Revoked => drop(self.claims.insert(acquire, claim)),
            }
        }
    }

    /// The session has ended. If the server confirmed the end, all pending releases succeeded.
    fn end_claims(&mut self, engine: &mut Engine, confirmed: bool, loss: &Loss) {
        self.timeouts.clear();
        let result = if confirmed { Ok(()) } else { Err(ReleaseFailure::Unconfirmed(loss.clone())) };
        self.settle_releases(engine, &result);
        self.given_up.clear();
    }

    fn settle_releases(&mut self, engine: &mut Engine, result: &Result<(), ReleaseFailure>) {
        for (acquire, given_up) in std::mem::take(&mut self.given_up) {
            match given_up {
                GivenUp::Releasing => engine.event(Event::Released { acquire, result: result.clone() }),
                GivenUp::Abandoned => drop(self.given_up.insert(acquire, given_up)),
            }
        }
    }
}
