//! The fences of one resource: the generation of the group, then a count of grants. Pure.
//!
//! Every message of the resource carries the highest count that its sender knows. A grant follows from messages of the
//! process that was inside before, so its count is higher. A second beginning of the group has a higher generation. So all
//! fences of a resource grow, whatever the algorithm is.

use baton_protocol::Fence;

use crate::beginning::GENERATION_MAX;

/// The last count of a generation.
pub const COUNT_MAX: u64 = Fence::COUNT_MAX;

const _: () = assert!(GENERATION_MAX == Fence::EPOCH_MAX);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fences {
    count: u64,
}

impl Fences {
    /// The highest count that is known here. Goes into each message.
    pub fn count(self) -> u64 {
        self.count
    }

    /// A message has arrived.
    pub fn learn(&mut self, count: u64) {
        self.count = self.count.max(count);
    }

    /// The fence of a new grant. None: this generation has no more.
    pub fn next(&mut self, generation: u64) -> Option<u64> {
        let count = (self.count < COUNT_MAX).then(|| self.count + 1)?;
        self.count = count;
        Some(Fence { epoch: generation, count }.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_grow_over_members_and_generations() {
        let (mut one, mut other) = (Fences::default(), Fences::default());
        let first = one.next(1).unwrap();
        assert_eq!(first, 1 << 34 | 1);
        other.learn(one.count());
        let second = other.next(1).unwrap();
        other.learn(0);
        let third = other.next(1).unwrap();
        assert!(first < second && second < third);
        assert!(third < Fences::default().next(2).unwrap(), "a new generation begins to count anew");
    }

    #[test]
    fn no_fence_is_given_twice_when_the_count_ends() {
        let mut fences = Fences::default();
        fences.learn(COUNT_MAX - 1);
        let last = fences.next(GENERATION_MAX).unwrap();
        assert_eq!(last, (1 << 53) - 1);
        assert_eq!(fences.next(GENERATION_MAX), None);
    }
}
