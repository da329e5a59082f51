//! Makes, keeps and sends snapshots for openraft.
//!
//! A builder has a clone of the state, which is cheap to make. A separate thread encodes and writes it, one chunk at a
//! time, and blocks no client.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_runtime::{Instant, before_large_write, thread};
use openraft::RaftSnapshotBuilder;
use tokio::sync::{mpsc, oneshot};
use tracing::info;

use super::compaction::Compaction;
use super::edge;
use super::log_store::{Fatal, Warn};
use super::machine::broken;
use super::types::{Snapshot, SnapshotMeta, TypeConfig};
use crate::format;
use crate::state::State;
use crate::store::{OpenError, Snapshots, Unreadable};

/// The encoded state of a snapshot, in chunks.
pub enum Chunks {
    /// On this node's disk.
    Kept {
        snapshots: Snapshots,
        /// Index of the last entry in the snapshot.
        index: u64,
        /// Must be the last field: `Node::shutdown` waits until it is dropped, after all other fields.
        alive: mpsc::Sender<()>,
    },
    /// Another node has sent them, and they are decoded.
    Restored(Box<State>),
    /// The snapshot of a state that needs no file: the first one of a new node.
    InMemory(Vec<Vec<u8>>),
}

impl Chunks {
    /// The chunks without the meta, one after the other. Fails for kept chunks if a newer snapshot has replaced them.
    /// Once it has succeeded, all chunks can be read.
    pub(super) fn open(self) -> io::Result<Box<dyn Iterator<Item = io::Result<Vec<u8>>> + Send>> {
        Ok(match self {
            Chunks::InMemory(chunks) => Box::new(chunks.into_iter().map(Ok)),
            Chunks::Restored(_) => return Err(io::Error::other("the chunks are decoded already")),
            // The first chunk is the meta, which openraft has already.
            Chunks::Kept { snapshots, index, alive } => {
                let mut chunks = snapshots.stream(index).map_err(io::Error::other)?;
                chunks.next().transpose()?;
                drop(snapshots);
                Box::new(Reading { chunks, _alive: alive })
            }
        })
    }
}

/// The chunks of a file, while they are read.
struct Reading<I> {
    chunks: I,
    /// Must be the last field: `Node::shutdown` waits until it is dropped, after all other fields.
    _alive: mpsc::Sender<()>,
}

impl<I: Iterator> Iterator for Reading<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.chunks.next()
    }
}

/// The snapshots of a node on disk, and the meta of the newest durable one.
#[derive(Clone)]
pub(super) struct Kept {
    snapshots: Snapshots,
    newest: Arc<Mutex<Option<SnapshotMeta>>>,
    compaction: Arc<Compaction>,
    /// Must be the last field: `Node::shutdown` waits until it is dropped, after all other fields.
    alive: mpsc::Sender<()>,
}

impl Kept {
    pub fn open(
        snapshots: Snapshots,
        compaction: Arc<Compaction>,
        alive: mpsc::Sender<()>,
    ) -> Result<(Kept, Option<(SnapshotMeta, State)>), OpenError> {
        let mut found = None;
        if let Some((index, chunks)) = snapshots.newest()? {
            let (meta, state) = decode(&chunks).map_err(|why| snapshots.unreadable(index, why))?;
            compaction.saved(chunks.iter().map(|chunk| chunk.len() as u64).sum());
            found = Some((meta, state));
        }
        let newest = Arc::new(Mutex::new(found.as_ref().map(|(meta, _)| meta.clone())));
        Ok((Kept { snapshots, newest, compaction, alive }, found))
    }

    pub fn current(&self) -> Option<Snapshot> {
        let meta = self.newest().clone()?;
        let index = meta.last_log_id?.index;
        let (snapshots, alive) = (self.snapshots.clone(), self.alive.clone());
        Some(Snapshot { meta, snapshot: Chunks::Kept { snapshots, index, alive } })
    }

