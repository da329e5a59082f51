//! openraft's state machine: the state in memory. Snapshots make it durable; the log covers the entries since the last
//! snapshot.

use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use baton_types::durations;
use futures::{Stream, StreamExt};
use openraft::OptionalSend;
use openraft::storage::{EntryResponder, RaftStateMachine};
use tokio::sync::mpsc;
use tracing::info;

use super::log_store::{Fatal, Warn};
use super::snapshot::{Builder, Chunks, Kept};
use super::types::{Applied, LogEntry, LogId, Membership, Payload, Snapshot, SnapshotMeta, TypeConfig};
use crate::format;
use crate::format::record::NodeRecord;
use crate::replica::Signal;
use crate::state::feed::Member;
use crate::state::{Command, Entry, Outcome, State, cluster};
use crate::store::Unreadable;

/// Called for every applied entry, in log order, before the proposer gets the result. It must not block.
pub type OnApply = Box<dyn FnMut(&Entry, &Applied, &State) + Send + Sync>;

/// The state, the id of the last applied entry, and the membership.
#[derive(Debug, Default)]
pub(super) struct Replica {
    pub state: State,
    pub applied: Option<LogId>,
    pub membership: Membership,
}

impl Replica {
    fn new(meta: SnapshotMeta, state: State) -> Replica {
        Replica { state, applied: meta.last_log_id, membership: meta.last_membership }
    }

    /// Tells the state the membership, for the feed.
    fn tell_members(&mut self, index: u64, outcome: &mut Outcome) {
        let voters: BTreeSet<u64> = self.membership.voter_ids().collect();
        let member = |(node, record): (&u64, &NodeRecord)| {
            let NodeRecord { name, peer_address, client_address } = record.clone();
            let (name, peer_address, client_address) = (name.into(), peer_address.into(), client_address.into());
            (*node, Member { name, peer_address, client_address, is_voter: voters.contains(node) })
        };
        let members = self.membership.nodes().map(member).collect();
        self.state.members_are(index, members, outcome);
    }

    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() }
    }
}

/// The replica. Only the state machine writes; other threads read.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    replica: Arc<RwLock<Replica>>,
    pub changed: Arc<Signal>,
}

impl Shared {
    // A poisoned lock is harmless: `apply_entry` catches a panic during a write and then applies nothing more.
    pub fn read(&self) -> RwLockReadGuard<'_, Replica> {
        self.replica.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Replica> {
        self.replica.write().unwrap_or_else(PoisonError::into_inner)
    }
}

type Apply = fn(&mut State, u64, u64, &Command, &mut Outcome);

pub struct Machine {
    shared: Shared,
    kept: Kept,
    on_apply: OnApply,
    fatal: Fatal,
    warn: Warn,
    /// Replaced in a test by a function that panics.
    pub(super) apply: Apply,
    /// Set when the state panicked. The state may be wrong, so nothing more is applied or answered.
    is_broken: bool,
    /// Must be the last field: `Node::shutdown` waits until it is dropped, after all other fields.
    alive: mpsc::Sender<()>,
}

impl Machine {
    /// Starts from the newest snapshot, or from an empty state if there is no snapshot.
    pub(super) fn new(
        (kept, found): (Kept, Option<(SnapshotMeta, State)>),
        on_apply: OnApply,
        fatal: Fatal,
        warn: Warn,
        alive: mpsc::Sender<()>,
    ) -> (Machine, Shared) {
        let replica = found.map(|(meta, state)| Replica::new(meta, state)).unwrap_or_default();
        let shared = Shared { replica: Arc::new(RwLock::new(replica)), changed: Arc::default() };
        let machine = Machine {
            shared: shared.clone(),
            kept,
            on_apply,
            fatal,
            warn,
            apply: State::apply,
            is_broken: false,
            alive,
        };
        (machine, shared)
    }

    fn builder(&self, meta: SnapshotMeta, state: Option<State>) -> Builder {
        let (kept, fatal, warn) = (self.kept.clone(), self.fatal.clone(), self.warn.clone());
        Builder { meta, state, kept, fatal, warn, _alive: self.alive.clone() }
    }

    /// The log has an entry that this node does not know. A node checks entries before it accepts them, so an older
    /// version has been started with the data of a newer one.
    fn unknown(&mut self, index: u64, why: &Unreadable) -> io::Error {
        self.is_broken = true;
        let why =
            format!("entry {index} of the log cannot be read: {why}; start this node with the version that wrote it");
        (self.fatal)(&why);
        io::Error::other(why)
    }

