//! openraft's log storage over the journal.
//!
//! A write returns when it is durable, on the very thread that asked: another thread to write would cost two wake-ups, which
//! take longer here than all other work on an entry. What is proposed meanwhile waits with openraft, which hands it over
//! as one append: so it is synced together.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use tokio::sync::mpsc;

use super::cleaner::Cleaner;
use super::compaction::Compaction;
use super::log::{Head, Image};
use super::types::{LogEntry, LogId, TypeConfig, Vote};
use crate::format::record::{self, Payload, Record};
use crate::store::{Journal, OpenError, Store};

/// An AppendEntries carries no more bytes than this, unless a single entry does; so it stays below what a transport takes.
pub(super) const APPEND_BYTES_MAX: usize = 1 << 20;

/// A frame of the journal takes no more than this, unless a single record does.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Ends the process because its data can no longer be trusted to reach the disk; told why, in a sentence.
///
/// If it returns, nothing more is written or acknowledged.
pub type Fatal = Arc<dyn Fn(&str) + Send + Sync>;

/// The hook for production: says why, and aborts.
pub fn abort() -> Fatal {
    Arc::new(|why| {
        tracing::error!("{why}");
        std::process::abort();
    })
}

/// Says something that whoever runs the server should know, in a sentence.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The hook for production: a line of the log.
pub fn complain() -> Warn {
    Arc::new(|what| tracing::warn!("{what}"))
}

/// The log.
pub struct LogStore {
    reader: LogReader,
    /// None after a write or a sync failed: what is on disk is not known any more.
    journal: Option<Journal>,
    /// As the journal says it.
    written: Head,
    compaction: Arc<Compaction>,
    cleaner: Cleaner,
    fatal: Fatal,
    /// The last field: dropped when all else is.
    _alive: mpsc::Sender<()>,
}

impl LogStore {
    /// Opens the log of a data folder.
    pub(super) fn open(
        store: &Store,
        segment_bytes: usize,
        compaction: Arc<Compaction>,
        fatal: Fatal,
        alive: mpsc::Sender<()>,
    ) -> Result<LogStore, OpenError> {
        let mut image = Image::default();
        let journal = Journal::open(store, segment_bytes, |frame| image.replay(frame))?;
        image.check().map_err(|what| OpenError::Missing { what })?;
        compaction.appended(image.bytes());
        let written = image.head;
        let reader = LogReader(Arc::new(Mutex::new(image)));
        let cleaner = Cleaner::start(fatal.clone()).map_err(OpenError::io("start a thread for", "the log"))?;
        Ok(LogStore { reader, journal: Some(journal), written, compaction, cleaner, fatal, _alive: alive })
    }

    /// All up to here is in a snapshot, and no longer in the log.
    pub(super) fn purged(&self) -> Option<record::LogId> {
        self.reader.image().head.purged
    }

    /// Adds records to the log; they are durable when this returns.
    fn write(&mut self, records: &[Record<'_>]) -> io::Result<()> {
        self.cleaner.check()?;
        let mut frame = Vec::new();
        let mut highest = None;
        let Head { committed, .. } = self.reader.image().head;
        // Not worth a sync of its own: it goes with the next record that is.
        if let Some(committed) = committed.filter(|_| committed != self.written.committed) {
            Record::Committed(committed).encode_to(&mut frame);
        }
        for record in records {
            if frame.len() >= FRAME_BYTES_MAX {
                self.sync(&std::mem::take(&mut frame), highest)?;
            }
            record.encode_to(&mut frame);
            if let Record::Entry { id, .. } = record {
                highest = Some(id.index);
            }
            let added = self.reader.image().add(record);
            if let Err(what) = added {
                // Only openraft writes here, and only in order: what is in memory can no longer be trusted.
                self.journal = None;
                (self.fatal)(&format!("the log in memory is not as it should be: {what}; nothing more is written"));
                return Err(io::Error::other(what));
            }
        }
        self.sync(&frame, highest)
    }

    /// Writes a frame of records, of which the image has all and this is the highest index of an entry among them.
    fn sync(&mut self, frame: &[u8], highest: Option<u64>) -> io::Result<()> {
        let stopped = || io::Error::other("the journal takes no more, since a write or a sync failed");
        let mut journal = self.journal.take().ok_or_else(stopped)?;
        let (before, after) = (self.written, self.reader.image().head);
        let synced = journal.append(frame, highest, || before.encode()).and_then(|()| self.cleaner.check());
        match &synced {
            Ok(()) => (self.journal, self.written) = (Some(journal), after),
            Err(error) => {
                (self.fatal)(&format!("the log cannot be written ({error}); what is not yet acknowledged may be lost"))
            }
        }
        synced
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let image = self.reader.image();
        Ok(LogState {
            last_purged_log_id: image.head.purged.map(LogId::from),
            last_log_id: image.last().map(LogId::from),
        })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        self.reader.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.write(&[Record::Vote((*vote).into())])
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.reader.image().head.committed = committed.map(record::LogId::from);
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.reader.image().head.committed.map(LogId::from))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let encoded = |entry: LogEntry| (entry.log_id().into(), Payload::from(entry.payload).encode());
        let payloads: Vec<(record::LogId, Vec<u8>)> = entries.into_iter().map(encoded).collect();
        let records: Vec<Record<'_>> =
            payloads.iter().map(|(id, payload)| Record::Entry { id: *id, payload }).collect();
        self.write(&records)?;
        callback.io_completed(Ok(()));
        self.compaction.appended(payloads.iter().map(|(_, payload)| payload.len() as u64).sum());
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.write(&[Record::Truncate(last.map(record::LogId::from))])
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let upto = record::LogId::from(upto);
        let entries = self.reader.image().purge(upto);
        self.write(&[Record::Purge(upto)])?;
        // Only now, when it is durable that they are purged.
        let removal = self.journal.as_mut().map(|journal| journal.release(upto.index));
        removal.map_or(Ok(()), |removal| self.cleaner.give(entries, removal))
    }
}

/// Reads the log, from its image in memory.
#[derive(Clone)]
pub struct LogReader(Arc<Mutex<Image>>);

impl LogReader {
    fn image(&self) -> MutexGuard<'_, Image> {
        // Nothing panics while it is locked; were it so, the image would still be as consistent as it was.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        self.image().read(start, end, usize::MAX).map_err(io::Error::other)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.image().head.vote.map(Vote::from))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<LogEntry>> {
        self.image().read(start, end, APPEND_BYTES_MAX).map_err(io::Error::other)
    }
}
