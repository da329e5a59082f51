//! What the front end knows of locks: the claims on their way to the state, for the limits; how long a try waits; and who
//! was told that a wait has no hope.

mod force;
mod hopeless;
mod limits;
pub mod words;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;

use baton_types::frames::{self, ToClient};
use baton_types::locks as types;
use baton_types::views::Holder;

pub use hopeless::HOPELESS_AGAIN_MS;

use super::Frontend;
use super::limits::Denied;
use super::modules::{Gate, Half};
use crate::state::locks::{self, Acquire, LockName, Operation};
use crate::state::{Outcome, RequestNumber, SessionId, State};

/// The answer to a call about locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The release was forced. Lists the holders that were told to release the lock, or lost it at once.
    Forced(Vec<Holder>),
}

/// A line for the operator about locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// An operator forced the release of a lock.
    Forced {
        lock: LockName,
        /// True if the holders lost the lock at once.
        now: bool,
        /// Number of holders at that time.
        holders: usize,
        /// The address of the operator's client.
        by: Option<SocketAddr>,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Locks {
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

impl Frontend {
    /// From now on an acquire with time-out 0 waits this long. None: it does not wait, as from the start.
    pub fn try_waits(&mut self, try_ms: Option<u64>) {
        self.modules.locks.try_ms = try_ms;
    }
}

impl Half for Locks {
    type Asked = types::Operation;
    type Operation = Operation;
    type Answer = locks::Answer;
    type Command = locks::Command;
    type Effect = locks::Effect;
    type Reply = Reply;
    type Note = Note;

    /// A try waits a little, if the state cannot tell at once whether a lock is free.
    fn operation(&self, number: RequestNumber, mut asked: types::Operation) -> Result<Operation, String> {
        if let (Some(try_ms), types::Operation::Acquire(acquire)) = (self.try_ms, &mut asked) {
            acquire.timeout_ms = acquire.timeout_ms.map(|timeout_ms| if timeout_ms == 0 { try_ms } else { timeout_ms });
        }
        let operation = words::operation(asked);
        operation.check(number).map_err(|invalid| invalid.to_string())?;
        Ok(operation)
    }

    fn bytes(asked: &types::Operation) -> usize {
        if let types::Operation::Acquire(acquire) = asked { acquire.name.len() } else { 0 }
    }

    fn admits(&self, gate: &Gate<'_>, session: SessionId, operation: &Operation) -> Result<(), Denied> {
        let Operation::Acquire(acquire) = operation else { return Ok(()) };
        self.refusal(gate, session, acquire).map_or(Ok(()), Err)
    }

    /// Whether the operation would only join a queue.
    fn may_be_held_back(state: &State, operation: &Operation) -> bool {
        let Operation::Acquire(Acquire { wants, timeout_ms, .. }) = operation else { return false };
        *timeout_ms != Some(0) && wants.iter().any(|want| state.waiters_of(want.lock.as_bytes()) > 0)
    }

    fn proposed(&mut self, session: SessionId, operation: &Operation) {
        let Operation::Acquire(Acquire { wants, .. }) = operation else { return };
        self.wanted += wants.len();
        *self.wanted_by.entry(session).or_default() += wants.len();
        for want in wants {
            let there = self.under_way.entry(want.lock.clone()).or_default();
            there.acquires += 1;
            there.of_several += usize::from(wants.len() > 1);
        }
    }

    fn applied(&mut self, session: SessionId, operation: &Operation) {
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

    fn reset(&mut self) {
        *self = Locks { try_ms: self.try_ms, ..Locks::default() };
    }

    fn answer(answer: &locks::Answer) -> frames::Answer {
        words::answer(answer)
    }

    fn told(effect: &locks::Effect) -> Option<(SessionId, ToClient)> {
        match *effect {
            locks::Effect::Revoked { session, acquire } => Some((session, ToClient::Revoked { acquire })),
            locks::Effect::Forced { .. } | locks::Effect::Waits { .. } | locks::Effect::LockDelay { .. } => None,
        }
    }

    fn reply(effect: &locks::Effect, expires_in: &dyn Fn(SessionId) -> u64) -> Option<Reply> {
        let locks::Effect::Forced { holders, .. } = effect else { return None };
        let shown = holders.iter().map(|holder| words::holder(holder, expires_in(holder.session)));
        Some(Reply::Forced(shown.collect()))
    }

    fn done_by(_: &locks::Command) -> &'static str {
        "the release was forced"
    }

    fn note(command: &locks::Command, outcome: &Outcome) -> Option<Note> {
        force::note(command, outcome)
    }
}

impl Locks {
    /// Number of locks with acquires on their way, for tests of the memory.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        assert_eq!(
            (self.wanted == 0, self.wanted_by.is_empty()),
            (self.under_way.is_empty(), self.under_way.is_empty())
        );
        self.under_way.len()
    }
}
