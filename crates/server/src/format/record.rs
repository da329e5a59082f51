//! The records of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::{VERSION, check_version, decode, since};
use crate::state::{self, Caller, SessionId};
use crate::store::Unreadable;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LogId {
    pub term: u64,
    pub index: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vote {
    pub term: u64,
    pub node: u64,
    /// True if a majority has granted this vote.
    pub committed: bool,
}

/// A frame of the journal contains any number of records. Each has a version (one byte), the length of its body, and
/// the body. So a record of a newer version is recognised, and a log may contain records of several versions. The
/// version is the one in which this kind of record appeared, so that older nodes can read it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Record<'a> {
    /// An entry, which follows the last one.
    Entry {
        id: LogId,
        /// An encoded [`Payload`]. It is encoded once, and decoded where it is needed.
        #[serde(borrow, serialize_with = "bytes")]
        payload: &'a [u8],
    },
    /// The last vote in the log counts.
    Vote(Vote),
    /// All entries up to this one are committed.
    Committed(LogId),
    /// The log ends with this entry, or is empty.
    Truncate(Option<LogId>),
    /// All entries up to this one are removed.
    Purge(LogId),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Payload {
    /// A new leader's first entry, without content.
    Blank,
    Commands(state::Entry),
    /// The members of the group from this entry on.
    Membership(Membership),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    /// The sets of voters. A decision needs a majority of each set. There are two sets while the group changes, and
    /// none before it begins.
    pub configs: Vec<BTreeSet<u64>>,
    /// All nodes. A node that is in no config has no vote.
    pub nodes: BTreeMap<u64, NodeRecord>,
}

/// A node, as all nodes of its group know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// For people to read.
    pub name: String,
    /// The address for other nodes; empty if the node has no peers.
    pub peer_address: String,
    pub client_address: String,
}

impl fmt::Display for NodeRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.client_address)
    }
}

/// A record inside a frame.
#[derive(Serialize, Deserialize)]
struct Framed<'a> {
    version: u8,
    #[serde(borrow, serialize_with = "bytes")]
    body: &'a [u8],
}

/// Writes all bytes at once. serde would write them one by one, with the same result, but slower.
pub(crate) fn bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl<'a> Record<'a> {
    pub fn encode_to(&self, frame: &mut Vec<u8>) {
        let body = encode(self);
        let before = std::mem::take(frame);
        let framed = Framed { version: self.since(), body: &body };
        *frame = encode_to(&framed, before);
    }

    /// The first data format that has this record.
    fn since(&self) -> u8 {
        match self {
            // Nearly every entry is of this kind, and decoding it takes time.
            Record::Entry { payload, .. } if Payload::is_one_old_command(payload) => 2,
            Record::Entry { payload, .. } => Payload::since(payload, since),
            Record::Vote(_) | Record::Committed(_) | Record::Truncate(_) | Record::Purge(_) => 2,
        }
    }

    /// The first record of a frame, and the rest of the frame.
    pub fn read(frame: &'a [u8]) -> Result<(Record<'a>, &'a [u8]), Unreadable> {
        let cut = |error| Unreadable::Malformed(format!("it contains no valid record: {error}"));
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

    /// The first data format that has this encoded payload. `since` is [`since`](super::since), except in tests.
    pub(super) fn since(bytes: &[u8], since: impl Fn(&state::Command) -> u8) -> u8 {
        match Payload::decode(bytes) {
            Ok(Payload::Blank | Payload::Membership(_)) => 2,
            Ok(Payload::Commands(entry)) => entry.commands.iter().map(since).fold(2, u8::max),
            // A node accepts only payloads that it can decode.
            Err(_) => VERSION,
        }
    }

    /// Whether these bytes are a single command of a kind that format 2 has: all of those are of format 2.
    fn is_one_old_command(bytes: &[u8]) -> bool {
        const COMMANDS: u32 = 1;
        const KINDS_OF_FORMAT_2: u32 = 3;
        const REQUEST: u32 = 1;
        // The variant of the payload, the time, the number of commands, and the variant of the first one.
        let head = postcard::take_from_bytes::<(u32, u64, u32, u32)>(bytes);
        head.is_ok_and(|((payload, _, count, kind), rest)| {
            let is_old = (payload, count) == (COMMANDS, 1) && kind < KINDS_OF_FORMAT_2;
            is_old && (kind != REQUEST || Payload::is_old_request(rest))
        })
    }

    /// Whether this encoded request has an operation that format 2 has: a Close, or one of the locks.
    fn is_old_request(bytes: &[u8]) -> bool {
        const OPERATIONS_OF_FORMAT_2: u32 = 2;
        // All fields up to the variant of the operation.
        let head = postcard::take_from_bytes::<(SessionId, u64, u64, Vec<u64>, Caller, u32)>(bytes);
        head.is_ok_and(|((.., operation), _)| operation < OPERATIONS_OF_FORMAT_2)
    }

    /// Whether these bytes are encoded commands: they begin with the number of the variant.
    pub fn is_commands(bytes: &[u8]) -> bool {
        bytes.first() == Some(&1)
    }

    /// Whether these bytes are an encoded membership.
    pub fn is_membership(bytes: &[u8]) -> bool {
        bytes.first() == Some(&2)
    }
}

/// Enough for most entries, so that the vector does not grow step by step.
const SIZE_HINT: usize = 128;

pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
    encode_to(value, Vec::with_capacity(SIZE_HINT))
}

fn encode_to(value: &impl Serialize, bytes: Vec<u8>) -> Vec<u8> {
    postcard::to_extend(value, bytes).expect("a value without maps of unknown length can be encoded")
}
