//! Counts how often later requests were granted before earlier requests. No algorithm promises a number; a fair
//! algorithm keeps it small.

use baton_protocol::{ProcessId, Ticks};
use serde::Serialize;

#[derive(Debug)]
pub struct Bypasses {
    pending: Vec<Option<Pending>>,
    /// The counts of requests that wait no more.
    settled: Counts,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    since: Ticks,
    bypassed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    sum: u64,
    max: u64,
}

impl Counts {
    fn add(&mut self, bypassed: u64) {
        self.requests += 1;
        self.sum += bypassed;
        self.max = self.max.max(bypassed);
    }
}

/// How many later requests were granted before a request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BypassSummary {
    pub mean: f64,
    pub max: u64,
}

impl Bypasses {
    /// Each grant looks at every client, so bypasses are counted for up to this many clients only.
    pub const CLIENTS_MAX: usize = 256;

    pub fn new(clients: usize) -> Self {
        Bypasses { pending: vec![None; clients], settled: Counts::default() }
    }

    pub fn request(&mut self, process: ProcessId, now: Ticks) {
        self.pending[process] = Some(Pending { since: now, bypassed: 0 });
    }

    /// The pending request of `process` is granted. Of two requests at the same time, neither is later.
    pub fn grant(&mut self, process: ProcessId) {
        let Some(granted) = self.pending[process].take() else { return };
        self.settled.add(granted.bypassed);
        for other in self.pending.iter_mut().flatten().filter(|other| other.since < granted.since) {
            other.bypassed += 1;
        }
    }

    /// The pending request of `process` is void.
    pub fn forget(&mut self, process: ProcessId) {
        self.pending[process] = None;
    }

    /// Over all requests, including those that still wait. None if there were no requests.
    pub fn summary(&self) -> Option<BypassSummary> {
        let mut counts = self.settled;
        for pending in self.pending.iter().flatten() {
            counts.add(pending.bypassed);
        }
        let Counts { requests, sum, max } = counts;
        (requests > 0).then(|| BypassSummary { mean: sum as f64 / requests as f64, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_requests_that_are_granted_first_count_and_others_do_not() {
        let mut bypasses = Bypasses::new(3);
        assert_eq!(bypasses.summary(), None);
        bypasses.request(0, 1);
        bypasses.request(1, 1);
        bypasses.request(2, 2);
        bypasses.grant(1);
        assert_eq!(bypasses.summary(), Some(BypassSummary { mean: 0.0, max: 0 }), "P1 asked when P0 did");
        bypasses.grant(2);
        bypasses.request(2, 3);
        bypasses.grant(2);
        assert_eq!(bypasses.summary(), Some(BypassSummary { mean: 0.5, max: 2 }), "P0 still waits");
        bypasses.grant(0);
        assert_eq!(bypasses.summary(), Some(BypassSummary { mean: 0.5, max: 2 }));
    }

    #[test]
    fn the_dead_are_not_bypassed() {
        let mut bypasses = Bypasses::new(2);
        bypasses.request(0, 1);
        bypasses.request(1, 2);
        bypasses.forget(0);
        bypasses.grant(1);
        assert_eq!(bypasses.summary(), Some(BypassSummary { mean: 0.0, max: 0 }));
    }
}
