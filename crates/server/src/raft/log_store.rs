//! openraft's log storage over the journal.
//!
//! `append` puts entries into the image in memory, hands them to the writer thread, and returns. openraft reads the
//! entries from the image (see [`super::log_reader`] for older ones), and goes on with votes, replication and answers
//! while the disk syncs. A callback tells openraft when the entries are durable. A vote, a truncation and a purge go
//! through the same queue, in order; a vote and a truncation return only when they are durable. A lone node syncs a small
//! append on the caller's thread if the writer is idle: see [`is_inline`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_runtime::Instant;
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::{LogState, OptionalSend};
use tokio::sync::mpsc;

use super::compaction::Compaction;
use super::edge;
use super::history::History;
use super::log::{Head, Image, Span};
use super::log_reader::{Evictor, LogReader};
use super::pace::Recent;
use super::retention::Retention;
use super::types::{LogEntry, LogId, TypeConfig, Vote};
use super::writer::{Acknowledgement, Backlog, Durable, FRAME_BYTES_MAX, Write, Writer};
use crate::format::record::{self, Record};
use crate::store::{Journal, OpenError, Store};

/// Limit of the bytes in one AppendEntries, unless a single entry is larger. Keeps the message below the limits of
/// transports.
pub(super) const APPEND_BYTES_MAX: usize = 1 << 20;

/// The most entries that are synced inline, see [`is_inline`]. Chosen by measurement. With 1, clients that compete for
/// one lock are a little slower than with no limit, and many independent clients gain less than with 4. With no limit,
/// many clients gain nothing.
const INLINE_ENTRIES_MAX: usize = 4;

/// If the last sync was shorter than this, a sync is inline for any number of entries: it is faster than the two thread
/// wake-ups of a hand-over. True for a disk in memory, or one with a battery-backed cache.
const INLINE_SYNC_MAX: Duration = Duration::from_micros(50);

/// The time that the logging thread gets to write the last line before the process ends.
const LAST_LINE_MAX: Duration = Duration::from_millis(200);

/// Ends the process, because data may no longer reach the disk or the state may be wrong. The argument is the reason,
/// as a sentence.
///
/// If the function returns (in tests), nothing more is written or acknowledged.
pub type Fatal = Arc<dyn Fn(&str) + Send + Sync>;

/// The exit status of a server that cannot go on.
const FAILED: i32 = 1;

/// The name in the log of what all parts of the node say through the two functions below.
const TARGET: &str = "baton_server::raft";

/// The function for production: logs the reason, and ends the process.
pub fn end_process() -> Fatal {
    Arc::new(|why| {
        tracing::error!(target: TARGET, "{why}");
        // Another thread may write the log line. Nothing is written to the journal or acknowledged meanwhile, because
        // the caller waits here.
        std::thread::sleep(LAST_LINE_MAX);
        std::process::exit(FAILED);
    })
}

/// Warns the operator of the server. The argument is a sentence.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The function for production: logs a warning.
pub fn complain() -> Warn {
    Arc::new(|what| tracing::warn!(target: TARGET, "{what}"))
}

pub struct LogStore {
    reader: LogReader,
    /// The head of the log after all writes in the queue.
    written: Head,
    compaction: Arc<Compaction>,
    retention: Arc<Retention>,
    durable: Durable,
    /// True if this node is the only member of its group, as far as it knows.
    alone: Arc<AtomicBool>,
    writer: Writer,
    fatal: Fatal,
    /// Must be the last field: `Node::shutdown` waits until it is dropped, after all other fields.
    _alive: mpsc::Sender<()>,
}

