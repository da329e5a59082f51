//! Tracks happened-before between requests, through all messages, including application messages.
//!
//! Each process has a vector clock that ticks at requests only: it says how many requests of each client happened
//! before now. Messages carry the clock of their sender. Processes and messages share a clock until one of them changes
//! it, because most messages bring nothing new.

use std::rc::Rc;

use baton_protocol::ProcessId;
use baton_protocol::clock::VectorClock;

/// The requests that happened before a point in time of a process.
pub type Past = Rc<VectorClock>;

/// The causal past of every process.
#[derive(Clone, Debug)]
pub struct Causality {
    pasts: Vec<Past>,
}

impl Causality {
    /// Each message costs time in proportion to the number of clients, so the past is tracked for up to this many
    /// clients only.
    pub const CLIENTS_MAX: usize = 256;

    /// At the start no process has learnt of any request.
    pub fn new(processes: usize, clients: usize) -> Self {
        let nothing = Rc::new(VectorClock::new(clients));
        Causality { pasts: vec![nothing; processes] }
    }

    /// `process` requests. Returns the past of the request, including the request itself.
    pub fn request(&mut self, process: ProcessId) -> Past {
        Rc::make_mut(&mut self.pasts[process]).tick(process);
        self.pasts[process].clone()
    }

    /// The past that a message from `process` carries now.
    pub fn of(&self, process: ProcessId) -> Past {
        self.pasts[process].clone()
    }

    /// `process` receives a message that carries `past`.
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
