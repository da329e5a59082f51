//! Mutual exclusion: at most one process at a time is in the critical section.

use crate::Protocol;

pub mod carvalho_roucairol;
pub mod central;
pub mod central_elected;
pub mod generalized;
pub mod lamport;
pub mod maekawa;
pub mod naimi_trehel;
pub mod permission_ring;
pub mod raymond;
pub mod ricart_agrawala;
pub mod singhal;
pub mod suzuki_kasami;
pub mod token_ring;
pub mod voting;

/// The commands of a user. The driver gives `Acquire` only while no request is pending or granted, and `Release` only
/// after a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    Acquire,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The process is in the critical section from now on, until its `Release`.
    Granted {
        /// Greater than the fence of every earlier grant in the group.
        fence: u64,
    },
    /// The process is no longer in the critical section, although it has not left. Only with [views](crate::views): its
    /// session is over. The user gives no `Release`, and may acquire again.
    Lost,
}

pub trait Mutex: Protocol<Command = Command, Event = Event> {}

impl<P: Protocol<Command = Command, Event = Event>> Mutex for P {}
