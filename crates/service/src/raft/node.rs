//! A node of the group: what the shell calls.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};

use futures::FutureExt;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardToLeader, LinearizableReadError, RaftError};
use openraft::raft::ClientWriteResult;
use openraft::{Config, Raft, ReadPolicy, ServerState, SnapshotPolicy};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;

use super::compaction::{Compaction, Pause};
use super::log_store::{APPEND_BYTES_MAX, Fatal, LogStore, Warn, abort, complain};
use super::machine::{Machine, OnApply, Shared};
use super::network::NoPeers;
use super::receipt::{OnLost, Receipt};
use super::snapshot::Kept;
use super::types::{Applied, LogId, TypeConfig};
use crate::format::FromOlder;
use crate::format::record::NodeRecord;
use crate::state::{Entry, State};
use crate::store::{Disk, Files, Identity, OpenError, SEGMENT_BYTES, Store};

/// What a node is told at its start.
pub struct Options {
    /// How a new group knows this node.
    pub record: NodeRecord,
    /// How long a segment of the journal is.
    pub segment_bytes: usize,
    /// A snapshot is made after so many bytes of log, or after as many as the last snapshot has if that is more.
    pub snapshot_after_bytes: u64,
    /// How long to wait after a snapshot that could not be written.
    pub snapshot_pause: Pause,
    /// Called with every entry that was applied and the state after it, those included that are applied again because the
    /// node starts.
    pub on_apply: OnApply,
    /// Called if an entry that was [submitted](Node::submit) is not in the log, or not known to be.
    pub on_lost: OnLost,
    /// What to do when the disk or the state can no longer be trusted.
    pub fatal: Fatal,
    /// Told of what did not work and will be tried again.
    pub warn: Warn,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            record: NodeRecord { name: "default".to_owned(), ..NodeRecord::default() },
            segment_bytes: SEGMENT_BYTES,
            snapshot_after_bytes: 8 << 20,
            snapshot_pause: Pause::default(),
            on_apply: Box::new(|_, _, _| {}),
            on_lost: Arc::new(|_| {}),
            fatal: abort(),
            warn: complain(),
        }
    }
}

/// Does this node lead, for all that it knows?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Yes, and a majority knows it.
    Leads {
        /// In which term.
        term: u64,
    },
    /// No, or not yet.
    DoesNotLead {
        /// Who does, as far as it knows.
        leader: Option<u64>,
    },
}

/// What a node is in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It follows, or waits for a leader.
    Follower,
    /// It wants to lead.
    Candidate,
    /// It follows without a vote.
    Learner,
    /// It is stopped.
    Stopped,
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Which node it is.
    pub node: u64,
    /// What it is.
    pub role: Role,
    /// In which term.
    pub term: u64,
    /// Up to which index the log is committed.
    pub commit: u64,
    /// Up to which index it is applied.
    pub applied: u64,
}

/// Why an entry is not applied, or not known to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// It is not in the log.
    #[error("this node does not lead{}", .leader.map_or(String::new(), |leader| format!("; node {leader} does")))]
    NotLeader {
        /// Who does, as far as it knows.
        leader: Option<u64>,
    },
    /// It may be applied, or become so.
    #[error("the leader changed, and it is not known whether the entry is kept")]
    Unknown,
    /// It is larger than an entry may be.
    #[error("the entry has {bytes} bytes; at most {limit} are possible")]
    TooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The node stops; the entry may be in the log.
    #[error("the node is stopped")]
    Stopped,
}

/// Why a read cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Another node may know more.
    #[error("this node does not lead{}", .leader.map_or(String::new(), |leader| format!("; node {leader} does")))]
    NotLeader {
        /// Who does, as far as it knows.
        leader: Option<u64>,
    },
    /// Too few others confirm that it leads.
    #[error("no majority of the group confirms that this node leads")]
    NoQuorum,
    /// The node stops.
    #[error("the node is stopped")]
    Stopped,
}

/// An entry that is on its way: a future of what becomes of it.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<ClientWriteResult<TypeConfig>>);

impl Future for Pending {
    type Output = Result<Applied, ProposeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.0.poll_unpin(cx)) {
            Ok(Ok(response)) => Ok(response.data),
            Ok(Err(ClientWriteError::ForwardToLeader(to))) => Err(ProposeError::NotLeader { leader: to.leader_id }),
            Ok(Err(_)) => Err(ProposeError::Unknown),
            Err(_) => Err(ProposeError::Stopped),
        })
    }
}

/// A node that runs.
pub struct Node {
    raft: Raft<TypeConfig, Machine>,
    shared: Shared,
    disk: Arc<dyn Disk>,
    files: Files,
    leadership: watch::Receiver<Leadership>,
    on_lost: OnLost,
    /// Submitted entries that wait for a place in openraft's queue, in order, and how many they are.
    overflow: mpsc::UnboundedSender<Submission>,
    overflowing: Arc<AtomicUsize>,
    running: tokio::sync::Mutex<Running>,
}

/// An entry on its way into openraft's queue.
type Submission = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a node waits for when it stops.
struct Running {
    tasks: JoinSet<()>,
    gone: mpsc::Receiver<()>,
}