    /// Writes a snapshot, and blocks until it is durable. An empty state (no log id) needs no file.
    fn write(&self, meta: &SnapshotMeta, state: &State) -> io::Result<()> {
        let Some(last) = meta.last_log_id else { return Ok(()) };
        let head = format::snapshot::SnapshotMeta::from(meta).encode();
        let (mut bytes, began) = (0_u64, Instant::now());
        let chunks = std::iter::once(head).chain(format::snapshot::chunks(state));
        self.snapshots.save(last.index, &mut chunks.inspect(|chunk| bytes += chunk.len() as u64).map(Ok))?;
        let mut newest = self.newest();
        // Another node may have sent a newer snapshot meanwhile.
        if newest.as_ref().is_none_or(|newest| newest.last_log_id < meta.last_log_id) {
            *newest = Some(meta.clone());
        }
        self.compaction.saved(bytes);
        info!(index = last.index, bytes, took_ms = began.elapsed().as_millis() as u64, "a snapshot was written");
        Ok(())
    }

    fn newest(&self) -> MutexGuard<'_, Option<SnapshotMeta>> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode(chunks: &[Vec<u8>]) -> Result<(SnapshotMeta, State), Unreadable> {
    let (meta, rest) = chunks.split_first().ok_or_else(|| Unreadable::Malformed("it is empty".to_owned()))?;
    let meta = edge::meta(format::snapshot::SnapshotMeta::decode(meta)?)?;
    Ok((meta, format::snapshot::restore(rest)?))
}

#[derive(Clone)]
pub struct Builder {
    pub(super) meta: SnapshotMeta,
    /// None once the snapshot is written: openraft calls each builder once.
    pub(super) state: Option<State>,
    pub(super) kept: Kept,
    pub(super) fatal: Fatal,
    pub(super) warn: Warn,
    /// Must be the last field: `Node::shutdown` waits until it is dropped, after all other fields.
    pub(super) _alive: mpsc::Sender<()>,
}

impl Builder {
    /// Writes the snapshot on a separate thread, and returns when it is durable. The thread calls `first` before it
    /// begins. The inner error is a failed write. The outer error is final: the state cannot be encoded.
    pub(super) async fn write(self, state: State, first: fn()) -> io::Result<io::Result<()>> {
        let fatal = self.fatal.clone();
        let (done, written) = oneshot::channel();
        let started = thread("snapshot", async move {
            first();
            before_large_write().await;
            let written = catch_unwind(AssertUnwindSafe(|| self.kept.write(&self.meta, &state)));
            // Dropped on this thread: freeing the memory of a whole state takes long.
            drop((state, self));
            // The send fails only if the process stops.
            let _ = done.send(written);
        });
        if let Err(error) = started {
            return Ok(Err(error));
        }
        match written.await {
            Ok(Ok(written)) => Ok(written),
            Ok(Err(panic)) => Err(broken(&fatal, &*panic)),
            Err(ended) => Err(io::Error::other(ended)),
        }
    }
}

/// Lowers the priority of the snapshot thread: clients wait for grants, but not for this node's snapshots. If the call
/// fails, the snapshot only disturbs clients more.
fn leave_the_processor_to_others() {
    // Only Linux has a nice value per thread. A simulation has only one thread for all.
    #[cfg(target_os = "linux")]
    if baton_runtime::simulation::since_start().is_none() {
        let _ = rustix::process::nice(10);
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = Chunks;

    /// If a write failed, its file is removed, and openraft gets the snapshot that it has already. So openraft purges
    /// nothing, and goes on. (An error would stop it.)
    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let state = self.state.take().ok_or_else(|| io::Error::other("a builder makes one snapshot"))?;
        if self.meta.last_log_id.is_none() {
            let chunks = format::snapshot::chunks(&state).collect();
            return Ok(Snapshot { meta: self.meta.clone(), snapshot: Chunks::InMemory(chunks) });
        }
        if let Err(error) = self.clone().write(state, leave_the_processor_to_others).await? {
            (self.warn)(&format!(
                "a snapshot cannot be written ({error}); the server keeps the log and will try again"
            ));
            self.kept.compaction.failed();
        }
        let nothing = || Snapshot { meta: SnapshotMeta::default(), snapshot: Chunks::InMemory(Vec::new()) };
        Ok(self.kept.current().unwrap_or_else(nothing))
    }
}
