//! Reads entries for openraft: new ones from memory, and those behind the last snapshot from the journal on disk.
//!
//! Only followers that lag need entries from disk. They read one after the other, so each reader keeps the entries of
//! the last segment that it has read. A snapshot covers all these entries. So if the disk no longer has them, the node
//! purges them, and the follower gets the snapshot.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_runtime::spawn_blocking;
use openraft::{OptionalSend, RaftLogReader};
use tokio::sync::mpsc;

use super::log::{Image, Purged};
use super::log_store::{APPEND_BYTES_MAX, Fatal, Warn};
use super::retention::Retention;
use super::types::{LogEntry, TypeConfig, Vote};
use super::writer::Durable;
use crate::format::record;
use crate::store::Archive;

pub struct LogReader {
    image: Arc<Mutex<Image>>,
    archive: Archive,
    retention: Arc<Retention>,
    fatal: Fatal,
    warn: Warn,
    /// The entries of one segment.
    segment: Option<Image>,
    /// Must be the last field: `Node::shutdown` waits until it is dropped, after all other fields.
    alive: mpsc::Sender<()>,
}

impl Clone for LogReader {
    fn clone(&self) -> LogReader {
        let (image, archive, retention) = (self.image.clone(), self.archive.clone(), self.retention.clone());
        let (fatal, warn, alive) = (self.fatal.clone(), self.warn.clone(), self.alive.clone());
        LogReader { image, archive, retention, fatal, warn, segment: None, alive }
    }
}

impl LogReader {
    pub(super) fn new(
        image: Image,
        archive: Archive,
        retention: Arc<Retention>,
        (fatal, warn): (Fatal, Warn),
        alive: mpsc::Sender<()>,
    ) -> LogReader {
        LogReader { image: Arc::new(Mutex::new(image)), archive, retention, fatal, warn, segment: None, alive }
    }

    pub(super) fn image(&self) -> MutexGuard<'_, Image> {
        lock(&self.image)
    }

    pub(super) fn shared_image(&self) -> Arc<Mutex<Image>> {
        self.image.clone()
    }

    /// All entries that exist from `start` to before `end`.
    async fn read_all(&mut self, start: u64, end: u64) -> Result<Vec<LogEntry>, Unread> {
        let (mut entries, mut next) = (Vec::new(), start);
        loop {
            let part = self.read(next, end, usize::MAX).await?;
            let Some(last) = part.last() else {
                // Entries before the first one do not exist.
                let begin = self.image().begin();
                if next < begin && begin < end {
                    next = begin;
                    continue;
                }
                return Ok(entries);
            };
            next = last.log_id.index + 1;
            entries.extend(part);
        }
    }

    /// Entries from `start` to before `end`, without a gap: as many as fit into `bytes_max`, but at least one. Nothing
    /// if the first one does not exist. May return fewer than fit.
    async fn read(&mut self, start: u64, end: u64, bytes_max: usize) -> Result<Vec<LogEntry>, Unread> {
        {
            let image = self.image();
            if start < image.begin() || start >= end {
                return Ok(Vec::new());
            }
            if start >= image.first_in_memory() {
                let entries = image.read(start, end, bytes_max).map_err(|why| Unread { start, why, upto: None });
                drop(image);
                self.segment = None;
                return entries;
            }
        }
        match self.read_from_disk(start, end, bytes_max).await {
            Ok(entries) => Ok(entries),
            // Purged meanwhile.
            Err(_) if start < self.image().begin() => Ok(Vec::new()),
            Err(why) => {
                let last = self.archive.last_mark(start).unwrap_or(start);
                let upto = last.min(self.image().first_in_memory().saturating_sub(1)).max(start);
                Err(Unread { start, why, upto: Some(upto) })
            }
        }
    }

    /// Ends the node: it cannot go on without these entries.
    fn fail(&self, Unread { start, why, .. }: Unread) -> io::Error {
        let why = format!("entry {start} of the log cannot be read again: {why}");
        (self.fatal)(&why);
        io::Error::other(why)
    }

    async fn read_from_disk(&mut self, start: u64, end: u64, bytes_max: usize) -> Result<Vec<LogEntry>, String> {
        let term = self.image().term(start);
        let has = |segment: &&Image| term.is_some() && segment.term(start) == term;
        let segment = match self.segment.take().filter(|segment| has(&segment)) {
            Some(segment) => segment,
            None => {
                let (archive, alive) = (self.archive.clone(), self.alive.clone());
                let reading = spawn_blocking(move || {
                    let read = read_segment(&archive, start);
                    drop(archive);
                    // The folder is in use until here, even if the reader is gone.
                    drop(alive);
                    read
                });
                let read = reading.await;
                read.map_err(|error| error.to_string()).flatten()?
            }
        };
        let end = end.min(self.image().first_in_memory());
        let mut entries = segment.read(start, end, bytes_max)?;
        self.segment = Some(segment);
        let image = self.image();
        let is_right = |(index, entry): (u64, &LogEntry)| {
            let id = record::LogId::from(entry.log_id);
            id.index == index && image.term(index) == Some(id.term)
        };
        // The last entries of a segment may be replaced by those of a later one.
        entries.truncate((start..).zip(&entries).take_while(|entry| is_right(*entry)).count());
        match entries.is_empty() {
            false => Ok(entries),
            true => Err("the disk has another entry in its place".to_owned()),
        }
    }
}

