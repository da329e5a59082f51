//! The words that two nodes say to each other. Everything here is pure.
//!
//! Each side begins with eight bytes: a magic and the version of the wire. Then come frames: a length (four bytes), and a
//! value in postcard format. The dialling side sends a [`Hello`], and the other side answers with its own Hello or with
//! a [`Refusal`]. What follows depends on the purpose of the connection: calls, or one snapshot.
//!
//! No type of openraft is on the wire. Log entries travel as the records of the log on disk, so each of them names its
//! data format.
//!
//! To change the wire: raise [`VERSION`], and go on to understand the version before it. Only a Hello may grow without
//! a new version: a reader ignores the bytes that follow the fields that it knows.

use serde::{Deserialize, Serialize};
use tokio_util::bytes::Bytes;
use tokio_util::codec::LengthDelimitedCodec;

use crate::format::record::{self, LogId, NodeRecord, Vote};
use crate::format::snapshot::SnapshotMeta;
use crate::raft::log::Fingerprint;
use crate::raft::log_store::APPEND_BYTES_MAX;
use crate::replica::Role;
use crate::store::Identity;

/// The version of the wire.
pub const VERSION: u16 = 3;

/// The oldest version that this build speaks. A cluster is upgraded node by node, one version at a time, so from the
/// first release on it is the version before [`VERSION`]. Versions 1 and 2 were in no release.
const OLDEST_VERSION: u16 = 3;

const MAGIC: [u8; 6] = *b"batonR";

pub const PREAMBLE_BYTES: usize = 8;

/// Largest length of a frame, without its length field.
pub const FRAME_BYTES_MAX: usize = 2 << 20;

/// The most entries in one append.
pub const APPEND_ENTRIES_MAX: u64 = 4096;

/// The overhead of an entry on the wire is below this: version, length, tag, term, index, length.
const ENTRY_OVERHEAD_MAX: usize = 1 + 5 + 1 + 10 + 10 + 5;

/// So an append always fits into a frame. (A single entry is as large as an append at most.)
const _: () = assert!(APPEND_BYTES_MAX + APPEND_ENTRIES_MAX as usize * ENTRY_OVERHEAD_MAX + 256 < FRAME_BYTES_MAX);

/// Until both sides have agreed to talk, frames must be this short.
const HELLO_BYTES_MAX: usize = 64 << 10;

/// The data formats that this build reads: the oldest and the newest.
pub const FORMATS: (u8, u8) = (crate::format::OLDEST_READ, crate::format::VERSION);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Requests and their answers.
    Calls,
    /// One snapshot, from the dialling side.
    Snapshot,
    /// Only the two Hellos. They may be of different clusters.
    Introduction,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub cluster: u64,
    pub node: u64,
    /// The node that the sender expects at the other end; 0 if it does not know.
    pub to: u64,
    pub purpose: Purpose,
    /// Name and addresses of the sender.
    pub record: NodeRecord,
    /// The oldest and the newest data format that the sender reads.
    pub formats: (u8, u8),
    /// True if the sender belongs to no cluster yet: it has no log and has never voted.
    pub is_empty: bool,
    /// The nodes with which an empty sender begins a cluster: names and peer addresses. Empty if it was not told any.
    pub list: Vec<(String, String)>,
    /// The ids and peer addresses of the members that the sender knows.
    pub members: Vec<(u64, String)>,
    /// True if the sender waits to be added to a cluster.
    pub joins: bool,
    /// The random number of this start of the sender's process. Two processes with one id have different numbers.
    pub start: u64,
}

impl Hello {
    /// True if the sender knows its members, and the node `id` is not one of them.
    pub fn excludes(&self, id: u64) -> bool {
        !self.members.is_empty() && self.members.iter().all(|(member, _)| *member != id)
    }
}

/// A node that waits to be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    pub node: u64,
    pub record: NodeRecord,
    pub formats: (u8, u8),
}

