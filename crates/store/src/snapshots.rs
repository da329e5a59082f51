//! The snapshots of a folder. Each is a separate file, which is written completely and then renamed to its final name.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile, TEMPORARY};
use super::error::OpenError;
use super::files::Files;
use super::format;
use super::remarks::Remarks;
use super::snapshot;
use super::version::{Unreadable, Upgrade};

const PREFIX: &str = "snapshot-";
const SUFFIX: &str = ".baton";

/// The chunks of a snapshot, in order.
pub type Chunks = Vec<Vec<u8>>;

/// The snapshots of a data folder. Only the newest counts; older files are leftovers.
#[derive(Clone)]
pub struct Snapshots {
    disk: Arc<dyn Disk>,
    files: Files,
    remarks: Remarks,
    /// Locked while a snapshot is written: two writers of the same snapshot would use the same temporary file.
    saving: Arc<Mutex<()>>,
    /// How many snapshots other nodes have sent; each is a temporary file of its own.
    received: Arc<AtomicU64>,
}

impl Snapshots {
    pub(super) fn new(disk: Arc<dyn Disk>, files: Files, remarks: Remarks) -> Snapshots {
        Snapshots { disk, files, remarks, saving: Arc::default(), received: Arc::default() }
    }

    /// Saves a snapshot of all entries up to `index`. When it returns, the snapshot is durable and older ones are
    /// removed.
    ///
    /// An error of `chunks` is returned unchanged. After an error the newest snapshot is still the previous one, with
    /// one exception: if only the last step failed, which makes the name durable, it may be this one, complete. The
    /// caller keeps its log and may try again.
    pub fn save(&self, index: u64, chunks: &mut dyn Iterator<Item = io::Result<Vec<u8>>>) -> io::Result<()> {
        let _one_at_a_time = self.one_at_a_time();
        self.write(index, chunks)?;
        // This snapshot is durable, so errors from here on do not matter: an older file that stays is never read, and
        // the next call removes it.
        if let Ok(all) = list(&*self.disk) {
            let newest = all.iter().map(|(index, _)| *index).max();
            for (_, name) in all.iter().filter(|(index, _)| Some(*index) < newest) {
                self.files.remove(name);
                let _ = self.disk.remove(name);
            }
        }
        Ok(())
    }

    /// The newest snapshot and its index. If it is damaged, an older one is no substitute.
    ///
    /// Called at the start. If one copy is damaged, the file is written again.
    pub fn newest(&self) -> Result<Option<(u64, Chunks)>, OpenError> {
        let Some((index, name)) = newest(&*self.disk)? else { return Ok(None) };
        let (chunks, damage) = self.read_copies(&name)?;
        if let Some(byte) = damage {
            let _one_at_a_time = self.one_at_a_time();
            let written = self.write(index, &mut chunks.iter().cloned().map(Ok));
            written.map_err(OpenError::io("write", &name))?;
            self.remarks.repaired(&name, byte);
        }
        Ok(Some((index, chunks)))
    }

    /// The chunks of the snapshot with this index.
    pub fn read(&self, index: u64) -> Result<Chunks, OpenError> {
        Ok(self.read_copies(&name(index))?.0)
    }

    /// Opens the snapshot with this index, to read one chunk after the other. It can be read to its end even if a newer
    /// snapshot replaces it meanwhile.
    pub fn stream(&self, index: u64) -> Result<ChunkStream, OpenError> {
        let name = name(index);
        let file = self.disk.open(&name).map_err(OpenError::io("read", &name))?;
        self.stream_of(file, name)
    }

