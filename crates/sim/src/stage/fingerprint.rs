//! The fingerprint of a stage, for programs that look for a state they have seen before.

use std::hash::{DefaultHasher, Hash, Hasher};

use baton_protocol::Protocol;

use super::{Payload, Stage};

impl<P: Protocol> Stage<P> {
    /// Stages with the same fingerprint do the same from there on, whatever the numbers of their messages. (Two
    /// different stages have the same fingerprint with a probability of 2^-64.)
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut messages: Vec<_> = self.in_flight.iter().collect();
        // The order of sending counts only between the messages of one link.
        messages.sort_by_key(|message| (message.from, message.to));
        for message in messages {
            (message.from, message.to).hash(&mut hasher);
            match &message.payload {
                Payload::Protocol(content) => content.hash(&mut hasher),
                Payload::App(stamp) => ("app", stamp).hash(&mut hasher),
            }
            // Whether a message is a copy of an earlier one decides which messages of its link it waits for.
            self.earlier_on_its_link(message).count().hash(&mut hasher);
            format!("{:?}", self.oracles.past(message.id)).hash(&mut hasher);
        }
        self.processes.hash(&mut hasher);
        self.timers.hash(&mut hasher);
        (&self.down, &self.catching_up, &self.waiting, &self.inside, &self.script).hash(&mut hasher);
        // What oracles and detectors remember has no hash of its own.
        format!("{:?}{:?}{:?}", self.detectors, self.oracles.without_messages(), self.spent).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::mutex::lamport;
    use baton_protocol::registry::Params;
    use baton_trace::{Action, Wish};

    use super::*;

    #[test]
    fn the_order_in_which_two_processes_request_leaves_no_trace() {
        let after = |order: [usize; 2]| {
            let mut stage = Stage::mutex(lamport::group(&Params::new(3, 1)).unwrap());
            stage.start();
            for process in order {
                stage.apply(&Action::User { process, wish: Wish::Request }).unwrap();
            }
            stage
        };
        let (one, other) = (after([0, 1]), after([1, 0]));
        assert_ne!(one.in_flight()[0].from, other.in_flight()[0].from);
        assert_eq!(one.fingerprint(), other.fingerprint());
        let mut further = one.clone();
        further.apply(&Action::Deliver { message: 0 }).unwrap();
        assert_ne!(one.fingerprint(), further.fingerprint());
    }
}
