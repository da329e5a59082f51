//! The watchdog's reports, which never make it wait: a client that does not read must not stop the clock of a lease.
//!
//! What does not fit into the pipe waits here, in order, and no more than three reports do: the start, the latest stop and the
//! end of the command. A newer stop replaces an older one that still waits: the client cares for how things are now.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use super::channel::{WatchdogReport, line};

/// Reports on their way.
pub struct Reports {
    /// Its writes never block. A line is shorter than PIPE_BUF, so that it is written whole or not at all.
    pipe: File,
    waiting: Vec<WatchdogReport>,
}

impl Reports {
    /// Through this pipe, which must not block.
    pub fn new(pipe: File) -> Self {
        Reports { pipe, waiting: Vec::new() }
    }

    /// Sends one, now or later.
    pub fn push(&mut self, report: WatchdogReport) {
        if matches!(report, WatchdogReport::Stopped { .. }) {
            self.waiting.retain(|waiting| !matches!(waiting, WatchdogReport::Stopped { .. }));
        }
        self.waiting.push(report);
        self.flush();
    }

    /// Sends what waits, as far as there is room.
    pub fn flush(&mut self) {
        while let Some(first) = self.waiting.first() {
            match line(first).and_then(|line| self.pipe.write(&line)) {
                Ok(_) => drop(self.waiting.remove(0)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The client is gone, and nobody needs to know.
                Err(_) => self.waiting.clear(),
            }
        }
    }

    /// Whether something waits for room in the pipe.
    pub fn wait(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
