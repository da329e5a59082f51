//! Happened-before between requests, through every message, application messages included.
//!
//! Each process has a vector clock that ticks at requests only, so that it tells which requests of whom happened before
//! now. Messages carry it. Clocks are shared until one changes: most messages tell nothing new.

use std::rc::Rc;

use baton_protocol::ProcessId;
use baton_protocol::clock::VectorClock;

/// The requests in somebody's causal past.
pub type Past = Rc<VectorClock>;

/// The causal past of every process.
#[derive(Clone, Debug)]
pub struct Causality {
    pasts: Vec<Past>,
}

impl Causality {
    /// The most clients for which it is kept: its cost grows with n for every message.
    pub const CLIENTS_MAX: usize = 256;

    /// Nobody of `processes` has heard of a request of the `clients`.
    pub fn new(processes: usize, clients: usize) -> Self {
        let nothing = Rc::new(VectorClock::new(clients));
        Causality { pasts: vec![nothing; processes] }
    }

    /// `process` asks. Returns the past of the request, itself included.
    pub fn request(&mut self, process: ProcessId) -> Past {
        Rc::make_mut(&mut self.pasts[process]).tick(process);
        self.pasts[process].clone()
    }

    /// What a message that leaves `process` now carries.
    pub fn of(&self, process: ProcessId) -> Past {
        self.pasts[process].clone()
    }

    /// `process` has got a message that carries `past`.
    pub fn receive(&mut self, process: ProcessId, past: &Past) {
        let own = &mut self.pasts[process];
        if Rc::ptr_eq(own, past) || past.within(own) {
            return;
        }
        if own.within(past) {
            *own = past.clone();
        } else {
            Rc::make_mut(own).merge(past);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_in_the_past_of_whoever_hears_of_it_through_others() {
        let mut causality = Causality::new(3, 3);
        causality.request(0);
        let heard = causality.of(0);
        causality.receive(1, &heard);
        let relayed = causality.of(1);
        let concurrent = causality.request(2);
        assert_eq!(concurrent.entries(), [0, 0, 1]);
        causality.receive(2, &relayed);
        assert_eq!(causality.request(2).entries(), [1, 0, 2]);
        assert_eq!(causality.of(0).entries(), [1, 0, 0]);
    }
}
