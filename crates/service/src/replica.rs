//! The small interface between the [host](crate::host) and whatever applies its entries to a state: the log of
//! [Raft](crate::raft), or a member of a peer group.

use tokio::sync::watch;

use baton_types::views::Group;

use crate::state::{Entry, State};

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

    /// The current leadership, and every change of it. The sender is dropped when the replica has stopped.
    fn leadership(&self) -> watch::Receiver<Leadership>;

    fn status(&self) -> Status;

    /// The group of the replica, if it is a member of a peer group.
    fn group(&self) -> Option<Group> {
        None
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

/// Whether this replica leads, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// A majority has confirmed that this node leads. A member of a peer group always leads: its clients are its own.
    Leads { term: u64 },
    /// This node does not lead, or no majority has confirmed it yet.
    DoesNotLead {
        /// The node that leads, if this node knows it.
        leader: Option<u64>,
    },
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
