//! A claim: an acquire that waits or holds. It stands in the line of every lock that it wants.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::{LockName, Mode, Wants};
use crate::state::{OwnerId, RequestNumber, SessionId};

/// The position of a claim in log order. The claims of a lock are sorted by it, so that the line is FIFO.
pub type Ticket = u64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub ticket: Ticket,
    /// The revision at which the claim entered its lines.
    pub revision: u64,
    pub session: SessionId,
    pub number: RequestNumber,
    /// Deadlocks are detected among owners. A session may have several.
    pub owner: OwnerId,
    /// The owner on whose behalf this owner acts, if any. The parent waits for this owner.
    pub parent: Option<OwnerId>,
    /// Which locks, and in which modes. All of them are granted in one command.
    pub wants: Wants,
    /// None if the claim holds, or waits without a limit.
    pub timeout_ms: Option<NonZeroU64>,
    /// How long its locks stay closed if its session expires. At most `LOCK_DELAY_MS_MAX`.
    pub lock_delay_ms: u32,
    /// When the claim began to wait or, once granted, to hold.
    pub since_ms: u64,
    /// None while the claim waits.
    pub fence: Option<NonZeroU64>,
    /// True if the session was told to release it.
    pub revoked: bool,
}

impl Claim {
    pub fn holds(&self) -> bool {
        self.fence.is_some()
    }

    /// The key of `Locks::claims`.
    pub(super) fn key(&self) -> (SessionId, RequestNumber) {
        (self.session, self.number)
    }

    /// The key of `Locks::holds` and `Locks::waits`.
    pub(super) fn owner_key(&self) -> (OwnerId, SessionId, RequestNumber) {
        (self.owner, self.session, self.number)
    }

    /// Parent and owner, if the owner acts for another one. An owner that names itself has no parent.
    pub(super) fn kinship(&self) -> Option<(OwnerId, OwnerId)> {
        self.parent.filter(|parent| *parent != self.owner).map(|parent| (parent, self.owner))
    }

    /// A claim of several locks may wait although one of them admits it.
    pub(super) fn wants_several(&self) -> bool {
        self.wants.len() > 1
    }

    /// The lock must be one that the claim wants.
    pub fn mode(&self, lock: &LockName) -> Mode {
        match &self.wants[..] {
            [want] => want.mode,
            wants => {
                wants
                    .iter()
                    .find(|want| want.lock == *lock)
                    .expect("a claim is only in the lines of its own locks")
                    .mode
            }
        }
    }
}
