//! What a replay is judged by: the oracles of the simulator, fed from the trace.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::ProcessId;
use baton_trace::Event;

use crate::oracle::causality::{Causality, Past};
use crate::oracle::leaders::Leaders;
use crate::oracle::mutex::{MutexJudge, Violation};

/// The oracles, fed from the trace.
pub struct Judge {
    mutex: MutexJudge,
    /// Which requests happened before others, if they are not too many to tell.
    pub causality: Option<Causality>,
    pasts: BTreeMap<u64, Past>,
    leaders: Leaders,
    /// Who is inside.
    pub inside: BTreeSet<ProcessId>,
    /// Who has been, since the cycle began.
    pub entered: BTreeSet<ProcessId>,
    /// Whom each believes to lead, if it has said so.
    pub beliefs: BTreeMap<ProcessId, Option<ProcessId>>,
    /// How many times somebody entered.
    pub entries: u64,
    /// What is wrong.
    pub violations: Vec<Violation>,
}

impl Judge {
    /// Nobody has asked for anything yet.
    pub fn new(processes: usize, clients: usize) -> Self {
        let watch_order = clients <= Causality::CLIENTS_MAX;
        Judge {
            mutex: MutexJudge::new(clients, watch_order),
            causality: watch_order.then(|| Causality::new(processes, clients)),
            pasts: BTreeMap::new(),
            leaders: Leaders::default(),
            inside: BTreeSet::new(),
            entered: BTreeSet::new(),
            beliefs: BTreeMap::new(),
            entries: 0,
            violations: Vec::new(),
        }
    }

    /// A user asks for something.
    pub fn command(&mut self, process: ProcessId, event: &Event) {
        match event {
            Event::Request { .. } => {
                let past = self.causality.as_mut().map(|causality| causality.request(process));
                self.mutex.request(process, past);
            }
            _ => {
                self.inside.remove(&process);
                self.mutex.leave(process);
            }
        }
    }

    /// Who waits, and who is inside.
    pub fn phases(&self) -> (BTreeSet<ProcessId>, BTreeSet<ProcessId>) {
        (self.mutex.who_waits().collect(), self.inside.clone())
    }

    /// A message is sent.
    pub fn send(&mut self, process: ProcessId, msg: u64) {
        if let Some(causality) = &self.causality {
            self.pasts.insert(msg, causality.of(process));
        }
    }

    /// A message arrives.
    pub fn receive(&mut self, process: ProcessId, msg: u64) {
        if let (Some(causality), Some(past)) = (&mut self.causality, self.pasts.get(&msg)) {
            causality.receive(process, past);
        }
    }

    /// Whether this grant is to one that has not asked: a violation, and no entry.
    pub fn unasked(&mut self, process: ProcessId, fence: u64) -> bool {
        let unasked = !self.mutex.is_waiting(process);
        if unasked {
            self.violations.extend(self.mutex.grant(process, fence));
        }
        unasked
    }

    /// A process tells its user something.
    pub fn event(&mut self, process: ProcessId, event: &Event) {
        match event {
            Event::Enter { fence, .. } => {
                self.entries += 1;
                self.inside.insert(process);
                self.entered.insert(process);
                self.violations.extend(self.mutex.grant(process, *fence));
            }
            Event::Elected { leader, term } => {
                self.beliefs.insert(process, *leader);
                let found = self.leaders.believes(process, *leader, *term);
                self.violations.extend(found.map(|detail| ("safety", detail)));
            }
            _ => {}
        }
    }

    /// A process crashes.
    pub fn crash(&mut self, process: ProcessId) {
        self.mutex.crash(process);
        self.inside.remove(&process);
        self.leaders.gone(process);
    }
}
