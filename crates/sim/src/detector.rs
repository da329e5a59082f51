//! The failure detector of the simulator. It makes no mistakes, and reports what it sees some time later.

use baton_protocol::{ProcessId, Ticks};
use rustc_hash::FxHashSet;

/// The pairs of processes that cannot hear each other at the moment.
#[derive(Debug)]
pub struct Detector {
    /// How long after a change a process learns of it. None: never.
    delay: Option<Ticks>,
    /// Pairs (observer, peer): the observer cannot hear the peer.
    unheard: FxHashSet<(ProcessId, ProcessId)>,
}

impl Detector {
    /// At the start every process hears every other process.
    pub fn new(delay: Option<Ticks>) -> Self {
        Detector { delay, unheard: FxHashSet::default() }
    }

    /// Records whether `observer` can hear `peer` now. If that is a change, returns the delay after which the observer
    /// learns of it.
    pub fn see(&mut self, observer: ProcessId, peer: ProcessId, heard: bool) -> Option<Ticks> {
        let pair = (observer, peer);
        let is_new = if heard { self.unheard.remove(&pair) } else { self.unheard.insert(pair) };
        self.delay.filter(|_| is_new)
    }

    /// `observer` starts anew: it takes all peers for live until a report says otherwise.
    pub fn forget(&mut self, observer: ProcessId) {
        self.unheard.retain(|(other, _)| *other != observer);
    }
}
