//! What is purged is given up on a thread of its own: to free the memory of a million entries and to remove their files takes
//! long, and nobody has to wait for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use super::log::Purged;
use super::log_store::Fatal;
use crate::store::Removal;

/// The thread. It ends when this is dropped, which waits until it has done all that it was given.
pub(super) struct Cleaner {
    given: Option<Sender<(Purged, Removal)>>,
    thread: Option<JoinHandle<()>>,
    /// Set before anybody is told why: from then on nothing may be acknowledged.
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

    /// Gives these up, after all that was given before: were a later file gone and an earlier one not, there would be a gap.
    pub fn give(&self, entries: Purged, removal: Removal) -> io::Result<()> {
        let given = self.given.as_ref().expect("it is taken only when this is dropped");
        given.send((entries, removal)).map_err(|_| stopped())
    }

    /// An error if a file could not be removed.
    pub fn check(&self) -> io::Result<()> {
        let has_ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        if has_ended || self.failed.load(Ordering::SeqCst) { Err(stopped()) } else { Ok(()) }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the log takes no more, since the removal of its files has ended")
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
        // If it panicked, it has said why.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
