//! The thread that writes the log. A sync blocks, and openraft must go on with votes, replication and answers
//! meanwhile.
//!
//! When a sync ends, all queued writes go into the next frame, with one sync for all of them. The journal has the order
//! of the queue. A frame is written only after the frame before it is synced. If nothing is in flight, the caller may
//! write on its own thread, see [`Writer::write_inline`]; this saves two thread wake-ups.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_runtime::{Bell, Instant, Ringer, Thread, before_disk, bell, spawn, thread};
use openraft::storage::IOFlushed;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::cleaner::Cleaner;
use super::log::{Head, Purged, Span};
use super::log_store::Fatal;
use super::pace::Recent;
use super::types::TypeConfig;
use crate::format::record::LogId;
use crate::limiter::Limiter;
use crate::store::Journal;

/// Limit of a frame of the journal in bytes, unless a single record is larger.
pub(super) const FRAME_BYTES_MAX: usize = 1 << 20;

/// Limit of the queue in bytes. Raft's core waits when it is full: a disk that hangs must not fill the memory. It is high,
/// because Raft's core answers no heartbeats while it waits.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// What a write takes in memory beside its records.
const WRITE_BYTES: usize = size_of::<Queued>();

/// A longer sync is logged as a warning, because clients notice the delay.
const SLOW: Duration = Duration::from_millis(250);

/// Records for one frame. They are in the image in memory already.
pub(super) struct Write {
    /// The encoded records: at most [`FRAME_BYTES_MAX`] bytes, unless there is only one record.
    pub records: Vec<u8>,
    /// The entries in `records`.
    pub span: Option<Span>,
    /// The head of the log after these records.
    pub head: Head,
    /// The entries that these records purge, with the index of the last one.
    pub purged: Option<(u64, Purged)>,
    pub durable: Acknowledgement,
}

/// A write in the queue, and its part of the limit.
type Queued = (Write, OwnedSemaphorePermit);

/// Tells openraft that a write is durable. If it is dropped earlier, it tells openraft that the write failed.
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
        // `tell` leaves a no-op behind, which needs no error.
        if !matches!(callback, IOFlushed::Noop) {
            callback.io_completed(Err(stopped()));
        }
    }
}

/// Writes that are durable, and of which openraft has not been told.
type Waiting = Arc<Mutex<Vec<Acknowledgement>>>;

/// How much waits for the disk. Clones look at the same queue.
#[derive(Clone)]
pub(super) struct Backlog(Arc<Semaphore>);

impl Backlog {
    /// What the queued writes take in memory.
    pub fn bytes(&self) -> usize {
        QUEUED_BYTES_MAX - self.0.available_permits()
    }
}

/// The way of acknowledgements from the writer thread to openraft: see [`tell`].
struct DurableWrites {
    waiting: Waiting,
    ringer: Ringer,
}

impl DurableWrites {
    fn add(&self, durable: Vec<Acknowledgement>) {
        let is_first = {
            let mut waiting = lock(&self.waiting);
            let is_first = waiting.is_empty();
            waiting.extend(durable);
            is_first
        };
        // Without the task, because tokio's runtime ends.
        if is_first && self.ringer.ring().is_err() {
            tell_all(&self.waiting);
        }
    }
}

impl Drop for DurableWrites {
    /// The thread ends: whoever waits for its end may rely on the acknowledgements.
    fn drop(&mut self) {
        tell_all(&self.waiting);
    }
}

/// Tells openraft inside of tokio, because that wakes fewer threads: see [`bell`]. Ends with the writer thread.
async fn tell(mut bell: Bell, waiting: Waiting) {
    while bell.rings().await.unwrap_or(false) {
        tell_all(&waiting);
    }
}

/// The last acknowledgement goes first: it covers all earlier ones, so openraft wakes up once. Returns when all are told, by
/// whichever thread.
fn tell_all(waiting: &Waiting) {
    let mut waiting = lock(waiting);
    waiting.drain(..).rev().for_each(Acknowledgement::tell);
}

