//! The changes of a command, in order, for watchers.

use std::sync::Arc;

use smallvec::SmallVec;

use super::locks::LockName;
use super::sessions::Who;
use super::{Caller, Effect, What};

/// The result of an entry of the log. One effect and one change are the normal case, and need no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Actions for the leader, in order.
    pub effects: SmallVec<[Effect; 1]>,
    pub changes: SmallVec<[Change; 1]>,
}

impl Outcome {
    /// Adds a change that is about no session.
    pub(super) fn change(&mut self, index: u64, revision: Option<u64>, what: What) {
        let position = self.changes.len() as u32;
        self.changes.push(Change { index, position, revision, who: None, cause: None, what });
    }
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
    /// The session that the change is about. None if the feed has not begun: then nobody is told.
    pub who: Option<Arc<Who>>,
    /// Why a claim or a session has ended, or a claim is revoked, or a lock is opened.
    pub cause: Option<Cause>,
    pub what: What,
}

/// Why a claim or a session has ended, or a claim is revoked, or a lock is opened, as far as the values before and after do
/// not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    Released,
    Cancelled,
    /// The acquire has reached its time-out.
    TimedOut,
    /// The client has closed the session.
    Closed,
    /// The lease of the session has ended.
    Expired,
    /// The peer group cannot take the request.
    Unavailable,
    /// An operator has forced it.
    Forced(Arc<Caller>),
}

/// The locks that a session held when it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The first of them.
    pub names: Box<[LockName]>,
    /// How many it held.
    pub count: u64,
}
