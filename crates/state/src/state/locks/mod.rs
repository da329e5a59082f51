//! The locks: claims, queues, fences.
//!
//! - Claims are granted in log order: a new claim waits behind the waiters, even if the lock would admit it now. A
//!   command that ends a hold or a wait also grants every claim that can be granted then.
//! - The line of a lock has its holders first, then its waiters. A claim enters the lines of all its locks at once. It
//!   is granted when it is the first waiter of each lock and each lock admits it: in one command, with one fence. Until
//!   then no other claim overtakes it in any line.
//! - One counter gives all fences, so that the state can forget a lock as soon as it is neither used nor remembered.
//! - In a member of a peer group (`gate.rs`) an algorithm outside decides when a lock is granted, and with which fence.

mod check;
mod claim;
mod closed;
mod cycle;
mod deadlock;
mod force;
mod gate;
mod grant;
mod history;
mod index;
pub mod limits;
mod line;
mod lock;
mod module;
mod name;
mod record;
mod views;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use smallvec::SmallVec;

pub use claim::{Claim, Ticket};
pub use gate::Grants;
pub use history::{Ended, Past};
pub use lock::Delay;
pub use module::Timer;
pub use name::LockName;
pub use record::Record;
pub use views::{HolderView, LockView, Standing, WaiterView};
pub use words::{
    Acquire, Answer, CancelOutcome, Command, Effect, ForcedHolder, Mode, Operation, Refusal, WaitFor, Want, Wants, What,
};

use super::change::{Cause, Held};
use super::feed::HELD_MAX;
use super::sessions::EndReason;
use super::turn::Turn;
use super::{OwnerId, RequestNumber, SessionId};
use limits::HISTORY_MAX;
use lock::Lock;

/// Locks to check for grants; usually one.
type Names = SmallVec<[LockName; 1]>;

/// All locks and claims, and their indices. A snapshot contains counters, locks, claims and forced releases; the
/// indices are derived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    last_fence: u64,
    last_ticket: Ticket,
    last_delay: u64,
    last_past: u64,
    locks: OrdMap<LockName, Arc<Lock>>,
    claims: OrdMap<(SessionId, RequestNumber), Arc<Claim>>,
    holds: OrdSet<(OwnerId, SessionId, RequestNumber)>,
    waits: OrdSet<(OwnerId, SessionId, RequestNumber)>,
    /// Claims that hold, and are not alone at each of their locks.
    contended: OrdSet<(OwnerId, SessionId, RequestNumber)>,
    /// Number of locks in the claims of each session, without zeros, and in all claims.
    counts: OrdMap<SessionId, usize>,
    claimed: usize,
    /// An owner, an owner that acts for it, and the number of claims that say so.
    children: OrdMap<(OwnerId, OwnerId), usize>,
    /// The same pairs, the other way round.
    parents: OrdSet<(OwnerId, OwnerId)>,
    /// Claims that hold, and whose sessions were told to release them.
    revoked: OrdSet<(SessionId, RequestNumber)>,
    /// Acquires whose holds were ended by force, until the client releases or cancels them. Such a release is not an
    /// error. The session is told again when it is resumed.
    forced: OrdMap<SessionId, BTreeSet<RequestNumber>>,
    delays: OrdSet<LockName>,
    /// The lock that remembers the ended hold of this order.
    history: OrdMap<u64, LockName>,
    /// Number of locks that are in use, and not only remembered.
    used: usize,
    /// True while the cluster grants nothing: see `cluster`. Derived from the record of the cluster.
    closed: bool,
}

impl Locks {
    fn apply(&mut self, turn: &mut Turn<'_>, command: &Command) {
        match command {
            Command::EndLockDelay { lock: name, generation } => {
                let delay = self.locks.get(name).and_then(|lock| lock.delay());
                if delay.is_some_and(|delay| delay.generation == *generation) {
                    self.set_delay(turn, name, None, None, None);
                    self.grant_next(turn, Names::from_elem(name.clone(), 1));
                }
            }
            Command::CancelWait { session, number } => {
                if let Some(claim) = self.claims.get(&(*session, *number)).filter(|claim| !claim.holds()) {
                    self.stop_waiting(turn, &claim.clone(), Refusal::TimedOut);
                }
            }
            Command::Force { lock, now, caller } => self.force(turn, lock, *now, caller),
        }
    }