fn stopped() -> io::Error {
    io::Error::other("the log accepts no more writes, because a write or a sync failed")
}

/// The journal and its bookkeeping. Writing needs the lock.
struct Frames {
    /// None after a write or a sync failed: the content of the disk is then unknown.
    journal: Option<Journal>,
    /// The head as the journal has it.
    written: Head,
    cleaner: Cleaner,
    fatal: Fatal,
    last_sync_ns: Arc<AtomicU64>,
    syncs: Arc<Recent>,
    durable: Durable,
    limiter: Limiter,
}

/// The id of the last entry that was synced. It may have been truncated since. Clones share the same id.
#[derive(Clone, Default)]
pub(super) struct Durable(Arc<Mutex<Option<LogId>>>);

impl Durable {
    pub fn new(last: Option<LogId>) -> Durable {
        Durable(Arc::new(Mutex::new(last)))
    }

    pub fn last(&self) -> Option<LogId> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<LogId>> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Frames {
    /// Writes the records as one frame, and syncs it.
    fn sync(&mut self, records: &[u8], span: Option<Span>, after: Head) -> io::Result<()> {
        self.cleaner.check()?;
        let mut journal = self.journal.take().ok_or_else(stopped)?;
        let (before, began) = (self.written, Instant::now());
        let marks = span.map(|span| span.marks);
        let synced = journal.append(records, marks, || before.encode()).and_then(|()| self.cleaner.check());
        let took = began.elapsed();
        self.last_sync_ns.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.syncs.note(took);
        if took >= SLOW
            && let Some(quiet) = self.limiter.say("slow", Instant::now())
        {
            let (took_ms, bytes) = (took.as_millis() as u64, records.len());
            warn!(took_ms, bytes, more_since_the_last_such_line = quiet, "a sync of the log was slow");
        }
        match &synced {
            Ok(()) => {
                (self.journal, self.written) = (Some(journal), after);
                if let Some(Span { last, .. }) = span {
                    *self.durable.lock() = Some(last);
                }
            }
            Err(error) => {
                (self.fatal)(&format!("the log cannot be written ({error}); what is not yet acknowledged may be lost"))
            }
        }
        synced
    }

    /// Gives purged entries to the cleaner. The purge record must be durable before.
    fn release(&mut self, upto: u64, entries: Purged) -> io::Result<()> {
        let removal = self.journal.as_mut().ok_or_else(stopped)?.release(upto);
        self.cleaner.give(entries, removal)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: `sync` takes the journal out before it calls `fatal`, so no frame follows a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writer thread and its queue. Dropping this waits until the thread has written everything in the queue.
pub(super) struct Writer {
    frames: Arc<Mutex<Frames>>,
    /// Number of writes in the queue that are not durable yet.
    in_flight: Arc<AtomicUsize>,
    last_sync_ns: Arc<AtomicU64>,
    syncs: Arc<Recent>,
    queue: Option<UnboundedSender<Queued>>,
    room: Arc<Semaphore>,
    thread: Option<Thread>,
}

impl Writer {
    /// `written` is the head of the log as the journal has it. The writer keeps `durable` up to date. `alive` is dropped
    /// when nothing is written any more.
    pub fn start(
        journal: Journal,
        written: Head,
        durable: Durable,
        fatal: Fatal,
        alive: mpsc::Sender<()>,
    ) -> io::Result<Writer> {
        let cleaner = Cleaner::start(fatal.clone(), alive.clone())?;
        let last_sync_ns = Arc::new(AtomicU64::new(u64::MAX));
        let syncs = Arc::new(Recent::default());
        let (journal, last, noted) = (Some(journal), last_sync_ns.clone(), syncs.clone());
        let frames = Frames {
            journal,
            written,
            cleaner,
            fatal,
            last_sync_ns: last,
            syncs: noted,
            durable,
            limiter: Limiter::default(),
        };
        let frames = Arc::new(Mutex::new(frames));
        let in_flight = Arc::new(AtomicUsize::new(0));
        let (queue, queued) = unbounded_channel();
        let room = Arc::new(Semaphore::new(QUEUED_BYTES_MAX));
        let (theirs, count) = (frames.clone(), in_flight.clone());
        let (ringer, bell) = bell()?;
        let durable = DurableWrites { waiting: Arc::default(), ringer };
        drop(spawn(tell(bell, durable.waiting.clone())));
        let thread = thread("writer", async move {
            run(queued, &theirs, &count, &durable).await;
            drop(alive);
        })?;
        Ok(Writer { frames, in_flight, last_sync_ns, syncs, queue: Some(queue), room, thread: Some(thread) })
    }

    /// Number of writes in the queue that are not durable yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Duration of the last sync; [`u64::MAX`] nanoseconds if there was none yet.
    pub fn last_sync(&self) -> Duration {
        Duration::from_nanos(self.last_sync_ns.load(Ordering::Relaxed))
    }

    /// How long syncs took lately.
    pub fn syncs(&self) -> Arc<Recent> {
        self.syncs.clone()
    }

    /// How much waits for the disk.
    pub fn backlog(&self) -> Backlog {
        Backlog(self.room.clone())
    }

    /// Queues a write, behind all earlier ones. Waits only if the queue is full.
    pub async fn hand_over(&self, write: Write) -> io::Result<()> {
        let queue = self.queue.as_ref().expect("taken only in drop");
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        // A write that is larger than the limit waits until the queue is empty.
        let bytes = (write.records.len() + WRITE_BYTES).min(QUEUED_BYTES_MAX);
        let bytes = u32::try_from(bytes).expect("the limit fits");
        let room = self.room.clone().acquire_many_owned(bytes).await.map_err(|_| stopped())?;
        queue.send((write, room)).map_err(|_| stopped())
    }

    /// Writes and syncs on the caller's thread. Nothing must be in flight, or the order would break.
    pub fn write_inline(&self, write: Write) -> io::Result<()> {
        assert_eq!(self.in_flight(), 0, "an inline write must not overtake queued writes");
        let mut frames = lock(&self.frames);
        frames.sync(&write.records, write.span, write.head)?;
        drop(frames);
        write.durable.tell();
        Ok(())
    }

    /// Discards the journal: the writer writes nothing more, and drops the writes in its queue, which then report a
    /// failure to openraft.
    pub fn stop(&self) {
        lock(&self.frames).journal = None;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        self.thread.take().into_iter().for_each(Thread::join);
    }
}

/// The writer thread. It ends with the first failure. The queued writes are then dropped, which reports a failure to
/// openraft.
async fn run(
    mut queued: UnboundedReceiver<Queued>,
    frames: &Mutex<Frames>,
    in_flight: &AtomicUsize,
    told: &DurableWrites,
) {
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(first) => first,
            None => match queued.recv().await {
                Some(first) => first,
                None => return,
            },
        };
        let (Write { mut records, mut span, mut head, purged, durable }, mut room) = first;
        let (mut purged, mut durable) = (Vec::from_iter(purged), vec![durable]);
        while let Ok((write, its_room)) = queued.try_recv() {
            if records.len() + write.records.len() > FRAME_BYTES_MAX {
                next = Some((write, its_room));
                break;
            }
            room.merge(its_room);
            records.extend_from_slice(&write.records);
            (span, head) = (Span::join(span, write.span), write.head);
            purged.extend(write.purged);
            durable.push(write.durable);
        }
        before_disk().await;
        let mut frames = lock(frames);
        let synced = frames.sync(&records, span, head);
        let mut released = purged.into_iter().map(|(upto, entries)| frames.release(upto, entries));
        if synced.and_then(|()| released.try_for_each(|released| released)).is_err() {
            return;
        }
        drop(released);
        drop(frames);
        drop(room);
        // Decreased before openraft is told: if openraft then appends again, it finds nothing in flight.
        in_flight.fetch_sub(durable.len(), Ordering::SeqCst);
        told.add(durable);
    }
}
