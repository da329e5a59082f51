//! The table of locks: a pure, deterministic state machine. The log tells it what happens, it says what follows.
//!
//! - It never decides by time. What has to happen after a while is told by effects (`Waits`, `LockDelay`, `Opened`); whoever
//!   leads arms a timer and proposes `CancelWait`, `EndLockDelay` or `Expire`. Each names what it was armed for, and does
//!   nothing if that is no more. Its own time only grows, and is for people to read.
//! - Locks are granted in log order: whoever comes waits behind those who wait, even if it could go in now. What ends a hold
//!   or a wait also grants whatever can be granted then.
//! - A request is applied once: its answer is kept until its client has seen it, and given again to a retry.
//! - One counter gives all fences, so that a lock can be forgotten as soon as nobody uses it or remembers it.
//! - Whatever the log says, the table neither panics nor keeps more than its [`limits`] for a session or a lock.

mod command;
mod deadlock;
mod force;
mod history;
pub mod limits;
mod lock;
mod locks;
mod query;
mod session;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use command::{
    Answer, CancelOutcome, Command, Effect, EndReason, Entry, Mode, Operation, OwnerId, Refusal, RequestNumber,
    SessionId, WaitFor,
};
pub use history::{Ended, Past};
pub use query::{Counts, DelayView, HolderView, LockView, PendingTimers, SessionView, WaiterView};

use lock::{Claim, Delay, Holder, Ticket, Waiter};
use locks::{LockId, Locks};
use session::{Arrival, Place, Session};

/// All locks and sessions.
///
/// Apply the commands of each committed entry in log order with [`Table::apply`], at every node alike; two tables that were
/// told the same are equal. The effects are for the node that leads: it sends the answers, arms and disarms the timers.
/// Whoever begins to lead takes up the timers with [`Table::pending_timers`] once its own `Lead` command is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    now_ms: u64,
    /// Of the last `Lead`.
    term: u64,
    last_fence: u64,
    last_ticket: Ticket,
    last_delay: u64,
    last_past: u64,
    sessions: BTreeMap<SessionId, Session>,
    locks: Locks,
}

impl Table {
    /// Applies a command that was proposed at this time, and adds what follows to `effects`.
    pub fn apply(&mut self, now_ms: u64, command: &Command, effects: &mut Vec<Effect>) {
        self.now_ms = self.now_ms.max(now_ms);
        match *command {
            Command::Lead { term } => self.term = term,
            Command::Open { session, ttl_ms, ref label, ref host, pid, resume } => {
                if !resume && limits::check_open(ttl_ms, label, host).is_ok() {
                    self.sessions.entry(session).or_insert_with(|| Session::new(ttl_ms, label, host, pid));
                }
                self.opened(session, effects);
            }
            Command::Request { session, number, seen, ref missing, ref operation } => {
                self.request(session, number, seen, missing, operation, effects);
            }
            Command::Expire { session, term } => {
                if term == self.term {
                    self.end(session, EndReason::Expired, effects);
                }
            }
            Command::EndLockDelay { ref lock, generation } => {
                if let Some(id) = self.locks.find(lock)
                    && self.delay(id).is_some_and(|delay| delay.generation == generation)
                {
                    self.locks.set_delay(id, None);
                    self.grant_next(id, effects);
                }
            }
            Command::CancelWait { session, number } => {
                self.remove_waiter(session, number, Refusal::TimedOut, effects);
            }
            Command::Force { ref lock, now } => self.force(lock, now, effects),
        }
    }

    /// Takes up a session that is there. One that cannot be (a log that says so is not from our api) is one that is not.
    fn opened(&self, id: SessionId, effects: &mut Vec<Effect>) {
        let Some(session) = self.sessions.get(&id) else {
            effects.push(Effect::Ended { session: id, reason: EndReason::Unknown });
            return;
        };
        effects.push(Effect::Opened { session: id, ttl_ms: session.ttl_ms });
        let revoked = session.places().filter(|&(_, place)| self.is_revoked(place)).map(|(acquire, _)| acquire);
        let mut revoked: Vec<RequestNumber> = revoked.chain(session.forced_acquires()).collect();
        revoked.sort_unstable();
        effects.extend(revoked.into_iter().map(|acquire| Effect::Revoked { session: id, acquire }));
    }