    fn request(&mut self, turn: &mut Turn<'_>, session: SessionId, number: RequestNumber, operation: &Operation) {
        match operation {
            Operation::Acquire(acquire) => self.acquire(turn, session, number, acquire),
            Operation::Release { acquire } => self.release(turn, session, number, *acquire),
            Operation::Cancel { acquire } => self.cancel(turn, session, number, *acquire),
        }
    }

    /// The session is resumed: tells it which acquires it must release.
    fn resumed(&self, turn: &mut Turn<'_>, session: SessionId) {
        let held = self.revoked.range((session, 0)..=(session, RequestNumber::MAX)).map(|&(_, acquire)| acquire);
        let mut revoked: Vec<RequestNumber> = held.collect();
        revoked.extend(self.forced.get(&session).into_iter().flatten());
        revoked.sort_unstable();
        revoked.into_iter().for_each(|acquire| turn.tell(Effect::Revoked { session, acquire }));
    }

    /// The locks that a session holds, for the change that ends it.
    pub(super) fn held_by(&self, session: SessionId) -> Held {
        let holds = || self.claims_of(session).filter(|claim| claim.holds()).flat_map(|claim| &claim.wants);
        let names = holds().take(HELD_MAX).map(|want| want.lock.clone()).collect();
        Held { names, count: holds().count() as u64 }
    }

    /// Ends all claims of a session. All its claims end before any other claim is granted.
    fn session_ends(&mut self, turn: &mut Turn<'_>, session: SessionId, reason: EndReason) {
        self.forced.remove(&session);
        let claims: Vec<Arc<Claim>> = self.claims_of(session).cloned().collect();
        let expired = reason == EndReason::Expired;
        // Each lock once, in the order of the session's acquires.
        let mut freed = Names::new();
        let mut delays: BTreeMap<LockName, u64> = BTreeMap::new();
        let mut evicted = Names::new();
        for claim in &claims {
            let (ended, cause) = match expired {
                true => (Ended::Expired, Cause::Expired),
                false => (ended_by_holder(claim), Cause::Closed),
            };
            evicted.extend(self.leave(turn, claim, ended, cause));
            let delay_ms = if expired && claim.holds() { u64::from(claim.lock_delay_ms) } else { 0 };
            for want in &claim.wants {
                let longest_ms = delays.entry(want.lock.clone()).or_insert_with(|| {
                    freed.push(want.lock.clone());
                    0
                });
                *longest_ms = delay_ms.max(*longest_ms);
            }
        }
        // All locks are closed before any is granted, because a claim of several locks depends on more than one.
        for name in &freed {
            self.close(turn, session, name, delays[name]);
        }
        freed.extend(evicted);
        self.grant_next(turn, freed);
    }

    fn acquire(&mut self, turn: &mut Turn<'_>, session: SessionId, number: RequestNumber, acquire: &Acquire) {
        if let Some(refusal) = turn.grants.refuses(&acquire.wants) {
            return turn.answer(session, number, Answer::Refused(refusal));
        }
        let are_free = match self.are_free(&acquire.wants) {
            Err(refusal) => return turn.answer(session, number, Answer::Refused(refusal)),
            Ok(are_free) => are_free && turn.grants == Grants::ByState,
        };
        let mut claim = self.new_claim(session, number, acquire, turn.now_ms);
        if are_free {
            claim.fence = Some(self.fence_for(&claim.wants));
        } else {
            if let Err(refusal) = self.may_wait(turn, &claim, acquire.timeout_ms) {
                return turn.answer(session, number, Answer::Refused(refusal));
            }
            claim.timeout_ms = acquire.timeout_ms.and_then(NonZeroU64::new);
        }
        self.enter(turn, claim);
    }

    /// The claim that this acquire would make now. It waits without a time-out.
    fn new_claim(&self, session: SessionId, number: RequestNumber, acquire: &Acquire, since_ms: u64) -> Claim {
        Claim {
            ticket: self.last_ticket + 1,
            revision: 0,
            session,
            number,
            owner: acquire.owner,
            parent: acquire.parent,
            wants: acquire.wants.clone(),
            timeout_ms: None,
            lock_delay_ms: u32::try_from(acquire.lock_delay_ms).expect("the limit of a lock-delay is an hour"),
            since_ms,
            fence: None,
            revoked: false,
        }
    }

    fn may_wait(&self, turn: &Turn<'_>, claim: &Claim, timeout_ms: Option<u64>) -> Result<(), Refusal> {
        if timeout_ms == Some(0) {
            return Err(Refusal::NotAvailable);
        }
        self.cycle(turn.sessions, claim).map_or(Ok(()), |cycle| Err(Refusal::Deadlock(cycle)))
    }

