//! Sets of processes.

use core::fmt;

use fixedbitset::FixedBitSet;

use crate::ProcessId;

/// A set of processes out of a group of known size; a bit each, and it prints as a set.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessSet(FixedBitSet);

impl ProcessSet {
    /// None of `n` processes.
    pub fn none(n: usize) -> Self {
        ProcessSet(FixedBitSet::with_capacity(n))
    }

    /// All of `n` processes.
    pub fn all(n: usize) -> Self {
        let mut set = Self::none(n);
        set.fill();
        set
    }

    /// These out of `n` processes.
    pub fn of(n: usize, members: impl IntoIterator<Item = ProcessId>) -> Self {
        let mut set = Self::none(n);
        members.into_iter().for_each(|member| {
            set.insert(member);
        });
        set
    }

    /// Adds every process of the group.
    pub fn fill(&mut self) {
        self.0.insert_range(..);
    }

    /// Removes every process.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds one; returns whether it is new. Who is not in the group cannot be added.
    pub fn insert(&mut self, process: ProcessId) -> bool {
        process < self.0.len() && !self.0.put(process)
    }

    /// Removes one; returns whether it was there.
    pub fn remove(&mut self, process: ProcessId) -> bool {
        let there = self.contains(process);
        if there {
            self.0.remove(process);
        }
        there
    }

    /// Whether it is there.
    pub fn contains(&self, process: ProcessId) -> bool {
        self.0.contains(process)
    }

    /// Whether somebody is in both sets.
    pub fn meets(&self, other: &ProcessSet) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// The first who is in both sets.
    pub fn first_common(&self, other: &ProcessSet) -> Option<ProcessId> {
        self.0.intersection(&other.0).next()
    }

    /// Whether everybody here is there too.
    pub fn within(&self, other: &ProcessSet) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether nobody is there.
    pub fn is_empty(&self) -> bool {
        self.0.is_clear()
    }

    /// How many are there.
    pub fn len(&self) -> usize {
        self.0.count_ones(..)
    }

    /// Of how many processes it is a set.
    pub fn capacity(&self) -> usize {
        self.0.len()
    }

    /// All that are there, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ProcessId> {
        self.0.ones()
    }
}

/// The derived one would print where the bits are, not which.
impl fmt::Debug for ProcessSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn it_is_a_set_and_looks_like_one() {
        let mut set = ProcessSet::none(70);
        assert!(set.insert(69) && set.insert(3) && !set.insert(3) && !set.insert(70));
        assert_eq!(format!("{set:?}"), "{3, 69}");
        assert!(set.contains(69) && !set.contains(70) && set.len() == 2);
        assert!(set.remove(3) && !set.remove(3) && !set.remove(70));
        set.clear();
        assert!(set.is_empty());
        set.fill();
        assert_eq!(set, ProcessSet::all(70));
        assert_eq!(set.len(), 70);
    }

    #[test]
    fn sets_meet_in_a_member_and_lie_within_each_other() {
        let [a, b, c] = [[1, 69].as_slice(), &[69], &[2]].map(|members| ProcessSet::of(70, members.iter().copied()));
        assert!(a.meets(&b) && !a.meets(&c) && !c.meets(&ProcessSet::none(70)));
        assert_eq!((a.first_common(&b), a.first_common(&c)), (Some(69), None));
        assert!(b.within(&a) && !a.within(&b) && ProcessSet::none(70).within(&a));
    }
}
