//! A node of the group: the interface of `raft` to the host.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use baton_runtime::{Instant, JoinSet};
use openraft::async_runtime::WatchReceiver;
use openraft::{Config, Raft, ServerState, SnapshotPolicy};
use tokio::sync::{mpsc, watch};
use tokio::task::coop::unconstrained;
use tracing::info;

use super::anew::{Replayed, begin_anew};
use super::compaction::Compaction;
use super::governing::Governing;
use super::group::{Group, confirmed, in_words, name};
use super::history::History;
use super::listed::check_data;
use super::log_reader::Evictor;
use super::log_store::LogStore;
use super::machine::{Machine, Shared};
use super::options::{Beginning, Options, Timing};
use super::peers::{self, APPEND_ENTRIES_MAX, Confirmed, Door, Guard, NodeStatus, Peers};
use super::receipt::{OnLost, Receipt};
use super::retention::Retention;
use super::rounds::Rounds;
use super::snapshot::Kept;
use super::types::{Encoded, LogId, TypeConfig};
use super::votes::Votes;
use super::{copies, leadership, records, space};
use crate::format::record::NodeRecord;
use crate::format::{self, FromOlder};
use crate::limiter::Limiter;
use crate::replica::{Leadership, Role, Signal, Status};
use crate::state::feed::{Feed, Leader};
use crate::state::{Command, Entry, State};
use crate::store::{Disk, Files, Identity, OpenError, Snapshots, Store, adopt, refuse_unfinished};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("this node does not lead{}", .leader.map_or(String::new(), |leader| format!("; node {leader} does")))]
    NotLeader {
        /// The node that leads, if this node knows it.
        leader: Option<u64>,
    },
    #[error("no majority of the group confirms that this node leads")]
    NoQuorum,
    #[error("the node is stopped")]
    Stopped,
}

/// A running node.
pub struct Node {
    pub(super) raft: Raft<TypeConfig, Machine>,
    pub(super) group: Group,
    shared: Shared,
    disk: Arc<dyn Disk>,
    files: Files,
    leadership: watch::Receiver<Leadership>,
    on_lost: OnLost,
    governing: Arc<Governing>,
    /// Submitted entries that wait for a place in openraft's queue, in order; `overflowing` counts them.
    overflow: mpsc::UnboundedSender<Submission>,
    overflowing: Arc<AtomicUsize>,
    running: tokio::sync::Mutex<Running>,
    /// Why this process must end, if another one has its id.
    pub(super) copied: watch::Receiver<Option<String>>,
}

/// Puts one entry into openraft's queue.
type Submission = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The parts that [`Node::shutdown`] waits for.
struct Running {
    tasks: JoinSet<()>,
    gone: mpsc::Receiver<()>,
}

/// The parts of a node, read from a data folder, before openraft starts.
pub(super) struct Parts {
    pub identity: Identity,
    pub files: Files,
    pub log: LogStore,
    pub history: History,
    pub evictor: Evictor,
    pub machine: Machine,
    pub shared: Shared,
    pub compaction: Arc<Compaction>,
    pub retention: Arc<Retention>,
    pub snapshots: Snapshots,
    pub alive: mpsc::Sender<()>,
    /// True if the group has no other member, as far as this node knows. The log reads it.
    pub alone: Arc<AtomicBool>,
    /// Closed when neither the log nor the state machine uses the folder any more.
    pub gone: mpsc::Receiver<()>,
}