/// Why a node refuses a connection. `ours` is the refusing side, `theirs` the refused side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error(
        "it belongs to cluster {theirs:016x}, but this node belongs to cluster {ours:016x}; if one of the two has an old data \
         folder, empty that folder and add the node to the cluster of the other"
    )]
    OtherCluster { ours: u64, theirs: u64 },
    #[error(
        "it expected another node at this address (id {called}, and this is id {me}); if the data folder of that node was lost, \
         remove that node from the cluster and add this one; if this node has the wrong folder, start it with its own"
    )]
    NotMe { called: u64, me: u64 },
    #[error(
        "it reads data formats {} to {}, but this node reads {} to {}; upgrade one version at a time", theirs.0,
        theirs.1, ours.0, ours.1
    )]
    Formats { ours: (u8, u8), theirs: (u8, u8) },
    #[error("it is this node itself; is the address of another node wrong?")]
    Myself,
    #[error("this node has too many connections; look for programs that open connections to its peer address")]
    Busy,
    #[error("this node cannot take part now: {0}")]
    Failed(String),
    /// The refused side is another process than the one that answers at the address of the node in the cluster.
    #[error(
        "another process with its id, node {node}, answers at {address}, the address of that node in the cluster, so one of \
         the two data folders is a copy of the other; stop one process; if this was the copy, empty its folder and add it to \
         the cluster as a new node"
    )]
    Second { node: u64, address: String },
    /// Both sides have this id, and are different processes.
    #[error(
        "it has the id of this node, {node}, and is another process: the data folder of one is a copy of the other's"
    )]
    Copy { node: u64 },
}

/// What to do with a node that wants to talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    /// This node belongs to no cluster yet. It becomes part of this one first.
    Adopt {
        cluster: u64,
    },
}

/// Judges the Hello of a dialling node.
///
/// A node without data accepts any cluster that knows its id: ids are random, so only a node that was told this one
/// can name it.
pub fn judge(ours: Identity, formats: (u8, u8), is_empty: bool, theirs: &Hello) -> Result<Verdict, Refusal> {
    if theirs.purpose == Purpose::Introduction {
        return Ok(Verdict::Accept);
    }
    if theirs.node == ours.node {
        return Err(Refusal::Myself);
    }
    if theirs.to != ours.node {
        return Err(Refusal::NotMe { called: theirs.to, me: ours.node });
    }
    if !have_common_format(formats, theirs.formats) {
        return Err(Refusal::Formats { ours: formats, theirs: theirs.formats });
    }
    match theirs.cluster == ours.cluster {
        true => Ok(Verdict::Accept),
        false if is_empty => Ok(Verdict::Adopt { cluster: theirs.cluster }),
        false => Err(Refusal::OtherCluster { ours: ours.cluster, theirs: theirs.cluster }),
    }
}

/// Nodes that have no data format in common cannot be in one cluster.
pub fn have_common_format(ours: (u8, u8), theirs: (u8, u8)) -> bool {
    theirs.0 <= ours.1 && ours.0 <= theirs.1
}

/// The answer to a Hello.
pub type Greeting = Result<Hello, Refusal>;

/// Why a connection failed or ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error("no connection to {address}: {why}")]
    Unreachable { address: String, why: String },
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("the other side closed the connection")]
    Closed,
    #[error("it did not answer for {} ms", .0.as_millis())]
    Silent(std::time::Duration),
    /// The other side is another program.
    #[error("it began with {0:02x?}, but a node of a cluster begins with {MAGIC:02x?}")]
    NotBaton([u8; 6]),
    #[error(
        "it speaks version {found} of the wire, but this node speaks version {VERSION}; upgrade one version at a time"
    )]
    Version { found: u16 },
    #[error("it sent {bytes} bytes that are not {expected}")]
    Malformed { bytes: usize, expected: &'static str },
    #[error("it sent entries that cannot be read: {0}")]
    Entries(String),
    #[error("another node answers at {address} (id {found}, and id {expected} was expected)")]
    Other { address: String, expected: u64, found: u64 },
    /// This side refused the connection.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The other side refused the connection. Its sentence is about this side.
    #[error("refused by the other side, which says about this node: {0}")]
    RefusedByPeer(Refusal),
    #[error("another process of the node has taken the place of the one on this connection")]
    Replaced,
    #[error("too many calls wait for an answer")]
    Overloaded,
    /// The other side has answered with a sentence.
    #[error("{0}")]
    Failed(String),
    /// The other side has said what no correct node says: see `check.rs` and `history.rs`.
    #[error("{0}")]
    Unfit(String),
}

/// The first bytes on a connection, in both directions. Every version begins like this.
pub fn preamble(version: u16) -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..6].copy_from_slice(&MAGIC);
    bytes[6..].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// The version that both sides speak: the older of the two. A node of the next version speaks this one, too.
