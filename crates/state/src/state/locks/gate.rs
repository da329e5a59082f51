//! Whether the state or the algorithm of a peer group grants the locks. The caller of
//! [`State::apply_by`](crate::state::State::apply_by) says it with each command, so it is in no log and no snapshot.
//!
//! A member of a peer group lets an algorithm of the group grant. The state serves the clients of one member. The
//! algorithm decides when the member may enter, and gives the fence. So no claim is granted by an acquire or a release: a
//! claim waits until [`Locks::admit`] lets in the first waiter of its lock.
//!
//! The group has one holder of a lock at a time, and enters one lock at a time. So shared claims, permits and claims of
//! several locks are refused. Fences come from the algorithm, one sequence per lock; `last_fence` counts nothing here.

use std::num::NonZeroU64;

use super::{LockName, Locks, Mode, Refusal, Want};
use crate::state::turn::Turn;
use crate::state::{Outcome, RequestNumber, SessionId, State};

/// What grants the locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grants {
    /// The state grants each lock in log order, and gives the fences.
    #[default]
    ByState,
    /// An algorithm of a peer group: see [`State::admit`](crate::state::State::admit).
    ByGroup,
}

impl Grants {
    /// Why these wants are refused, if a group cannot grant them.
    pub(super) fn refuses(self, wants: &[Want]) -> Option<Refusal> {
        match wants {
            _ if self == Grants::ByState => None,
            [Want { mode: Mode::Exclusive, .. }] => None,
            [Want { mode: Mode::Shared, .. }] => Some(Refusal::NoSharing),
            [Want { mode: Mode::Permit { .. }, .. }] => Some(Refusal::NoPermits),
            _ => Some(Refusal::NoSeveral),
        }
    }
}

impl State {
    /// For [`Grants::ByGroup`]: grants the lock to its first waiter, with this fence of the group's algorithm. Does nothing if
    /// no claim waits, or if the lock is held or closed. `index` and `now_ms` are as in [`State::apply`].
    pub fn admit(&mut self, index: u64, now_ms: u64, lock: &LockName, fence: NonZeroU64) -> Outcome {
        self.outside(index, now_ms, |locks, turn| locks.admit(turn, lock, fence))
    }

    /// For [`Grants::ByGroup`]: refuses the first waiter of the lock, because the group cannot take its request now. `why` is a
    /// sentence for people. Does nothing if no claim waits.
    pub fn deny(&mut self, index: u64, now_ms: u64, lock: &LockName, why: String) -> Outcome {
        self.outside(index, now_ms, |locks, turn| locks.deny(turn, lock, why))
    }

    /// For [`Grants::ByGroup`]: refuses this acquire, as [`State::deny`]. Does nothing if it does not wait.
    pub fn deny_one(
        &mut self,
        index: u64,
        now_ms: u64,
        session: SessionId,
        number: RequestNumber,
        why: String,
    ) -> Outcome {
        self.outside(index, now_ms, |locks, turn| locks.deny_one(turn, session, number, why))
    }

    /// Changes the locks without a command.
    fn outside(&mut self, index: u64, now_ms: u64, change: impl FnOnce(&mut Locks, &mut Turn<'_>)) -> Outcome {
        self.now_ms = self.now_ms.max(now_ms);
        let State { now_ms, revision, sessions, modules, .. } = self;
        let mut outcome = Outcome::default();
        let (now_ms, grants, outcome_of) = (*now_ms, Grants::ByGroup, &mut outcome);
        let mut turn = Turn { index, now_ms, grants, revision, raised: false, sessions, outcome: outcome_of };
        change(&mut modules.locks, &mut turn);
        outcome
    }
}

impl Locks {
    /// Grants the lock to its first waiter. Does nothing if no claim waits, or if the lock is held or closed.
    pub(in crate::state) fn admit(&mut self, turn: &mut Turn<'_>, name: &LockName, fence: NonZeroU64) {
        if let Some(first) = self.locks.get(name).and_then(|lock| self.grantable(lock)) {
            self.grant(turn, &first, fence);
        }
    }

    /// Refuses the first waiter of the lock. Does nothing if no claim waits.
    pub(in crate::state) fn deny(&mut self, turn: &mut Turn<'_>, name: &LockName, why: String) {
        if let Some(first) = self.locks.get(name).and_then(|lock| lock.next_waiter()).cloned() {
            self.stop_waiting(turn, &first, Refusal::Unavailable(why));
        }
    }

    /// Refuses this acquire. Does nothing if it does not wait.
    pub(in crate::state) fn deny_one(
        &mut self,
        turn: &mut Turn<'_>,
        session: SessionId,
        number: RequestNumber,
        why: String,
    ) {
        if let Some(claim) = self.claims.get(&(session, number)).filter(|claim| !claim.holds()).cloned() {
            self.stop_waiting(turn, &claim, Refusal::Unavailable(why));
        }
    }
}