impl Parts {
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Parts, OpenError> {
        let Options { segment_bytes, snapshot_after_bytes, snapshot_pause, on_apply, fatal, warn, keep, .. } = options;
        refuse_unfinished(&*disk)?;
        let store = Store::open(disk.clone(), &FromOlder)?;
        let (alive, gone) = mpsc::channel(1);
        let compaction = Arc::new(Compaction::new(snapshot_after_bytes, snapshot_pause));
        let kept = Kept::open(store.snapshots(), compaction.clone(), alive.clone())?;
        let (machine, shared) = Machine::new(kept, on_apply, fatal.clone(), warn.clone(), alive.clone());
        let alone = Arc::new(AtomicBool::new(false));
        let retention = Arc::new(Retention::new(keep));
        let counters = (compaction.clone(), retention.clone());
        let snapshot = shared.read().applied.map(|id| id.index);
        let hooks = (fatal, warn.clone());
        let log = LogStore::open(&store, segment_bytes, snapshot, counters, alone.clone(), hooks, alive.clone())?;
        let (evictor, history) = (log.evictor(), log.history());
        store.tell_remarks(warn);
        if let Some(purged) = log.purged().filter(|purged| shared.read().applied < Some((*purged).into())) {
            let what = format!("the log begins after entry {}, and no snapshot reaches that far", purged.index);
            return Err(OpenError::Missing { what });
        }
        let (mut identity, files, snapshots) = (store.identity(), store.files(), store.snapshots());
        if log.is_empty() && !store.is_new() {
            // A cluster may have called the node before. The node must not begin another one under the same id.
            identity = identity.of_no_cluster();
            adopt(&*disk, &files, identity).map_err(OpenError::io("write", "IDENTITY"))?;
        }
        Ok(Parts {
            identity,
            files,
            log,
            history,
            evictor,
            machine,
            shared,
            compaction,
            retention,
            snapshots,
            alive,
            alone,
            gone,
        })
    }
}

impl Node {
    /// Opens a data folder and starts the node. A new folder becomes a group of one, whose node leads soon after (see
    /// [`Node::leadership`]), unless [`Options::beginning`] says otherwise.
    pub async fn open(disk: Arc<dyn Disk>, mut options: Options) -> Result<Node, OpenError> {
        let (record, on_lost, warn) = (options.record.clone(), options.on_lost.clone(), options.warn.clone());
        let fatal = options.fatal.clone();
        let (timing, beginning, listener) = (options.timing, options.beginning, options.listener.take());
        let (reaches, formats) = ((std::mem::take(&mut options.routes), options.transport.clone()), options.formats);
        let others = std::mem::take(&mut options.others);
        let failed = |e: &dyn std::fmt::Display| OpenError::Raft(e.to_string());
        let no_random = |e| failed(&format!("the system gave no random number: {e}"));
        let governing = Governing::new(options.wishes).map_err(no_random)?;
        let (fence_from, anew) = (options.wishes.fence_from, options.anew);
        let start = baton_runtime::random_u64().map_err(no_random)?;
        let mut parts = Parts::open(disk.clone(), options)?;
        if let Some(anew) = anew {
            let (reaches, rounds) = (reaches.clone(), (Rounds::default(), timing.election_max));
            let peers = Peers::new(parts.identity, start, record.clone(), reaches, formats, rounds, warn.clone());
            begin_anew(anew, &mut parts, &disk, (&peers, &record)).await?;
        } else if let Some(from) = fence_from.filter(|_| !parts.log.is_empty()) {
            check_fences(&mut parts, from).await?;
        }
        let Parts { identity, files, log, history, evictor, machine, shared, .. } = parts;
        let Parts { compaction, retention, snapshots, alive, alone, gone, .. } = parts;
        let node = identity.node;
        // A node that no other node can reach needs no heartbeats.
        let pace = if listener.is_some() { timing } else { Timing::SLOW };
        let config = config(pace).validate().map_err(|e| failed(&e))?;
        let bound = listener.as_ref().map(|listener| listener.local_addr()).transpose().map_err(|e| failed(&e))?;
        let rounds = Rounds::default();
        let peers = Peers::new(identity, start, record, reaches, formats, (rounds.clone(), timing.election_max), warn);
        if !log.is_empty() {
            check_data(&peers, &others).await?;
        }
        // Without a listener there are no candidates.
        let votes = listener.is_some().then(|| Votes::open(&*disk, &files, log.vote(), fatal.clone(), alive.clone()));
        let votes = votes.transpose()?.map(Arc::new);
        let (syncs, backlog) = (log.syncs(), log.backlog());
        let raft = Raft::new(node, Arc::new(config), peers.clone(), log, machine).await.map_err(|e| failed(&e))?;
        let (metrics, theirs) = (raft.metrics(), rounds.clone());
        peers.set_last_commands(history.last_commands());
        peers.set_log_end(history.log_end());
        peers.set_confirmed(move || confirmed(&metrics.borrow_watched(), &theirs));
        let begun = begin(&raft, &peers, beginning, bound).await;
        if let Err(error) = begun {
            raft.shutdown().await.map_err(|e| failed(&e))?;
            return Err(error);
        }

        let mut tasks = JoinSet::new();
        let (tell, told) = watch::channel(Leadership::DoesNotLead { leader: None });
        tasks.spawn(leadership::follow(raft.clone(), peers.clone(), rounds.watch(), timing, tell));
        tasks.spawn(compact(raft.clone(), compaction));
        tasks.spawn(follow_members(raft.clone(), node, alone.clone(), peers.clone()));
        tasks.spawn(purge(raft.clone(), peers.clone(), alone, retention, evictor));
        let (changing, adopted) = (Arc::default(), Arc::default());
        let (free_told, free) = watch::channel(disk.free_bytes().ok());
        tasks.spawn(space::look(disk.clone(), free_told, alive.clone()));
        let group = {
            let raft = raft.clone();
            Group { raft, peers, timing, rounds, syncs, backlog, free, changing, adopted }
        };
        tasks.spawn(group.clone().watch_pace());
        tasks.spawn(group.clone().watch_space());
        tasks.spawn(group.clone().confirm_again_and_again());
        tasks.spawn(records::keep_record(group.clone()));
        tasks.spawn(records::finish_changes(group.clone()));
        tasks.spawn(governing.clone().go_on(group.clone(), shared.clone()));
        let (overflow, overflown) = mpsc::unbounded_channel();
        let overflowing = Arc::new(AtomicUsize::new(0));
        tasks.spawn(drain(overflown, overflowing.clone()));
        let (tell, copied) = watch::channel(None);
        if let Some((listener, votes)) = listener.zip(votes) {
            tasks.spawn(copies::watch(group.peers.clone(), tell));
            let (group, disk, files) = (group.clone(), disk.clone(), files.clone());
            let (limiter, installing) = Default::default();
            let guard = Guard { group: group.clone(), history, fatal: fatal.clone() };
            let door = Door { group, guard, snapshots, disk, files, votes, fatal, alive, limiter, installing };
            tasks.spawn(peers::listen(listener, Arc::new(door)));
        }
        let running = Running { tasks, gone }.into();
        let leadership = told;
        Ok(Node {
            raft,
            group,
            shared,
            disk,
            files,
            leadership,
            on_lost,
            governing,
            overflow,
            overflowing,
            running,
            copied,
        })
    }