impl LogStore {
    /// Opens the log of a data folder. `snapshot` is the index of the last entry in the newest snapshot. `alone` may
    /// change at any time: it decides on which thread a write is synced, not whether it is synced.
    pub(super) fn open(
        store: &Store,
        segment_bytes: usize,
        snapshot: Option<u64>,
        (compaction, retention): (Arc<Compaction>, Arc<Retention>),
        alone: Arc<AtomicBool>,
        (fatal, warn): (Fatal, Warn),
        alive: mpsc::Sender<()>,
    ) -> Result<LogStore, OpenError> {
        let mut image = Image::default();
        let journal = Journal::open(store, segment_bytes, |frame| {
            let span = image.replay(frame)?;
            if image.bytes() > EVICT_BYTES {
                evict(&mut image, snapshot);
            }
            Ok(span.map(|span| span.marks))
        })?;
        image.check().map_err(|what| OpenError::Missing { what })?;
        evict(&mut image, snapshot);
        snapshot.into_iter().for_each(|upto| image.settle(upto));
        compaction.appended(image.bytes());
        if let Some(last) = image.last() {
            retention.appended(last.index, 0, Instant::now());
        }
        let (written, durable) = (image.head, Durable::new(image.last()));
        let reader = LogReader::new(image, journal.archive(), retention.clone(), (fatal.clone(), warn), alive.clone());
        let writer = Writer::start(journal, written, durable.clone(), fatal.clone(), alive.clone());
        let writer = writer.map_err(OpenError::io("start a thread for", "the log"))?;
        Ok(LogStore { reader, written, compaction, retention, durable, alone, writer, fatal, _alive: alive })
    }

    pub(super) fn history(&self) -> History {
        History::new(self.reader.clone())
    }

    pub(super) fn evictor(&self) -> Evictor {
        Evictor::new(self.reader.clone(), self.durable.clone())
    }

    /// How long syncs took lately.
    pub(super) fn syncs(&self) -> Arc<Recent> {
        self.writer.syncs()
    }

    /// How much waits for the disk.
    pub(super) fn backlog(&self) -> Backlog {
        self.writer.backlog()
    }

    /// True if the node belongs to no group yet: it has no log and has never voted.
    pub(super) fn is_empty(&self) -> bool {
        let image = self.reader.image();
        let Head { vote, purged, .. } = image.head;
        image.last().is_none() && purged.is_none() && vote.is_none_or(|vote| vote.term == 0)
    }

    pub(super) fn vote(&self) -> Option<record::Vote> {
        self.reader.image().head.vote
    }

    /// The id of the last purged entry. A snapshot covers all entries up to it.
    pub(super) fn purged(&self) -> Option<record::LogId> {
        self.reader.image().head.purged
    }

