//! A claim: an acquire that waits or holds, in as many queues as it wants locks.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::{LockName, Mode, Wants};
use crate::state::{OwnerId, RequestNumber, SessionId};

/// The place of a claim in log order. The claims of a lock are sorted by it, which is what FIFO means.
pub type Ticket = u64;

/// An acquire that waits or holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Its place in log order.
    pub ticket: Ticket,
    /// The revision at which it entered its queues.
    pub revision: u64,
    /// The session of the client.
    pub session: SessionId,
    /// Which of the session's requests it is.
    pub number: RequestNumber,
    /// Deadlocks are looked for among owners: a session may have several.
    pub owner: OwnerId,
    /// The owner that its owner acts for, if any: that one waits for its owner.
    pub parent: Option<OwnerId>,
    /// Which locks, and how. All of them are granted in one command.
    pub wants: Wants,
    /// How long it waits; none if it waits for ever, or holds.
    pub timeout_ms: Option<NonZeroU64>,
    /// How long its locks stay closed if its session expires. At most `LOCK_DELAY_MS_MAX`.
    pub lock_delay_ms: u32,
    /// Since when it waits or holds.
    pub since_ms: u64,
    /// The fence under which it holds; none while it waits.
    pub fence: Option<NonZeroU64>,
    /// Its session was told to give it back.
    pub revoked: bool,
}

impl Claim {
    /// Whether it holds its locks.
    pub fn holds(&self) -> bool {
        self.fence.is_some()
    }

    /// What it is found by.
    pub(super) fn key(&self) -> (SessionId, RequestNumber) {
        (self.session, self.number)
    }

    /// What its owner's claims are found by.
    pub(super) fn owner_key(&self) -> (OwnerId, SessionId, RequestNumber) {
        (self.owner, self.session, self.number)
    }

    /// Its parent and its owner, if the owner acts for another one. An owner that names itself acts for nobody.
    pub(super) fn kinship(&self) -> Option<(OwnerId, OwnerId)> {
        self.parent.filter(|parent| *parent != self.owner).map(|parent| (parent, self.owner))
    }

    /// Whether it wants several locks: then it may wait though one of them admits it.
    pub(super) fn wants_several(&self) -> bool {
        self.wants.len() > 1
    }

    /// How it wants a lock that it does want.
    pub fn mode(&self, lock: &LockName) -> Mode {
        match &self.wants[..] {
            [want] => want.mode,
            wants => {
                wants.iter().find(|want| want.lock == *lock).expect("a claim wants the locks that it stands at").mode
            }
        }
    }
}
