//! Fences grow from entry to entry: a store that refuses lower fences would accept every write.

use baton_protocol::ProcessId;

/// Watches the fences of entries.
#[derive(Clone, Debug, Default)]
pub struct Fences {
    highest: Option<(u64, ProcessId)>,
}

impl Fences {
    /// `process` enters with `fence`. Returns what is wrong, if anything.
    pub fn enter(&mut self, process: ProcessId, fence: u64) -> Option<String> {
        let earlier = self.highest;
        if earlier.is_none_or(|(highest, _)| fence > highest) {
            self.highest = Some((fence, process));
            return None;
        }
        earlier.map(|(highest, other)| format!("P{process} got fence {fence} after P{other} had got {highest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_lower_fences_are_violations() {
        let mut fences = Fences::default();
        assert_eq!(fences.enter(0, 5), None);
        assert_eq!(fences.enter(1, 5).unwrap(), "P1 got fence 5 after P0 had got 5");
        assert_eq!(fences.enter(1, 4).unwrap(), "P1 got fence 4 after P0 had got 5");
        assert_eq!(fences.enter(1, 6), None);
    }
}
