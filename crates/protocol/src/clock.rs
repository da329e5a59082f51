//! Logical clocks: Lamport clocks, stamps (time, id) and vector clocks.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// A Lamport clock with 64 bits and no bound: the bounded numbers of Ricart and Agrawala's paper (1981) are wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LamportClock(u64);

impl LamportClock {
    /// The time of the latest event.
    pub fn now(&self) -> u64 {
        self.0
    }

    /// A local event or a send: moves the clock on by 1 and returns the time of the event.
    pub fn tick(&mut self) -> u64 {
        self.0 = self.0.saturating_add(1);
        self.0
    }

    /// A message with this time has arrived: moves the clock up to `time`. That is enough for a protocol that uses only
    /// the times of its sends, because its next send is later.
    pub fn observe(&mut self, time: u64) {
        self.0 = self.0.max(time);
    }

    /// For [`Protocol::counters`](crate::Protocol::counters).
    pub fn time_mut(&mut self) -> &mut u64 {
        &mut self.0
    }

    /// A message with this time has arrived: moves the clock beyond both times.
    pub fn receive(&mut self, time: u64) -> u64 {
        self.0 = self.0.max(time);
        self.tick()
    }
}

/// A Lamport time and a process id: the total order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Compared first.
    pub time: u64,
    /// Breaks ties.
    pub process: ProcessId,
}

impl Stamp {
    /// Most processes in a group that uses stamps as fences: the id takes 16 bits.
    pub const PROCESSES_MAX: usize = 1 << 16;

    /// The pair as one integer in the same order: time x 65536 + process.
    pub fn fence(self) -> u64 {
        self.time.saturating_mul(Self::PROCESSES_MAX as u64).saturating_add(self.process as u64)
    }
}

/// A vector clock: for each process, the number of its events that are known here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VectorClock(Vec<u32>);

impl VectorClock {
    /// No event of the `n` processes is known.
    pub fn new(n: usize) -> Self {
        VectorClock(vec![0; n])
    }

    /// Counts an event of `process` and returns its number, from 1.
    pub fn tick(&mut self, process: ProcessId) -> u32 {
        self.0[process] += 1;
        self.0[process]
    }

    /// Adds the knowledge of `other`. Returns whether any of it was new.
    pub fn merge(&mut self, other: &VectorClock) -> bool {
        let mut changed = false;
        for (own, &got) in self.0.iter_mut().zip(&other.0) {
            changed |= got > *own;
            *own = got.max(*own);
        }
        changed
    }

    /// Number of known events of `process`.
    pub fn of(&self, process: ProcessId) -> u32 {
        self.0[process]
    }

    /// In the order of process ids.
    pub fn entries(&self) -> &[u32] {
        &self.0
    }

    /// Whether every event known here is known to `other` too: this event happened before that one, or is the same.
    pub fn within(&self, other: &VectorClock) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own <= other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_is_later_than_its_send_and_than_all_before_it() {
        let mut clock = LamportClock::default();
        assert_eq!((clock.tick(), clock.receive(5), clock.receive(2)), (1, 6, 7));
    }

    #[test]
    fn fences_compare_like_stamps() {
        let stamps = [(1, 0), (1, 65_535), (2, 0), (2, 3)].map(|(time, process)| Stamp { time, process });
        assert!(stamps.is_sorted());
        assert!(stamps.map(Stamp::fence).windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn concurrent_events_are_not_within_each_other() {
        let (mut a, mut b) = (VectorClock::new(2), VectorClock::new(2));
        a.tick(0);
        b.tick(1);
        assert!(!a.within(&b) && !b.within(&a));
        assert!(b.merge(&a) && !b.merge(&a));
        assert!(a.within(&b) && !b.within(&a));
        assert_eq!(b.entries(), [1, 1]);
    }
}
