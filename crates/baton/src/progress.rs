//! The progress line of long commands: on standard error, only at a terminal, and only after the first second.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use baton_compare::{Caller, Cancelled};
use baton_sim::progress::{Done, Watch};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Failure;

/// Shows the progress of `work` as a bar. The command line never cancels the work: ^C ends the whole process.
pub fn watched<R>(what: &str, work: impl FnOnce(Caller) -> Result<R, Cancelled>) -> Result<R, Failure> {
    let bar = Progress::bar(what);
    let result = work(Caller { progress: &|part| bar.at(part), cancel: &AtomicBool::new(false) });
    bar.finish();
    result.map_err(Failure::bad_input)
}

/// A command that takes less time shows no line.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of steps of a bar.
const STEPS: f64 = 1_000.0;

#[derive(Clone)]
pub struct Progress {
    what: String,
    line: ProgressBar,
    since: Instant,
}

impl Progress {
    /// A bar, for work whose size is known.
    pub fn bar(what: impl Into<String>) -> Self {
        Self::new(what.into(), "{msg} [{bar:30}] {percent}%, {elapsed}")
    }

    /// A text without a bar, for work whose size is unknown.
    pub fn unbounded(what: impl Into<String>) -> Self {
        Self::new(what.into(), "{msg}, {elapsed}")
    }

    fn new(what: String, template: &str) -> Self {
        // indicatif draws on standard error, and only if it is a terminal.
        let line = ProgressBar::new(STEPS as u64);
        if let Ok(style) = ProgressStyle::with_template(template) {
            line.set_style(style);
        }
        Progress { what, line, since: Instant::now() }
    }

    /// Shows the part of the work that is done, from 0 to 1.
    pub fn at(&self, part: f64) {
        if self.since.elapsed() >= PATIENCE {
            self.line.set_message(self.what.clone());
            self.line.set_position((part.clamp(0.0, 1.0) * STEPS) as u64);
        }
    }

    /// Shows a text after the name of the work.
    pub fn tell(&self, state: impl FnOnce() -> String) {
        if self.since.elapsed() >= PATIENCE {
            self.line.set_message(format!("{}: {}", self.what, state()));
            self.line.tick();
        }
    }

    /// A callback with which a simulation reports its progress to this line.
    pub fn watch(&self) -> Watch {
        let progress = self.clone();
        let spinner = ProgressStyle::with_template("{spinner} {msg}, {elapsed}").ok();
        Watch(Arc::new(move |done| match done {
            Done::Part(part) => progress.at(part),
            // The total is unknown, so there is no bar.
            Done::Events(events) => {
                if let Some(style) = spinner.clone() {
                    progress.line.set_style(style);
                }
                progress.tell(|| format!("{events} events"));
            }
        }))
    }

    /// A reader that reports how much of `source`, which has `bytes` bytes, was read.
    pub fn reading<R: Read>(&self, source: R, bytes: u64) -> impl Read + use<R> {
        Reading { progress: self.clone(), source, read: 0, bytes }
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.line.finish_and_clear();
    }
}

struct Reading<R> {
    progress: Progress,
    source: R,
    read: u64,
    bytes: u64,
}

impl<R: Read> Read for Reading<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.read += read as u64;
        self.progress.at(self.read as f64 / self.bytes.max(1) as f64);
        Ok(read)
    }
}