    /// The entry of a `Lead`, with what the node says before it.
    fn with_leads(&self, term: u64, entry: Entry) -> Entry {
        let leader = Leader { node: self.id(), name: self.group.own_name().into(), term };
        self.governing.before_lead(entry, leader, self.format())
    }

    /// Submits an entry to the log of this term, without waiting. Entries are in the log in the order of these calls,
    /// which must not overlap. [`Options::on_apply`] is called when the entry is applied. [`Options::on_lost`] is
    /// called if the entry may never be applied.
    ///
    /// The caller must keep an entry far below 1 MiB. The limits on client requests ensure that.
    pub fn submit(&self, term: u64, entry: Entry) {
        let is_lead = entry.commands.iter().any(Command::is_lead);
        let entry = if is_lead { self.with_leads(term, entry) } else { entry };
        if self.needs_newer(&entry) {
            let lost = self.on_lost.clone();
            // The caller holds locks that `on_lost` may need.
            self.submit_later(Box::pin(async move { lost(term, is_lead) }));
            return;
        }
        let (raft, entry) = (self.raft.clone(), Encoded::from(entry));
        let receipt = Receipt { term, is_lead, lost: self.on_lost.clone(), result: PhantomData };
        let mut submission: Submission = Box::pin(unconstrained(async move {
            let leader = LogId::new_term_index(term, 0).leader_id;
            // An error means that openraft has stopped. Then no caller waits for the result of this entry.
            let _ = raft.write(entry).with_leader(leader).responder(receipt).await;
        }));
        // Nearly always the queue has a place, and the first poll completes. If an earlier entry waits, this entry must
        // wait behind it.
        let is_first = self.overflowing.load(Ordering::Acquire) == 0;
        if is_first && submission.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        self.submit_later(submission);
    }

