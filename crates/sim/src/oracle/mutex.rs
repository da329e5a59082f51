//! All oracles of mutual exclusion together. They see the events of a trace: a live run, a stage (and so a replay) and the
//! judge of traces show them the same ones.

use std::collections::BTreeSet;

use baton_protocol::{ProcessId, Property, property};
use baton_trace::Event;

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
    /// Whether a process requested while another one waited or was inside; while another one waited.
    overlapped: bool,
    waited_together: bool,
    grants: u64,
}

impl MutexJudge {
    /// ORDER is checked only if `watch_order`, since it needs the past of every request.
    pub fn new(clients: usize, watch_order: bool) -> Self {
        MutexJudge {
            waiting: BTreeSet::new(),
            safety: Safety::default(),
            fences: Fences::default(),
            order: watch_order.then(|| OrderOracle::new(clients)),
            overlapped: false,
            waited_together: false,
            grants: 0,
        }
    }

    /// An event of `process`. `past` is the causal past of a request, if it is known. Returns the violations.
    pub fn see(&mut self, process: ProcessId, event: &Event, past: Option<Past>) -> Vec<Violation> {
        match event {
            Event::Request { .. } => self.request(process, past),
            Event::Enter { fence, .. } => return self.grant(process, *fence),
            Event::Exit { .. } | Event::Lost { .. } => self.safety.leave(process),
            Event::Cancel { .. } => self.cancel(process),
            // It is no longer in the critical section, and its request is void.
            Event::Crash => {
                self.cancel(process);
                self.safety.leave(process);
            }
            _ => {}
        }
        Vec::new()
    }

    fn request(&mut self, process: ProcessId, past: Option<Past>) {
        self.waited_together |= !self.waiting.is_empty();
        self.overlapped |= self.waited_together || !self.safety.is_free();
        self.waiting.insert(process);
        if let (Some(order), Some(past)) = (&mut self.order, past) {
            order.request(process, past);
        }
    }

    /// Whether `process` has requested and was not granted yet.
    pub fn is_waiting(&self, process: ProcessId) -> bool {
        self.waiting.contains(&process)
    }

    /// Number of processes that have requested and were not granted yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a violation of `property` could have shown so far. `told` says whether processes sent application
    /// messages: the messages of an algorithm tell of a request only along the way that the request itself takes, so
    /// without others hardly any process could overtake a request that it knows of.
    pub fn tests(&self, property: Property, told: bool) -> bool {
        match property {
            Property::Order => told && self.order.as_ref().is_some_and(OrderOracle::is_tested),
            Property::Safety => self.overlapped && self.grants > 0,
            Property::Fence => self.grants > 1,
            Property::Deadlock | Property::Liveness | Property::Reachability => true,
        }
    }

    /// Whether it says something that no violation was seen. A `trusted` algorithm promises the property and is not broken
    /// on purpose: that it kept a promise is worth telling as soon as a process has entered.
    pub fn shows(&self, property: Property, trusted: bool, told: bool) -> bool {
        (trusted && self.grants > 0) || self.tests(property, told)
    }

    /// Why [`shows`](Self::shows) is false, in words.
    pub fn why_untested(&self, property: Property, told: bool) -> &'static str {
        match property {
            _ if self.grants == 0 => "no process enters",
            Property::Order if !self.waited_together => "no two processes wait at the same time",
            Property::Order if !told => "no application message tells of a request",
            Property::Order => "no process hears of another's request before its own",
            Property::Fence => "there are fewer than two entries",
            _ => "no two requests are open at the same time",
        }
    }

    /// A process that has not requested does not enter.
    fn grant(&mut self, process: ProcessId, fence: u64) -> Vec<Violation> {
        if !self.waiting.remove(&process) {
            return vec![("safety", property::uninvited(process))];
        }
        self.grants += 1;
        let found = [
            ("safety", self.safety.enter(process)),
            ("fence", self.fences.enter(process, fence)),
            ("order", self.order.as_mut().and_then(|order| order.enter(process))),
        ];
        found.into_iter().filter_map(|(property, detail)| detail.map(|detail| (property, detail))).collect()
    }

    /// The user of `process` has given up its request before the grant.
    fn cancel(&mut self, process: ProcessId) {
        self.waiting.remove(&process);
        if let Some(order) = &mut self.order {
            order.forget(process);
        }
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
        judge.see(0, &Event::Crash, None);
        judge.see(1, &Event::Crash, None);
        judge.request(0, None);
        assert!(judge.grant(0, 2).is_empty(), "a crashed process is not in the critical section");
    }

    #[test]
    fn one_request_at_a_time_tests_neither_safety_nor_order() {
        let mut judge = MutexJudge::new(2, true);
        for process in [0, 1] {
            assert!(!judge.tests(Property::Fence, true));
            judge.request(process, None);
            judge.grant(process, process as u64);
            judge.see(process, &Event::Exit { req: 0 }, None);
        }
        assert!(judge.tests(Property::Fence, true) && !judge.tests(Property::Safety, true));
        assert_eq!(judge.why_untested(Property::Order, true), "no two processes wait at the same time");
        judge.request(0, None);
        judge.grant(0, 3);
        judge.request(1, None);
        assert!(judge.tests(Property::Safety, true));
    }
}
