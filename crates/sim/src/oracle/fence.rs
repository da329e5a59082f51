//! Fences grow from entry to entry: a store that refuses lower fences would accept every write.

use baton_protocol::{ProcessId, property};

/// Watches the fences of entries.
#[derive(Clone, Debug, Default)]
pub struct Fences {
    highest: Option<u64>,
}

impl Fences {
    /// `process` enters with `fence`. Returns what is wrong, if anything.
    pub fn enter(&mut self, process: ProcessId, fence: u64) -> Option<String> {
        let higher = self.highest.filter(|highest| fence <= *highest);
        self.highest = self.highest.max(Some(fence));
        higher.map(|highest| property::falling_fence(process, fence, highest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_lower_fences_are_violations() {
        let mut fences = Fences::default();
        assert_eq!(fences.enter(0, 5), None);
        assert_eq!(fences.enter(1, 5).unwrap(), "P1 enters with fence 5, after an entry with fence 5");
        assert_eq!(fences.enter(1, 4).unwrap(), "P1 enters with fence 4, after an entry with fence 5");
        assert_eq!(fences.enter(1, 6), None);
    }
}
