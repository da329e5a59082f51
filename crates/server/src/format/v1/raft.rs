//! Raft's data in format 1: openraft's own types in postcard, as version 0.10.0-alpha.37 lays them out.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::words::Entry;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct LogId {
    pub term: u64,
    pub index: u64,
}

/// A vote. openraft writes `voted_for` as an option, but it was never none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Vote {
    pub term: u64,
    pub voted_for: Option<u64>,
    pub committed: bool,
}

/// A frame of the journal contained any number of them, one after the other.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) enum Record<'a> {
    Entry {
        id: LogId,
        /// An encoded [`Payload`].
        payload: &'a [u8],
    },
    Vote(Vote),
    Committed(LogId),
    Truncate(Option<LogId>),
    Purge(LogId),
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) enum Payload {
    Blank,
    Normal(Entry),
    Membership(Membership),
}

#[derive(Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Membership {
    pub configs: Vec<BTreeSet<u64>>,
    pub nodes: BTreeMap<u64, Node>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Node {
    pub address: String,
}

/// The head of a snapshot.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct SnapshotMeta {
    pub last: Option<LogId>,
    pub membership_at: Option<LogId>,
    pub membership: Membership,
    /// openraft keeps the place of a removed field: always empty.
    pub snapshot_id: String,
}
