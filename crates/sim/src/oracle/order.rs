//! ORDER: if request A happened before request B, A is granted before B.

use baton_protocol::{ProcessId, property};

use super::causality::Past;

/// Watches grants. The requests of one process are numbered from 1, in its vector clock too.
#[derive(Clone, Debug)]
pub struct OrderOracle {
    /// Number of requests of each client that were granted or are void.
    settled: Vec<u32>,
    /// The past of each client's pending request.
    pending: Vec<Option<Past>>,
    /// Whether a request was made while an earlier one, in the order of happened-before, still waited. Only then can the
    /// order of two grants be wrong.
    is_tested: bool,
}

impl OrderOracle {
    pub fn new(clients: usize) -> Self {
        OrderOracle { settled: vec![0; clients], pending: vec![None; clients], is_tested: false }
    }

    /// `process` requests, with this causal past.
    pub fn request(&mut self, process: ProcessId, past: Past) {
        let known = past.entries().iter().zip(&self.settled).enumerate();
        self.is_tested |= known.into_iter().any(|(other, (known, settled))| other != process && known > settled);
        self.pending[process] = Some(past);
    }

    /// Whether two grants could have come in the wrong order.
    pub fn is_tested(&self) -> bool {
        self.is_tested
    }

    /// The pending request of `process` is granted. Returns what is wrong, if anything.
    pub fn enter(&mut self, process: ProcessId) -> Option<String> {
        let past = self.pending[process].take()?;
        self.settled[process] += 1;
        let known = past.entries().iter().zip(&self.settled);
        let overtaken = known.enumerate().find(|(_, (known, settled))| known > settled);
        overtaken.map(|(other, _)| property::overtaking(process, other))
    }

    /// The pending request of `process`, if there is one, is void: later requests need not wait for it.
    pub fn forget(&mut self, process: ProcessId) {
        let pending = self.pending.get_mut(process).and_then(Option::take);
        if pending.is_some() {
            self.settled[process] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::causality::Causality;

    fn two_requests_in_a_chain() -> OrderOracle {
        let mut causality = Causality::new(2, 2);
        let mut order = OrderOracle::new(2);
        order.request(0, causality.request(0));
        causality.receive(1, &causality.of(0));
        order.request(1, causality.request(1));
        order
    }

    #[test]
    fn a_grant_before_an_earlier_request_is_a_violation() {
        let wrong = two_requests_in_a_chain().enter(1).unwrap();
        assert_eq!(wrong, "P1 enters, and the request of P0, which happened before, still waits");
    }

    #[test]
    fn only_a_request_after_one_that_still_waits_tests_the_order() {
        assert!(two_requests_in_a_chain().is_tested());
        let mut causality = Causality::new(2, 2);
        let mut order = OrderOracle::new(2);
        order.request(0, causality.request(0));
        order.request(1, causality.request(1));
        assert!(!order.is_tested(), "the two requests know nothing of each other");
        order.enter(0);
        order.enter(1);
        causality.receive(1, &causality.of(0));
        order.request(1, causality.request(1));
        assert!(!order.is_tested(), "the earlier request is granted already");
    }

    #[test]
    fn grants_in_order_and_after_a_crash_are_none() {
        let mut order = two_requests_in_a_chain();
        assert_eq!((order.enter(0), order.enter(1)), (None, None));
        let mut order = two_requests_in_a_chain();
        order.forget(0);
        assert_eq!(order.enter(1), None);
    }
}