/// What is read from a data folder, before the node runs.
pub(super) struct Parts {
    pub identity: Identity,
    pub files: Files,
    pub log: LogStore,
    pub machine: Machine,
    pub shared: Shared,
    pub compaction: Arc<Compaction>,
    /// Does the group have no other voter, as far as is known? The log asks.
    pub alone: Arc<AtomicBool>,
    /// Closed when neither the log nor the state machine uses the folder any more.
    pub gone: mpsc::Receiver<()>,
}

impl Parts {
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Parts, OpenError> {
        let Options { segment_bytes, snapshot_after_bytes, snapshot_pause, on_apply, fatal, warn, .. } = options;
        let store = Store::open(disk, &FromOlder)?;
        let (alive, gone) = mpsc::channel(1);
        let compaction = Arc::new(Compaction::new(snapshot_after_bytes, snapshot_pause));
        let kept = Kept::open(store.snapshots(), compaction.clone())?;
        let (machine, shared) = Machine::new(kept, on_apply, fatal.clone(), warn.clone(), alive.clone());
        let alone = Arc::new(AtomicBool::new(false));
        let log = LogStore::open(&store, segment_bytes, compaction.clone(), alone.clone(), fatal, alive)?;
        store.remarks().iter().for_each(|remark| warn(remark));
        if let Some(purged) = log.purged().filter(|purged| shared.read().applied < Some((*purged).into())) {
            let what = format!("the log begins after entry {}, and no snapshot reaches that far", purged.index);
            return Err(OpenError::Missing { what });
        }
        let (identity, files) = (store.identity(), store.files());
        Ok(Parts { identity, files, log, machine, shared, compaction, alone, gone })
    }
}

impl Node {
    /// Opens a data folder and starts. A new folder becomes a group of one, which leads soon after; see
    /// [`Node::leadership`].
    pub async fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Node, OpenError> {
        let (record, on_lost) = (options.record.clone(), options.on_lost.clone());
        let parts = Parts::open(disk.clone(), options)?;
        let Parts { identity, files, log, machine, shared, compaction, alone, gone } = parts;
        let node = identity.node;
        let failed = |e: &dyn std::fmt::Display| OpenError::Raft(e.to_string());
        let raft = Raft::new(node, Arc::new(config()), NoPeers, log, machine).await.map_err(|e| failed(&e))?;
        if !raft.is_initialized().await.map_err(|e| failed(&e))? {
            let members = BTreeMap::from([(node, record)]);
            raft.initialize(members).await.map_err(|e| failed(&e))?;
        } else if raft.voter_ids().eq([node]) {
            // Nobody else could be leading, so there is nothing to wait for.
            raft.trigger().elect(false).await.map_err(|e| failed(&e))?;
        } else {
            // It would wait for others for ever: there are none.
            let members: Vec<String> = raft.voter_ids().map(|id| id.to_string()).collect();
            raft.shutdown().await.map_err(|e| failed(&e))?;
            let what = format!("IDENTITY says node {node}, and the log is of node {}", members.join(", "));
            return Err(OpenError::Missing { what });
        }

        let mut tasks = JoinSet::new();
        let (tell, leadership) = watch::channel(Leadership::DoesNotLead { leader: None });
        tasks.spawn(follow_leadership(raft.clone(), tell));
        tasks.spawn(compact(raft.clone(), compaction));
        tasks.spawn(count_voters(raft.clone(), node, alone));
        let (overflow, overflown) = mpsc::unbounded_channel();
        let overflowing = Arc::new(AtomicUsize::new(0));
        tasks.spawn(drain(overflown, overflowing.clone()));
        let running = Running { tasks, gone }.into();
        Ok(Node { raft, shared, disk, files, leadership, on_lost, overflow, overflowing, running })
    }

    /// Proposes an entry, and waits for what becomes of it. Entries are in the log in the order in which these calls are made,
    /// and none has to wait for the one before it; what is awaited here is a place in the queue, which is there unless tens
    /// of thousands wait.
    pub async fn propose(&self, entry: Entry) -> Result<Pending, ProposeError> {
        let bytes = postcard::experimental::serialized_size(&entry).unwrap_or(usize::MAX);
        if bytes > APPEND_BYTES_MAX {
            return Err(ProposeError::TooLarge { bytes, limit: APPEND_BYTES_MAX });
        }
        let (sender, receiver) = oneshot::channel();
        let written = self.raft.write(entry).responder(Receipt::Waits(sender)).await;
        written.map_err(|_| ProposeError::Stopped)?;
        Ok(Pending(receiver))
    }

