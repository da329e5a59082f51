//! The file of a replica, and which primary wrote which part of it.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Slot;
use crate::ProcessId;

/// A primary writes each offset once. So if two logs have a slot of the same primary at the same offset, the slots are
/// equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Log {
    slots: Vec<Slot>,
    runs: Vec<Run>,
}

/// Consecutive slots that one primary wrote: from the end of the run before up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The primary that wrote the slots.
    pub by: ProcessId,
    /// The first offset after the slots.
    pub end: u64,
}

impl Log {
    /// A copy of another replica's file.
    pub fn new(slots: Vec<Slot>, runs: Vec<Run>) -> Self {
        Log { slots, runs }
    }

    pub fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub fn from(&self, offset: u64) -> &[Slot] {
        self.slots.get(offset as usize..).unwrap_or_default()
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub fn extend(&mut self, by: ProcessId, slots: impl IntoIterator<Item = Slot>) {
        let before = self.len();
        self.slots.extend(slots);
        let end = self.len();
        match self.runs.last_mut() {
            Some(last) if last.by == by => last.end = end,
            _ if before < end => self.runs.push(Run { by, end }),
            _ => {}
        }
    }

    pub fn truncate(&mut self, len: u64) {
        self.slots.truncate(len as usize);
        let whole = self.runs.partition_point(|run| run.end <= len);
        let begins = whole.checked_sub(1).map_or(0, |last| self.runs[last].end);
        let cut = self.runs.get(whole).filter(|_| begins < len).map(|run| Run { by: run.by, end: len });
        self.runs.truncate(whole);
        self.runs.extend(cut);
    }
}

/// Length of the prefix that two logs have in common.
pub(super) fn agreement(ours: &[Run], theirs: &[Run]) -> u64 {
    let mut agreed = 0;
    for (ours, theirs) in ours.iter().zip(theirs).take_while(|(ours, theirs)| ours.by == theirs.by) {
        agreed = ours.end.min(theirs.end);
        if ours.end != theirs.end {
            break;
        }
    }
    agreed
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn log(runs: &[(ProcessId, usize)]) -> Log {
        let mut log = Log::default();
        for &(by, count) in runs {
            log.extend(by, vec![Slot::Padding; count]);
        }
        log
    }

    #[test]
    fn runs_follow_the_slots() {
        let mut log = log(&[(1, 2), (1, 1), (2, 0), (3, 4)]);
        assert_eq!(log.runs(), [Run { by: 1, end: 3 }, Run { by: 3, end: 7 }]);
        log.truncate(5);
        assert_eq!((log.len(), log.runs()), (5, &[Run { by: 1, end: 3 }, Run { by: 3, end: 5 }][..]));
        log.truncate(3);
        assert_eq!((log.len(), log.runs()), (3, &[Run { by: 1, end: 3 }][..]));
        log.truncate(0);
        assert_eq!((log.len(), log.runs()), (0, &[][..]));
        assert_eq!(log.from(9), []);
    }

    #[test]
    fn logs_agree_as_far_as_the_same_primaries_wrote_them() {
        let agreed = |ours, theirs| agreement(log(ours).runs(), log(theirs).runs());
        assert_eq!(agreed(&[(1, 3)], &[(1, 5)]), 3);
        assert_eq!(agreed(&[(1, 3), (2, 2)], &[(1, 5)]), 3);
        assert_eq!(agreed(&[(1, 3), (2, 2)], &[(1, 3), (2, 1), (3, 1)]), 4);
        assert_eq!(agreed(&[(2, 3)], &[(1, 3)]), 0);
        assert_eq!(agreed(&[], &[(1, 3)]), 0);
    }
}
