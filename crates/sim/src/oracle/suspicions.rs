//! Judges failure detectors by their events.
//!
//! SAFETY is accuracy: no live process is suspected. A process that has recovered is excepted until its first message
//! has arrived. LIVENESS is completeness: every crashed process is suspected in the end.

use std::collections::BTreeSet;

use baton_protocol::ProcessId;

/// Pairs are (observer, process).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspicions {
    down: BTreeSet<ProcessId>,
    suspected: BTreeSet<(ProcessId, ProcessId)>,
    /// The process has recovered, and the observer has not heard it since.
    unheard: BTreeSet<(ProcessId, ProcessId)>,
}

impl Suspicions {
    pub fn crash(&mut self, process: ProcessId) {
        self.down.insert(process);
        self.suspected.retain(|(observer, _)| *observer != process);
    }

    /// `processes`: the number of all.
    pub fn recover(&mut self, process: ProcessId, processes: usize) {
        self.down.remove(&process);
        self.unheard.retain(|(observer, _)| *observer != process);
        self.unheard.extend((0..processes).map(|observer| (observer, process)));
    }

    /// A message of `process` has arrived at `observer`.
    pub fn hear(&mut self, observer: ProcessId, process: ProcessId) {
        self.unheard.remove(&(observer, process));
    }

    /// Returns the mistake, if it is one.
    pub fn suspect(&mut self, observer: ProcessId, process: ProcessId) -> Option<String> {
        self.suspected.insert((observer, process));
        let lives = !self.down.contains(&process) && !self.unheard.contains(&(observer, process));
        lives.then(|| format!("P{observer} suspects P{process}, which is alive"))
    }

    pub fn trust(&mut self, observer: ProcessId, process: ProcessId) {
        self.suspected.remove(&(observer, process));
    }

    pub fn suspects(&self, observer: ProcessId, process: ProcessId) -> bool {
        self.suspected.contains(&(observer, process))
    }

    /// A live process that does not suspect a crashed one. `processes`: the number of all.
    pub fn unnoticed(&self, processes: usize) -> Option<(ProcessId, ProcessId)> {
        let mut live = (0..processes).filter(|observer| !self.down.contains(observer));
        live.find_map(|observer| {
            let missed = self.down.iter().find(|&&process| !self.suspects(observer, process));
            missed.map(|&process| (observer, process))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_suspicion_of_a_live_process_that_could_be_heard_is_a_mistake() {
        let mut suspicions = Suspicions::default();
        assert_eq!(suspicions.suspect(0, 1).as_deref(), Some("P0 suspects P1, which is alive"));
        suspicions.trust(0, 1);
        suspicions.crash(1);
        assert_eq!(suspicions.unnoticed(3), Some((0, 1)));
        assert_eq!((suspicions.suspect(0, 1), suspicions.suspect(2, 1)), (None, None));
        assert_eq!(suspicions.unnoticed(3), None);
        suspicions.recover(1, 3);
        assert!(suspicions.suspects(0, 1), "until P0 hears it");
        suspicions.trust(0, 1);
        assert_eq!(suspicions.suspect(0, 1), None, "its first message may be on its way");
        suspicions.hear(0, 1);
        assert!(suspicions.suspect(0, 1).is_some() && suspicions.suspect(2, 1).is_none());
    }

    #[test]
    fn a_crash_ends_the_suspicions_of_the_process() {
        let mut suspicions = Suspicions::default();
        suspicions.crash(1);
        suspicions.suspect(0, 1);
        suspicions.crash(0);
        assert!(!suspicions.suspects(0, 1));
        suspicions.recover(0, 2);
        assert_eq!(suspicions.unnoticed(2), Some((0, 1)));
    }
}