    /// Applies an entry, and calls `on_apply`. A panic in the state or in `on_apply` means that an invariant is broken:
    /// `fatal` is called, and if it returns, nothing more is applied or answered.
    fn apply_entry(&mut self, entry: &LogEntry) -> io::Result<Applied> {
        if self.is_broken {
            return Err(io::Error::other("the replicated state is inconsistent; nothing more is applied"));
        }
        let (id, apply) = (entry.log_id, self.apply);
        let commands = match &entry.payload {
            Payload::Normal(encoded) => Some(encoded.decode().map_err(|why| self.unknown(id.index, &why))?),
            Payload::Blank | Payload::Membership(_) => None,
        };
        let applied = catch_unwind(AssertUnwindSafe(|| {
            let mut replica = self.shared.write();
            let mut outcome = Outcome::default();
            if let Payload::Membership(membership) = &entry.payload {
                replica.membership = Membership::new(Some(id), membership.clone());
                replica.tell_members(id.index, &mut outcome);
            }
            if let Some(entry) = &commands {
                for command in &entry.commands {
                    tell_max_ttl(&replica.state, command, id);
                    apply(&mut replica.state, id.index, entry.now_ms, command, &mut outcome);
                }
                if replica.state.feed().is_on() && replica.state.feed().members().is_none() {
                    replica.tell_members(id.index, &mut outcome);
                }
            }
            replica.applied = Some(id);
            let applied = Applied { index: id.index, term: id.leader_id.term, outcome: Arc::new(outcome) };
            if let Some(entry) = &commands {
                let replica = RwLockWriteGuard::downgrade(replica);
                (self.on_apply)(entry, &applied, &replica.state);
            }
            if !applied.outcome.changes.is_empty() {
                self.shared.changed.give();
            }
            applied
        }));
        applied.map_err(|panic| {
            self.is_broken = true;
            broken(&self.fatal, &*panic)
        })
    }
}

/// Notes in the log that a leader changes the longest TTL of the cluster: nodes with different options may take turns.
fn tell_max_ttl(state: &State, command: &Command, id: LogId) {
    if let Command::Cluster(cluster::Command::SetMaxTtl { max_ttl_ms }) = *command
        && max_ttl_ms != state.cluster().max_ttl_ms()
    {
        info!(
            "entry {} of term {} sets the longest TTL of the cluster from {} to {} (--max-ttl of the node that led then)",
            id.index,
            id.leader_id.term,
            durations::shown(state.cluster().max_ttl_ms()),
            durations::shown(max_ttl_ms)
        );
    }
}

/// Calls `fatal` with the message of a panic in the state.
pub(super) fn broken(fatal: &Fatal, panic: &(dyn Any + Send)) -> io::Error {
    let text = panic.downcast_ref::<&str>().copied();
    let message = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked");
    let why = format!("the replicated state is inconsistent: {message}; the server answers nothing more");
    fatal(&why);
    io::Error::other(why)
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = Chunks;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Membership)> {
        let replica = self.shared.read();
        Ok((replica.applied, replica.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let applied = self.apply_entry(&entry)?;
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let replica = self.shared.read();
        self.builder(replica.meta(), Some(replica.state.clone()))
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, chunks: Chunks) -> io::Result<()> {
        let state = match chunks {
            Chunks::Restored(state) => *state,
            // A snapshot of this node itself.
            chunks => {
                let restored = chunks
                    .open()
                    .map_err(|error| error.to_string())
                    .and_then(|chunks| format::snapshot::restore_each(chunks).map_err(|why| why.to_string()));
                restored.map_err(|why| {
                    let why = format!("a snapshot cannot be restored ({why}), and the log before it is gone");
                    (self.fatal)(&why);
                    io::Error::other(why)
                })?
            }
        };
        let written = self.builder(meta.clone(), None).write(state.clone(), || {}).await?;
        written.inspect_err(|error| {
            (self.fatal)(&format!(
                "a snapshot of another node cannot be written ({error}), and the log before it is gone"
            ));
        })?;
        *self.shared.write() = Replica::new(meta.clone(), state);
        self.shared.changed.give();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.kept.current())
    }
}