    /// The claim enters the lines of all its locks. It is granted already, or waits from now on.
    fn enter(&mut self, turn: &mut Turn<'_>, claim: Claim) {
        let revision = turn.revise();
        let claim = Arc::new(Claim { revision, ..claim });
        self.last_ticket = claim.ticket;
        let mut is_alone = true;
        for want in &claim.wants {
            let mut enter = |lock: &mut Lock| {
                if !lock.in_use() {
                    lock.permits = want.mode.permits();
                    self.used += 1;
                }
                lock.push(claim.clone(), want.mode);
                is_alone &= lock.line.len() == 1;
            };
            // Not by `entry`, which looks for a new name three times.
            if let Some(lock) = self.locks.get_mut(&want.lock) {
                enter(Arc::make_mut(lock));
            } else {
                let mut lock = Lock::default();
                enter(&mut lock);
                self.locks.insert(want.lock.clone(), Arc::new(lock));
            }
        }
        let before = self.claims.insert(claim.key(), claim.clone());
        assert!(before.is_none(), "a request makes one claim");
        self.index(&claim, is_alone);
        let (session, number) = claim.key();
        match (claim.fence, claim.timeout_ms) {
            (Some(fence), _) => turn.answer(session, number, Answer::Granted { fence: fence.get() }),
            (None, Some(timeout_ms)) => turn.tell(Effect::Waits { session, number, timeout_ms: timeout_ms.get() }),
            (None, None) => {}
        }
        turn.change(session, Some(revision), What::Claim { before: None, after: Some(claim) }, None);
    }

    fn release(&mut self, turn: &mut Turn<'_>, session: SessionId, number: RequestNumber, acquire: RequestNumber) {
        match self.claims.get(&(session, acquire)).cloned() {
            Some(claim) if claim.holds() => {
                turn.answer(session, number, Answer::Released);
                self.give_back(turn, &claim, Cause::Released);
            }
            // The holder was told to release, and does so. A forced release that was faster is not the holder's error.
            None if self.forget_forced(session, acquire) => turn.answer(session, number, Answer::Released),
            _ => turn.answer(session, number, Answer::Refused(Refusal::NotHolder { acquire })),
        }
    }

    fn cancel(&mut self, turn: &mut Turn<'_>, session: SessionId, number: RequestNumber, acquire: RequestNumber) {
        match self.claims.get(&(session, acquire)).cloned() {
            Some(claim) if claim.holds() => {
                turn.answer(session, number, Answer::Cancelled(CancelOutcome::Released));
                self.give_back(turn, &claim, Cause::Cancelled);
            }
            Some(claim) => {
                turn.answer(session, number, Answer::Cancelled(CancelOutcome::Removed));
                self.stop_waiting(turn, &claim, Refusal::Cancelled);
            }
            None => {
                if !self.forget_forced(session, acquire) {
                    // The cancel may have overtaken the acquire. Then the acquire must not be granted when it arrives.
                    turn.sessions.answer_ahead(session, acquire, Answer::Refused(Refusal::Cancelled).into());
                }
                turn.answer(session, number, Answer::Cancelled(CancelOutcome::Nothing));
            }
        }
    }

    /// Ends a wait. Claims that waited only because of it are granted.
    fn stop_waiting(&mut self, turn: &mut Turn<'_>, claim: &Arc<Claim>, why: Refusal) {
        let cause = match &why {
            Refusal::TimedOut => Cause::TimedOut,
            Refusal::Cancelled => Cause::Cancelled,
            _ => Cause::Unavailable,
        };
        // `Ended` is ignored here, because the claim did not hold.
        self.leave(turn, claim, Ended::Released, cause);
        turn.answer(claim.session, claim.number, Answer::Refused(why));
        self.grant_next(turn, names(claim));
    }

    /// Ends a hold at its holder's request.
    fn give_back(&mut self, turn: &mut Turn<'_>, claim: &Arc<Claim>, cause: Cause) {
        let evicted = self.leave(turn, claim, ended_by_holder(claim), cause);
        let mut freed = names(claim);
        freed.extend(evicted);
        self.grant_next(turn, freed);
    }

