//! The records of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::{VERSION, check_version, decode};
use crate::state;
use crate::store::Unreadable;

/// Where an entry is in the log: the term of the leader that proposed it, and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LogId {
    pub term: u64,
    pub index: u64,
}

/// For whom a node voted in a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vote {
    pub term: u64,
    pub node: u64,
    /// A majority has voted so.
    pub committed: bool,
}

/// A frame of the journal holds any number of records, one after the other, each as: its version (one byte), the length
/// of its body, its body. So a record of a newer version is recognised, and versions can be mixed in one log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Record<'a> {
    /// An entry, after the last one.
    Entry {
        id: LogId,
        /// A [`Payload`]. It is encoded once and decoded where it is needed.
        #[serde(borrow, serialize_with = "bytes")]
        payload: &'a [u8],
    },
    /// The last vote counts.
    Vote(Vote),
    /// All up to here is committed.
    Committed(LogId),
    /// No entry after this one, or none at all.
    Truncate(Option<LogId>),
    /// No entry up to this one.
    Purge(LogId),
}

/// What an entry says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Payload {
    /// Nothing: a leader begins its term with it.
    Blank,
    /// To the state.
    Commands(state::Entry),
    /// The members of the group from this entry on.
    Membership(Membership),
}

/// The members of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    /// The voters: a decision needs a majority of each set. There are two sets while the group changes, none before it
    /// begins.
    pub configs: Vec<BTreeSet<u64>>,
    /// All nodes. Those that are in no config have no vote.
    pub nodes: BTreeMap<u64, NodeRecord>,
}

/// A node, as all nodes of its group know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// For people.
    pub name: String,
    /// Where other nodes reach it; empty if it has no peers.
    pub peer_address: String,
    /// Where clients reach it.
    pub client_address: String,
}

impl fmt::Display for NodeRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.client_address)
    }
}

/// A record as it lies in a frame.
#[derive(Serialize, Deserialize)]
struct Framed<'a> {
    version: u8,
    #[serde(borrow, serialize_with = "bytes")]
    body: &'a [u8],
}

/// Writes bytes as such: serde would write them one by one, which gives the same bytes more slowly.
fn bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl<'a> Record<'a> {
    /// Adds the record to those of a frame.
    pub fn encode_to(&self, frame: &mut Vec<u8>) {
        let body = encode(self);
        let before = std::mem::take(frame);
        let framed = Framed { version: VERSION, body: &body };
        *frame = encode_to(&framed, before);
    }

    /// The first record of a frame, and what follows it.
    pub fn read(frame: &'a [u8]) -> Result<(Record<'a>, &'a [u8]), Unreadable> {
        let cut = |error| Unreadable::Malformed(format!("it holds no record: {error}"));
        let (Framed { version, body }, rest) = postcard::take_from_bytes(frame).map_err(cut)?;
        check_version(version)?;
        Ok((decode("record", body)?, rest))
    }
}

impl Payload {
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Payload, Unreadable> {
        decode("payload", bytes)
    }
}

/// Enough for most entries, so that the vector need not grow step by step.
const SIZE_HINT: usize = 128;

pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
    encode_to(value, Vec::with_capacity(SIZE_HINT))
}

fn encode_to(value: &impl Serialize, bytes: Vec<u8>) -> Vec<u8> {
    postcard::to_extend(value, bytes).expect("a value without maps of unknown length can be encoded")
}
