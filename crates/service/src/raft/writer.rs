//! The thread that writes the log: a sync blocks, and openraft must go on with votes, replication and answers meanwhile.
//!
//! Whatever is queued when a sync ends goes into the next frame, with one sync for all of it. The order of the queue is the
//! order of the journal, and a frame is begun only when the one before it is synced. A write for which the writer has
//! nothing else in flight may be done by the caller itself, see [`Writer::write_inline`]: then nobody waits for two
//! wake-ups of a thread.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use openraft::storage::IOFlushed;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::warn;

use super::cleaner::Cleaner;
use super::log::{Head, Purged};
use super::log_store::Fatal;
use super::types::TypeConfig;
use crate::store::Journal;

/// A frame of the journal takes no more than this, unless a single record does.
pub(super) const FRAME_BYTES_MAX: usize = 1 << 20;

/// So many writes may be queued. openraft waits before it hands over another one: a disk that hangs must not fill the memory.
const QUEUED_MAX: usize = 1024;

/// A sync that takes longer is worth a line: clients feel it.
const SLOW: Duration = Duration::from_millis(250);

/// Records that are in the image in memory already, and go into one frame.
pub(super) struct Write {
    /// The records, encoded: at most [`FRAME_BYTES_MAX`], unless there is a single one.
    pub records: Vec<u8>,
    /// The highest index of an entry among them.
    pub highest: Option<u64>,
    /// What the head of the log is after them.
    pub head: Head,
    /// What they purge, up to and with this index.
    pub purged: Option<(u64, Purged)>,
    pub durable: Acknowledgement,
}

/// Tells openraft that a write is durable. Dropped before that, it tells that the write failed.
pub(super) struct Acknowledgement(IOFlushed<TypeConfig>);

impl Acknowledgement {
    pub fn new(callback: IOFlushed<TypeConfig>) -> Acknowledgement {
        Acknowledgement(callback)
    }

    fn tell(mut self) {
        std::mem::replace(&mut self.0, IOFlushed::Noop).io_completed(Ok(()));
    }
}

