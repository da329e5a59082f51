//! How far a run has come, for those who wait for it.

use std::fmt;
use std::sync::Arc;

/// Is told now and then which part of the work is done, from 0 to 1.
#[derive(Clone)]
pub struct Watch(pub Arc<dyn Fn(f64) + Send + Sync>);

impl Watch {
    /// For one of so many pieces of equal work, of which some are done.
    pub fn of_piece(&self, done: u64, pieces: u64) -> Watch {
        let whole = Arc::clone(&self.0);
        Watch(Arc::new(move |part| whole((done as f64 + part) / pieces as f64)))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
