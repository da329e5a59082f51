//! The feed of changes: its events, their positions, and what a reader asks for.
//!
//! A reader is (kinds, prefix, position). An event is a position, a kind, who caused it, and the values before and after.

mod kind;
mod position;

pub use kind::{Kind, Kinds, UnknownKind};
pub use position::{NotAPosition, Position};
use serde::{Serialize, Serializer};

use crate::locks::Mode;
use crate::name;

/// What a reader wants to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    pub kinds: Kinds,
    /// Only changes that name a lock whose name begins with these bytes. If it is empty: all changes.
    pub prefix: Vec<u8>,
    pub start: Start,
    /// The reading ends after what the server has when it begins.
    pub is_over_at_end: bool,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With what changes from now on.
    #[default]
    Now,
    /// With a listing of what is there now.
    Listing,
    /// With the oldest change that is kept.
    Oldest,
    /// With the first change at or after this position.
    Position(Position),
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub position: Position,
    /// The time of its entry in the log, in milliseconds since 1970.
    pub at_ms: u64,
    pub kind: Kind,
    /// The state's revision after the change, if the revision counts such changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// The session that the change is about; none if it is about no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// The address of the operator who forced the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(flatten)]
    pub about: About,
}

/// A session and its process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Who {
    #[serde(serialize_with = "hexadecimal")]
    pub session: u64,
    pub label: String,
    pub host: String,
    pub pid: u32,
    /// The address of the connection on which the session began; none if it is not known.
    pub from: Option<String>,
}

/// What has changed, with the values before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum About {
    Session {
        before: Option<SessionValue>,
        after: Option<SessionValue>,
        /// Why it has ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<Why>,
        /// The first locks that it held when it ended.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        held: Vec<Name>,
        /// How many locks it held when it ended.
        #[serde(skip_serializing_if = "is_zero")]
        held_count: u64,
    },
    Claim {
        /// The number of the acquire within its session.
        acquire: u64,
        #[serde(serialize_with = "hexadecimal")]
        owner: u64,
        locks: Vec<ClaimedLock>,
        /// None if it is new.
        before: Option<ClaimValue>,
        /// None if it has ended.
        after: Option<ClaimValue>,
        /// Why it has ended or is revoked.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<Why>,
    },
    Lock {
        lock: Name,
        /// None if the lock was open.
        before: Option<Closed>,
        /// None if the lock is open.
        after: Option<Closed>,
    },
    Member {
        #[serde(serialize_with = "decimal")]
        node: u64,
        before: Option<MemberValue>,
        after: Option<MemberValue>,
    },
    Leader {
        before: Option<LeaderValue>,
        after: Option<LeaderValue>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionValue {
    pub ttl_ms: u64,
}

/// A claim of one lock or several waits or holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClaimValue {
    /// None while it waits.
    pub fence: Option<u64>,
    /// When it began to wait or to hold, in milliseconds since 1970.
    pub since_ms: u64,
    /// Its session was told to release it.
    pub revoked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimedLock {
    #[serde(flatten)]
    pub lock: Name,
    #[serde(serialize_with = "mode")]
    pub mode: Mode,
}

/// The session of a holder has expired, so the lock is closed for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Closed {
    pub delay_ms: u64,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemberValue {
    pub name: String,
    pub peer_address: String,
    pub client_address: String,
    pub voter: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeaderValue {
    #[serde(serialize_with = "decimal")]
    pub node: u64,
    pub name: String,
    pub term: u64,
}

/// Why a claim or a session has ended, or a claim is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    Released,
    Cancelled,
    /// The acquire has reached its time-out.
    TimedOut,
    /// The client has closed the session.
    Closed,
    /// The lease of the session has ended.
    Expired,
    /// An operator has forced it.
    Forced,
    /// A newer server sent a reason that this client does not know.
    Unknown,
}

/// The name of a lock. In JSON it has `escaped` if it is not UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub Vec<u8>);

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown {
            name: String,
            #[serde(skip_serializing_if = "is_false")]
            escaped: bool,
        }
        let (name, escaped) = name::shown(&self.0);
        Shown { name, escaped }.serialize(serializer)
    }
}

impl Event {
    /// The names of the locks that the change is about.
    pub fn locks(&self) -> Vec<&Name> {
        match &self.about {
            About::Session { held, .. } => held.iter().collect(),
            About::Claim { locks, .. } => locks.iter().map(|claimed| &claimed.lock).collect(),
            About::Lock { lock, .. } => vec![lock],
            About::Member { .. } | About::Leader { .. } => Vec::new(),
        }
    }
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The reader cannot begin where it wanted to: the changes from there on are not kept any more, or the position is of
    /// another cluster. A listing follows, unless the reading ends at the end.
    Gone {
        /// The oldest position that can be read.
        oldest: Position,
    },
    /// A part of what is there at one moment. The parts come in order, and `next` comes with the last one.
    Listing(Listing),
    /// The next changes, in order. There may be none, if the reader only learns that it can go on further ahead.
    Events {
        events: Vec<Event>,
        /// The position to go on from.
        next: Position,
    },
    /// The reader was too slow: changes that it has not read are not kept any more, or it has not read for too long. The
    /// reading ends.
    TooSlow {
        /// The position to go on from.
        next: Position,
    },
}

/// A part of what is there at one moment, for a reader to begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub locks: Vec<crate::views::Lock>,
    pub sessions: Vec<crate::views::Session>,
    pub members: Vec<(u64, MemberValue)>,
    pub leader: Option<LeaderValue>,
    /// The position of the first change that is not in the listing. None: more parts follow.
    pub next: Option<Position>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn hexadecimal<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{id:016x}"))
}

/// As text, because many readers of JSON round numbers of 64 bits.
fn decimal<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

fn mode<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Permit { .. } => "permit",
    })
}