impl Drop for Acknowledgement {
    fn drop(&mut self) {
        let callback = std::mem::replace(&mut self.0, IOFlushed::Noop);
        // Nearly always it has been told already, and an error would be made for nobody.
        if !matches!(callback, IOFlushed::Noop) {
            callback.io_completed(Err(stopped()));
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the journal takes no more, since a write or a sync failed")
}

/// The journal, and what is done with a frame of it. Whoever has locked it writes.
struct Frames {
    /// None after a write or a sync failed: what is on disk is not known any more.
    journal: Option<Journal>,
    /// As the journal says it.
    written: Head,
    cleaner: Cleaner,
    fatal: Fatal,
    /// How long the last sync took, in nanoseconds.
    last_sync_ns: Arc<AtomicU64>,
}

impl Frames {
    /// Writes these records as one frame, and syncs it.
    fn sync(&mut self, records: &[u8], highest: Option<u64>, after: Head) -> io::Result<()> {
        self.cleaner.check()?;
        let mut journal = self.journal.take().ok_or_else(stopped)?;
        let (before, began) = (self.written, Instant::now());
        let synced = journal.append(records, highest, || before.encode()).and_then(|()| self.cleaner.check());
        let took = began.elapsed();
        self.last_sync_ns.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if took >= SLOW {
            warn!(took_ms = took.as_millis() as u64, bytes = records.len(), "a sync of the log was slow");
        }
        match &synced {
            Ok(()) => (self.journal, self.written) = (Some(journal), after),
            Err(error) => {
                (self.fatal)(&format!("the log cannot be written ({error}); what is not yet acknowledged may be lost"))
            }
        }
        synced
    }

    /// Gives up what is purged. Only when it is durable that it is.
    fn release(&mut self, upto: u64, entries: Purged) -> io::Result<()> {
        let removal = self.journal.as_mut().ok_or_else(stopped)?.release(upto);
        self.cleaner.give(entries, removal)
    }
}

fn lock(frames: &Mutex<Frames>) -> MutexGuard<'_, Frames> {
    // If the hook for fatal errors panicked, the journal was taken out before.
    frames.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread and its queue. When this is dropped the thread does all that it was given, and ends; dropping waits for it.
pub(super) struct Writer {
    frames: Arc<Mutex<Frames>>,
    /// Writes that were handed over and are not durable yet.
    in_flight: Arc<AtomicUsize>,
    last_sync_ns: Arc<AtomicU64>,
    queue: Option<Sender<Write>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// `written` is the head of the log as the journal has it.
    pub fn start(journal: Journal, written: Head, fatal: Fatal) -> io::Result<Writer> {
        let cleaner = Cleaner::start(fatal.clone())?;
        let last_sync_ns = Arc::new(AtomicU64::new(u64::MAX));
        let frames = Frames { journal: Some(journal), written, cleaner, fatal, last_sync_ns: last_sync_ns.clone() };
        let frames = Arc::new(Mutex::new(frames));
        let in_flight = Arc::new(AtomicUsize::new(0));
        let (queue, queued) = channel(QUEUED_MAX);
        let (theirs, count) = (frames.clone(), in_flight.clone());
        let thread = thread::Builder::new().name("writer".to_owned()).spawn(move || run(queued, &theirs, &count))?;
        Ok(Writer { frames, in_flight, last_sync_ns, queue: Some(queue), thread: Some(thread) })
    }

    /// Writes that were handed over and are not durable yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// How long the last sync took; very long if there was none yet.
    pub fn last_sync(&self) -> Duration {
        Duration::from_nanos(self.last_sync_ns.load(Ordering::Relaxed))
    }

    /// Hands this over, to be written after all that was handed over before. Waits only if very much is queued.
    pub async fn hand_over(&self, write: Write) -> io::Result<()> {
        let queue = self.queue.as_ref().expect("it is taken only when this is dropped");
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        queue.send(write).await.map_err(|_| stopped())
    }

    /// Writes and syncs this on the caller's thread. Nothing must be in flight.
    pub fn write_inline(&self, write: Write) -> io::Result<()> {
        assert_eq!(self.in_flight(), 0, "writes keep their order");
        let mut frames = lock(&self.frames);
        frames.sync(&write.records, write.highest, write.head)?;
        drop(frames);
        write.durable.tell();
        Ok(())
    }

    /// Writes nothing more, not even what is queued.
    pub fn stop(&self) {
        lock(&self.frames).journal = None;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        // If it panicked, it has said why.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The writer's thread. It ends with the first failure: whatever is queued is dropped then, and tells that it failed.
fn run(mut queued: Receiver<Write>, frames: &Mutex<Frames>, in_flight: &AtomicUsize) {
    let mut next = None;
    while let Some(first) = next.take().or_else(|| queued.blocking_recv()) {
        let Write { mut records, mut highest, mut head, purged, durable } = first;
        let (mut purged, mut durable) = (Vec::from_iter(purged), vec![durable]);
        while let Ok(write) = queued.try_recv() {
            if records.len() + write.records.len() > FRAME_BYTES_MAX {
                next = Some(write);
                break;
            }
            records.extend_from_slice(&write.records);
            (highest, head) = (highest.max(write.highest), write.head);
            purged.extend(write.purged);
            durable.push(write.durable);
        }
        let mut frames = lock(frames);
        let synced = frames.sync(&records, highest, head);
        let mut released = purged.into_iter().map(|(upto, entries)| frames.release(upto, entries));
        if synced.and_then(|()| released.try_for_each(|released| released)).is_err() {
            return;
        }
        drop(released);
        drop(frames);
        // Before anybody is told: whoever hears of it and writes again finds that nothing is in flight.
        in_flight.fetch_sub(durable.len(), Ordering::SeqCst);
        // The last one first: it tells openraft of all before it, which is then woken once.
        durable.into_iter().rev().for_each(Acknowledgement::tell);
    }
}
