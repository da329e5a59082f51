//! The central server: one coordinator, outside the group, hands out the critical section first come, first served.
//!
//! Assumes: nothing of the order of messages. None may be lost, and neither the coordinator nor a holder may crash.
//!
//! A client sends REQUEST, waits for GRANT, and sends RELEASE when it leaves. The coordinator keeps a FIFO queue.
//!
//! Invariants: at most one GRANT is unreleased; the queue holds nobody twice, and not the holder.
//! Costs: 3 messages an entry; 2T from request to grant; 2T from exit to the next entry.
//! Fences: the coordinator counts its grants.
//!
//! FIFO by arrival is not ORDER: the network may let a later request arrive first. Nor can a client tell a busy
//! lock from a dead coordinator: both are silence.

use alloc::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError};
use crate::{Input, Outbox, ProcessId, Protocol};

/// One of the two roles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Central {
    /// May ask for the critical section.
    Client {
        /// Whom to ask.
        coordinator: ProcessId,
    },
    /// Hands it out.
    Coordinator(Coordinator),
}

/// The server's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordinator {
    holder: Option<ProcessId>,
    queue: VecDeque<ProcessId>,
    grants: u64,
}

/// What clients and coordinator tell each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Client to coordinator: I want to enter.
    Request,
    /// Coordinator to client: enter.
    Grant {
        /// The number of this grant.
        fence: u64,
    },
    /// Client to coordinator: I have left.
    Release,
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request => "REQUEST",
            Message::Grant { .. } => "GRANT",
            Message::Release => "RELEASE",
        }
    }
}

impl Protocol for Central {
    type Message = Message;
    type Timer = core::convert::Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match (self, input) {
            (Central::Client { coordinator }, Input::Command(Command::Acquire)) => {
                out.send(*coordinator, Message::Request);
            }
            (Central::Client { .. }, Input::Message { message: Message::Grant { fence }, .. }) => {
                out.emit(Event::Granted { fence });
            }
            (Central::Client { coordinator }, Input::Command(Command::Release)) => {
                out.send(*coordinator, Message::Release);
            }
            (Central::Coordinator(server), Input::Message { from, message: Message::Request }) => {
                server.on_request(from, out);
            }
            (Central::Coordinator(server), Input::Message { from, message: Message::Release }) => {
                server.on_release(from, out);
            }
            _ => {}
        }
    }
}

impl Coordinator {
    fn on_request(&mut self, from: ProcessId, out: &mut Outbox<Central>) {
        self.queue.push_back(from);
        self.grant_next(out);
    }

    fn on_release(&mut self, from: ProcessId, out: &mut Outbox<Central>) {
        if self.holder == Some(from) {
            self.holder = None;
            self.grant_next(out);
        }
    }

    fn grant_next(&mut self, out: &mut Outbox<Central>) {
        if self.holder.is_none() {
            self.holder = self.queue.pop_front();
            if let Some(next) = self.holder {
                self.grants += 1;
                out.send(next, Message::Grant { fence: self.grants });
            }
        }
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "central",
    family: Family::Mutex,
    summary: "one coordinator outside the group grants in order of arrival",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[],
    broken: None,
};

/// n clients and one coordinator.
pub fn group(params: &Params) -> Result<Group<Central>, SetupError> {
    let coordinator = params.n;
    Ok(Group::new(params.n, params.n + 1, move |id| {
        if id == coordinator { Central::Coordinator(Coordinator::default()) } else { Central::Client { coordinator } }
    }))
}
