//! What people may watch: everything that a command changed, in order.

use std::sync::Arc;

use smallvec::SmallVec;

use super::locks::{Claim, Delay, LockName};
use super::sessions::Session;
use super::{Effect, SessionId};

/// What follows from an entry of the log. One effect and one change are normal, and take no memory of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What has to be told or done, in order.
    pub effects: SmallVec<[Effect; 1]>,
    /// What has changed, in order.
    pub changes: SmallVec<[Change; 1]>,
}

/// One thing that has changed. Changes are ordered by `index`, then by `position`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The index of the entry in the log.
    pub index: u64,
    /// The place of the change among those of the entry, from 0 on.
    pub position: u32,
    /// The state's revision since this change, if it is one that the revision counts.
    pub revision: Option<u64>,
    /// What has changed, before and after.
    pub what: What,
}

/// What has changed, before and after; none before it was there, and after it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A session began or ended.
    Session {
        /// The id of the session.
        id: SessionId,
        /// None if it begins.
        before: Option<Arc<Session>>,
        /// None if it has ended.
        after: Option<Arc<Session>>,
    },
    /// A claim entered its queues, was granted, was revoked, or ended.
    Claim {
        /// None if it enters.
        before: Option<Arc<Claim>>,
        /// None if it has ended.
        after: Option<Arc<Claim>>,
    },
    /// A lock was closed by a lock-delay, or opened.
    Delay {
        /// The name of the lock.
        lock: LockName,
        /// None if it was open.
        before: Option<Delay>,
        /// None if it is open.
        after: Option<Delay>,
    },
}