    pub(super) fn overflowing(&self) -> usize {
        self.overflowing.load(Ordering::Acquire)
    }

    fn submit_later(&self, submission: Submission) {
        self.overflowing.fetch_add(1, Ordering::AcqRel);
        // The send cannot fail: the task that drains `overflow` runs as long as the node.
        let _ = self.overflow.send(submission);
    }

    /// Whether a member cannot read the entry yet.
    fn needs_newer(&self, entry: &Entry) -> bool {
        let Some(since) = entry.commands.iter().map(format::since).max() else { return false };
        // Every member reads what is as old as the oldest format, so this is the usual case.
        since > self.group.peers.formats().0 && since > self.format()
    }

    /// Shows the current state of this node to `look`. No entry is applied meanwhile, so `look` must be short.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.shared.read().state)
    }

    /// The current state of this node, which may be older than the leader's: see [`Node::read_index`]. The clone is
    /// cheap (shared structure) and blocks no other thread.
    pub fn state(&self) -> State {
        self.shared.read().state.clone()
    }

    /// The newest changes, and the index of the last applied entry.
    pub(super) fn feed_at(&self) -> (Feed, u64) {
        let replica = self.shared.read();
        (replica.state.feed().clone(), replica.applied.map_or(0, |applied| applied.index))
    }

    /// Given when there are new changes.
    pub(super) fn changed(&self) -> Arc<Signal> {
        self.shared.changed.clone()
    }

    /// The current state of this node, and the last entry in it.
    pub(super) fn state_at(&self) -> Option<(State, LogId)> {
        let replica = self.shared.read();
        Some((replica.state.clone(), replica.applied?))
    }

    /// The current leadership, and every change of it.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// The last entry that this node has applied.
    pub(super) fn applied(&self) -> Option<LogId> {
        self.shared.read().applied
    }

    pub fn status(&self) -> Status {
        let receiver = self.raft.metrics();
        let metrics = receiver.borrow_watched();
        // openraft calls it a learner. A leader that adds a node calls it before the node knows the members.
        let is_waiting = metrics.membership_config.nodes().next().is_none() && metrics.current_leader.is_none();
        let applied = self.applied().map_or(0, |id| id.index);
        Status {
            node: metrics.id,
            role: if is_waiting { Role::Waiting } else { role(metrics.state) },
            term: metrics.current_term,
            // What is applied is committed. The metrics may be a moment older.
            commit: metrics.local_committed.map_or(0, |id| id.index).max(applied),
            applied,
        }
    }

    /// Free bytes on the disk; see [`crate::store::FREE_BYTES_MIN`].
    pub fn free_bytes(&self) -> std::io::Result<u64> {
        self.disk.free_bytes()
    }

    /// Returns a sentence if the data folder or one of its files was removed. Writes that were acknowledged since then
    /// may be lost, so the server must stop. The host calls this regularly.
    pub fn missing(&self) -> Option<String> {
        if !self.disk.is_there() {
            return Some("it was removed or replaced while the server ran".to_owned());
        }
        // If the disk cannot say whether a file exists, the node goes on until a write fails.
        self.files.missing(&*self.disk).ok().flatten()
    }

    /// Stops the node. When it returns, no part of the node uses the data folder any more.
    pub async fn shutdown(&self) {
        // An error means that openraft had stopped already.
        let _ = self.raft.shutdown().await;
        self.group.peers.clear();
        let mut running = self.running.lock().await;
        running.tasks.shutdown().await;
        // openraft's worker and its log readers end on their own, soon after.
        let nothing = running.gone.recv().await;
        assert!(nothing.is_none(), "no message is ever sent here");
    }
}

