//! The failure detectors of a group: which crashes and recoveries each detector has reported, in order, and which of
//! its reports were mistakes.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::ProcessId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detectors {
    /// Number of crashes and recoveries of each process. If the number is odd, the process is down.
    changes: BTreeMap<ProcessId, u32>,
    /// Number of changes of a process that the detector of an observer has reported. Key: observer, process.
    told: BTreeMap<(ProcessId, ProcessId), u32>,
    /// Pairs (observer, process) in which the detector of the observer has wrongly reported the process as crashed.
    mistaken: BTreeSet<(ProcessId, ProcessId)>,
}

/// A change of a process that a failure detector reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Crash,
    Recovery,
}

impl Detectors {
    /// Records that `process` has crashed or recovered.
    pub fn change(&mut self, process: ProcessId) {
        *self.changes.entry(process).or_default() += 1;
    }

    /// Restarts the detector of `observer`. It suspects no process, and will report every process that is down.
    pub fn begin_anew(&mut self, observer: ProcessId, processes: usize) {
        self.mistaken.retain(|(other, _)| *other != observer);
        for process in 0..processes {
            let changes = self.changes(process);
            self.told.insert((observer, process), changes - changes % 2);
        }
    }

    /// The change of `process` that the detector of `observer` reports next.
    pub fn next_report(&self, observer: ProcessId, process: ProcessId) -> Option<Change> {
        let told = self.told(observer, process);
        let change = if told.is_multiple_of(2) { Change::Crash } else { Change::Recovery };
        (observer != process && told < self.changes(process)).then_some(change)
    }

    /// The detector of `observer` reports that `process` has crashed. Returns whether the report is a mistake.
    pub fn suspect(&mut self, observer: ProcessId, process: ProcessId) -> bool {
        if self.next_report(observer, process) == Some(Change::Crash) {
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

    /// The detector of `observer` reports that `process` is alive.
    pub fn trust(&mut self, observer: ProcessId, process: ProcessId) {
        if self.next_report(observer, process) == Some(Change::Recovery) {
            self.tell(observer, process);
        } else {
            self.mistaken.remove(&(observer, process));
        }
    }

    /// Whether the detector of `observer` has wrongly reported a crash of `process`, and has not corrected the report
    /// yet.
    pub fn is_mistaken(&self, observer: ProcessId, process: ProcessId) -> bool {
        self.mistaken.contains(&(observer, process))
    }

    /// Whether the last report on `process` to `observer` was a crash.
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
        assert_eq!(detectors.next_report(0, 1), Some(Change::Crash), "P0 has not been told of either");
        assert!(!detectors.suspect(0, 1));
        assert_eq!(detectors.next_report(0, 1), Some(Change::Recovery));
        detectors.trust(0, 1);
        assert_eq!((detectors.next_report(0, 1), detectors.next_report(1, 1)), (None, None));
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
        assert_eq!(detectors.next_report(0, 1), Some(Change::Crash));
        assert_eq!(detectors.next_report(0, 2), None);
    }
}
