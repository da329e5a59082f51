//! The simulator's oracles, attached to a stage.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::append::Slot;
use baton_protocol::{ProcessId, Property};

use baton_trace::Event;

use crate::oracle::causality::{Causality, Past};
use crate::oracle::file::Files;
use crate::oracle::leaders::Leaders;
use crate::oracle::mutex::{MutexJudge, Violation};
use crate::oracle::suspicions::Suspicions;
use crate::stage::effect::record;

#[derive(Clone, Debug)]
pub struct Oracles {
    mutex: MutexJudge,
    /// Which requests happened before others. None in large groups.
    causality: Option<Causality>,
    /// For each message in flight: the causal past that it carries.
    pasts: BTreeMap<u64, Past>,
    leaders: Leaders,
    /// The leader that each process last reported.
    beliefs: BTreeMap<ProcessId, Option<ProcessId>>,
    /// None after a user has appended a record again: the oracle tells records apart by their content.
    files: Option<Files>,
    /// For each process that waits for the offset of its record: the number of the record.
    appends: BTreeMap<ProcessId, u64>,
    appended: BTreeSet<u64>,
    /// None unless the processes are failure detectors.
    suspicions: Option<Suspicions>,
}

impl Oracles {
    /// `detects`: whether the processes are failure detectors.
    pub fn new(processes: usize, clients: usize, detects: bool) -> Self {
        let watch_order = clients <= Causality::CLIENTS_MAX;
        Oracles {
            mutex: MutexJudge::new(clients, watch_order),
            causality: watch_order.then(|| Causality::new(processes, clients)),
            pasts: BTreeMap::new(),
            leaders: Leaders::default(),
            beliefs: BTreeMap::new(),
            files: Some(Files::default()),
            appends: BTreeMap::new(),
            appended: BTreeSet::new(),
            suspicions: detects.then(|| Suspicions::new(processes)),
        }
    }

    /// The causal past that a message carries.
    pub fn past(&self, message: u64) -> Option<&Past> {
        self.pasts.get(&message)
    }

    /// What the oracles remember, except of messages.
    pub fn without_messages(&self) -> Self {
        Oracles { pasts: BTreeMap::new(), ..self.clone() }
    }

    pub fn watches_order(&self) -> bool {
        self.causality.is_some()
    }

    /// See [`MutexJudge::shows`].
    pub fn shows(&self, property: Property, trusted: bool, told: bool) -> bool {
        let watched = property != Property::Order || self.watches_order();
        watched && self.mutex.shows(property, trusted, told)
    }

    pub fn leader(&self, process: ProcessId) -> Option<ProcessId> {
        self.beliefs.get(&process).copied().flatten()
    }

    /// Shows an event to all oracles. Returns the violations. A process has one request at a time, so the numbers of
    /// requests do not matter.
    pub fn see(&mut self, process: ProcessId, event: &Event) -> Vec<Violation> {
        let causality = self.causality.as_mut().filter(|_| matches!(event, Event::Request { .. }));
        let past = causality.map(|causality| causality.request(process));
        let mut found = self.mutex.see(process, event, past);
        let mistake = self.suspicions.as_mut().and_then(|suspicions| suspicions.see(process, event));
        found.extend(self.leaders.see(process, event).into_iter().chain(mistake).map(|detail| ("safety", detail)));
        match event {
            Event::Elected { leader, .. } => {
                self.beliefs.insert(process, *leader);
            }
            Event::Crash => {
                self.appends.remove(&process);
                self.beliefs.remove(&process);
            }
            _ => {}
        }
        found
    }

    pub fn send(&mut self, message: u64, from: ProcessId) {
        if let Some(causality) = &self.causality {
            self.pasts.insert(message, causality.of(from));
        }
    }

    pub fn copy(&mut self, message: u64, copy: u64) {
        let past = self.pasts.get(&message).cloned();
        self.pasts.extend(past.map(|past| (copy, past)));
    }

    pub fn receive(&mut self, message: u64, from: ProcessId, to: ProcessId) {
        self.suspicions.iter_mut().for_each(|suspicions| suspicions.hear(to, from));
        if let (Some(causality), Some(past)) = (&mut self.causality, self.pasts.get(&message)) {
            causality.receive(to, past);
        }
    }

    /// Called when a message is no longer in flight.
    pub fn forget(&mut self, message: u64) {
        self.pasts.remove(&message);
    }

    pub fn append(&mut self, process: ProcessId, number: u64) {
        self.appends.insert(process, number);
        if !self.appended.insert(number) {
            self.files = None;
        }
        if let Some(files) = &mut self.files {
            files.append(process, record(number));
        }
    }

    /// `files` are those of the live replicas. No message will arrive and no timer will fire.
    pub fn wrong_in_the_end(&self, files: &[(ProcessId, &[Slot])]) -> Option<String> {
        self.files.as_ref()?.judge(files, true)
    }

    /// `files` are those of the live replicas.
    pub fn appended(&mut self, process: ProcessId, offset: u64, files: &[(ProcessId, &[Slot])]) -> Vec<Violation> {
        let (Some(number), Some(judge)) = (self.appends.remove(&process), &mut self.files) else { return Vec::new() };
        judge.told(record(number), offset);
        judge.judge(files, false).map(|detail| ("safety", detail)).into_iter().collect()
    }

    /// None unless the processes are failure detectors.
    pub fn suspicions(&self) -> Option<&Suspicions> {
        self.suspicions.as_ref()
    }
}
