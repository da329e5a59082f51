//! openraft's log storage over the journal.
//!
//! `append` puts entries into the image in memory, hands them to the writer's thread, and returns: openraft reads them from
//! the image, and goes on with votes, replication and answers while the disk syncs. The callback tells when they are durable.
//! A vote, a truncation and a purge go the same way, after all that was handed over before, and return when they are
//! durable. A small append is synced on the caller's thread if nothing else is to be done: see [`is_inline`].

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::{LogState, OptionalSend, RaftLogReader};
use tokio::sync::mpsc;

use super::compaction::Compaction;
use super::log::{Head, Image, Purged};
use super::types::{LogEntry, LogId, TypeConfig, Vote};
use super::writer::{Acknowledgement, FRAME_BYTES_MAX, Write, Writer};
use crate::format::record::{self, Payload, Record};
use crate::store::{Journal, OpenError, Store};

/// An AppendEntries carries no more bytes than this, unless a single entry does; so it stays below what a transport takes.
pub(super) const APPEND_BYTES_MAX: usize = 1 << 20;

/// So many entries are synced inline at most, see [`is_inline`]. As measured: with 1, clients that want the same lock are a little
/// slower than if all were inline, and many clients gain less; without a limit, many clients gain nothing.
const INLINE_ENTRIES_MAX: usize = 4;

/// A sync that is shorter than the wake-ups of a hand-over is inline, however many entries it is for: a memory disk, or one with a
/// battery.
const INLINE_SYNC_MAX: Duration = Duration::from_micros(50);

/// How long the last line of the log has to be written.
const LAST_LINE_MAX: Duration = Duration::from_millis(200);

/// Ends the process because its data can no longer be trusted to reach the disk; told why, in a sentence.
///
/// If it returns, nothing more is written or acknowledged.
pub type Fatal = Arc<dyn Fn(&str) + Send + Sync>;

