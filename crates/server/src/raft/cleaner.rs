//! Frees purged entries and removes their files on a separate thread: both take long for a million entries, and no
//! client should wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_runtime::{Thread, before_disk, thread};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::log::Purged;
use super::log_store::Fatal;
use crate::store::Removal;

/// The cleaning thread. Dropping this waits until the thread has finished all jobs.
pub(super) struct Cleaner {
    given: Option<UnboundedSender<(Purged, Removal)>>,
    thread: Option<Thread>,
    /// Set before `fatal` is called. From then on the writer must not acknowledge anything.
    failed: Arc<AtomicBool>,
}

impl Cleaner {
    /// `alive` is dropped when no file is removed any more.
    pub fn start(fatal: Fatal, alive: mpsc::Sender<()>) -> io::Result<Cleaner> {
        let (given, to_do) = mpsc::unbounded_channel();
        let failed = Arc::new(AtomicBool::new(false));
        let fails = failed.clone();
        let thread = thread("cleaner", async move {
            clean(to_do, &fails, &fatal).await;
            drop(alive);
        })?;
        Ok(Cleaner { given: Some(given), thread: Some(thread), failed })
    }

    /// Queues a job. Jobs run in order: if a later file were removed before an earlier one, the log would have a gap.
    pub fn give(&self, entries: Purged, removal: Removal) -> io::Result<()> {
        let given = self.given.as_ref().expect("taken only in drop");
        given.send((entries, removal)).map_err(|_| stopped())
    }

    /// Fails if a file could not be removed.
    pub fn check(&self) -> io::Result<()> {
        let has_ended = self.thread.as_ref().is_some_and(Thread::is_finished);
        if has_ended || self.failed.load(Ordering::SeqCst) { Err(stopped()) } else { Ok(()) }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the log accepts no more writes, because an old file of the log could not be removed")
}

async fn clean(mut to_do: UnboundedReceiver<(Purged, Removal)>, failed: &AtomicBool, fatal: &Fatal) {
    while let Some((entries, removal)) = to_do.recv().await {
        drop(entries);
        before_disk().await;
        if let Err(error) = removal.run() {
            failed.store(true, Ordering::SeqCst);
            fatal(&format!("a file of the log cannot be removed ({error}); nothing more is written"));
            return;
        }
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        drop(self.given.take());
        self.thread.take().into_iter().for_each(Thread::join);
    }
}