pub fn check_preamble(bytes: [u8; PREAMBLE_BYTES]) -> Result<u16, LinkError> {
    let [magic @ .., low, high] = bytes;
    match u16::from_le_bytes([low, high]) {
        _ if magic != MAGIC => Err(LinkError::NotBaton(magic)),
        found if (OLDEST_VERSION..=VERSION + 1).contains(&found) => Ok(found.min(VERSION)),
        found => Err(LinkError::Version { found }),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call<'a> {
    /// The answer names it. Unique on a connection.
    pub id: u64,
    #[serde(borrow)]
    pub request: Request<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request<'a> {
    #[serde(borrow)]
    Append(Append<'a>),
    Vote(Candidacy),
    /// Asks whether the node would vote. Nothing changes.
    PreVote(Candidacy),
    /// The leader asks the node to start an election at once.
    Transfer(Transfer),
    Status,
    /// Asks for the nodes that have announced themselves.
    Announced,
    /// Asks the leader to change the record of the sender. An empty field stays as it is.
    Update {
        record: NodeRecord,
    },
    /// Asks the leader which members get no entries from it although they answer.
    Remarks,
    /// An append without entries. Its answer does not wait for the disk, and acknowledges no entry.
    #[serde(borrow)]
    Heartbeat(Append<'a>),
    /// Asks whether the node follows the leader with this vote now. See [`crate::raft::rounds`].
    Round {
        vote: Vote,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append<'a> {
    /// The leader's vote.
    pub vote: Vote,
    /// The entry before the first of `records`.
    pub previous: Option<LogId>,
    pub commit: Option<LogId>,
    /// None if no majority has confirmed the leader yet.
    pub confirmed: Option<Confirmed>,
    /// The call that the node has answered last on this connection, as far as the leader knows. So the node knows after
    /// which moment this append was made.
    pub answered: Option<u64>,
    /// The last entry with commands up to `previous`, and what is in it. None if the leader does not have it any more.
    pub known: Option<(LogId, Fingerprint)>,
    /// Entries, as [records](crate::format::record::Record) of the log.
    #[serde(borrow, serialize_with = "record::bytes")]
    pub records: &'a [u8],
}

/// How old the knowledge of a leader may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmed {
    /// How long ago a majority confirmed that it leads.
    pub ms_ago: u64,
    /// The last entry of which it knew then that it was committed.
    pub commit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidacy {
    pub vote: Vote,
    pub last: Option<LogId>,
    /// The leader itself has asked for this election.
    pub is_transfer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The vote of the present leader.
    pub from: Vote,
    pub to: u64,
    /// What the next leader must have in its log.
    pub last: Option<LogId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub id: u64,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Appended(Appended),
    /// To Vote and PreVote.
    Voted {
        vote: Vote,
        last: Option<LogId>,
        granted: bool,
    },
    /// To Transfer: a sentence if the node does not take over.
    Transferred(Result<(), String>),
    Status(NodeStatus),
    Announced(Vec<Announcement>),
    /// To Update: a sentence if the leader refuses the record, or has not changed it yet.
    Updated(Result<(), String>),
    /// The node cannot answer: it has stopped, or could not read the request.
    Failed(String),
    /// To Remarks: ids of members, and why each of them gets no entries, as a sentence without a subject.
    Remarks(Vec<(u64, String)>),
    /// To Round: true if the vote of the node is the one that was asked for, and is committed.
    Follows(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Appended {
    Success,
    /// The log of the node does not have the entry before.
    Conflict,
    HigherVote(Vote),
}

/// What a node says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    pub role: Role,
    pub term: u64,
    /// Indices of the last entry in the log, the last committed one and the last applied one.
    pub last_log: Option<u64>,
    pub commit: Option<u64>,
    pub applied: Option<u64>,
    /// The node that leads, if this node knows it.
    pub leader: Option<u64>,
    /// The node that it voted for in this term.
    pub voted_for: u64,
    /// The longest sync of its log in the last ten to twenty seconds.
    pub sync_ms: u64,
    /// The shortest one; 0 if there was none.
    pub sync_min_ms: u64,
    /// Free bytes for its data folder. None if the system does not tell.
    pub free_bytes: Option<u64>,
}

/// The frames of a connection for a snapshot, all from the dialling side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnapshotFrame<'a> {
    Begin {
        vote: Vote,
        meta: SnapshotMeta,
    },
    /// A part of a chunk.
    Part {
        #[serde(borrow, serialize_with = "record::bytes")]
        bytes: &'a [u8],
        ends_chunk: bool,
    },
    End {
        chunks: u64,
        crc: u32,
    },
}

/// The answer to a whole snapshot: the vote of the receiving node, or why it could not install it.
pub type Installed = Result<Vote, String>;

pub fn encode(value: &impl Serialize) -> Bytes {
    postcard::to_stdvec(value).expect("these types are plain data, which postcard can always write to memory").into()
}

/// Decodes a value that takes all the bytes.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8], expected: &'static str) -> Result<T, LinkError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(LinkError::Malformed { bytes: bytes.len(), expected }),
    }
}

/// Decodes a value, and ignores what follows.
pub fn decode_start<'a, T: Deserialize<'a>>(bytes: &'a [u8], expected: &'static str) -> Result<T, LinkError> {
    let malformed = |_| LinkError::Malformed { bytes: bytes.len(), expected };
    postcard::take_from_bytes(bytes).map(|(value, _)| value).map_err(malformed)
}

/// Cuts a stream of bytes into frames.
pub fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().little_endian().max_frame_length(FRAME_BYTES_MAX).new_codec()
}

/// Like [`codec`], for the first frame.
pub fn hello_codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().little_endian().max_frame_length(HELLO_BYTES_MAX).new_codec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let record = NodeRecord::default();
        let (purpose, formats, is_empty) = (Purpose::Calls, FORMATS, false);
        let (list, members, joins, start) = (Vec::new(), Vec::new(), false, 5);
        Hello { cluster: 7, node: 1, to: 2, purpose, record, formats, is_empty, list, members, joins, start }
    }

    #[test]
    fn only_the_right_node_of_the_right_cluster_is_accepted() {
        let me = Identity { cluster: 7, node: 2 };
        let judged = |change: fn(&mut Hello), is_empty| {
            let mut theirs = hello();
            change(&mut theirs);
            judge(me, FORMATS, is_empty, &theirs).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(judged(|_| {}, false), Ok(Verdict::Accept));
        assert_eq!(judged(|hello| hello.cluster = 9, true), Ok(Verdict::Adopt { cluster: 9 }));
        assert_eq!(
            judged(|hello| (hello.cluster, hello.purpose) = (9, Purpose::Introduction), false),
            Ok(Verdict::Accept)
        );
        type Change = fn(&mut Hello);
        let refusals: [(Change, &str); 4] = [
            (
                |hello| hello.cluster = 9,
                "it belongs to cluster 0000000000000009, but this node belongs to cluster 0000000000000007; if one of the two \
                 has an old data folder, empty that folder and add the node to the cluster of the other",
            ),
            (
                |hello| hello.to = 3,
                "it expected another node at this address (id 3, and this is id 2); if the data folder of that node was lost, \
                 remove that node from the cluster and add this one; if this node has the wrong folder, start it with its own",
            ),
            (
                |hello| hello.formats = (8, 9),
                "it reads data formats 8 to 9, but this node reads 2 to 4; upgrade one version at a time",
            ),
            (|hello| hello.node = 2, "it is this node itself; is the address of another node wrong?"),
        ];
        for (change, says) in refusals {
            assert_eq!(judged(change, false), Err(says.to_owned()));
        }
    }

    #[test]
    fn adjacent_versions_are_accepted_and_others_are_named() {
        assert_eq!(check_preamble(preamble(VERSION)), Ok(VERSION));
        assert_eq!(check_preamble(preamble(VERSION + 1)), Ok(VERSION), "the other side speaks this version, too");
        assert_eq!(check_preamble(preamble(VERSION + 2)), Err(LinkError::Version { found: VERSION + 2 }));
        assert_eq!(check_preamble(preamble(0)), Err(LinkError::Version { found: 0 }), "this version never was");
        let error = check_preamble(*b"GET / HT").unwrap_err();
        assert!(matches!(error, LinkError::NotBaton(_)), "{error}");
    }

    #[test]
    fn a_hello_may_grow_and_a_call_may_not() {
        let mut bytes = encode(&hello()).to_vec();
        bytes.push(1);
        assert_eq!(decode_start::<Hello>(&bytes, "a Hello"), Ok(hello()));
        let call = Call { id: 3, request: Request::Status };
        let mut bytes = encode(&call).to_vec();
        assert_eq!(decode::<Call<'_>>(&bytes, "a request"), Ok(call));
        bytes.push(1);
        let error = decode::<Call<'_>>(&bytes, "a request").unwrap_err();
        assert_eq!(error.to_string(), format!("it sent {} bytes that are not a request", bytes.len()));
    }
}
