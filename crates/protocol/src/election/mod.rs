//! Leader election: all live processes learn of the same live leader.

use crate::{ProcessId, Protocol};

pub mod bully;
pub mod chang_roberts;
pub mod guarded;
mod judge;
pub mod ring;
pub mod ring_list;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Hold an election now, even if there is a leader.
    Elect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// This process believes from now on that `leader` leads.
    Elected {
        /// `None`: it knows of no leader.
        leader: Option<ProcessId>,
        /// The term of the leader; only behind a [guard](guarded).
        term: Option<u64>,
    },
}

/// Which of the live processes must lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
    #[default]
    Highest,
    Lowest,
}

impl Rule {
    /// Whether `one` is the better leader of the two.
    pub fn prefers(self, one: ProcessId, other: ProcessId) -> bool {
        match self {
            Rule::Highest => one > other,
            Rule::Lowest => one < other,
        }
    }

    /// The best leader among several processes.
    pub fn best(self, among: impl IntoIterator<Item = ProcessId>) -> Option<ProcessId> {
        match self {
            Rule::Highest => among.into_iter().max(),
            Rule::Lowest => among.into_iter().min(),
        }
    }
}

pub trait Election: Protocol<Command = Command, Event = Event> {}

impl<P: Protocol<Command = Command, Event = Event>> Election for P {}
