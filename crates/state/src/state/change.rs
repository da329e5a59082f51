//! The changes of a command, in order, for watchers.

use smallvec::SmallVec;

use super::{Effect, What};

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
