//! Sets of processes of one group.

use core::fmt;

use fixedbitset::FixedBitSet;

use crate::ProcessId;

/// A set of processes of a group of known size: one bit for each process. Its `Debug` output is a set of ids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessSet(FixedBitSet);

impl ProcessSet {
    /// The empty set in a group of `n` processes.
    pub fn none(n: usize) -> Self {
        ProcessSet(FixedBitSet::with_capacity(n))
    }

    pub fn all(n: usize) -> Self {
        let mut set = Self::none(n);
        set.fill();
        set
    }

    pub fn of(n: usize, members: impl IntoIterator<Item = ProcessId>) -> Self {
        let mut set = Self::none(n);
        members.into_iter().for_each(|member| {
            set.insert(member);
        });
        set
    }

    pub fn fill(&mut self) {
        self.0.insert_range(..);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns whether `process` is new in the set. Ignores a process outside the group.
    pub fn insert(&mut self, process: ProcessId) -> bool {
        process < self.0.len() && !self.0.put(process)
    }

    /// Returns whether `process` was in the set.
    pub fn remove(&mut self, process: ProcessId) -> bool {
        let there = self.contains(process);
        if there {
            self.0.remove(process);
        }
        there
    }

    pub fn contains(&self, process: ProcessId) -> bool {
        self.0.contains(process)
    }

    /// Whether some process is in both sets.
    pub fn meets(&self, other: &ProcessSet) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// The lowest process that is in both sets.
    pub fn first_common(&self, other: &ProcessSet) -> Option<ProcessId> {
        self.0.intersection(&other.0).next()
    }

    /// Whether this set is a subset of `other`.
    pub fn within(&self, other: &ProcessSet) -> bool {
        self.0.is_subset(&other.0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_clear()
    }

    /// Number of processes in the set.
    pub fn len(&self) -> usize {
        self.0.count_ones(..)
    }

    /// Number of processes in the group.
    pub fn capacity(&self) -> usize {
        self.0.len()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ProcessId> {
        self.0.ones()
    }
}

/// The derived implementation would print the bits instead of the ids.
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
