//! The events to come, in order of time, and at equal times in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::clock::Micros;

/// The heap has only times and places, because events are large and a heap moves its items often.
pub(super) struct Agenda<X> {
    due: BinaryHeap<Reverse<(Micros, u64, usize)>>,
    events: Vec<Option<X>>,
    free: Vec<usize>,
    planned: u64,
}

impl<X> Default for Agenda<X> {
    fn default() -> Self {
        Agenda { due: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), planned: 0 }
    }
}

impl<X> Agenda<X> {
    pub fn plan(&mut self, at: Micros, event: X) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.planned += 1;
        self.due.push(Reverse((at, self.planned, place)));
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Micros> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    pub fn next(&mut self) -> Option<(Micros, X)> {
        let Reverse((at, _, place)) = self.due.pop()?;
        self.free.push(place);
        Some((at, self.events[place].take()?))
    }
}
