//! Leader election: everybody ends up knowing the same live process.

use crate::{ProcessId, Protocol};

pub mod bully;

/// What the user of an election protocol may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Hold an election now.
    Elect,
}

/// What an election protocol tells its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// This process now believes in this leader.
    Elected {
        /// None: it knows of none.
        leader: Option<ProcessId>,
        /// The term of office, where the algorithm counts terms.
        term: Option<u64>,
    },
}

/// A protocol for leader election.
pub trait Election: Protocol<Command = Command, Event = Event> {}

impl<P: Protocol<Command = Command, Event = Event>> Election for P {}
