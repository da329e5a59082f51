//! What the failure detectors have told: of every crash and every recovery, in order, and what was a mistake.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::ProcessId;

/// The failure detectors of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detectors {
    /// Crashes and recoveries of each process: with an odd number it is down.
    changes: BTreeMap<ProcessId, u32>,
    /// Of how many changes of a process an observer has been told: observer, process.
    told: BTreeMap<(ProcessId, ProcessId), u32>,
    /// Whom an observer was told to have crashed by mistake: observer, process.
    mistaken: BTreeSet<(ProcessId, ProcessId)>,
}

/// What a failure detector has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The process has crashed.
    Crash,
    /// The process has recovered.
    Recovery,
}

impl Detectors {
    /// `process` has crashed or recovered.
    pub fn change(&mut self, process: ProcessId) {
        *self.changes.entry(process).or_default() += 1;
    }

    /// The detector of `observer` begins anew: it suspects nobody, and will tell of those among `processes` that are down.
    pub fn begin_anew(&mut self, observer: ProcessId, processes: usize) {
        self.mistaken.retain(|(other, _)| *other != observer);
        for process in 0..processes {
            let changes = self.changes(process);
            self.told.insert((observer, process), changes - changes % 2);
        }
    }

    /// What the detector of `observer` has to tell next of `process`.
    pub fn news(&self, observer: ProcessId, process: ProcessId) -> Option<News> {
        let told = self.told(observer, process);
        let news = if told.is_multiple_of(2) { News::Crash } else { News::Recovery };
        (observer != process && told < self.changes(process)).then_some(news)
    }

    /// The detector of `observer` says that `process` has crashed; returns whether that is a mistake.
    pub fn suspect(&mut self, observer: ProcessId, process: ProcessId) -> bool {
        if self.news(observer, process) == Some(News::Crash) {
            self.tell(observer, process);
            self.mistaken.remove(&(observer, process));
            return false;
        }
        let mistaken = self.changes(process).is_multiple_of(2);
        if mistaken {
            self.mistaken.insert((observer, process));
        }
        mistaken
    }

    /// The detector of `observer` says that `process` is alive.
    pub fn trust(&mut self, observer: ProcessId, process: ProcessId) {
        if self.news(observer, process) == Some(News::Recovery) {
            self.tell(observer, process);
        } else {
            self.mistaken.remove(&(observer, process));
        }
    }

    /// Whether `observer` was told that `process` had crashed when it had not, and was not told otherwise since.
    pub fn is_mistaken(&self, observer: ProcessId, process: ProcessId) -> bool {
        self.mistaken.contains(&(observer, process))
    }

    /// Whether the last that `observer` was told of `process` is that it has crashed.
    pub fn suspects(&self, observer: ProcessId, process: ProcessId) -> bool {
        !self.told(observer, process).is_multiple_of(2) || self.is_mistaken(observer, process)
    }

    fn tell(&mut self, observer: ProcessId, process: ProcessId) {
        *self.told.entry((observer, process)).or_default() += 1;
    }

    fn told(&self, observer: ProcessId, process: ProcessId) -> u32 {
        self.told.get(&(observer, process)).copied().unwrap_or_default()
    }

    fn changes(&self, process: ProcessId) -> u32 {
        self.changes.get(&process).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_and_recoveries_are_told_in_order_and_the_rest_are_mistakes() {
        let mut detectors = Detectors::default();
        assert!(detectors.suspect(0, 1), "P1 lives");
        assert!(detectors.suspects(0, 1) && detectors.is_mistaken(0, 1));
        detectors.trust(0, 1);
        assert!(!detectors.suspects(0, 1));
        detectors.change(1);
        detectors.change(1);
        assert_eq!(detectors.news(0, 1), Some(News::Crash), "P0 has not been told of either");
        assert!(!detectors.suspect(0, 1));
        assert_eq!(detectors.news(0, 1), Some(News::Recovery));
        detectors.trust(0, 1);
        assert_eq!((detectors.news(0, 1), detectors.news(1, 1)), (None, None));
    }

    #[test]
    fn who_comes_back_suspects_nobody_and_is_told_of_those_that_are_down() {
        let mut detectors = Detectors::default();
        detectors.change(1);
        detectors.suspect(0, 1);
        detectors.suspect(0, 2);
        detectors.change(0);
        detectors.change(0);
        detectors.begin_anew(0, 3);
        assert!(!detectors.suspects(0, 1) && !detectors.suspects(0, 2));
        assert_eq!(detectors.news(0, 1), Some(News::Crash));
        assert_eq!(detectors.news(0, 2), None);
    }
}