    /// Creates a temporary file for the chunks of another node's snapshot. The file is removed when the result is dropped.
    /// It is not synced: after a power cut the snapshot is sent again.
    pub fn receive(&self) -> io::Result<Receiving> {
        let number = self.received.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}received-{number}{TEMPORARY}");
        let file = self.disk.create(&name, 0)?;
        let guard = Temporary { disk: self.disk.clone(), name: name.clone() };
        Ok(Receiving { snapshots: self.clone(), file, name, writing: snapshot::Writing::new(), guard })
    }

    fn stream_of(&self, file: Box<dyn DiskFile>, name: String) -> Result<ChunkStream, OpenError> {
        let reader = snapshot::Reader::open(&*file).map_err(|fault| fault.of(&*self.disk, &name))?;
        Ok(ChunkStream { disk: self.disk.clone(), remarks: self.remarks.clone(), name, file, reader })
    }

    /// The error for a snapshot whose chunks cannot be used.
    pub fn unreadable(&self, index: u64, why: Unreadable) -> OpenError {
        format::unreadable(&*self.disk, &name(index), why)
    }

    /// The chunks, and the first byte that is damaged in one of the copies.
    fn read_copies(&self, name: &str) -> Result<(Chunks, Option<u64>), OpenError> {
        let file = self.disk.open(name).map_err(OpenError::io("read", name))?;
        snapshot::read(&*file).map_err(|fault| fault.of(&*self.disk, name))
    }

    fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        // A poisoned lock is harmless: a writer that panicked left only a temporary file.
        self.saving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a snapshot, and renames it once all of it is durable.
    pub(super) fn write(&self, index: u64, chunks: &mut dyn Iterator<Item = io::Result<Vec<u8>>>) -> io::Result<()> {
        let name = name(index);
        let temporary = format!("{name}{TEMPORARY}");
        let write = |chunks| {
            let file = self.disk.create(&temporary, 0)?;
            let length = snapshot::write(&*file, chunks)?;
            file.sync()?;
            // The replaced file may have another length.
            self.files.remove(&name);
            self.disk.rename(&temporary, &name)?;
            Ok(length)
        };
        let written: io::Result<u64> = write(chunks);
        if written.is_err() {
            // A temporary file is never read. If it stays, the next start removes it.
            let _ = self.disk.remove(&temporary);
        }
        let length = written?;
        self.disk.sync_folder()?;
        self.files.insert(&name, length);
        Ok(())
    }

    /// If the newest snapshot must be rewritten, its index and its chunks in the current format.
    pub(super) fn upgraded(&self, upgrade: &dyn Upgrade) -> Result<Option<(u64, Chunks)>, OpenError> {
        let Some((index, name)) = newest(&*self.disk)? else { return Ok(None) };
        let file = self.disk.open(&name).map_err(OpenError::io("read", &name))?;
        let version = snapshot::version(&*file).map_err(|fault| fault.of(&*self.disk, &name))?;
        if version >= upgrade.rewrites_before() {
            return Ok(None);
        }
        let (chunks, _) = self.read_copies(&name)?;
        let chunks = upgrade.snapshot(version, chunks).map_err(|why| self.unreadable(index, why))?;
        Ok(Some((index, chunks)))
    }

    /// From now on the newest snapshot must exist.
    pub(super) fn expect_newest(&self) -> Result<(), OpenError> {
        if let Some((_, name)) = newest(&*self.disk)? {
            let length = self.disk.length(&name).map_err(OpenError::io("read", &name))?;
            self.files.insert(&name, length);
        }
        Ok(())
    }
}

/// The chunks of one snapshot, read one after the other. Only one is in memory at a time.
pub struct ChunkStream {
    disk: Arc<dyn Disk>,
    remarks: Remarks,
    name: String,
    file: Box<dyn DiskFile>,
    reader: snapshot::Reader,
}

impl Iterator for ChunkStream {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.reader.next(&*self.file).map_err(|fault| io::Error::other(fault.of(&*self.disk, &self.name)));
        if let Some(byte) = self.reader.damage() {
            self.remarks.read_from_the_other_copy(&self.name, byte);
        }
        next.transpose()
    }
}

/// A snapshot that another node sends.
pub struct Receiving {
    snapshots: Snapshots,
    file: Box<dyn DiskFile>,
    name: String,
    writing: snapshot::Writing,
    /// Must be the last field: the file is closed before it is removed.
    guard: Temporary,
}

impl Receiving {
    pub fn add(&mut self, chunk: Vec<u8>) -> io::Result<()> {
        self.writing.add(&*self.file, chunk)
    }

    /// All chunks have arrived. Opens the file.
    pub fn end(self) -> io::Result<Received> {
        // In this order: the file is closed before it is removed.
        let Receiving { guard, snapshots, file, name, writing } = self;
        writing.end(&*file)?;
        let chunks = snapshots.stream_of(file, name).map_err(io::Error::other)?;
        Ok(Received { chunks, _guard: guard })
    }
}

/// The chunks of a snapshot that another node has sent.
pub struct Received {
    chunks: ChunkStream,
    /// Must be the last field: the file is closed before it is removed.
    _guard: Temporary,
}

impl Iterator for Received {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.chunks.next()
    }
}

/// Removes a temporary file when it is dropped.
struct Temporary {
    disk: Arc<dyn Disk>,
    name: String,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // If the file stays, the next start removes it.
        let _ = self.disk.remove(&self.name);
    }
}

/// Index and name of the newest snapshot of a folder.
pub(super) fn newest(disk: &dyn Disk) -> Result<Option<(u64, String)>, OpenError> {
    Ok(list(disk).map_err(OpenError::io("list", "the data folder"))?.into_iter().max())
}

fn list(disk: &dyn Disk) -> io::Result<Vec<(u64, String)>> {
    let index = |name: &str| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok();
    Ok(disk.list()?.into_iter().filter_map(|name| Some((index(&name)?, name))).collect())
}

pub(super) fn name(index: u64) -> String {
    format!("{PREFIX}{index:020}{SUFFIX}")
}