    /// Ends a claim, and removes it from the lines of all its locks. If it held them, the locks remember the hold.
    /// Returns the locks that forgot an older hold because of [`HISTORY_MAX`]: such a lock may be idle now.
    fn leave(&mut self, turn: &mut Turn<'_>, claim: &Arc<Claim>, ended: Ended, cause: Cause) -> Names {
        let mut evicted = Names::new();
        for want in &claim.wants {
            let past = claim.fence.map(|fence| self.past(turn, claim, fence, ended));
            let order = past.as_ref().map(|past| past.order);
            let forgotten = self.with_lock(&want.lock, |lock| {
                lock.remove(claim.ticket, want.mode);
                lock.remember(past?)
            });
            if let Some(order) = forgotten {
                self.history.remove(&order).expect("the index of history has every remembered hold");
            }
            if let Some(order) = order {
                self.history.insert(order, want.lock.clone());
                evicted.extend(self.evict());
            }
        }
        self.claims.remove(&claim.key()).expect("a claim that ends must exist");
        self.unindex(claim);
        let revision = turn.revise();
        let what = What::Claim { before: Some(claim.clone()), after: None };
        turn.change(claim.session, Some(revision), what, Some(cause));
        evicted
    }

    /// A record of a hold that ends now.
    fn past(&mut self, turn: &Turn<'_>, claim: &Claim, fence: NonZeroU64, ended: Ended) -> Past {
        self.last_past += 1;
        let (order, session, label) = (self.last_past, claim.session, turn.sessions.label(claim.session).into());
        Past { order, session, label, fence: fence.get(), from_ms: claim.since_ms, to_ms: turn.now_ms, ended }
    }

    /// Changes a lock, and keeps `used` up to date. The lock must exist.
    fn with_lock<T>(&mut self, name: &LockName, change: impl FnOnce(&mut Lock) -> T) -> T {
        let lock = self.lock_mut(name);
        let before = lock.in_use();
        let changed = change(lock);
        let after = lock.in_use();
        self.used = self.used + usize::from(after) - usize::from(before);
        changed
    }

    fn lock_mut(&mut self, name: &LockName) -> &mut Lock {
        Arc::make_mut(self.locks.get_mut(name).expect("a lock with claims, a delay or a history must exist"))
    }

    /// Closes the lock for this delay, or for the delay that it already has, whichever is longer. `session` has expired.
    fn close(&mut self, turn: &mut Turn<'_>, session: SessionId, name: &LockName, delay_ms: u64) {
        if delay_ms == 0 {
            return;
        }
        let before_ms = self.locks.get(name).and_then(|lock| lock.delay()).map_or(0, |delay| delay.delay_ms);
        let delay_ms = delay_ms.max(before_ms);
        self.last_delay += 1;
        let generation = self.last_delay;
        turn.tell(Effect::LockDelay { lock: name.clone(), generation, delay_ms });
        let delay = Delay { generation, delay_ms, since_ms: turn.now_ms };
        self.set_delay(turn, name, Some(delay), Some(session), Some(Cause::Expired));
    }

    /// `session`: the one that has expired, if it closes the lock.
    fn set_delay(
        &mut self,
        turn: &mut Turn<'_>,
        name: &LockName,
        delay: Option<Delay>,
        session: Option<SessionId>,
        cause: Option<Cause>,
    ) {
        let before = self.with_lock(name, |lock| lock.set_aside(|aside| std::mem::replace(&mut aside.delay, delay)));
        match delay {
            Some(_) => self.delays.insert(name.clone()),
            None => self.delays.remove(name),
        };
        if before != delay {
            let what = What::Delay { lock: name.clone(), before, after: delay };
            match session {
                Some(session) => turn.change(session, None, what, cause),
                None => turn.change_alone(what, cause),
            }
        }
    }

    /// If all locks together remember too many holds, forgets the oldest one, and returns its lock.
    fn evict(&mut self) -> Option<LockName> {
        if self.history.len() <= HISTORY_MAX {
            return None;
        }
        let (order, name) = self.history.get_min().cloned()?;
        self.history.remove(&order);
        // The oldest hold of all locks is also the oldest of its lock.
        let forgotten = self.lock_mut(&name).set_aside(|aside| aside.history.remove(0));
        assert_eq!(forgotten.order, order, "a lock remembers its holds in order");
        Some(name)
    }

    fn forget_forced(&mut self, session: SessionId, acquire: RequestNumber) -> bool {
        let Some(acquires) = self.forced.get_mut(&session) else { return false };
        let forgotten = acquires.remove(&acquire);
        if acquires.is_empty() {
            self.forced.remove(&session);
        }
        forgotten
    }
}

/// A release after a revocation counts as forced.
fn ended_by_holder(claim: &Claim) -> Ended {
    if claim.revoked { Ended::Forced } else { Ended::Released }
}

fn names(claim: &Claim) -> Names {
    claim.wants.iter().map(|want| want.lock.clone()).collect()
}
