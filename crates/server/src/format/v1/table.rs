//! The table of locks in a snapshot of data format 1.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::words::{Answer, Mode};

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Table {
    pub now_ms: u64,
    pub term: u64,
    pub last_fence: u64,
    pub last_ticket: u64,
    pub last_delay: u64,
    pub last_past: u64,
    pub sessions: BTreeMap<u64, Session>,
    pub locks: Locks,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Session {
    pub ttl_ms: u64,
    pub label: Box<str>,
    pub host: Box<str>,
    pub pid: u32,
    pub seen: u64,
    pub missing: BTreeSet<u64>,
    pub answers: BTreeMap<u64, Answer>,
    /// By the number of the acquire. The locks contain the same information.
    pub places: BTreeMap<u64, Place>,
    /// Number of places that wait.
    pub waits: u64,
    pub forced: BTreeSet<u64>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Place {
    pub lock: u64,
    pub ticket: u64,
    pub holds: bool,
}

/// The locks by their numbers, which were used only within the table.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Locks {
    pub last_id: u64,
    pub by_id: BTreeMap<u64, Lock>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Lock {
    pub name: String,
    pub permits: u32,
    pub delay: Option<Delay>,
    pub holders: Vec<Holder>,
    pub waiters: Vec<Waiter>,
    pub history: Vec<Past>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Delay {
    pub generation: u64,
    pub delay_ms: u64,
    pub since_ms: u64,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Claim {
    pub ticket: u64,
    pub session: u64,
    pub number: u64,
    pub owner: u64,
    pub mode: Mode,
    pub lock_delay_ms: u32,
    pub since_ms: u64,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Holder {
    pub claim: Claim,
    pub fence: u64,
    pub revoked: bool,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Waiter {
    pub claim: Claim,
    pub timeout_ms: Option<u64>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Past {
    pub order: u64,
    pub session: u64,
    pub label: Box<str>,
    pub fence: u64,
    pub from_ms: u64,
    pub to_ms: u64,
    pub ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) enum Ended {
    Released,
    Expired,
    Forced,
}
