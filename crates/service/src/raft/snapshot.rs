//! Snapshots as openraft makes, keeps and sends them.
//!
//! A builder has a clone of the state, which takes no time to make. Encoding and writing happen on another thread, a chunk at a
//! time, and stop nobody.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

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

/// The state of a snapshot, encoded, in chunks: where to find it.
pub enum Chunks {
    /// In a snapshot that this node keeps.
    Kept {
        /// Where it keeps them.
        snapshots: Snapshots,
        /// Up to which index.
        index: u64,
    },
    /// Here: another node has sent them.
    Received(Vec<Vec<u8>>),
}

impl Chunks {
    /// The chunks. Those that are kept may be gone, if there is a newer snapshot.
    pub(super) fn read(self) -> io::Result<Vec<Vec<u8>>> {
        match self {
            Chunks::Received(chunks) => Ok(chunks),
            Chunks::Kept { snapshots, index } => {
                let mut chunks = snapshots.read(index).map_err(io::Error::other)?;
                // The first one is the meta, which openraft has.
                chunks.drain(..chunks.len().min(1));
                Ok(chunks)
            }
        }
    }
}

/// The snapshots of a node: where they are, and what the newest durable one holds.
#[derive(Clone)]
pub(super) struct Kept {
    snapshots: Snapshots,
    newest: Arc<Mutex<Option<SnapshotMeta>>>,
    compaction: Arc<Compaction>,
}

impl Kept {
    /// Reads the newest snapshot, if there is one.
    pub fn open(
        snapshots: Snapshots,
        compaction: Arc<Compaction>,
    ) -> Result<(Kept, Option<(SnapshotMeta, State)>), OpenError> {
        let mut found = None;
        if let Some((index, chunks)) = snapshots.newest()? {
            let (meta, state) = decode(&chunks).map_err(|why| snapshots.unreadable(index, why))?;
            compaction.saved(chunks.iter().map(|chunk| chunk.len() as u64).sum());
            found = Some((meta, state));
        }
        let newest = Arc::new(Mutex::new(found.as_ref().map(|(meta, _)| meta.clone())));
        Ok((Kept { snapshots, newest, compaction }, found))
    }

    /// The newest snapshot, as openraft knows it.
    pub fn current(&self) -> Option<Snapshot> {
        let meta = self.newest().clone()?;
        let index = meta.last_log_id?.index;
        Some(Snapshot { meta, snapshot: Chunks::Kept { snapshots: self.snapshots.clone(), index } })
    }

    /// Writes a snapshot, and returns when it is durable. It blocks. A snapshot of nothing needs no file.
    fn write(&self, meta: &SnapshotMeta, state: &State) -> io::Result<()> {
        let Some(last) = meta.last_log_id else { return Ok(()) };
        let head = format::snapshot::SnapshotMeta::from(meta).encode();
        let (mut bytes, began) = (0_u64, Instant::now());
        let chunks = std::iter::once(head).chain(format::snapshot::chunks(state));
        self.snapshots.save(last.index, &mut chunks.inspect(|chunk| bytes += chunk.len() as u64).map(Ok))?;
        let mut newest = self.newest();
        // A newer one may have come from another node meanwhile.
        if newest.as_ref().is_none_or(|newest| newest.last_log_id < meta.last_log_id) {
            *newest = Some(meta.clone());
        }
        self.compaction.saved(bytes);
        info!(index = last.index, bytes, took_ms = began.elapsed().as_millis() as u64, "a snapshot was written");
        Ok(())
    }

    fn newest(&self) -> MutexGuard<'_, Option<SnapshotMeta>> {
        // Nothing panics while it is locked.
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode(chunks: &[Vec<u8>]) -> Result<(SnapshotMeta, State), Unreadable> {
    let (meta, rest) = chunks.split_first().ok_or_else(|| Unreadable::Malformed("it is empty".to_owned()))?;
    let meta = edge::meta(format::snapshot::SnapshotMeta::decode(meta)?)?;
    Ok((meta, format::snapshot::restore(rest)?))
}

/// A snapshot that is still to be written.
#[derive(Clone)]
pub struct Builder {
    pub(super) meta: SnapshotMeta,
    /// None once it is written: openraft asks each builder once.
    pub(super) state: Option<State>,
    pub(super) kept: Kept,
    pub(super) fatal: Fatal,
    pub(super) warn: Warn,
    /// The last field: dropped when all else is.
    pub(super) _alive: mpsc::Sender<()>,
}

impl Builder {
    /// Writes the snapshot on a thread of its own, and says whether it is durable. The outer error is final: the state cannot be
    /// encoded.
    /// `first` is called there before.
    pub(super) async fn write(self, state: State, first: fn()) -> io::Result<io::Result<()>> {
        let fatal = self.fatal.clone();
        let (done, written) = oneshot::channel();
        let started = thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            first();
            let written = catch_unwind(AssertUnwindSafe(|| self.kept.write(&self.meta, &state)));
            // Here, since others need not wait for the memory of a whole state to be freed.
            drop((state, self));
            // If nobody listens any more, the process stops.
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

/// There is no hurry: nobody waits for a snapshot that this node makes, and everybody for a grant. Where it is not possible all goes on as before, only less
/// smoothly.
fn leave_the_processor_to_others() {
    // Linux alone counts it for each thread.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = Chunks;

    /// Whatever was written of a snapshot that failed is gone. openraft is then given the one that it has already, of which it
    /// takes no note: it purges nothing, and goes on. (An error would stop it.)
    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let state = self.state.take().ok_or_else(|| io::Error::other("a builder makes one snapshot"))?;
        if self.meta.last_log_id.is_none() {
            let chunks = format::snapshot::chunks(&state).collect();
            return Ok(Snapshot { meta: self.meta.clone(), snapshot: Chunks::Received(chunks) });
        }
        if let Err(error) = self.clone().write(state, leave_the_processor_to_others).await? {
            (self.warn)(&format!("a snapshot cannot be written ({error}); the log is kept, and it is tried again"));
            self.kept.compaction.failed();
        }
        let nothing = || Snapshot { meta: SnapshotMeta::default(), snapshot: Chunks::Received(Vec::new()) };
        Ok(self.kept.current().unwrap_or_else(nothing))
    }
}
