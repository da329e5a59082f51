//! The failure detector of the simulator: it makes no mistakes, and tells what it sees some time after the fact.

use baton_protocol::{ProcessId, Ticks};
use rustc_hash::{FxHashMap, FxHashSet};

/// An observer and its peer.
type Pair = (ProcessId, ProcessId);

/// What every process has been told, or will be, of every other.
#[derive(Debug)]
pub struct Detector {
    /// How long after the fact a process is told; never if none.
    delay: Option<Ticks>,
    /// Who cannot be heard, as a matter of fact.
    unheard: FxHashSet<Pair>,
    /// Who is suspected, since the observer has been told.
    suspected: FxHashSet<Pair>,
    /// The news under way, by number; earlier news of the same pair is void.
    latest: FxHashMap<Pair, u64>,
    count: u64,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// How long after the fact.
    pub after: Ticks,
    /// Which it is.
    pub number: u64,
    /// The peer can be heard again before the observer was told that it could not: that it is back shows that it was
    /// gone, so the observer is told that at once.
    pub overtaken: bool,
}

impl Detector {
    /// Nobody is suspected yet.
    pub fn new(delay: Option<Ticks>) -> Self {
        let (unheard, suspected, latest) = Default::default();
        Detector { delay, unheard, suspected, latest, count: 0 }
    }

    /// Whether `observer` can hear `peer` now; returns what it is to be told, if anything.
    pub fn see(&mut self, observer: ProcessId, peer: ProcessId, heard: bool) -> Option<News> {
        let pair = (observer, peer);
        let changed = if heard { self.unheard.remove(&pair) } else { self.unheard.insert(pair) };
        let after = self.delay.filter(|_| changed)?;
        self.count += 1;
        self.latest.insert(pair, self.count);
        Some(News { after, number: self.count, overtaken: heard && !self.suspected.contains(&pair) })
    }

    /// `observer` is told to suspect `peer`, or to trust it, by news of this number, or at once if it has none. Returns
    /// whether it does so from now on.
    pub fn tell(&mut self, observer: ProcessId, peer: ProcessId, suspect: bool, number: Option<u64>) -> bool {
        let pair = (observer, peer);
        let void = number.is_some_and(|number| self.latest.get(&pair) != Some(&number));
        !void && if suspect { self.suspected.insert(pair) } else { self.suspected.remove(&pair) }
    }

    /// `observer` begins anew, and suspects nobody.
    pub fn forget(&mut self, observer: ProcessId) {
        self.unheard.retain(|(other, _)| *other != observer);
        self.suspected.retain(|(other, _)| *other != observer);
        self.latest.retain(|(other, _), _| *other != observer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overtaken_is_told_at_once_and_only_once() {
        let mut detector = Detector::new(Some(5));
        let gone = detector.see(0, 1, false).unwrap();
        assert_eq!((gone.after, gone.overtaken), (5, false));
        assert_eq!(detector.see(0, 1, false), None);
        let back = detector.see(0, 1, true).unwrap();
        assert!(back.overtaken);
        assert!(detector.tell(0, 1, true, None));
        assert!(!detector.tell(0, 1, true, Some(gone.number)));
        assert!(detector.tell(0, 1, false, Some(back.number)));
    }

    #[test]
    fn whoever_begins_anew_hears_nothing_of_before() {
        let mut detector = Detector::new(Some(5));
        let gone = detector.see(0, 1, false).unwrap();
        detector.forget(0);
        assert!(!detector.tell(0, 1, true, Some(gone.number)));
        assert!(detector.see(0, 1, false).is_some());
    }
}
