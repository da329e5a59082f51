//! How often somebody who asked later was granted first. No algorithm promises a number; a fair one keeps it small.

use baton_protocol::{ProcessId, Ticks};
use serde::Serialize;

/// Watches requests and grants.
#[derive(Debug)]
pub struct Bypasses {
    pending: Vec<Option<Pending>>,
    /// Of the requests that wait no more.
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

/// How often a request was overtaken by later ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BypassSummary {
    /// On average.
    pub mean: f64,
    /// At most.
    pub max: u64,
}

impl Bypasses {
    /// A grant costs a look at every client, so that it is counted only for so many.
    pub const CLIENTS_MAX: usize = 256;

    /// For so many clients.
    pub fn new(clients: usize) -> Self {
        Bypasses { pending: vec![None; clients], settled: Counts::default() }
    }

    /// `process` asks.
    pub fn request(&mut self, process: ProcessId, now: Ticks) {
        self.pending[process] = Some(Pending { since: now, bypassed: 0 });
    }

    /// The pending request of `process` is granted. Of two that asked at the same moment none is the later.
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

    /// Of all requests, those that still wait included; none if there were none.
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
