//! Mutual exclusion: at most one process at a time is in the critical section.

use crate::Protocol;

pub mod carvalho_roucairol;
pub mod central;
pub mod central_elected;
pub mod generalized;
pub mod lamport;
pub mod maekawa;
pub mod permission_ring;
pub mod raymond;
pub mod ricart_agrawala;
pub mod singhal;
pub mod suzuki_kasami;
pub mod token_ring;
pub mod voting;

/// What the user of a mutual exclusion protocol may ask for.
///
/// The driver gives them in turns: no `Acquire` while one is pending or granted, no `Release` but of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Ask for the critical section.
    Acquire,
    /// Leave it.
    Release,
}

/// What a mutual exclusion protocol tells its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The process is in the critical section from here on.
    Granted {
        /// Greater than that of every earlier grant.
        fence: u64,
    },
}

/// A protocol for mutual exclusion.
pub trait Mutex: Protocol<Command = Command, Event = Event> {}

impl<P: Protocol<Command = Command, Event = Event>> Mutex for P {}
