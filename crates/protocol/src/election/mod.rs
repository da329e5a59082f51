//! Leader election: everybody ends up knowing the same live process.

use crate::{ProcessId, Protocol};

pub mod bully;
pub mod chang_roberts;
pub mod guarded;
mod judge;
pub mod ring;
pub mod ring_list;

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

/// Which of two live processes is to lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The one with the higher id.
    #[default]
    Highest,
    /// The one with the lower id.
    Lowest,
}

impl Rule {
    /// Whether `one` is to lead rather than `other`.
    pub fn prefers(self, one: ProcessId, other: ProcessId) -> bool {
        match self {
            Rule::Highest => one > other,
            Rule::Lowest => one < other,
        }
    }

    /// The one to lead among several.
    pub fn best(self, among: impl IntoIterator<Item = ProcessId>) -> Option<ProcessId> {
        match self {
            Rule::Highest => among.into_iter().max(),
            Rule::Lowest => among.into_iter().min(),
        }
    }
}

/// A protocol for leader election.
pub trait Election: Protocol<Command = Command, Event = Event> {}

impl<P: Protocol<Command = Command, Event = Event>> Election for P {}
