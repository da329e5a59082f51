//! What is going to happen, in order of time.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use baton_protocol::Ticks;

/// Ties at equal times: faults, deliveries, timers, exits, new requests. (A timer that beats a delivery at exactly its
/// deadline would break bully even on a perfect network.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A crash, a recovery, a pause, a partition.
    Fault,
    /// A message arrives.
    Delivery,
    /// A timer runs out.
    Timer,
    /// A process leaves the critical section.
    Exit,
    /// A process asks.
    Request,
}

/// A queue by (time, class, order of insertion).
#[derive(Debug)]
pub struct Queue<X> {
    /// Whatever was added in ascending order, which is everything when delays are constant: first in, first out costs
    /// a fraction of a heap.
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
    /// Adds something that happens at `at`.
    pub fn insert(&mut self, at: Ticks, class: Class, what: X) {
        let entry = Entry { at, class, number: self.inserted, what };
        self.inserted += 1;
        // Only deliveries go into the lane: an exit far ahead would close it to everything before.
        let ascending = self.lane.back().is_none_or(|last| last.key() < entry.key());
        if class == Class::Delivery && ascending {
            self.lane.push_back(entry);
        } else {
            self.heap.push(entry);
        }
    }

    /// Takes out what happens next, and says when.
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

/// Reversed, because the heap gives out the greatest first.
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