pub(super) fn config(timing: Timing) -> Config {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let election_timeout_max = ms(timing.election_max);
    Config {
        cluster_name: "baton".to_owned(),
        heartbeat_interval: ms(timing.heartbeat),
        election_timeout_min: ms(timing.election_min),
        election_timeout_max,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        // It would rest on openraft's clock of answers. `Rounds::may_append` pauses instead.
        quorum_loss_probe_interval: None,
        max_payload_entries: APPEND_ENTRIES_MAX,
        install_snapshot_timeout: ms(SNAPSHOT_INSTALL_MAX),
        snapshot_policy: SnapshotPolicy::Never,
        // The node itself decides what to purge, see `purge`.
        max_in_snapshot_log_to_keep: u64::MAX,
        ..Config::default()
    }
}

/// The name of a node that was not given one.
pub(super) const NAME: &str = "default";

/// The time that another node has to install a snapshot once it has received all of it.
const SNAPSHOT_INSTALL_MAX: Duration = Duration::from_secs(60);

/// Refuses a floor for the fences that does nothing, because the folder has higher ones.
async fn check_fences(parts: &mut Parts, from: u64) -> Result<(), OpenError> {
    let last = Replayed::of(parts).await?.state.last_fence();
    match last >= from {
        true => Err(OpenError::Refused {
            why: format!("its last fence is {last}, so --fence-from {from} is too low; start the server without it"),
        }),
        false => Ok(()),
    }
}

/// Begins a group, or goes on in the one that the folder knows.
async fn begin(
    raft: &Raft<TypeConfig, Machine>,
    peers: &Peers,
    beginning: Beginning,
    listens_on: Option<SocketAddr>,
) -> Result<(), OpenError> {
    let failed = |e: &dyn std::fmt::Display| OpenError::Raft(e.to_string());
    // openraft answers after it has read the log. Before that, its metrics show no members.
    let is_initialized = raft.is_initialized().await.map_err(|e| failed(&e))?;
    let node = peers.identity().node;
    let membership = raft.server_metrics().borrow_watched().membership_config.clone();
    peers.follow(membership.nodes());
    let known = membership.get_node(&node).cloned();
    let record = records::with_address(peers.record(), known.as_ref(), listens_on).map_err(OpenError::Raft)?;
    peers.set_record(record.clone());
    if !is_initialized {
        if beginning == Beginning::Alone {
            let record = record.or(&NodeRecord { name: NAME.to_owned(), ..NodeRecord::default() });
            raft.initialize(BTreeMap::from([(node, record)])).await.map_err(|e| failed(&e))?;
        }
    } else if raft.voter_ids().eq([node]) {
        // No node answers yet where this one listens.
        let is_elsewhere = |listens_on: SocketAddr| peers.recorded(node).is_some_and(|at| at != listens_on.to_string());
        if listens_on.is_some_and(is_elsewhere)
            && let Some(sentence) = copies::answers_at_home(peers).await
        {
            return Err(OpenError::Raft(sentence));
        }
        // No other node can lead, so the node starts an election at once.
        raft.trigger().elect(false).await.map_err(|e| failed(&e))?;
    } else if listens_on.is_none() {
        // The node would wait for votes for ever: no network connects it to other voters.
        let members: Vec<String> = raft.voter_ids().map(|id| name(&raft.metrics().borrow_watched(), id)).collect();
        let members = members.join(", ");
        return Err(match known {
            Some(_) => OpenError::Raft(format!(
                "this node has others in its cluster (the voters are {members}), and no address at which they reach it; start it \
                 with `--peer-listen ADDRESS`"
            )),
            None => OpenError::Raft(format!(
                "IDENTITY says node {node}, and the log is of others ({members}); if this node was removed from its cluster, \
                 start it with an empty data folder; otherwise restore a backup (`baton restore`)"
            )),
        });
    }
    Ok(())
}

fn role(state: ServerState) -> Role {
    match state {
        ServerState::Leader => Role::Leader,
        ServerState::Follower => Role::Follower,
        ServerState::Candidate => Role::Candidate,
        ServerState::Learner => Role::Learner,
        ServerState::Shutdown => Role::Stopped,
    }
}

