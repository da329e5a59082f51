//! How far a run has come, for a progress display.

use std::fmt;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Done {
    /// The completed part of the work, from 0 to 1.
    Part(f64),
    /// Events so far; the total is unknown.
    Events(u64),
}

/// Receives the progress of a run from time to time.
#[derive(Clone)]
pub struct Watch(pub Arc<dyn Fn(Done) + Send + Sync>);

impl Watch {
    /// The watch for one of `pieces` equal pieces of work, of which `done` are complete.
    pub fn of_piece(&self, done: u64, pieces: u64) -> Watch {
        let whole = Arc::clone(&self.0);
        Watch(Arc::new(move |progress| {
            let part = |part: f64| Done::Part((done as f64 + part) / pieces as f64);
            whole(match progress {
                Done::Events(_) if pieces > 1 => part(0.0),
                Done::Events(events) => Done::Events(events),
                Done::Part(of_piece) => part(of_piece),
            });
        }))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
