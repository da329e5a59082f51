//! Ended holds: for people to read.

use serde::{Deserialize, Serialize};

use crate::state::SessionId;

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// Its holder gave it back.
    Released,
    /// The lease of its session ran out.
    Expired,
    /// Somebody else wanted it ended.
    Forced,
}

/// A hold that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Ended holds of all locks are numbered in log order; the lowest are forgotten first.
    pub order: u64,
    /// Whose it was.
    pub session: SessionId,
    /// The label of that session.
    pub label: Box<str>,
    /// Its fence.
    pub fence: u64,
    /// When it began.
    pub from_ms: u64,
    /// When it ended.
    pub to_ms: u64,
    /// Released, expired, or ended by force.
    pub ended: Ended,
}
