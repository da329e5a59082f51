//! openraft's log storage over the journal.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use tokio::sync::{mpsc, oneshot};

use super::compaction::Compaction;
use super::log::{Head, Image, Record};
use super::types::{LogEntry, LogId, TypeConfig, Vote};
use super::writer::{Done, Fatal, Job, Writer};
use crate::store::{Disk, Journal, OpenError};

/// An AppendEntries carries no more bytes than this, unless a single entry does; so it stays below what a transport takes.
pub(super) const APPEND_BYTES_MAX: usize = 1 << 20;

/// The log. Clones are the same log.
#[derive(Clone)]
pub struct LogStore {
    inner: Arc<Inner>,
}

struct Inner {
    /// Locked while a job is queued, too, so that both are in the same order.
    log: Mutex<Log>,
    compaction: Arc<Compaction>,
    /// The last field: dropped when all else is.
    _alive: mpsc::Sender<()>,
}

struct Log {
    image: Image,
    /// The committed index is not worth a sync of its own: it goes with the next record that is.
    committed_unwritten: bool,
    writer: Writer,
}

impl LogStore {
    /// Opens the log of a data folder.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        segment_bytes: usize,
        compaction: Arc<Compaction>,
        fatal: Fatal,
        alive: mpsc::Sender<()>,
    ) -> Result<LogStore, OpenError> {
        let mut image = Image::default();
        let journal = Journal::open(disk, segment_bytes, |frame| image.replay(frame))?;
        image.check().map_err(|what| OpenError::Missing { what })?;
        compaction.appended(image.bytes());
        let writer =
            Writer::spawn(journal, image.head, fatal).map_err(OpenError::io("start a thread for", "the log"))?;
        let log = Mutex::new(Log { image, committed_unwritten: false, writer });
        Ok(LogStore { inner: Arc::new(Inner { log, compaction, _alive: alive }) })
    }

    /// All up to here is in a snapshot, and no longer in the log.
    pub(super) fn purged(&self) -> Option<LogId> {
        self.lock().image.head.purged
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        // Nothing panics while it is locked; were it so, the image would still be as consistent as it was.
        self.inner.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Adds records to the image and queues them.
    fn write(&mut self, records: &[Record<'_>], done: Done) -> io::Result<()> {
        let Head { committed, .. } = self.image.head;
        let mut job = Job { records: Vec::new(), highest: None, vote: None, committed: None, purged: None, done };
        if let Some(committed) = committed.filter(|_| self.committed_unwritten) {
            Record::Committed(committed).encode_to(&mut job.records);
            job.committed = Some(committed);
            self.committed_unwritten = false;
        }
        for record in records {
            record.encode_to(&mut job.records);
            match record {
                Record::Entry { id, .. } => job.highest = Some(id.index),
                Record::Vote(vote) => job.vote = Some(*vote),
                Record::Purge(id) => job.purged = Some(*id),
                Record::Committed(_) | Record::Truncate(_) => {}
            }
            self.image.add(record).map_err(io::Error::other)?;
        }
        self.writer.queue(job)
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
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
        self.lock().image.read(start, end, usize::MAX).map_err(io::Error::other)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.lock().image.head.vote)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<LogEntry>> {
        self.lock().image.read(start, end, APPEND_BYTES_MAX).map_err(io::Error::other)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let log = self.lock();
        Ok(LogState { last_purged_log_id: log.image.head.purged, last_log_id: log.image.last() })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let (done, durable) = oneshot::channel();
        self.lock().write(&[Record::Vote(*vote)], Done::Waiter(done))?;
        durable.await.map_err(|_| io::Error::other("the journal stopped before the vote was durable"))?
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let mut log = self.lock();
        log.image.head.committed = committed;
        log.committed_unwritten = true;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.lock().image.head.committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut payloads = Vec::new();
        for entry in entries {
            payloads.push((entry.log_id(), postcard::to_stdvec(&entry.payload).map_err(io::Error::other)?));
        }
        let records: Vec<Record<'_>> =
            payloads.iter().map(|(id, payload)| Record::Entry { id: *id, payload }).collect();
        self.lock().write(&records, Done::Openraft(callback))?;
        self.inner.compaction.appended(payloads.iter().map(|(_, payload)| payload.len() as u64).sum());
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        // Nobody waits: what is acknowledged next is written after it, so that both are durable or neither.
        self.lock().write(&[Record::Truncate(last)], Done::Nobody)
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        self.lock().write(&[Record::Purge(upto)], Done::Nobody)
    }
}
