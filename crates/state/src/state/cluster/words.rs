//! The words of the cluster.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::state::feed::Leader;

/// Only the members of the cluster know it. It is in the log and in snapshots, and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// All of these are of data format 3, except the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Gives the cluster its secret, if it has none. If no session was ever opened in it, also its longest TTL.
    Found { secret: Secret, max_ttl_ms: u64 },
    /// A session that begins from now on has at most this TTL.
    SetMaxTtl { max_ttl_ms: u64 },
    /// Every later fence is at least this one.
    RaiseFences { from: u64 },
    /// The leader has counted one step of the wait of a closed cluster. At `to_ms` 0 the cluster opens. Does nothing if
    /// not exactly `from_ms` are left.
    Waited { from_ms: u64, to_ms: u64 },
    /// The cluster begins anew, from a backup or without a majority of its members: it gets this secret, all sessions
    /// end, and every later fence is at least this one. Nothing is granted for this long; none: until the leases of all
    /// sessions of before must have ended.
    BeginAnew { secret: Secret, fence_from: u64, wait_ms: Option<u64> },
    /// A node begins to lead. The first of these begins the feed of changes. Of data format 4.
    Leads(Leader),
}

impl Command {
    /// Whether a timer of the leader proposes it. The node itself proposes the others.
    pub fn is_of_timer(&self) -> bool {
        matches!(self, Command::Waited { .. })
    }
}

/// An action for the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is granted for this long; 0: the cluster is open now.
    Closed { left_ms: u64 },
}