pub(super) fn lock(image: &Mutex<Image>) -> MutexGuard<'_, Image> {
    // A poisoned lock is harmless: nothing panics between two steps of a change to the image.
    image.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why entries could not be read.
struct Unread {
    start: u64,
    why: String,
    /// The last entry that is in the same place on disk, and that a snapshot covers. None for entries in memory.
    upto: Option<u64>,
}

/// The entries of the segment that has this one.
fn read_segment(archive: &Archive, index: u64) -> Result<Image, String> {
    let payloads = archive.read(index).map_err(|error| error.to_string())?;
    let payloads = payloads.ok_or_else(|| "no file of the log has it".to_owned())?;
    let mut segment = Image::default();
    for payload in payloads.iter() {
        segment.replay(payload).map_err(|why| why.to_string())?;
    }
    Ok(segment)
}

impl RaftLogReader<TypeConfig> for LogReader {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<LogEntry>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.read_all(start, end).await.map_err(|unread| self.fail(unread))
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.image().head.vote.map(Vote::from))
    }

    /// If the first entry is purged or cannot be read, openraft sends a heartbeat instead. The network then ends the
    /// stream of appends, and openraft finds out that the follower needs a snapshot.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<LogEntry>> {
        match self.read(start, end, APPEND_BYTES_MAX).await {
            Err(Unread { start, why, upto: Some(upto) }) => {
                if self.retention.damaged(upto) {
                    (self.warn)(&format!(
                        "entries {start} to {upto} of the log cannot be read again ({why}); a snapshot covers them, and nodes \
                         that need them get it; check the disk"
                    ));
                }
                Ok(Vec::new())
            }
            read => read.map_err(|unread| self.fail(unread)),
        }
    }
}

/// Takes entries out of memory that a snapshot covers.
pub(super) struct Evictor {
    reader: LogReader,
    durable: Durable,
}

impl Evictor {
    pub fn new(reader: LogReader, durable: Durable) -> Evictor {
        Evictor { reader, durable }
    }

    /// Takes the entries up to and including `snapshot` out of memory, unless they are not on disk yet.
    pub async fn evict(&self, snapshot: u64) {
        let Some(durable) = self.durable.last() else { return };
        let evicted: Purged = self.reader.image().evict(snapshot, durable);
        // An error means that the thread panicked, which cannot happen.
        let _ = spawn_blocking(move || drop(evicted)).await;
    }
}
