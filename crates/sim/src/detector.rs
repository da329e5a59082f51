//! The failure detectors of the simulator. They make no mistakes, and report what they see some time later.

use baton_protocol::{ProcessId, Ticks};
use rustc_hash::{FxHashMap, FxHashSet};

/// How long after a change the detector of a process reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The shortest delay.
    pub least: Ticks,
    /// Each report takes up to this much longer, at random. So detectors report at different times. 0: all at once.
    pub spread: Ticks,
}

impl Delays {
    pub fn longest(self) -> Ticks {
        self.least + self.spread
    }
}

/// The pairs of processes that cannot hear each other at the moment.
#[derive(Debug)]
pub struct Detector {
    /// None: no detector reports anything.
    delays: Option<Delays>,
    rng: fastrand::Rng,
    /// Pairs (observer, peer): the observer cannot hear the peer.
    unheard: FxHashSet<(ProcessId, ProcessId)>,
    /// When the latest report about a pair is due. Reports about a pair keep their order.
    due: FxHashMap<(ProcessId, ProcessId), Ticks>,
    /// With views: the source. It and a client watch each other, and no others.
    source: Option<ProcessId>,
}

impl Detector {
    /// At the start every process hears every other process.
    pub fn new(delays: Option<Delays>, seed: u64, source: Option<ProcessId>) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Detector { delays, rng, unheard: FxHashSet::default(), due: FxHashMap::default(), source }
    }

    /// Whether `observer` gets reports about `peer`.
    pub fn watches(&self, observer: ProcessId, peer: ProcessId) -> bool {
        self.source.is_none_or(|source| source == observer || source == peer)
    }

    /// Whether reports stand for the ends of leases.
    pub fn leases(&self) -> bool {
        self.source.is_some()
    }

    /// Records whether `observer` can hear `peer` now. If that is a change, returns when the observer learns of it.
    pub fn see(&mut self, now: Ticks, observer: ProcessId, peer: ProcessId, heard: bool) -> Option<Ticks> {
        let pair = (observer, peer);
        let is_new = if heard { self.unheard.remove(&pair) } else { self.unheard.insert(pair) };
        let Delays { mut least, spread } = self.delays.filter(|_| is_new)?;
        if self.source == Some(observer) && !heard {
            // A client that lives must learn first that its lease is over.
            least += spread + 1;
        }
        if spread == 0 {
            return Some(now + least);
        }
        let due = self.due.entry(pair).or_default();
        *due = (now + least + self.rng.u64(0..=spread)).max(*due);
        Some(*due)
    }

    /// `observer` starts anew: it takes all peers for live until a report says otherwise.
    pub fn forget(&mut self, observer: ProcessId) {
        self.unheard.retain(|(other, _)| *other != observer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_spread_but_those_about_a_pair_keep_their_order() {
        let mut detector = Detector::new(Some(Delays { least: 10, spread: 100 }), 7, None);
        let crash: Vec<Ticks> = (1..20).filter_map(|observer| detector.see(0, observer, 0, false)).collect();
        let back: Vec<Ticks> = (1..20).filter_map(|observer| detector.see(5, observer, 0, true)).collect();
        assert_eq!((crash.len(), back.len()), (19, 19));
        assert!(crash.iter().all(|due| (10..=110).contains(due)) && crash.iter().any(|due| *due != crash[0]));
        assert!(crash.iter().zip(&back).all(|(crash, back)| crash <= back && (15..=115).contains(back)));
        let mut at_once = Detector::new(Some(Delays { least: 10, spread: 0 }), 7, None);
        assert!((1..20).all(|observer| at_once.see(0, observer, 0, false) == Some(10)));
    }
}