/// What this node says about itself to other nodes.
pub(super) fn node_status(group: &Group) -> NodeStatus {
    let metrics = group.metrics();
    // Those who ask must not take a leader for one that grants locks, if no majority confirms it.
    let is_recent = |confirmed: Confirmed| Duration::from_millis(confirmed.ms_ago) <= group.timing.election_max;
    let is_confirmed = confirmed(&metrics, &group.rounds).is_some_and(is_recent);
    NodeStatus {
        role: role(metrics.state),
        term: metrics.current_term,
        last_log: metrics.last_log_index,
        commit: metrics.local_committed.map(|id| id.index),
        applied: metrics.last_applied.map(|id| id.index),
        leader: metrics.current_leader.filter(|leader| *leader != metrics.id || is_confirmed),
        voted_for: metrics.vote.leader_id.voted_for,
        sync_ms: peers::in_ms(group.syncs.longest()),
        sync_min_ms: peers::in_ms(group.syncs.shortest()),
        free_bytes: *group.free.borrow(),
    }
}

/// Puts the entries of `overflow` into openraft's queue, in order.
async fn drain(mut overflown: mpsc::UnboundedReceiver<Submission>, overflowing: Arc<AtomicUsize>) {
    while let Some(submission) = overflown.recv().await {
        submission.await;
        overflowing.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Triggers a snapshot whenever the compaction wants one.
async fn compact(raft: Raft<TypeConfig, Machine>, compaction: Arc<Compaction>) {
    loop {
        compaction.wanted().await;
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}

/// Purges the log after each snapshot. A node with others keeps what [`Retention`] says on disk, so that a node that was
/// away for a short time needs no snapshot. Purges entries that the disk no longer has, too.
async fn purge(
    raft: Raft<TypeConfig, Machine>,
    peers: Peers,
    alone: Arc<AtomicBool>,
    retention: Arc<Retention>,
    evictor: Evictor,
) {
    let (mut snapshots, mut damaged) = (raft.watch_snapshot_progress(), retention.watch_damaged());
    let mut purged = None;
    loop {
        if let Some(snapshot) = snapshots.get() {
            let is_alone = alone.load(Ordering::Relaxed);
            if !is_alone {
                evictor.evict(snapshot.index).await;
            }
            let upto = match is_alone {
                true => Some(snapshot.index),
                false => retention.purgeable(Instant::now()).map(|upto| upto.min(snapshot.index)),
            };
            if let Some(upto) = upto.filter(|upto| purged.is_none_or(|purged| *upto > purged)) {
                purged = Some(upto);
                if raft.trigger().purge_log(upto).await.is_err() {
                    return;
                }
            }
        }
        // After the purge is ordered: a stream of appends that ends begins again with a snapshot.
        peers.set_unreadable(*damaged.borrow_and_update());
        tokio::select! {
            biased;
            changed = snapshots.changed() => if changed.is_err() {
                return;
            },
            // `retention` is the sender, so this cannot fail.
            _ = damaged.changed() => {}
        }
    }
}

/// Whenever the membership changes, sets `alone` (true if this node is the only member) and the addresses of the peers.
async fn follow_members(raft: Raft<TypeConfig, Machine>, node: u64, alone: Arc<AtomicBool>, peers: Peers) {
    let mut metrics = raft.server_metrics();
    let (mut known, mut limiter) = (String::new(), Limiter::default());
    loop {
        {
            let membership = metrics.borrow_watched().membership_config.clone();
            let members = in_words(&membership);
            let is_alone_from_the_start = known.is_empty() && membership.nodes().count() <= 1;
            if members != known
                && !is_alone_from_the_start
                && let Some(left_out) = limiter.event("members")
            {
                info!(left_out, "the members of the cluster are now {members}");
            }
            known = members;
            alone.store(membership.nodes().map(|(id, _)| *id).eq([node]), Ordering::Relaxed);
            peers.follow(membership.nodes());
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}