    /// Submits an entry to the log of this term, without waiting for anything. Entries are in the log in the order of these
    /// calls, which must not overlap. [`Options::on_apply`] shows it when it is applied; if it may never be, [`Options::on_lost`] tells.
    ///
    /// Whoever calls this sees to it that an entry has far less than a MiB, as all that clients may say has.
    pub fn submit(&self, term: u64, entry: Entry) {
        let raft = self.raft.clone();
        let receipt = Receipt::Lost { term, lost: self.on_lost.clone() };
        let mut submission: Submission = Box::pin(unconstrained(async move {
            let leader = LogId::new_term_index(term, 0).leader_id;
            // If openraft has stopped, nobody needs to know of this entry.
            let _ = raft.write(entry).with_leader(leader).responder(receipt).await;
        }));
        // Nearly always there is a place in the queue, and this is all. What comes after one that waits has to wait, too.
        let is_first = self.overflowing.load(Ordering::Acquire) == 0;
        if is_first && submission.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        self.overflowing.fetch_add(1, Ordering::AcqRel);
        // The task that takes them runs as long as the node.
        let _ = self.overflow.send(submission);
    }

    /// Returns once this node is known to have led after the call began, and all that was committed then is applied: what
    /// the state then says was true at some time during the call.
    pub async fn read_index(&self) -> Result<(), ReadError> {
        let not_leader = |to: ForwardToLeader<TypeConfig>| ReadError::NotLeader { leader: to.leader_id };
        match self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(to))) => Err(not_leader(to)),
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => Err(ReadError::NoQuorum),
            Err(RaftError::Fatal(_)) => Err(ReadError::Stopped),
        }
    }

    /// Shows the state as it is now at this node. Nothing is applied meanwhile: look briefly.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.shared.read().state)
    }

    /// The state as it is now at this node, which may not be the newest: see [`Node::read_index`]. It is a clone, which takes
    /// no time to make and holds nobody back.
    pub fn state(&self) -> State {
        self.shared.read().state.clone()
    }

    /// Who leads, and what becomes of it.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// How the node is.
    pub fn status(&self) -> Status {
        let receiver = self.raft.metrics();
        let metrics = receiver.borrow_watched();
        let role = match metrics.state {
            ServerState::Leader => Role::Leader,
            ServerState::Follower => Role::Follower,
            ServerState::Candidate => Role::Candidate,
            ServerState::Learner => Role::Learner,
            ServerState::Shutdown => Role::Stopped,
        };
        Status {
            node: metrics.id,
            role,
            term: metrics.current_term,
            commit: metrics.local_committed.map_or(0, |id| id.index),
            applied: self.shared.read().applied.map_or(0, |id| id.index),
        }
    }

    /// How much more the disk takes; see [`crate::store::FREE_BYTES_MIN`].
    pub fn free_bytes(&self) -> std::io::Result<u64> {
        self.disk.free_bytes()
    }

    /// A sentence if the data folder or one of its files is no longer there: what was acknowledged since may be lost, and
    /// nothing more must be. Call it every now and then.
    pub fn missing(&self) -> Option<String> {
        if !self.disk.is_there() {
            return Some("it was removed or replaced while the server ran".to_owned());
        }
        // A disk that cannot say whether a file is there is written to until that fails.
        self.files.missing(&*self.disk).ok().flatten()
    }

    /// Stops. When it returns, nothing of the node uses the data folder any more.
    pub async fn shutdown(&self) {
        // An error here says that it had stopped already.
        let _ = self.raft.shutdown().await;
        let mut running = self.running.lock().await;
        running.tasks.shutdown().await;
        // openraft's worker and its readers end on their own, soon after.
        let nothing = running.gone.recv().await;
        assert!(nothing.is_none(), "nobody sends here");
    }
}

pub(super) fn config() -> Config {
    Config {
        cluster_name: "baton".to_owned(),
        heartbeat_interval: 100,
        election_timeout_min: 500,
        election_timeout_max: 1000,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 1000,
        ..Config::default()
    }
}

/// Tells whether this node leads, whenever that changes.
async fn follow_leadership(raft: Raft<TypeConfig, Machine>, tell: watch::Sender<Leadership>) {
    let mut metrics = raft.server_metrics();
    loop {
        let now = {
            let now = metrics.borrow_watched();
            match now.state == ServerState::Leader && now.vote.committed {
                true => Leadership::Leads { term: now.vote.leader_id.term },
                false => Leadership::DoesNotLead { leader: now.current_leader },
            }
        };
        tell.send_if_modified(|told| std::mem::replace(told, now) != now);
        if metrics.changed().await.is_err() {
            tell.send_replace(Leadership::DoesNotLead { leader: None });
            return;
        }
    }
}

/// Puts entries that had to wait into openraft's queue, in order.
async fn drain(mut overflown: mpsc::UnboundedReceiver<Submission>, overflowing: Arc<AtomicUsize>) {
    while let Some(submission) = overflown.recv().await {
        submission.await;
        overflowing.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Makes a snapshot whenever one is wanted.
async fn compact(raft: Raft<TypeConfig, Machine>, compaction: Arc<Compaction>) {
    loop {
        compaction.wanted().await;
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}

/// Says, whenever the members change, whether this node is the only voter.
async fn count_voters(raft: Raft<TypeConfig, Machine>, node: u64, alone: Arc<AtomicBool>) {
    let mut metrics = raft.server_metrics();
    loop {
        alone.store(metrics.borrow_watched().membership_config.voter_ids().eq([node]), Ordering::Relaxed);
        if metrics.changed().await.is_err() {
            return;
        }
    }
}
