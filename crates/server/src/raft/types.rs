//! The types that openraft works with.

use std::fmt;
use std::sync::Arc;

use openraft::impls::leader_id_std;
use openraft::vote::RaftLeaderId;
use openraft::{OptionalSend, RaftTypeConfig};
use serde::{Deserialize, Serialize};

use super::receipt::Receipt;
use crate::format::record::{self, NodeRecord};
use crate::state::{Entry, Outcome};
use crate::store::Unreadable;

/// Binds openraft to our types. (openraft's macro does not accept our own responder type.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeConfig {}

impl RaftTypeConfig for TypeConfig {
    type D = Encoded;
    type R = Applied;
    type NodeId = u64;
    type Node = NodeRecord;
    type Term = u64;
    /// Standard Raft: one leader per term, because a session's Expire names the term in which its lease was counted.
    /// (openraft's default allows two leaders in one term, one after the other.)
    type LeaderId = leader_id_std::LeaderId<u64, u64>;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = openraft::EntryPayload<Encoded, u64, NodeRecord>;
    type Entry = openraft::Entry<<Self::LeaderId as RaftLeaderId>::Committed, Self::Payload>;
    type Responder<T>
        = Receipt<T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type AsyncRuntime = baton_runtime::Runtime;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

/// Index and term of an entry.
pub type LogId = openraft::alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = openraft::alias::VoteOf<TypeConfig>;
pub(crate) type LogEntry = openraft::alias::EntryOf<TypeConfig>;
pub(crate) type Payload = openraft::alias::PayloadOf<TypeConfig>;
pub(crate) type Membership = openraft::alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;
pub(crate) type Snapshot = openraft::alias::SnapshotOf<TypeConfig, super::snapshot::Chunks>;

/// The result of a committed and applied entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub index: u64,
    /// The term of the leader that proposed the entry.
    pub term: u64,
    /// The effects to carry out, and the changes. Not serialized: openraft requires responses that can be sent to other
    /// nodes, but ours stay on this node.
    #[serde(skip)]
    pub outcome: Arc<Outcome>,
}

/// The commands of an entry, encoded as a [`record::Payload`]. The proposing node encodes them once: the disk and the
/// wire have the same bytes. They are decoded where they are applied. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u8>", into = "Vec<u8>")]
pub struct Encoded(pub(super) Arc<[u8]>);

impl Encoded {
    pub(super) fn decode(&self) -> Result<Entry, Unreadable> {
        match record::Payload::decode(&self.0)? {
            record::Payload::Commands(entry) => Ok(entry),
            _ => Err(Unreadable::Malformed("it has no commands".to_owned())),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl From<Entry> for Encoded {
    fn from(entry: Entry) -> Self {
        Encoded(record::Payload::Commands(entry).encode().into())
    }
}

impl From<Vec<u8>> for Encoded {
    fn from(bytes: Vec<u8>) -> Self {
        Encoded(bytes.into())
    }
}

impl From<Encoded> for Vec<u8> {
    fn from(encoded: Encoded) -> Self {
        encoded.0.to_vec()
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encoded").field(&self.decode()).finish()
    }
}

impl fmt::Display for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "commands of {} bytes", self.bytes())
    }
}
