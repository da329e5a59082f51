//! openraft's state machine: the table, in memory; its snapshots are durable, and the log is what is between two of them.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use tokio::sync::mpsc;

use super::compaction::Compaction;
use super::log_store::Fatal;
use super::types::{Applied, LogId, Membership, Snapshot, SnapshotMeta, TypeConfig};
use crate::store::{OpenError, Snapshots};
use crate::table::{Entry, Table};

/// Called with every entry that was applied, in log order, before its proposer knows. It must not wait.
pub type OnApply = Box<dyn FnMut(&Entry, &Applied) + Send + Sync>;

/// The table, and how far it is.
#[derive(Debug, Default)]
pub(super) struct State {
    pub table: Table,
    pub applied: Option<LogId>,
    pub membership: Membership,
}

/// The state, shared with those who only read it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<RwLock<State>>);

impl Shared {
    // A panic while the table is written to ends the state machine; who reads it then gets what is there.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the newest durable snapshot holds, if there is one.
type Newest = Arc<Mutex<Option<SnapshotMeta>>>;

/// The table of a snapshot, encoded: where to find it.
pub enum TableBytes {
    /// In a snapshot that this node keeps.
    Kept {
        /// Where it keeps them.
        snapshots: Snapshots,
        /// Up to which index.
        index: u64,
    },
    /// Here: another node has sent it.
    Received(Vec<u8>),
}

impl TableBytes {
    /// The bytes. One that is kept may be gone, if there is a newer one.
    pub fn read(self) -> io::Result<Vec<u8>> {
        match self {
            TableBytes::Received(table) => Ok(table),
            TableBytes::Kept { snapshots, index } => {
                let mut bytes = snapshots.read(index).map_err(io::Error::other)?.concat();
                let table = split(&bytes).map_err(io::Error::other)?.1.len();
                bytes.drain(..bytes.len() - table);
                Ok(bytes)
            }
        }
    }
}

/// The state machine.
pub struct Machine {
    shared: Shared,
    snapshots: Snapshots,
    newest: Newest,
    on_apply: OnApply,
    compaction: Arc<Compaction>,
    fatal: Fatal,
    /// The last field: dropped when all else is.
    alive: mpsc::Sender<()>,
}

impl Machine {
    /// Begins with the newest snapshot, or with an empty table.
    pub(super) fn open(
        snapshots: Snapshots,
        on_apply: OnApply,
        compaction: Arc<Compaction>,
        fatal: Fatal,
        alive: mpsc::Sender<()>,
    ) -> Result<(Machine, Shared), OpenError> {
        let shared = Shared::default();
        let newest = Newest::default();
        if let Some((index, chunks)) = snapshots.newest()? {
            let bytes = chunks.concat();
            let damaged = |what: String| OpenError::Damaged { file: format!("snapshot {index}"), offset: 0, what };
            let (meta, table) = split(&bytes).map_err(damaged)?;
            *shared.write() = state(&meta, table).map_err(damaged)?;
            compaction.saved(table.len() as u64);
            *lock(&newest) = Some(meta);
        }
        Ok((Machine { shared: shared.clone(), snapshots, newest, on_apply, compaction, fatal, alive }, shared))
    }

    fn builder(&self) -> Builder {
        // Encoding takes less time and far less memory than a clone of the table would; entries wait meanwhile.
        let state = self.shared.read();
        let table = postcard::to_stdvec(&state.table).expect("a table can be encoded");
        let meta = SnapshotMeta { last_log_id: state.applied, last_membership: state.membership.clone() };
        drop(state);
        self.unsaved(meta, table)
    }

