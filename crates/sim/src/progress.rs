//! How far a run has come, for those who wait for it.

use std::fmt;
use std::sync::Arc;

/// How far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Done {
    /// This part of the work, from 0 to 1.
    Part(f64),
    /// So many events, of nobody knows how many.
    Events(u64),
}

/// Is told now and then how much of the work is done.
#[derive(Clone)]
pub struct Watch(pub Arc<dyn Fn(Done) + Send + Sync>);

impl Watch {
    /// For one of so many pieces of equal work, of which some are done.
    pub fn of_piece(&self, done: u64, pieces: u64) -> Watch {
        let whole = Arc::clone(&self.0);
        Watch(Arc::new(move |news| {
            let part = |part: f64| Done::Part((done as f64 + part) / pieces as f64);
            whole(match news {
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
