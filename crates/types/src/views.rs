//! What the service shows to people and programs: locks, sessions, and the status of a server. Times of day are
//! milliseconds since 1970. The command line prints these types as JSON (`json.rs`), so the fields there keep their names.

use serde::Serialize;

use crate::cluster_id::ClusterId;
use crate::json;
use crate::locks::Mode;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lock {
    /// 1 to 512 bytes. In JSON as text, with `escaped` if it is not UTF-8.
    #[serde(flatten, serialize_with = "json::name")]
    pub name: Vec<u8>,
    /// The mode of the holders; none if the lock has no holder.
    pub mode: Option<Mode>,
    pub permits: u32,
    /// In the order of their grants.
    pub holders: Vec<Holder>,
    /// In the order of the queue.
    pub waiters: Vec<Waiter>,
    /// Ended holds, the oldest first.
    pub history: Vec<Past>,
    /// How long the lock still stays closed, at most; 0 if it is open.
    pub lock_delay_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holder {
    #[serde(serialize_with = "json::hex")]
    pub session: u64,
    /// The owner on whose behalf it holds.
    #[serde(serialize_with = "json::hex")]
    pub owner: u64,
    pub label: String,
    pub host: String,
    pub pid: u32,
    pub fence: u64,
    /// The time of the grant.
    pub since_ms: u64,
    /// How long its session still lives if it sends nothing. None in a local read, which does not know leases.
    pub deadline_in_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waiter {
    #[serde(serialize_with = "json::hex")]
    pub session: u64,
    /// The owner on whose behalf it waits.
    #[serde(serialize_with = "json::hex")]
    pub owner: u64,
    pub label: String,
    pub mode: Mode,
    pub waiting_ms: u64,
    /// The position in the queue, from 1 on.
    pub position: u32,
}

/// A hold that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Past {
    #[serde(serialize_with = "json::hex")]
    pub session: u64,
    pub label: String,
    pub fence: u64,
    /// The time of the grant.
    pub from_ms: u64,
    pub to_ms: u64,
    pub ended: HowEnded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowEnded {
    /// The holder released the lock.
    Released,
    /// Its session expired.
    Expired,
    /// An operator forced the release.
    Forced,
    /// A newer server sent a value that this client does not know.
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    pub id: u64,
    pub label: String,
    pub host: String,
    pub pid: u32,
    /// How long the session lives after its last keep-alive.
    pub ttl_ms: u64,
    /// How long the session still lives if it sends nothing. None in a local read, which does not know leases.
    pub expires_in_ms: Option<u64>,
    /// Names of locks. A lock appears once per hold.
    pub holds: Vec<Vec<u8>>,
    /// Names of locks. A lock appears once per waiting request.
    pub waits: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The id of the node in its group.
    pub node: u64,
    /// The role of the node in its group, such as `leader`; `waiting` before it is in a group.
    pub role: String,
    pub term: u64,
    /// Index of the last committed entry.
    pub commit: u64,
    /// Index of the last applied entry.
    pub applied: u64,
    /// Number of locks that are held, waited for or closed.
    pub locks: u64,
    pub sessions: u64,
    /// Number of requests that wait.
    pub waiters: u64,
    pub uptime_ms: u64,
    pub version: String,
    /// Free bytes for the data folder; none if the system does not tell them.
    pub free_bytes: Option<u64>,
    /// Whether the server refuses new sessions and acquires because of low space.
    pub low_space: bool,
    /// None if the server is not a member of a peer group.
    pub group: Option<Group>,
    /// None if the server is a member of a peer group.
    pub cluster: Option<Cluster>,
    /// The name of the node, also before it is a member of a cluster. Empty if it has none.
    pub name: String,
    /// The cluster of the server, or its peer group. None from an older server.
    pub cluster_id: Option<ClusterId>,
    /// What is wrong with the address that the node advertises to clients, as a sentence. Empty if nothing is.
    pub address_remark: String,
    /// How long the cluster still grants nothing, because it began anew and leases of before may still run; 0 if it does.
    pub closed_ms: u64,
    /// The longest TTL of the sessions that begin; 0 from an older server, and from a member of a peer group.
    pub max_ttl_ms: u64,
}

/// A cluster, as one of its nodes sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cluster {
    #[serde(serialize_with = "json::hex")]
    pub id: u64,
    /// The id of the leader, if the answering node knows one.
    pub leader: Option<u64>,
    /// If there is no leader: one sentence that says why. Otherwise empty.
    #[serde(serialize_with = "json::none_if_empty")]
    pub no_leader: String,
    /// In order of name.
    pub members: Vec<Member>,
    /// The nodes that wait to be added.
    pub joining: Vec<Joining>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    pub name: String,
    /// Where the other nodes reach it; empty for a node that has never had an address for others.
    pub peer_address: String,
    /// Where clients reach it.
    pub client_address: String,
    pub is_voter: bool,
    /// Such as `leader`. Empty if the member does not answer; then all fields up to `voted_for` are 0 or none.
    pub role: String,
    pub term: u64,
    /// Index of the last entry of its log.
    pub last_log: u64,
    /// Index of the last committed entry that it knows.
    pub commit: u64,
    /// Index of the last applied entry.
    pub applied: u64,
    /// The node that it follows.
    pub leader: Option<u64>,
    /// The node that it voted for in its term.
    pub voted_for: Option<u64>,
    /// The entries that it does not have yet; none if nobody knows.
    pub lag: Option<u64>,
    /// How long ago the answering node last heard of it. None for the answering node itself, and if it never did.
    pub heard_ms_ago: Option<u64>,
    /// Why it does not answer, as a sentence; empty if it does.
    pub error: String,
    /// Why the leader sends it no entries although it answers, as a sentence without a subject; empty if it does.
    pub remark: String,
    /// The longest sync of its log in the last ten to twenty seconds; none if it does not say.
    pub sync_ms: Option<u64>,
    /// Free bytes for its data folder; none if it does not say.
    pub free_bytes: Option<u64>,
    /// Whether that is too little for new sessions and acquires.
    pub low_space: bool,
}

/// A node that waits to be added to a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Joining {
    pub id: u64,
    pub name: String,
    #[serde(rename = "address")]
    pub client_address: String,
    pub peer_address: String,
}

