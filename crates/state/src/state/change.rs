//! The changes of a command, in order, for watchers.

use std::sync::Arc;

use smallvec::SmallVec;

use super::locks::{Claim, Delay, LockName};
use super::sessions::Session;
use super::{Effect, SessionId};

/// The result of an entry of the log. One effect and one change are the normal case, and need no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Actions for the leader, in order.
    pub effects: SmallVec<[Effect; 1]>,
    pub changes: SmallVec<[Change; 1]>,
}

/// One change. Changes are ordered by `index`, then by `position`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The index of the entry in the log.
    pub index: u64,
    /// The position of the change within its entry, from 0 on.
    pub position: u32,
    /// The state's revision after this change, if the revision counts such changes.
    pub revision: Option<u64>,
    pub what: What,
}

/// The value before and after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A session began or ended.
    Session {
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
    /// A lock-delay closed a lock, or has ended.
    Delay {
        lock: LockName,
        /// None if the lock was open.
        before: Option<Delay>,
        /// None if the lock is open.
        after: Option<Delay>,
    },
}
