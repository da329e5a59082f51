//! The failure detector of the simulator: it makes no mistakes, and tells what it sees some time after the fact.

use baton_protocol::{ProcessId, Ticks};
use rustc_hash::FxHashSet;

/// Who can hear whom, as a matter of fact.
#[derive(Debug)]
pub struct Detector {
    /// How long after the fact a process is told; never if none.
    delay: Option<Ticks>,
    /// Observer and peer.
    unheard: FxHashSet<(ProcessId, ProcessId)>,
}

impl Detector {
    /// Everybody hears everybody.
    pub fn new(delay: Option<Ticks>) -> Self {
        Detector { delay, unheard: FxHashSet::default() }
    }

    /// Whether `observer` can hear `peer` now; returns after how long it is to be told, if that is news.
    pub fn see(&mut self, observer: ProcessId, peer: ProcessId, heard: bool) -> Option<Ticks> {
        let pair = (observer, peer);
        let news = if heard { self.unheard.remove(&pair) } else { self.unheard.insert(pair) };
        self.delay.filter(|_| news)
    }

    /// `observer` begins anew, and takes everybody for living until it is told otherwise.
    pub fn forget(&mut self, observer: ProcessId) {
        self.unheard.retain(|(other, _)| *other != observer);
    }
}
