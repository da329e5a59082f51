//! Judges failure detectors by their events.
//!
//! SAFETY is accuracy: no live process is suspected. A process that has recovered is excepted until its first message
//! has arrived. LIVENESS is completeness: every crashed process is suspected in the end.

use std::collections::BTreeSet;

use baton_protocol::ProcessId;
use baton_trace::Event;

/// Pairs are (observer, process).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicions {
    /// Number of all processes.
    processes: usize,
    down: BTreeSet<ProcessId>,
    suspected: BTreeSet<(ProcessId, ProcessId)>,
    /// The process has recovered, and the observer has not heard it since.
    unheard: BTreeSet<(ProcessId, ProcessId)>,
}

impl Suspicions {
    pub fn new(processes: usize) -> Self {
        let (down, suspected, unheard) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Suspicions { processes, down, suspected, unheard }
    }

    /// An event of `process`. Returns what is wrong, if anything.
    pub fn see(&mut self, process: ProcessId, event: &Event) -> Option<String> {
        match event {
            Event::Suspect { peer } => return self.suspect(process, *peer),
            Event::Trust { peer } => {
                self.suspected.remove(&(process, *peer));
            }
            Event::Deliver { from, .. } => self.hear(process, *from),
            Event::Crash => {
                self.down.insert(process);
                self.suspected.retain(|(observer, _)| *observer != process);
            }
            Event::Recover { .. } => {
                self.down.remove(&process);
                self.unheard.retain(|(observer, _)| *observer != process);
                self.unheard.extend((0..self.processes).map(|observer| (observer, process)));
            }
            _ => {}
        }
        None
    }

    /// A message of `process` has arrived at `observer`.
    pub fn hear(&mut self, observer: ProcessId, process: ProcessId) {
        self.unheard.remove(&(observer, process));
    }

    fn suspect(&mut self, observer: ProcessId, process: ProcessId) -> Option<String> {
        self.suspected.insert((observer, process));
        let lives = !self.down.contains(&process) && !self.unheard.contains(&(observer, process));
        lives.then(|| format!("P{observer} suspects P{process}, which is alive"))
    }

    pub fn suspects(&self, observer: ProcessId, process: ProcessId) -> bool {
        self.suspected.contains(&(observer, process))
    }

    /// A live process that does not suspect a crashed one.
    pub fn unnoticed(&self) -> Option<(ProcessId, ProcessId)> {
        let mut live = (0..self.processes).filter(|observer| !self.down.contains(observer));
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
        let mut suspicions = Suspicions::new(3);
        assert_eq!(suspicions.suspect(0, 1).as_deref(), Some("P0 suspects P1, which is alive"));
        suspicions.see(0, &Event::Trust { peer: 1 });
        suspicions.see(1, &Event::Crash);
        assert_eq!(suspicions.unnoticed(), Some((0, 1)));
        assert_eq!((suspicions.suspect(0, 1), suspicions.suspect(2, 1)), (None, None));
        assert_eq!(suspicions.unnoticed(), None);
        suspicions.see(1, &Event::Recover { memory: true });
        assert!(suspicions.suspects(0, 1), "until P0 hears it");
        suspicions.see(0, &Event::Trust { peer: 1 });
        assert_eq!(suspicions.suspect(0, 1), None, "its first message may be on its way");
        suspicions.hear(0, 1);
        assert!(suspicions.suspect(0, 1).is_some() && suspicions.suspect(2, 1).is_none());
    }

    #[test]
    fn a_crash_ends_the_suspicions_of_the_process() {
        let mut suspicions = Suspicions::new(2);
        suspicions.see(1, &Event::Crash);
        suspicions.suspect(0, 1);
        suspicions.see(0, &Event::Crash);
        assert!(!suspicions.suspects(0, 1));
        suspicions.see(0, &Event::Recover { memory: true });
        assert_eq!(suspicions.unnoticed(), Some((0, 1)));
    }
}
