//! The layout of fences that count within an epoch.

use serde::{Deserialize, Serialize};

/// An epoch, and the count of a grant in it. Fences compare first by epoch, then by count.
///
/// Peer groups (whose epochs are generations) and views give such fences. As a number, a fence has 19 bits of epoch and 34
/// bits of count: 53 bits, so it is exact in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence {
    pub epoch: u64,
    pub count: u64,
}

const EPOCH_BITS: u32 = 19;
const COUNT_BITS: u32 = 34;

impl Fence {
    /// The last epoch.
    pub const EPOCH_MAX: u64 = (1 << EPOCH_BITS) - 1;

    /// The last count of an epoch.
    pub const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

    /// The fence as one number. Epoch and count are at most [`EPOCH_MAX`](Fence::EPOCH_MAX) and
    /// [`COUNT_MAX`](Fence::COUNT_MAX).
    pub const fn number(self) -> u64 {
        self.epoch << COUNT_BITS | self.count
    }
}

const _: () = assert!(EPOCH_BITS + COUNT_BITS == 53);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_like_fences_and_end_at_53_bits() {
        let fences = [(0, 1), (0, Fence::COUNT_MAX), (1, 0), (1, 1), (Fence::EPOCH_MAX, Fence::COUNT_MAX)];
        let fences = fences.map(|(epoch, count)| Fence { epoch, count });
        assert!(fences.is_sorted() && fences.map(Fence::number).is_sorted());
        assert_eq!(fences[4].number(), (1 << 53) - 1);
    }
}
