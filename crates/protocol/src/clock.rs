//! Logical clocks.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// A Lamport clock: 64 bits, never bounded (the bounded numbers of the 1981 paper are wrong).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LamportClock(u64);

impl LamportClock {
    /// The time of the latest event.
    pub fn now(&self) -> u64 {
        self.0
    }

    /// A local event or a send: the clock moves on by one; returns the event's time.
    pub fn tick(&mut self) -> u64 {
        self.0 = self.0.saturating_add(1);
        self.0
    }

    /// A message with this time has arrived: the clock is at least as far. Enough where only the times of sends are
    /// used, since the next of them is later.
    pub fn observe(&mut self, time: u64) {
        self.0 = self.0.max(time);
    }

    /// For [`Protocol::counters`](crate::Protocol::counters).
    pub fn time_mut(&mut self) -> &mut u64 {
        &mut self.0
    }

    /// A message with this time has arrived: the clock moves beyond both.
    pub fn receive(&mut self, time: u64) -> u64 {
        self.0 = self.0.max(time);
        self.tick()
    }
}

/// A Lamport time made unique by the process: the total order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Compared first.
    pub time: u64,
    /// Breaks ties.
    pub process: ProcessId,
}

impl Stamp {
    /// How many processes there may be where stamps serve as fences.
    pub const PROCESSES_MAX: usize = 1 << 16;

    /// The pair as one integer that compares the same way.
    pub fn fence(self) -> u64 {
        self.time.saturating_mul(Self::PROCESSES_MAX as u64).saturating_add(self.process as u64)
    }
}

/// A vector clock: per process, how many of its events are known here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VectorClock(Vec<u32>);

impl VectorClock {
    /// Nothing is known of any of `n` processes.
    pub fn new(n: usize) -> Self {
        VectorClock(vec![0; n])
    }

    /// An event of `process`; returns its number, from 1.
    pub fn tick(&mut self, process: ProcessId) -> u32 {
        self.0[process] += 1;
        self.0[process]
    }

    /// Takes in what `other` knows; returns whether anything was new.
    pub fn merge(&mut self, other: &VectorClock) -> bool {
        let mut changed = false;
        for (own, &got) in self.0.iter_mut().zip(&other.0) {
            changed |= got > *own;
            *own = got.max(*own);
        }
        changed
    }

    /// How many events of `process` are known.
    pub fn of(&self, process: ProcessId) -> u32 {
        self.0[process]
    }

    /// The entries, in order of process.
    pub fn entries(&self) -> &[u32] {
        &self.0
    }

    /// Whether everything known here is known there too: this event happened before that one, or is the same.
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
