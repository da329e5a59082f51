//! Sends the watchdog's reports without blocking: the watchdog must follow the lease even if `baton lock` does not
//! read.
//!
//! Reports that do not fit into the pipe wait here, in order. At most four wait: the start, the latest stop, what was
//! left behind and the end of the command. A newer stop replaces an older one that still waits, because only the latest state matters.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use super::channel::{WatchdogReport, line};

pub struct Reports {
    /// Writes never block. A line is shorter than PIPE_BUF, so it is written completely or not at all.
    pipe: File,
    waiting: Vec<WatchdogReport>,
}

impl Reports {
    /// The pipe must not block.
    pub fn new(pipe: File) -> Self {
        Reports { pipe, waiting: Vec::new() }
    }

    /// Sends the report now, or later if the pipe is full.
    pub fn push(&mut self, report: WatchdogReport) {
        if matches!(report, WatchdogReport::Stopped { .. }) {
            self.waiting.retain(|waiting| !matches!(waiting, WatchdogReport::Stopped { .. }));
        }
        self.waiting.push(report);
        self.flush();
    }

    /// Sends waiting reports until the pipe is full.
    pub fn flush(&mut self) {
        while let Some(first) = self.waiting.first() {
            match line(first).and_then(|line| self.pipe.write(&line)) {
                Ok(_) => drop(self.waiting.remove(0)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // `baton lock` is gone, so no process needs the reports.
                Err(_) => self.waiting.clear(),
            }
        }
    }

    /// Whether a report waits for space in the pipe.
    pub fn wait(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
