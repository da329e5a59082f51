//! SAFE: at most one process is in the critical section.

use baton_protocol::{ProcessId, property};

/// Watches entries and exits.
#[derive(Clone, Debug, Default)]
pub struct Safety {
    inside: Vec<ProcessId>,
}

impl Safety {
    /// `process` enters. Returns what is wrong, if anything.
    pub fn enter(&mut self, process: ProcessId) -> Option<String> {
        let other = self.inside.first().copied();
        self.inside.push(process);
        other.map(|other| property::two_inside(process, other))
    }

    pub fn is_free(&self) -> bool {
        self.inside.is_empty()
    }

    /// `process` has left, or crashed.
    pub fn leave(&mut self, process: ProcessId) {
        self.inside.retain(|&inside| inside != process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_at_once_is_a_violation_and_one_after_the_other_is_not() {
        let mut safety = Safety::default();
        assert_eq!(safety.enter(0), None);
        safety.leave(0);
        assert_eq!(safety.enter(1), None);
        assert_eq!(safety.enter(2).unwrap(), "P2 and P1 are in the critical section at once");
    }
}