    fn unsaved(&self, meta: SnapshotMeta, table: Vec<u8>) -> Builder {
        Builder {
            meta,
            table: Arc::new(table),
            snapshots: self.snapshots.clone(),
            newest: self.newest.clone(),
            compaction: self.compaction.clone(),
            fatal: self.fatal.clone(),
            _alive: self.alive.clone(),
        }
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = TableBytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Membership)> {
        let state = self.shared.read();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let id = entry.log_id;
            let mut effects = Vec::new();
            let mut state = self.shared.write();
            state.applied = Some(id);
            match &entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Membership(membership) => {
                    state.membership = Membership::new(Some(id), membership.clone());
                }
                EntryPayload::Normal(entry) => {
                    for command in &entry.commands {
                        state.table.apply(entry.now_ms, command, &mut effects);
                    }
                }
            }
            drop(state);
            let applied = Applied { index: id.index, term: id.leader_id.term, effects: Arc::new(effects) };
            if let EntryPayload::Normal(entry) = &entry.payload {
                (self.on_apply)(entry, &applied);
            }
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.builder()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, table: TableBytes) -> io::Result<()> {
        let table = table.read()?;
        let state = state(meta, &table).map_err(io::Error::other)?;
        self.unsaved(meta.clone(), table).save().await?;
        *self.shared.write() = state;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let Some(meta) = lock(&self.newest).clone() else { return Ok(None) };
        Ok(kept(meta, &self.snapshots))
    }
}

/// A snapshot that is still to be written.
pub struct Builder {
    meta: SnapshotMeta,
    table: Arc<Vec<u8>>,
    snapshots: Snapshots,
    newest: Newest,
    compaction: Arc<Compaction>,
    fatal: Fatal,
    _alive: mpsc::Sender<()>,
}

impl Builder {
    async fn save(&self) -> io::Result<()> {
        let Some(last) = self.meta.last_log_id else { return Ok(()) };
        let meta = postcard::to_stdvec(&self.meta).map_err(io::Error::other)?;
        let (snapshots, table) = (self.snapshots.clone(), self.table.clone());
        let length = (meta.len() as u32).to_le_bytes();
        let save = move || {
            let chunks = [length.to_vec(), meta, table.to_vec()];
            snapshots.save(last.index, &mut chunks.into_iter().map(Ok))
        };
        let saved = tokio::task::spawn_blocking(save).await.map_err(io::Error::other)?;
        if let Err(error) = &saved {
            (self.fatal)(&format!("a snapshot cannot be written ({error})"));
        }
        saved?;
        *lock(&self.newest) = Some(self.meta.clone());
        self.compaction.saved(self.table.len() as u64);
        Ok(())
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = TableBytes;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        self.save().await?;
        let meta = self.meta.clone();
        // A snapshot of nothing needs no file.
        let nothing = || Snapshot { meta: meta.clone(), snapshot: TableBytes::Received((*self.table).clone()) };
        Ok(kept(meta.clone(), &self.snapshots).unwrap_or_else(nothing))
    }
}

/// A snapshot that is on disk, as openraft knows it.
fn kept(meta: SnapshotMeta, snapshots: &Snapshots) -> Option<Snapshot> {
    let index = meta.last_log_id?.index;
    Some(Snapshot { meta, snapshot: TableBytes::Kept { snapshots: snapshots.clone(), index } })
}

fn lock(newest: &Newest) -> MutexGuard<'_, Option<SnapshotMeta>> {
    // Nothing panics while it is locked.
    newest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A snapshot's file holds what openraft wants to know of it, and the table.
fn split(bytes: &[u8]) -> Result<(SnapshotMeta, &[u8]), String> {
    let (length, rest) = bytes.split_first_chunk().ok_or("it is empty")?;
    let (meta, table) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or("it is cut short")?;
    let meta = postcard::from_bytes(meta).map_err(|e| format!("it does not say how far it goes: {e}"))?;
    Ok((meta, table))
}

fn state(meta: &SnapshotMeta, table: &[u8]) -> Result<State, String> {
    let table = postcard::from_bytes(table).map_err(|e| format!("it holds no table: {e}"))?;
    Ok(State { table, applied: meta.last_log_id, membership: meta.last_membership.clone() })
}
