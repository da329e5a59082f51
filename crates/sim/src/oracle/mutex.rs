//! All oracles of mutual exclusion together. The caller reports requests, grants and exits, and gets the violations.

use std::collections::BTreeSet;

use baton_protocol::{ProcessId, property};

use super::causality::Past;
use super::fence::Fences;
use super::order::OrderOracle;
use super::safety::Safety;

/// The property that is violated, and how.
pub type Violation = (&'static str, String);

/// Watches a whole run.
#[derive(Clone, Debug)]
pub struct MutexJudge {
    waiting: BTreeSet<ProcessId>,
    safety: Safety,
    fences: Fences,
    order: Option<OrderOracle>,
}

impl MutexJudge {
    /// ORDER is checked only if `watch_order`, since it needs the past of every request.
    pub fn new(clients: usize, watch_order: bool) -> Self {
        MutexJudge {
            waiting: BTreeSet::new(),
            safety: Safety::default(),
            fences: Fences::default(),
            order: watch_order.then(|| OrderOracle::new(clients)),
        }
    }

    /// `process` requests. `past` is the causal past of the request, if it is known.
    pub fn request(&mut self, process: ProcessId, past: Option<Past>) {
        self.waiting.insert(process);
        if let (Some(order), Some(past)) = (&mut self.order, past) {
            order.request(process, past);
        }
    }

    /// Whether `process` has requested and was not granted yet.
    pub fn is_waiting(&self, process: ProcessId) -> bool {
        self.waiting.contains(&process)
    }

    /// The processes that have requested and were not granted yet.
    pub fn who_waits(&self) -> impl Iterator<Item = ProcessId> {
        self.waiting.iter().copied()
    }

    /// Number of processes that have requested and were not granted yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// `process` is granted. Returns the violations. A process that has not requested does not enter.
    pub fn grant(&mut self, process: ProcessId, fence: u64) -> Vec<Violation> {
        if !self.waiting.remove(&process) {
            return vec![("safety", property::uninvited(process))];
        }
        let found = [
            ("safety", self.safety.enter(process)),
            ("fence", self.fences.enter(process, fence)),
            ("order", self.order.as_mut().and_then(|order| order.enter(process))),
        ];
        found.into_iter().filter_map(|(property, detail)| detail.map(|detail| (property, detail))).collect()
    }

    /// `process` has left.
    pub fn leave(&mut self, process: ProcessId) {
        self.safety.leave(process);
    }

    /// The user of `process` has given up its request before the grant.
    pub fn cancel(&mut self, process: ProcessId) {
        self.waiting.remove(&process);
        if let Some(order) = &mut self.order {
            order.forget(process);
        }
    }

    /// `process` has crashed: it is no longer in the critical section, and its request is void.
    pub fn crash(&mut self, process: ProcessId) {
        self.cancel(process);
        self.safety.leave(process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_that_nobody_asked_for_is_a_violation_and_no_entry() {
        let mut judge = MutexJudge::new(2, false);
        let found = judge.grant(1, 1);
        assert_eq!(found, [("safety", "P1 was granted without a request".to_owned())]);
        judge.request(0, None);
        assert!(judge.is_waiting(0) && judge.grant(0, 1).is_empty() && judge.waiting() == 0);
        judge.request(1, None);
        let properties: Vec<_> = judge.grant(1, 1).into_iter().map(|(property, _)| property).collect();
        assert_eq!(properties, ["safety", "fence"]);
        judge.request(0, None);
        judge.crash(0);
        judge.crash(1);
        judge.request(0, None);
        assert!(judge.grant(0, 2).is_empty(), "a crashed process is not in the critical section");
    }
}
