//! Frees purged entries and removes their files on a separate thread: both take long for a million entries, and no
//! client should wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use super::log::Purged;
use super::log_store::Fatal;
use crate::store::Removal;

/// The cleaning thread. Dropping this waits until the thread has finished all jobs.
pub(super) struct Cleaner {
    given: Option<Sender<(Purged, Removal)>>,
    thread: Option<JoinHandle<()>>,
    /// Set before `fatal` is called. From then on the writer must not acknowledge anything.
    failed: Arc<AtomicBool>,
}

impl Cleaner {
    pub fn start(fatal: Fatal) -> io::Result<Cleaner> {
        let (given, to_do) = mpsc::channel();
        let failed = Arc::new(AtomicBool::new(false));
        let fails = failed.clone();
        let thread = thread::Builder::new().name("cleaner".to_owned()).spawn(move || clean(&to_do, &fails, &fatal))?;
        Ok(Cleaner { given: Some(given), thread: Some(thread), failed })
    }

    /// Queues a job. Jobs run in order: if a later file were removed before an earlier one, the log would have a gap.
    pub fn give(&self, entries: Purged, removal: Removal) -> io::Result<()> {
        let given = self.given.as_ref().expect("taken only in drop");
        given.send((entries, removal)).map_err(|_| stopped())
    }

    /// Fails if a file could not be removed.
    pub fn check(&self) -> io::Result<()> {
        let has_ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        if has_ended || self.failed.load(Ordering::SeqCst) { Err(stopped()) } else { Ok(()) }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the log accepts no more writes, because an old file of the log could not be removed")
}

fn clean(to_do: &Receiver<(Purged, Removal)>, failed: &AtomicBool, fatal: &Fatal) {
    for (entries, removal) in to_do {
        drop(entries);
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
        // If the thread panicked, the panic hook has printed the reason.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
