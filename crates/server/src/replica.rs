//! The small interface between the [host](crate::host) and whatever applies its entries to a state: the log of
//! [Raft](crate::raft), or a member of a peer group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, watch};

use baton_types::cluster_id::ClusterId;
use baton_types::frames::Leader;
use baton_types::views::{Cluster, Group};

pub use crate::frontend::Leadership;
use crate::state::feed::Feed;
use crate::state::{Entry, State};

/// Says that the feed of a replica has new changes. It costs nothing while nobody wants to know.
#[derive(Debug, Default)]
pub struct Signal {
    is_wanted: AtomicBool,
    given: Notify,
}

impl Signal {
    pub fn give(&self) {
        if self.is_wanted.load(Ordering::Relaxed) {
            self.given.notify_one();
        }
    }

    pub fn want(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Returns when there are new changes since the last call. Only one task may wait here.
    pub async fn given(&self) {
        self.given.notified().await;
    }
}

/// A replica of the state. It applies entries in order, and reports them to its host through
/// [`Reports`](crate::host::Reports).
///
/// Lock order: the replica's state, then the front end. The host calls [`submit`](Replica::submit) while it holds the
/// front end, so `submit` must neither wait for the state nor report anything itself.
pub trait Replica: Send + Sync + 'static {
    /// Submits an entry in this term, without waiting. Entries are applied in the order of these calls, which do not
    /// overlap. The replica reports each entry as applied, or else reports that the proposals of the term are lost.
    fn submit(&self, term: u64, entry: Entry);

    /// Returns true once the state has everything that any replica had acknowledged before the call; false if this
    /// replica cannot know.
    fn read_index(&self) -> impl Future<Output = bool> + Send;

    /// Shows the current state to `look`. No entry is applied meanwhile, so `look` must be short.
    fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T;

    /// The newest changes, and the index of the last entry in them. None for a replica that keeps no changes.
    fn feed(&self) -> Option<(Feed, u64)> {
        None
    }

    /// Given after each entry with changes, and after a snapshot of another node.
    fn changed(&self) -> Option<Arc<Signal>> {
        None
    }

    /// The current leadership, and every change of it. The sender is dropped when the replica has stopped.
    fn leadership(&self) -> watch::Receiver<Leadership>;

    fn status(&self) -> Status;

    /// The state, and term and index of its last entry. None for a replica whose state is not to be kept.
    fn for_backup(&self) -> Option<(State, u64, u64)> {
        None
    }

    /// The cluster of the replica, or its peer group. It never changes while the replica leads.
    fn cluster_id(&self) -> ClusterId;

    /// The name of the node; empty if it has none.
    fn name(&self) -> String {
        String::new()
    }

    /// The name of the node if its cluster has other nodes; otherwise empty.
    fn name_among_others(&self) -> String {
        String::new()
    }

    /// The group of the replica, if it is a member of a peer group.
    fn group(&self) -> Option<Group> {
        None
    }

    /// The other node that leads the cluster, if this node knows it.
    fn leader(&self) -> Option<Leader> {
        None
    }

    /// Why no client may be sent to the address of this member of the cluster, as a sentence. None if nothing speaks
    /// against it.
    fn address_remark(&self, _node: u64) -> Option<String> {
        None
    }

    /// Where clients reach this node, if other nodes send clients there.
    fn client_address(&self) -> Option<String> {
        None
    }

    /// How old the applied state may be, in milliseconds; none if this replica does not know. It is 0 for a replica that
    /// has no others.
    fn age_ms(&self) -> Option<u64> {
        Some(0)
    }

    /// The cluster of the replica, if it is a node of one. This may ask the other nodes, for at most a second.
    fn cluster(&self) -> impl Future<Output = Option<Cluster>> + Send {
        std::future::ready(None)
    }

    /// Changes the members of the cluster. Only the leader can do that. Returns a sentence if it was so already: scripts
    /// repeat themselves.
    fn change_members(&self, _: MemberChange) -> impl Future<Output = Result<Option<String>, ChangeError>> + Send {
        let why = "this server is a member of a peer group, and the group file lists its members";
        std::future::ready(Err(ChangeError::Refused(why.to_owned())))
    }

    /// If this replica leads, another one takes over, if there is one that can. The host gives it one second.
    fn hand_over(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// How long an acquire with time-out 0 waits, in milliseconds. None: it does not wait. A peer group needs some time
    /// to find out whether a lock is free.
    fn try_ms(&self) -> Option<u64> {
        None
    }

    /// Free bytes on the disk; none if the replica has no disk, or the system does not tell.
    fn free_bytes(&self) -> Option<u64>;

    /// Returns a sentence if the replica can no longer serve. The host asks every second.
    fn failure(&self) -> Option<String>;

    /// Stops the replica. When it returns, the replica uses no file and no connection any more.
    fn shutdown(&self) -> impl Future<Output = ()> + Send;
}

/// A change of the members of a cluster. A member is named by its name or by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Admits the node that waits under this name, as a learner.
    Add {
        name: String,
    },
    /// Makes a learner a voter.
    Promote {
        member: String,
    },
    Remove {
        member: String,
    },
    /// Absent fields stay as they are.
    Update {
        member: String,
        name: Option<String>,
        peer_address: Option<String>,
        client_address: Option<String>,
    },
    /// Hands the leadership over to this member.
    Transfer {
        member: String,
    },
}

/// Why the members of a cluster are not changed. Each variant has a sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There is no such member, or no node waits under this name.
    #[error("{0}")]
    NotFound(String),
    /// Nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// This node does not lead, or stops. Nothing was changed.
    #[error("{0}")]
    Unavailable(String),
    /// The change may or may not be made.
    #[error("{0}")]
    Unknown(String),
}

/// Nodes send it to each other, so the order of the variants must not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Role {
    Leader,
    /// Also while the group has no leader.
    Follower,
    Candidate,
    /// A follower without a vote.
    Learner,
    /// A member of a peer group.
    Member,
    Stopped,
    /// It is in no group yet, and waits for other nodes. A node says it of itself to clients only.
    Waiting,
}

impl Role {
    /// The word for the role. It is part of the interface for programs.
    pub fn word(self) -> &'static str {
        match self {
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Learner => "learner",
            Role::Member => "member",
            Role::Stopped => "stopped",
            Role::Waiting => "waiting",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub node: u64,
    pub role: Role,
    pub term: u64,
    /// Index of the last committed entry.
    pub commit: u64,
    /// Index of the last applied entry.
    pub applied: u64,
}
