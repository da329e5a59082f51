//! How far a long command has come: one line on standard error, on a terminal only, once it has taken a second.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_sim::progress::{Done, Watch};
use indicatif::{ProgressBar, ProgressStyle};

/// What takes less needs no line.
const PATIENCE: Duration = Duration::from_secs(1);

/// The finest step of a bar.
const STEPS: f64 = 1_000.0;

/// The line.
#[derive(Clone)]
pub struct Progress {
    what: String,
    line: ProgressBar,
    since: Instant,
}

impl Progress {
    /// A bar, for work of which the whole is known.
    pub fn bar(what: impl Into<String>) -> Self {
        Self::new(what.into(), "{msg} [{bar:30}] {percent}%, {elapsed}")
    }

    /// News, where nobody knows how much there is to do.
    pub fn news(what: impl Into<String>) -> Self {
        Self::new(what.into(), "{msg}, {elapsed}")
    }

    fn new(what: String, template: &str) -> Self {
        // Drawn on standard error, and only if that is a terminal.
        let line = ProgressBar::new(STEPS as u64);
        if let Ok(style) = ProgressStyle::with_template(template) {
            line.set_style(style);
        }
        Progress { what, line, since: Instant::now() }
    }

    /// This part is done, from 0 to 1.
    pub fn at(&self, part: f64) {
        if self.since.elapsed() >= PATIENCE {
            self.line.set_message(self.what.clone());
            self.line.set_position((part.clamp(0.0, 1.0) * STEPS) as u64);
        }
    }

    /// There is something to tell.
    pub fn tell(&self, news: impl FnOnce() -> String) {
        if self.since.elapsed() >= PATIENCE {
            self.line.set_message(format!("{}: {}", self.what, news()));
            self.line.tick();
        }
    }

    /// Has a simulation tell how far it is.
    pub fn watch(&self) -> Watch {
        let progress = self.clone();
        let spinner = ProgressStyle::with_template("{spinner} {msg}, {elapsed}").ok();
        Watch(Arc::new(move |done| match done {
            Done::Part(part) => progress.at(part),
            // There is no share to draw a bar of.
            Done::Events(events) => {
                if let Some(style) = spinner.clone() {
                    progress.line.set_style(style);
                }
                progress.tell(|| format!("{events} events"));
            }
        }))
    }

    /// Tells how much of a source of so many bytes has been read.
    pub fn reading<R: Read>(&self, source: R, bytes: u64) -> impl Read + use<R> {
        Reading { progress: self.clone(), source, read: 0, bytes }
    }

    /// Takes the line away.
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