    /// Adds records to the image, and encodes them for the writer: as one write, or as several if they are large. Only
    /// the last write carries the acknowledgement for all.
    fn add(&mut self, records: &[Record<'_>], durable: Acknowledgement) -> io::Result<(Vec<Write>, Write)> {
        let mut image = self.reader.image();
        let mut before = Vec::new();
        let unacknowledged = || Acknowledgement::new(IOFlushed::Noop);
        let head = Head { committed: image.head.committed, ..self.written };
        let mut write = Write { records: Vec::new(), span: None, head, purged: None, durable: unacknowledged() };
        // The commit index is not worth a sync of its own, so it goes with the next record.
        if let Some(committed) = image.head.committed.filter(|_| image.head.committed != self.written.committed) {
            Record::Committed(committed).encode_to(&mut write.records);
        }
        for record in records {
            if let Err(what) = image.add(record) {
                drop(image);
                // Only openraft writes here, and only in order. So the image in memory is wrong and can no longer be
                // trusted.
                self.writer.stop();
                (self.fatal)(&format!("the log in memory is inconsistent: {what}; nothing more is written"));
                return Err(io::Error::other(what));
            }
            let start = write.records.len();
            record.encode_to(&mut write.records);
            if start > 0 && write.records.len() > FRAME_BYTES_MAX {
                let records = write.records.split_off(start);
                let rest = Write { records, span: None, head: image.head, purged: None, durable: unacknowledged() };
                before.push(std::mem::replace(&mut write, rest));
            }
            if let Record::Entry { id, .. } = record {
                write.span = Span::join(write.span, Some(Span::of(*id)));
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

    /// Adds a record, and returns when it is durable.
    async fn write(&mut self, record: Record<'_>) -> io::Result<()> {
        let (done, durable) = TypeConfig::oneshot();
        let (before, last) = self.add(&[record], Acknowledgement::new(IOFlushed::signal(done)))?;
        self.hand_over(before, last).await?;
        durable.await.map_err(io::Error::other)?
    }
}

/// Whether a lone node syncs an append on the caller's thread, instead of handing it to the writer.
///
/// A hand-over costs two thread wake-ups, which take longer than all other work on an entry. A single client would wait
/// for them, so an append of few entries is inline while the writer is idle. Many entries share the wake-ups, and
/// openraft accepts further requests during their sync. Appends that arrive while the writer syncs are handed over, and
/// go into one frame.
///
/// **A node with others never syncs inline.** The caller is Raft's core, which answers heartbeats and rounds, and a sync may
/// take longer than an election timeout.
fn is_inline(in_flight: usize, entries: usize, last_sync: Duration) -> bool {
    let is_small = entries <= INLINE_ENTRIES_MAX || last_sync < INLINE_SYNC_MAX;
    is_small && in_flight == 0
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
        self.write(Record::Vote((*vote).into())).await
    }

    /// Ends the node if the log lacks the entry, because Raft would apply what is not there. `peers/guard.rs` prevents this
    /// unless a leader contradicts itself.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let committed = committed.map(record::LogId::from);
        let mut image = self.reader.image();
        if let Some(id) = committed.filter(|id| !image.has(*id)) {
            drop(image);
            self.writer.stop();
            let why = format!(
                "the leader says that entry {} of term {} is committed, but it has sent another one",
                id.index, id.term
            );
            (self.fatal)(&why);
            return Err(io::Error::other(why));
        }
        image.head.committed = committed;
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
        let encoded = |entry: LogEntry| (entry.log_id().into(), edge::encoded(entry.payload));
        let payloads: Vec<(record::LogId, Arc<[u8]>)> = entries.into_iter().map(encoded).collect();
        let records: Vec<Record<'_>> =
            payloads.iter().map(|(id, payload)| Record::Entry { id: *id, payload }).collect();
        let (before, last) = self.add(&records, Acknowledgement::new(callback))?;
        let alone = self.alone.load(Ordering::Relaxed);
        let may_wait = || is_inline(self.writer.in_flight(), records.len(), self.writer.last_sync());
        if alone && before.is_empty() && may_wait() {
            self.writer.write_inline(last)?;
        } else {
            self.hand_over(before, last).await?;
        }
        let bytes = payloads.iter().map(|(_, payload)| payload.len() as u64).sum();
        self.compaction.appended(bytes);
        if let Some((last, _)) = payloads.last()
            && !alone
        {
            self.retention.appended(last.index, bytes, Instant::now());
        }
        Ok(())
    }

    /// Ends the node rather than remove a committed entry: see [`History`].
    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let (first, decided) = (last.map_or(0, |last| last.index.saturating_add(1)), self.reader.image().decided());
        if let Some(decided) = decided.filter(|decided| first <= *decided) {
            self.writer.stop();
            let why = format!(
                "entries {first} to {decided} are committed here, and another node replaces them: the data folder of a node was \
                 set back to an older copy; remove this node from the cluster, empty its folder, and add it again; what was \
                 acknowledged in the replaced entries is lost"
            );
            (self.fatal)(&why);
            return Err(io::Error::other(why));
        }
        self.write(Record::Truncate(last.map(record::LogId::from))).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let upto = record::LogId::from(upto);
        let purged = (upto.index, self.reader.image().purge(upto));
        // Returns before the record is durable, because Raft's core waits here, and a purge may be lost: the log then
        // begins earlier. The writer gives the files free only once the record is durable.
        let (before, last) = self.add(&[Record::Purge(upto)], Acknowledgement::new(IOFlushed::Noop))?;
        self.hand_over(before, Write { purged: Some(purged), ..last }).await
    }
}

/// While the log is read at the start, entries behind the snapshot leave the memory whenever they have this many bytes.
const EVICT_BYTES: u64 = 8 << 20;

/// Takes the entries of the snapshot out of the image of a log that is being read. All of them are on disk.
fn evict(image: &mut Image, snapshot: Option<u64>) {
    if let (Some(snapshot), Some(last)) = (snapshot, image.last()) {
        drop(image.evict(snapshot, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_entries_with_an_idle_writer_are_inline() {
        let (slow, fast) = (INLINE_SYNC_MAX, INLINE_SYNC_MAX - Duration::from_nanos(1));
        assert!(is_inline(0, 1, slow) && is_inline(0, INLINE_ENTRIES_MAX, slow));
        assert!(!is_inline(1, 1, fast), "the writer is at the disk");
        assert!(!is_inline(0, INLINE_ENTRIES_MAX + 1, slow), "many clients wait");
        assert!(is_inline(0, INLINE_ENTRIES_MAX + 1, fast), "a hand-over takes longer than the sync");
    }
}
