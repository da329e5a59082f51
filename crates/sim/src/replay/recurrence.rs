//! Whether everything is as it was before, but for counters that have gone on: then what happened in between can happen again
//! and again.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::{Counter, Message, ProcessId, Protocol};

/// A whole group and what is on its way, with every family of counters lowered by its smallest member.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot<P: Protocol> {
    processes: Vec<P>,
    /// From whom, to whom, what; in a fixed order.
    messages: Vec<(ProcessId, ProcessId, P::Message)>,
    timers: BTreeSet<(ProcessId, P::Timer)>,
    /// Who waits, and who is inside.
    phases: (BTreeSet<ProcessId>, BTreeSet<ProcessId>),
}

impl<P: Protocol> Snapshot<P> {
    /// Of these.
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
