//! The one thread that writes to the journal. Whatever queued up while it wrote is written together and synced once.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use openraft::storage::IOFlushed;
use tokio::sync::oneshot;

use super::log::Head;
use super::types::{LogId, TypeConfig, Vote};
use crate::store::Journal;

/// A frame takes no more than this, unless a single job does.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Ends the process because its data can no longer be trusted to reach the disk; told why, in a sentence.
///
/// If it returns, nothing more is written or acknowledged.
pub type Fatal = Arc<dyn Fn(&str) + Send + Sync>;

/// The hook for production: says why, and aborts.
pub fn abort() -> Fatal {
    Arc::new(|why| {
        eprintln!("baton: {why}");
        std::process::abort();
    })
}

/// Records to be written, and who wants to know when they are durable.
pub(super) struct Job {
    pub records: Vec<u8>,
    /// The highest index of an entry among them.
    pub highest: Option<u64>,
    pub vote: Option<Vote>,
    pub committed: Option<LogId>,
    pub purged: Option<LogId>,
    pub done: Done,
}

/// Who wants to know.
pub(super) enum Done {
    Nobody,
    Openraft(IOFlushed<TypeConfig>),
    Waiter(oneshot::Sender<io::Result<()>>),
}

impl Done {
    fn tell(self, result: Result<(), &io::Error>) {
        let result = result.map_err(|e| io::Error::new(e.kind(), e.to_string()));
        match self {
            Done::Nobody => {}
            Done::Openraft(callback) => callback.io_completed(result),
            // Whoever waited may have been cancelled; then nobody is left to tell.
            Done::Waiter(sender) => drop(sender.send(result)),
        }
    }
}

/// The thread, from outside. Dropping it waits until all that was queued is written.
pub(super) struct Writer {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn spawn(journal: Journal, head: Head, fatal: Fatal) -> io::Result<Writer> {
        let (jobs, queue) = channel();
        let run = move || run(journal, head, &queue, &fatal);
        let thread = std::thread::Builder::new().name("baton-journal".to_owned()).spawn(run)?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Queues a job. Jobs are durable in the order in which they are queued.
    pub fn queue(&self, job: Job) -> io::Result<()> {
        let stopped = || io::Error::other("the journal takes no more, since a write or a sync failed");
        self.jobs.as_ref().ok_or_else(stopped)?.send(job).map_err(|_| stopped())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // The thread panics for a bug only, and has said so then.
            let _ = thread.join();
        }
    }
}

fn run(mut journal: Journal, mut head: Head, queue: &Receiver<Job>, fatal: &Fatal) {
    while let Ok(first) = queue.recv() {
        let mut records = first.records;
        let mut waiting = vec![first.done];
        let mut after = merged(head, first.vote, first.committed, first.purged);
        let mut highest = first.highest;
        while records.len() < FRAME_BYTES_MAX
            && let Ok(job) = queue.try_recv()
        {
            records.extend_from_slice(&job.records);
            waiting.push(job.done);
            after = merged(after, job.vote, job.committed, job.purged);
            highest = highest.max(job.highest);
        }
        let written = journal.append(&records, highest, || head.encode()).and_then(|()| match after.purged {
            // Only now, when it is durable that they are purged.
            Some(purged) if after.purged != head.purged => journal.release(purged.index),
            _ => Ok(()),
        });
        if let Err(error) = written {
            fatal(&format!("the log cannot be written ({error}); what is not yet acknowledged may be lost"));
            waiting.into_iter().for_each(|done| done.tell(Err(&error)));
            // All that is queued, and all that still will be, is dropped with the queue; nobody is told that it is durable.
            return;
        }
        head = after;
        waiting.into_iter().for_each(|done| done.tell(Ok(())));
    }
}

fn merged(head: Head, vote: Option<Vote>, committed: Option<LogId>, purged: Option<LogId>) -> Head {
    Head { vote: vote.or(head.vote), committed: committed.or(head.committed), purged: purged.or(head.purged) }
}
