//! The queue of events, in order of time.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use baton_protocol::Ticks;

/// The order of events at equal times: faults, deliveries, timers, exits, new requests. Deliveries come before timers:
/// a timer that fires before a delivery at exactly its deadline would break bully even on a perfect network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A crash, a recovery, a pause or a partition.
    Fault,
    Delivery,
    Timer,
    /// A process leaves the critical section.
    Exit,
    /// A process requests.
    Request,
}

/// A queue sorted by (time, class, order of insertion).
#[derive(Debug)]
pub struct Queue<X> {
    /// Deliveries that were inserted in ascending order. With constant delays these are all deliveries, and a FIFO
    /// queue costs a fraction of a heap.
    lane: VecDeque<Entry<X>>,
    heap: BinaryHeap<Entry<X>>,
    inserted: u64,
}

#[derive(Debug)]
struct Entry<X> {
    at: Ticks,
    class: Class,
    number: u64,
    what: X,
}

impl<X> Default for Queue<X> {
    fn default() -> Self {
        Queue { lane: VecDeque::new(), heap: BinaryHeap::new(), inserted: 0 }
    }
}

impl<X> Queue<X> {
    pub fn insert(&mut self, at: Ticks, class: Class, what: X) {
        let entry = Entry { at, class, number: self.inserted, what };
        self.inserted += 1;
        // Only deliveries go into the lane. An exit far in the future would keep all earlier events out of it.
        let ascending = self.lane.back().is_none_or(|last| last.key() < entry.key());
        if class == Class::Delivery && ascending {
            self.lane.push_back(entry);
        } else {
            self.heap.push(entry);
        }
    }

    /// Removes the next event, and returns it with its time.
    pub fn pop(&mut self) -> Option<(Ticks, X)> {
        let lane_first = match (self.lane.front(), self.heap.peek()) {
            (Some(lane), Some(heap)) => lane.key() < heap.key(),
            (lane, _) => lane.is_some(),
        };
        let entry = if lane_first { self.lane.pop_front() } else { self.heap.pop() };
        entry.map(|entry| (entry.at, entry.what))
    }
}

impl<X> Entry<X> {
    fn key(&self) -> (Ticks, Class, u64) {
        (self.at, self.class, self.number)
    }
}

/// Reversed, because a `BinaryHeap` pops its greatest element first.
impl<X> Ord for Entry<X> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<X> PartialOrd for Entry<X> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<X> PartialEq for Entry<X> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<X> Eq for Entry<X> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_by_class_and_then_by_insertion() {
        let mut queue = Queue::default();
        let classes = [Class::Request, Class::Exit, Class::Timer, Class::Delivery, Class::Fault];
        for round in 0..2 {
            for class in classes {
                queue.insert(5, class, (class, round));
            }
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, what)| what).collect();
        let expected: Vec<_> = classes.iter().rev().flat_map(|&class| [(class, 0), (class, 1)]).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn lane_and_heap_together_are_sorted() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut queue = Queue::default();
        let mut last = 0;
        for _ in 0..1_000 {
            for _ in 0..rng.usize(0..4) {
                queue.insert(last + rng.u64(0..10), Class::Delivery, ());
            }
            if let Some((at, ())) = queue.pop() {
                assert!(at >= last);
                last = at;
            }
        }
    }
}
