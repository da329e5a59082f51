//! What the front end knows of locks: the claims on their way to the state, for the limits; how long a try waits; and who
//! was told that a wait has no hope.

mod force;
mod hopeless;
mod limits;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use baton_types::frames;

pub use hopeless::HOPELESS_AGAIN_MS;
pub(super) use limits::closed;

use crate::state::locks::{Acquire, LockName, Operation};
use crate::state::{RequestNumber, SessionId, State};

#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    /// The acquires on their way to the state, at each lock that they want.
    under_way: BTreeMap<LockName, UnderWay>,
    /// How many locks they want, each session and all together. A lock counts once for each acquire.
    wanted_by: BTreeMap<SessionId, usize>,
    wanted: usize,
    /// How long an acquire with time-out 0 waits; none if it does not wait.
    try_ms: Option<u64>,
    /// The acquires that were told in the last second that they wait without hope, and when.
    told_hopeless: BTreeMap<(SessionId, RequestNumber), u64>,
}

/// The acquires on their way to one lock.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    acquires: usize,
    /// How many of them want other locks, too. Such a one may wait for a free lock.
    of_several: usize,
}

impl Locks {
    /// From now on an acquire with time-out 0 waits this long.
    pub fn try_waits(&mut self, try_ms: Option<u64>) {
        self.try_ms = try_ms;
    }

    /// A try waits a little, if the state cannot tell at once whether a lock is free. A repeated try changes in the same
    /// way, so the state recognises it.
    pub fn with_patience(&self, operation: &mut frames::Operation) {
        if let (Some(try_ms), frames::Operation::Acquire(acquire)) = (self.try_ms, operation) {
            acquire.timeout_ms = acquire.timeout_ms.map(|timeout_ms| if timeout_ms == 0 { try_ms } else { timeout_ms });
        }
    }

    /// The request of the session is on its way to the state.
    pub fn proposed(&mut self, session: SessionId, operation: &Operation) {
        let Operation::Acquire(Acquire { wants, .. }) = operation else { return };
        self.wanted += wants.len();
        *self.wanted_by.entry(session).or_default() += wants.len();
        for want in wants {
            let there = self.under_way.entry(want.lock.clone()).or_default();
            there.acquires += 1;
            there.of_several += usize::from(wants.len() > 1);
        }
    }

    /// A proposed request was applied.
    pub fn applied(&mut self, session: SessionId, operation: &Operation) {
        let Operation::Acquire(Acquire { wants, .. }) = operation else { return };
        self.wanted -= wants.len();
        if let Entry::Occupied(mut wanted) = self.wanted_by.entry(session) {
            *wanted.get_mut() -= wants.len();
            if *wanted.get() == 0 {
                wanted.remove();
            }
        }
        for want in wants {
            if let Entry::Occupied(mut there) = self.under_way.entry(want.lock.clone()) {
                there.get_mut().acquires -= 1;
                there.get_mut().of_several -= usize::from(wants.len() > 1);
                if there.get().acquires == 0 {
                    there.remove();
                }
            }
        }
    }

    /// Number of locks with acquires on their way, for tests of the memory.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        assert_eq!(
            (self.wanted == 0, self.wanted_by.is_empty()),
            (self.under_way.is_empty(), self.under_way.is_empty())
        );
        self.under_way.len()
    }

    /// The term has ended: nothing is on its way any more.
    pub fn reset(&mut self) {
        *self = Locks { try_ms: self.try_ms, ..Locks::default() };
    }
}

/// Whether an operation would only join a queue.
pub(super) fn joins_a_queue(state: &State, operation: &Operation) -> bool {
    let Operation::Acquire(Acquire { wants, timeout_ms, .. }) = operation else { return false };
    *timeout_ms != Some(0) && wants.iter().any(|want| state.waiters_of(want.lock.as_bytes()) > 0)
}