    fn request(
        &mut self,
        id: SessionId,
        number: RequestNumber,
        seen: RequestNumber,
        missing: &[RequestNumber],
        operation: &Operation,
        effects: &mut Vec<Effect>,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            effects.push(Effect::Ended { session: id, reason: EndReason::Unknown });
            return;
        };
        // What makes no sense makes nothing seen.
        let sense = limits::check_seen(number, seen, missing);
        if sense.is_ok() {
            session.saw(seen, missing);
        }
        match session.arrives(number, operation) {
            Arrival::Known => return,
            Arrival::Answered(answer) => {
                effects.push(Effect::Answer { session: id, number, answer: answer.clone() });
                return;
            }
            Arrival::TooMany { limit } => {
                let answer = Answer::Refused(Refusal::TooManyRequests { limit: limit as u32 });
                effects.push(Effect::Answer { session: id, number, answer });
                return;
            }
            Arrival::New => {}
        }
        if let Err(invalid) = sense.and_then(|()| limits::check_request(number, operation)) {
            self.refuse(id, number, Refusal::Invalid(invalid.to_string()), effects);
            return;
        }
        match *operation {
            Operation::Acquire { ref lock, mode, owner, timeout_ms, lock_delay_ms } => {
                let (ticket, since_ms, lock_delay_ms) = (self.last_ticket + 1, self.now_ms, lock_delay_ms as u32);
                let claim = Claim { ticket, session: id, number, owner, mode, lock_delay_ms, since_ms };
                self.acquire(lock, Waiter { claim, timeout_ms }, effects);
            }
            Operation::Release { acquire } => self.release(id, number, acquire, effects),
            Operation::Cancel { acquire } => self.cancel(id, number, acquire, effects),
            Operation::Close => {
                effects.push(Effect::Answer { session: id, number, answer: Answer::Closed });
                self.end(id, EndReason::Closed, effects);
            }
        }
    }

    fn acquire(&mut self, name: &str, wish: Waiter, effects: &mut Vec<Effect>) {
        let (session, number, mode) = (wish.claim.session, wish.claim.number, wish.claim.mode);
        let id = match self.locks.find(name).and_then(|id| Some((id, self.locks.get(id)?))) {
            Some((id, lock)) if lock.in_use() => {
                if lock.permits != mode.permits() {
                    let refusal = Refusal::PermitsDiffer { has: lock.permits, says: mode.permits() };
                    return self.refuse(session, number, refusal, effects);
                }
                if !lock.waiters.is_empty() || !lock.admits(mode) {
                    return self.wait(id, wish, effects);
                }
                id
            }
            _ => {
                let id = self.locks.find_or_add(name);
                if let Some(lock) = self.locks.get_mut(id) {
                    lock.permits = mode.permits();
                }
                id
            }
        };
        self.last_ticket = wish.claim.ticket;
        self.grant(id, wish.claim, effects);
    }

    /// The acquire cannot be granted now.
    fn wait(&mut self, id: LockId, waiter: Waiter, effects: &mut Vec<Effect>) {
        let Claim { session, number, ticket, .. } = waiter.claim;
        if waiter.timeout_ms == Some(0) {
            return self.refuse(session, number, Refusal::NotAvailable, effects);
        }
        if let Some(cycle) = self.cycle(id, &waiter.claim) {
            return self.refuse(session, number, Refusal::Deadlock(cycle), effects);
        }
        if let Some(timeout_ms) = waiter.timeout_ms {
            effects.push(Effect::Waits { session, number, timeout_ms });
        }
        self.last_ticket = ticket;
        if let Some(session) = self.sessions.get_mut(&session) {
            session.put(number, Place { lock: id, ticket, holds: false });
        }
        self.locks.wait(id, waiter);
    }

    fn grant(&mut self, id: LockId, claim: Claim, effects: &mut Vec<Effect>) {
        let Claim { session, number, ticket, mode, .. } = claim;
        let fence = self.locks.get(id).and_then(|lock| lock.shared_fence(mode)).unwrap_or_else(|| {
            self.last_fence += 1;
            self.last_fence
        });
        if let Some(session) = self.sessions.get_mut(&session) {
            session.put(number, Place { lock: id, ticket, holds: true });
        }
        let claim = Claim { since_ms: self.now_ms, ..claim };
        self.locks.hold(id, Holder { claim, fence, revoked: false });
        self.answer(session, number, Answer::Granted { fence }, effects);
    }

    /// Grants the lock to as many waiters as can have it now, and forgets it if nothing is left of it.
    fn grant_next(&mut self, id: LockId, effects: &mut Vec<Effect>) {
        while let Some(waiter) = self.locks.admit_next(id) {
            self.grant(id, waiter.claim, effects);
        }
        self.locks.forget_if_idle(id);
    }

    fn release(&mut self, id: SessionId, number: RequestNumber, acquire: RequestNumber, effects: &mut Vec<Effect>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match session.place(acquire) {
            Some(place) if place.holds => {
                self.answer(id, number, Answer::Released, effects);
                self.give_back(place, effects);
            }
            // The holder does as it was told. That somebody was faster is not its error.
            None if session.forget_forced(acquire) => self.answer(id, number, Answer::Released, effects),
            _ => self.refuse(id, number, Refusal::NotHolder { acquire }, effects),
        }
    }

    fn cancel(&mut self, id: SessionId, number: RequestNumber, acquire: RequestNumber, effects: &mut Vec<Effect>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let outcome = match session.place(acquire) {
            Some(place) if place.holds => {
                self.answer(id, number, Answer::Cancelled(CancelOutcome::Released), effects);
                return self.give_back(place, effects);
            }
            Some(_) => CancelOutcome::Removed,
            None => {
                if !session.forget_forced(acquire) && !session.is_answered(acquire) {
                    // The cancel overtook the acquire, which is not granted to nobody when it comes.
                    session.keep(acquire, &Answer::Refused(Refusal::Cancelled));
                }
                CancelOutcome::Nothing
            }
        };
        self.answer(id, number, Answer::Cancelled(outcome), effects);
        self.remove_waiter(id, acquire, Refusal::Cancelled, effects);
    }

    /// The acquire waits no more, if it still did; whoever waited only because of it does not either.
    fn remove_waiter(&mut self, id: SessionId, number: RequestNumber, why: Refusal, effects: &mut Vec<Effect>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(Place { lock, ticket, holds: false }) = session.place(number) {
            session.remove(number);
            self.locks.remove_waiter(lock, ticket);
            self.refuse(id, number, why, effects);
            self.grant_next(lock, effects);
        }
    }

    /// A hold ends by the word of its holder.
    fn give_back(&mut self, place: Place, effects: &mut Vec<Effect>) {
        if let Some(holder) = self.locks.remove_holder(place.lock, place.ticket) {
            self.remember(place.lock, &holder, if holder.revoked { Ended::Forced } else { Ended::Released });
            if let Some(session) = self.sessions.get_mut(&holder.claim.session) {
                session.remove(holder.claim.number);
            }
        }
        self.grant_next(place.lock, effects);
    }

    /// The session is no more. All that it had goes before anybody is granted anything, since that could be itself.
    fn end(&mut self, id: SessionId, reason: EndReason, effects: &mut Vec<Effect>) {
        let Some(session) = self.sessions.get(&id) else { return };
        effects.push(Effect::Ended { session: id, reason });
        let places: Vec<Place> = session.places().map(|(_, place)| place).collect();
        let mut delays: BTreeMap<LockId, u64> = BTreeMap::new();
        for place in &places {
            let delay_ms = delays.entry(place.lock).or_default();
            if !place.holds {
                self.locks.remove_waiter(place.lock, place.ticket);
            } else if let Some(holder) = self.locks.remove_holder(place.lock, place.ticket) {
                let ended = match reason {
                    EndReason::Expired => Ended::Expired,
                    _ if holder.revoked => Ended::Forced,
                    _ => Ended::Released,
                };
                self.remember(place.lock, &holder, ended);
                if reason == EndReason::Expired {
                    *delay_ms = u64::from(holder.claim.lock_delay_ms).max(*delay_ms);
                }
            }
        }
        self.sessions.remove(&id);
        for place in places {
            // Each lock once, in the order in which the session asked for them.
            if let Some(delay_ms) = delays.remove(&place.lock) {
                self.close_lock(place.lock, delay_ms, effects);
                self.grant_next(place.lock, effects);
            }
        }
    }

    /// Nobody gets the lock until this delay is over, nor before one that it is already closed for.
    fn close_lock(&mut self, id: LockId, delay_ms: u64, effects: &mut Vec<Effect>) {
        let Some(lock) = self.locks.get(id) else { return };
        if delay_ms == 0 {
            return;
        }
        let delay_ms = lock.delay.map_or(delay_ms, |before| before.delay_ms.max(delay_ms));
        self.last_delay += 1;
        let generation = self.last_delay;
        effects.push(Effect::LockDelay { lock: lock.name.to_string(), generation, delay_ms });
        self.locks.set_delay(id, Some(Delay { generation, delay_ms, since_ms: self.now_ms }));
    }

    fn remember(&mut self, id: LockId, holder: &Holder, ended: Ended) {
        let label = self.sessions.get(&holder.claim.session).map(|session| session.label.clone()).unwrap_or_default();
        self.last_past += 1;
        let past = Past {
            order: self.last_past,
            session: holder.claim.session,
            label,
            fence: holder.fence,
            from_ms: holder.claim.since_ms,
            to_ms: self.now_ms,
            ended,
        };
        self.locks.remember(id, past);
    }

    fn delay(&self, id: LockId) -> Option<Delay> {
        self.locks.get(id)?.delay
    }

    fn refuse(&mut self, id: SessionId, number: RequestNumber, refusal: Refusal, effects: &mut Vec<Effect>) {
        self.answer(id, number, Answer::Refused(refusal), effects);
    }

    fn answer(&mut self, id: SessionId, number: RequestNumber, answer: Answer, effects: &mut Vec<Effect>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.keep(number, &answer);
        }
        effects.push(Effect::Answer { session: id, number, answer });
    }
}