/// The hook for production: says why, and aborts.
pub fn abort() -> Fatal {
    Arc::new(|why| {
        tracing::error!("{why}");
        // Another thread may write the line. Nothing is written or acknowledged meanwhile: whoever called this waits here.
        std::thread::sleep(LAST_LINE_MAX);
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
    /// The head of the log once all that was handed over is written.
    written: Head,
    compaction: Arc<Compaction>,
    /// Is this node the only voter of its group, as far as is known?
    alone: Arc<AtomicBool>,
    writer: Writer,
    fatal: Fatal,
    /// The last field: dropped when all else is.
    _alive: mpsc::Sender<()>,
}

impl LogStore {
    /// Opens the log of a data folder. `alone` may change at any time: it decides how soon a write is durable, not whether.
    pub(super) fn open(
        store: &Store,
        segment_bytes: usize,
        compaction: Arc<Compaction>,
        alone: Arc<AtomicBool>,
        fatal: Fatal,
        alive: mpsc::Sender<()>,
    ) -> Result<LogStore, OpenError> {
        let mut image = Image::default();
        let journal = Journal::open(store, segment_bytes, |frame| image.replay(frame))?;
        image.check().map_err(|what| OpenError::Missing { what })?;
        compaction.appended(image.bytes());
        let written = image.head;
        let reader = LogReader(Arc::new(Mutex::new(image)));
        let writer = Writer::start(journal, written, fatal.clone());
        let writer = writer.map_err(OpenError::io("start a thread for", "the log"))?;
        Ok(LogStore { reader, written, compaction, alone, writer, fatal, _alive: alive })
    }

    /// All up to here is in a snapshot, and no longer in the log.
    pub(super) fn purged(&self) -> Option<record::LogId> {
        self.reader.image().head.purged
    }

    /// Adds records to the image, and makes of them what is to be written: one write, or several if they are large, of which
    /// the last one acknowledges all.
    fn add(&mut self, records: &[Record<'_>], durable: Acknowledgement) -> io::Result<(Vec<Write>, Write)> {
        let mut image = self.reader.image();
        let mut before = Vec::new();
        let nobody = || Acknowledgement::new(IOFlushed::Noop);
        let head = Head { committed: image.head.committed, ..self.written };
        let mut write = Write { records: Vec::new(), highest: None, head, purged: None, durable: nobody() };
        // Not worth a sync of its own: it goes with the next record that is.
        if let Some(committed) = image.head.committed.filter(|_| image.head.committed != self.written.committed) {
            Record::Committed(committed).encode_to(&mut write.records);
        }
        for record in records {
            if let Err(what) = image.add(record) {
                drop(image);
                // Only openraft writes here, and only in order: what is in memory can no longer be trusted.
                self.writer.stop();
                (self.fatal)(&format!("the log in memory is not as it should be: {what}; nothing more is written"));
                return Err(io::Error::other(what));
            }
            let start = write.records.len();
            record.encode_to(&mut write.records);
            if start > 0 && write.records.len() > FRAME_BYTES_MAX {
                let records = write.records.split_off(start);
                let rest = Write { records, highest: None, head: image.head, purged: None, durable: nobody() };
                before.push(std::mem::replace(&mut write, rest));
            }
            if let Record::Entry { id, .. } = record {
                write.highest = Some(id.index);
            }
            write.head = image.head;
        }
        self.written = image.head;
        write.durable = durable;
        Ok((before, write))
    }

    async fn hand_over(&self, before: Vec<Write>, last: Write) -> io::Result<()> {
        for write in before.into_iter().chain([last]) {
            self.writer.hand_over(write).await?;
        }
        Ok(())
    }

    /// Adds a record, and returns when it is durable. `purged` is what it purges.
    async fn write(&mut self, record: Record<'_>, purged: Option<(u64, Purged)>) -> io::Result<()> {
        let (done, durable) = TypeConfig::oneshot();
        let (before, mut last) = self.add(&[record], Acknowledgement::new(IOFlushed::signal(done)))?;
        last.purged = purged;
        self.hand_over(before, last).await?;
        durable.await.map_err(io::Error::other)?
    }
}

/// Is an append synced on the thread that asks for it, rather than handed to the writer?
///
/// Handing over costs two wake-ups of a thread, which take longer than all other work on an entry. A lone client would wait for
/// them, so an append of few entries is inline while the writer has nothing to do. More entries share the wake-ups, and
/// openraft takes in further requests during their sync. Whatever comes while the writer is at the disk is handed over,
/// and is one frame. In a larger group the sync must not hold back replication, so nothing is inline there.
fn is_inline(alone: bool, in_flight: usize, entries: usize, last_sync: Duration) -> bool {
    alone && in_flight == 0 && (entries <= INLINE_ENTRIES_MAX || last_sync < INLINE_SYNC_MAX)
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
        self.write(Record::Vote((*vote).into()), None).await
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
        let (before, last) = self.add(&records, Acknowledgement::new(callback))?;
        let (alone, in_flight) = (self.alone.load(Ordering::Relaxed), self.writer.in_flight());
        if before.is_empty() && is_inline(alone, in_flight, records.len(), self.writer.last_sync()) {
            self.writer.write_inline(last)?;
        } else {
            self.hand_over(before, last).await?;
        }
        self.compaction.appended(payloads.iter().map(|(_, payload)| payload.len() as u64).sum());
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.write(Record::Truncate(last.map(record::LogId::from)), None).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let upto = record::LogId::from(upto);
        let entries = self.reader.image().purge(upto);
        self.write(Record::Purge(upto), Some((upto.index, entries))).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_entries_of_a_node_alone_with_an_idle_writer_are_inline() {
        let (slow, fast) = (INLINE_SYNC_MAX, INLINE_SYNC_MAX - Duration::from_nanos(1));
        assert!(is_inline(true, 0, 1, slow) && is_inline(true, 0, INLINE_ENTRIES_MAX, slow));
        assert!(!is_inline(false, 0, 1, fast), "others wait for replication");
        assert!(!is_inline(true, 1, 1, fast), "the writer is at the disk");
        assert!(!is_inline(true, 0, INLINE_ENTRIES_MAX + 1, slow), "many clients wait");
        assert!(is_inline(true, 0, INLINE_ENTRIES_MAX + 1, fast), "a hand-over takes longer than the sync");
    }
}
