//! Compares two moments of a run, up to counters that have grown. If both are equal, the steps between them can repeat
//! for ever.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::{Counter, Message, ProcessId, Protocol};

/// A group and its messages in flight. From every family of counters the smallest member is subtracted.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot<P: Protocol> {
    processes: Vec<P>,
    /// Sender, receiver and message, sorted.
    messages: Vec<(ProcessId, ProcessId, P::Message)>,
    timers: BTreeSet<(ProcessId, P::Timer)>,
    /// The waiting processes, and the processes in the critical section.
    phases: (BTreeSet<ProcessId>, BTreeSet<ProcessId>),
}

impl<P: Protocol> Snapshot<P> {
    pub fn new(
        processes: &[P],
        messages: Vec<(ProcessId, ProcessId, P::Message)>,
        timers: BTreeSet<(ProcessId, P::Timer)>,
        phases: (BTreeSet<ProcessId>, BTreeSet<ProcessId>),
    ) -> Self {
        let mut snapshot = Snapshot { processes: processes.to_vec(), messages, timers, phases };
        let mut floors: BTreeMap<Counter, u64> = BTreeMap::new();
        snapshot.visit(&mut |family, value| {
            let floor = floors.entry(family).or_insert(*value);
            *floor = (*floor).min(*value);
        });
        // No step depends on a fence.
        snapshot.visit(&mut |family, value| *value -= if family == Counter::Fence { *value } else { floors[&family] });
        snapshot.messages.sort();
        snapshot
    }

    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.processes.iter_mut().for_each(|process| process.counters(visit));
        self.messages.iter_mut().for_each(|(from, _, message)| message.counters(*from, visit));
    }
}
