//! Ended holds, for people to read.

use serde::{Deserialize, Serialize};

use crate::state::SessionId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// The holder released it.
    Released,
    /// The lease of its session expired.
    Expired,
    /// An operator forced the release.
    Forced,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Ended holds of all locks are numbered in log order. The lowest number is forgotten first.
    pub order: u64,
    pub session: SessionId,
    pub label: Box<str>,
    pub fence: u64,
    pub from_ms: u64,
    pub to_ms: u64,
    pub ended: Ended,
}