/// A peer group, as one of its members sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub algorithm: String,
    /// Empty if the algorithm has no variants.
    pub variant: String,
    /// The id of the member that answers.
    pub member: u64,
    /// Number of members.
    pub members: u64,
    /// Whether the member that answers serves its clients.
    pub serves: bool,
    /// Number of names that the member that answers has taken. It only grows.
    pub names: u64,
    /// The most names that it can take. 0: it does not say, because it is older.
    pub names_max: u64,
    /// The other members, in order of id.
    pub peers: Vec<Peer>,
}

/// Another member of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Peer {
    pub id: u64,
    pub connected: bool,
    /// How long nothing was heard of the member.
    pub not_heard_ms: u64,
    /// Bytes for the member that it has not acknowledged.
    pub backlog_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The token for the next page; empty if this is the last page. Only the service can interpret it.
    pub next: Vec<u8>,
}

impl HowEnded {
    pub fn word(self) -> &'static str {
        match self {
            HowEnded::Released => "released",
            HowEnded::Expired => "expired",
            HowEnded::Forced => "forced",
            HowEnded::Unknown => "unknown",
        }
    }
}

impl Lock {
    /// As a local read shows it.
    pub fn without_leases(mut self) -> Self {
        self.holders.iter_mut().for_each(|holder| holder.deadline_in_ms = None);
        self
    }
}

impl Session {
    /// As a local read shows it.
    pub fn without_leases(self) -> Self {
        Session { expires_in_ms: None, ..self }
    }
}

impl Status {
    /// For a node of a cluster that says that it leads: whether a majority confirms it.
    pub fn confirmed(&self) -> Option<bool> {
        let cluster = self.cluster.as_ref().filter(|_| self.role == "leader")?;
        Some(cluster.confirms(self.node))
    }
}

impl Cluster {
    pub fn voters(&self) -> usize {
        self.members.iter().filter(|member| member.is_voter).count()
    }

    /// True if this node leads, and the answering node knows that a majority confirms it.
    pub fn confirms(&self, id: u64) -> bool {
        self.leader == Some(id)
    }
}

impl Member {
    /// Whether it answers; if not, it says nothing about itself.
    pub fn answers(&self) -> bool {
        !self.role.is_empty()
    }
}
