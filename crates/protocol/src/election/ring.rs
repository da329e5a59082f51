//! The ring of the ring elections: an order of all ids. Each process skips the processes that it suspects.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use crate::registry::{Params, SetupError};
use crate::{Picture, ProcessId, ProcessSet};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ring {
    /// All other processes in ring order, beginning with the successor.
    others: Vec<ProcessId>,
    suspected: ProcessSet,
    /// For each process, the number of its latest election that passed here; 0 if none.
    latest: Vec<u64>,
    /// The suspected processes whose election or announcement came here during the suspicion.
    early: ProcessSet,
}

impl Ring {
    pub fn new(order: &[ProcessId], me: ProcessId) -> Self {
        let place = order.iter().position(|&id| id == me).unwrap_or(0);
        let others = order.iter().cycle().skip(place + 1).take(order.len() - 1).copied().collect();
        Ring {
            others,
            suspected: ProcessSet::none(order.len()),
            latest: vec![0; order.len()],
            early: ProcessSet::none(order.len()),
        }
    }

    /// The ring skips `process` from now on. A recovered process may number its elections from 1 again.
    pub fn suspect(&mut self, process: ProcessId) {
        if self.suspected.insert(process) {
            self.latest[process] = 0;
            self.early.remove(process);
        }
    }

    /// A message about `process` cannot be used, because it is suspected.
    pub fn remember(&mut self, process: ProcessId) {
        if self.suspected.contains(process) {
            self.early.insert(process);
        }
    }

    /// The ring includes `process` again. Returns whether it must be welcomed in any case, because a message about it came
    /// here before this report. Another process, whose detector reported earlier, may have welcomed it. The message may
    /// also be from before a crash, so it is not used now.
    pub fn trust(&mut self, process: ProcessId) -> bool {
        self.suspected.remove(process);
        self.early.remove(process)
    }

    /// Back to the state at the start: no process is suspected.
    pub fn forget(&mut self) {
        self.suspected.clear();
        self.latest.fill(0);
        self.early.clear();
    }

    /// Whether `process` is on the ring and not suspected.
    pub fn trusts(&self, process: ProcessId) -> bool {
        process <= self.others.len() && !self.suspected.contains(process)
    }

    /// Whether to forward an election. Its starter must be alive, and must have no later election that passed here. The
    /// ring remembers that a suspected starter had one.
    pub fn admits(&mut self, starter: ProcessId, number: u64) -> bool {
        let admitted = self.trusts(starter) && number >= self.latest[starter];
        if admitted {
            self.latest[starter] = number;
        } else {
            self.remember(starter);
        }
        admitted
    }

    /// The highest trusted process above `me` whose election passed here, and the number of its latest election.
    pub fn highest_passed(&self, me: ProcessId) -> Option<(ProcessId, u64)> {
        let mut above = (me + 1..self.latest.len()).rev().map(|id| (id, self.latest[id]));
        above.find(|&(id, number)| number > 0 && self.trusts(id))
    }

    /// The next process that is not suspected, if any.
    pub fn successor(&self) -> Option<ProcessId> {
        self.others.iter().copied().find(|&other| self.trusts(other))
    }

    /// What a drawing shows of it.
    pub fn view(&self) -> Picture {
        Picture::new().pointer("successor", self.successor()).set("suspected", self.suspected.iter())
    }
}

/// The order of the ring by the variant: ascending (the default), `descending` or `ring:ID,ID,...`.
pub fn order(params: &Params) -> Result<Vec<ProcessId>, SetupError> {
    let n = params.n;
    match params.one_of(&["descending", "ring"])? {
        Some("ring") => {
            let text = params.value("ring").unwrap_or_default();
            let order: Option<Vec<ProcessId>> = text.split(',').map(|id| id.trim().parse().ok()).collect();
            order.filter(|order| is_permutation(order, n)).ok_or_else(|| SetupError::Value {
                what: "the order of a ring",
                value: text.to_string(),
                reason: alloc::format!("write every id from 0 to {} once, with commas between", n - 1),
            })
        }
        Some(_) => Ok((0..n).rev().collect()),
        None => Ok((0..n).collect()),
    }
}

fn is_permutation(order: &[ProcessId], n: usize) -> bool {
    let mut seen = ProcessSet::none(n);
    order.len() == n && order.iter().all(|&id| seen.insert(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_skipped() {
        let mut ring = Ring::new(&[0, 3, 1, 2], 3);
        assert_eq!(ring.successor(), Some(1));
        ring.suspect(1);
        assert_eq!(ring.successor(), Some(2));
        assert!(!ring.trusts(1) && ring.trusts(2) && ring.trusts(3));
        assert!(!ring.trusts(4), "there is no P4");
        assert!(ring.admits(0, 2) && ring.admits(0, 2) && !ring.admits(0, 1));
        ring.suspect(0);
        assert!(!ring.admits(0, 3));
        ring.suspect(2);
        assert_eq!(ring.successor(), None);
        ring.trust(0);
        assert!(ring.admits(0, 1), "it may number its elections from 1 again");
        ring.suspect(0);
        ring.trust(2);
        assert_eq!(ring.successor(), Some(2));
    }
}
