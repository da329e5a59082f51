//! The central server: one coordinator, outside the group, grants the critical section first come, first served.
//!
//! A client sends REQUEST, waits for GRANT, and sends RELEASE when it leaves. The coordinator keeps a FIFO queue of
//! clients.
//!
//! In the variant `lease:L` a grant ends after L times D, released or not, so a dead or paused holder blocks no other
//! client. The paused holder does not learn of the end: it still believes that it holds the lock while the next client
//! is inside. Only its lower fence gives it away.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. Neither the coordinator nor a holder
//!   crashes.
//! - Promises: SAFE, LIVE and growing fences. Not ORDER.
//! - Invariants: at most one grant is neither released nor expired; the queue holds each client at most once, and never
//!   the holder.
//! - Costs: 3 messages an entry; 2T from request to grant; 2T from exit to next entry.
//! - Fences: the coordinator counts its grants.
//!
//! Traps. The queue is FIFO by arrival, which is not ORDER: the network may deliver a later request first. A client
//! cannot tell a dead coordinator from a busy lock, since both are silent. A late RELEASE must not end a later grant,
//! so RELEASE names its grant.

use alloc::collections::VecDeque;
use alloc::string::ToString;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Variant, Way};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol, Ticks};

/// Processes `0..n` are clients; process n is the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Central {
    Client {
        coordinator: ProcessId,
        /// Fence of the latest grant that this client has not released.
        fence: Option<u64>,
    },
    Coordinator(Coordinator),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordinator {
    holder: Option<ProcessId>,
    queue: VecDeque<ProcessId>,
    grants: u64,
    /// The time after which a grant ends without a release.
    lease: Option<Ticks>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Client to coordinator.
    Request,
    /// Coordinator to client: you may enter.
    Grant { fence: u64 },
    /// Client to coordinator: I have left.
    Release {
        /// The fence of the released grant: a late RELEASE must not end a later grant.
        fence: u64,
    },
}

/// The fences form a [`Counter::Number`], not a [`Counter::Fence`]: the coordinator compares the fence of a RELEASE
/// with the latest one.
const GRANTS: Counter = Counter::Number(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The lease of the latest grant has expired.
    Lease,
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request => "REQUEST",
            Message::Grant { .. } => "GRANT",
            Message::Release { .. } => "RELEASE",
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Message::Request => {}
            Message::Grant { fence } | Message::Release { fence } => visit(GRANTS, fence),
        }
    }
}

impl Protocol for Central {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match (self, input) {
            (Central::Client { coordinator, .. }, Input::Command(Command::Acquire)) => {
                out.send(*coordinator, Message::Request);
            }
            (Central::Client { fence: held, .. }, Input::Message { message: Message::Grant { fence }, .. }) => {
                *held = Some(fence);
                out.emit(Event::Granted { fence });
            }
            (Central::Client { coordinator, fence }, Input::Command(Command::Release)) => {
                if let Some(fence) = fence.take() {
                    out.send(*coordinator, Message::Release { fence });
                }
            }
            (Central::Coordinator(server), Input::Message { from, message: Message::Request }) => {
                server.on_request(from, out);
            }
            (Central::Coordinator(server), Input::Message { from, message: Message::Release { fence } }) => {
                server.on_release(from, fence, out);
            }
            (Central::Coordinator(server), Input::Timer(Timer::Lease)) => server.end_grant(out),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        match self {
            Central::Client { coordinator, fence } => {
                Picture::new().pointer("coordinator", *coordinator).field("fence", *fence)
            }
            Central::Coordinator(server) => Picture::new()
                .pointer("holder", server.holder)
                .queue("queue", server.queue.iter().copied())
                .field("grants", server.grants),
        }
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Central::Client { fence, .. } => fence.iter_mut().for_each(|fence| visit(GRANTS, fence)),
            Central::Coordinator(server) => visit(GRANTS, &mut server.grants),
        }
    }
}

impl Coordinator {
    fn on_request(&mut self, from: ProcessId, out: &mut Outbox<Central>) {
        self.queue.push_back(from);
        self.grant_next(out);
    }

    fn on_release(&mut self, from: ProcessId, fence: u64, out: &mut Outbox<Central>) {
        if self.holder == Some(from) && self.grants == fence {
            if self.lease.is_some() {
                out.cancel_timer(Timer::Lease);
            }
            self.end_grant(out);
        }
    }

    fn end_grant(&mut self, out: &mut Outbox<Central>) {
        self.holder = None;
        self.grant_next(out);
    }

    fn grant_next(&mut self, out: &mut Outbox<Central>) {
        if self.holder.is_none() {
            self.holder = self.queue.pop_front();
            if let Some(next) = self.holder {
                self.grants += 1;
                out.send(next, Message::Grant { fence: self.grants });
                if let Some(lease) = self.lease {
                    out.set_timer(Timer::Lease, lease);
                }
            }
        }
    }
}

pub const ABOUT: About = About {
    name: "central",
    family: Family::Mutex,
    way: Some(Way::AsksCoordinator),
    summary: "one coordinator outside the group grants in order of arrival",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[Variant { name: "lease:L", summary: "a grant ends after L times the bound D on delays" }, VIEWS],
    broken: None,
};

/// n clients and one coordinator, process n.
pub fn group(params: &Params) -> Result<Group<Central>, SetupError> {
    let (coordinator, lease) = (params.n, lease(params)?);
    let mut group = Group::new(params.n, params.n + 1, move |id| {
        if id == coordinator {
            Central::Coordinator(Coordinator { lease, ..Coordinator::default() })
        } else {
            Central::Client { coordinator, fence: None }
        }
    });
    group.lease = lease;
    Ok(group)
}

fn lease(params: &Params) -> Result<Option<Ticks>, SetupError> {
    let Some(value) = params.value("lease") else { return Ok(None) };
    match value.parse().ok().and_then(|lease: Ticks| lease.checked_mul(params.delay_max)) {
        Some(lease) if lease > 0 => Ok(Some(lease)),
        _ => Err(SetupError::Value {
            what: "a lease",
            value: value.to_string(),
            reason: "write a whole number of message delays, at least 1".to_string(),
        }),
    }
}
