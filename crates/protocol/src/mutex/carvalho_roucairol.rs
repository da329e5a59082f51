//! Carvalho and Roucairol, "On mutual exclusion in computer networks" (1983).
//!
//! [Ricart and Agrawala's](super::ricart_agrawala) algorithm with permissions that stay: a process that has another's
//! permission keeps it until the other asks for it. A process that wants to enter sends REQUEST, stamped (time, id),
//! only to the processes whose permission it lacks, and enters when it has all permissions. A waiting process with a
//! larger stamp than an incoming REQUEST gives its permission with REPLY. If it had the permission of the requester
//! until then, it has lost this permission, and sends its own REQUEST again. A process that is inside, or waits with
//! the smaller stamp, defers its REPLY until it leaves.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. No process crashes.
//! - Promises: SAFE, LIVE and growing fences. Not ORDER: a process that still has all permissions enters at once,
//!   although another process may have requested earlier.
//! - Invariants: of two processes at most one has the other's permission. A process inside has the permissions of all
//!   others.
//! - Costs: 2 messages for each missing permission, so 0 to 2(n-1) an entry: 2(n-1) if all processes want to enter or
//!   enter in turns, n on average if single requests come from random processes. 0 or 2T from request to grant; T from
//!   exit to next entry.
//! - Fences: REPLY carries the highest fence that its sender knows; the entering process takes the next number. That is
//!   enough: the last process inside had all permissions, so every other process needs its REPLY before it enters.

use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Way};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CarvalhoRoucairol {
    me: ProcessId,
    clock: LamportClock,
    state: State,
    /// Processes whose permission this process lacks.
    missing: ProcessSet,
    /// Requests that get their REPLY when this process leaves.
    deferred: Vec<Stamp>,
    /// The highest fence that this process knows.
    fence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Released,
    Wanted(Stamp),
    Held,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// The sender wants to enter and lacks the receiver's permission.
    Request {
        /// With the sender's id it is the stamp of the request.
        time: u64,
    },
    /// The receiver has the sender's permission, until the sender sends a REQUEST.
    Reply {
        /// Time of the request that this answers.
        request: u64,
        /// The highest fence that the sender knows.
        fence: u64,
    },
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Message::Request { time } => visit(Counter::Clock, time),
            Message::Reply { request, fence } => {
                visit(Counter::Clock, request);
                visit(Counter::Fence, fence);
            }
        }
    }
}

impl Protocol for CarvalhoRoucairol {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { from, message: Message::Request { time } } => {
                self.clock.observe(time);
                self.on_request(Stamp { time, process: from }, out);
            }
            Input::Message { from, message: Message::Reply { request, fence } } => {
                self.on_reply(from, request, fence, out);
            }
            Input::AppSend => out.stamp(self.clock.tick()),
            Input::AppReceive(time) => self.clock.observe(time),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        let request = if let State::Wanted(ours) = self.state { Some(ours.time) } else { None };
        Picture::new()
            .state(&self.state)
            .field("request", request)
            .field("clock", self.clock.now())
            .set("missing", self.missing.iter())
            .queue("deferred", self.deferred.iter().copied())
            .field("fence", self.fence)
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Clock, self.clock.time_mut());
        self.deferred.iter_mut().for_each(|request| visit(Counter::Clock, &mut request.time));
        if let State::Wanted(request) = &mut self.state {
            visit(Counter::Clock, &mut request.time);
        }
        visit(Counter::Fence, &mut self.fence);
    }
}

impl CarvalhoRoucairol {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        let request = Stamp { time: self.clock.tick(), process: self.me };
        self.state = State::Wanted(request);
        out.multicast(self.missing.iter(), Message::Request { time: request.time });
        self.enter_if_allowed(out);
    }

    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<Self>) {
        match self.state {
            State::Released => {
                self.give_permission(theirs, out);
            }
            State::Wanted(ours) if theirs < ours => {
                let had_theirs = self.give_permission(theirs, out);
                if had_theirs {
                    out.send(theirs.process, Message::Request { time: ours.time });
                }
            }
            State::Wanted(_) | State::Held => self.deferred.push(theirs),
        }
    }

    fn on_reply(&mut self, from: ProcessId, request: u64, fence: u64, out: &mut Outbox<Self>) {
        if matches!(self.state, State::Wanted(ours) if ours.time == request) {
            self.fence = self.fence.max(fence);
            self.missing.remove(from);
            self.enter_if_allowed(out);
        }
    }

    fn enter_if_allowed(&mut self, out: &mut Outbox<Self>) {
        if self.missing.is_empty() {
            self.state = State::Held;
            self.fence = self.fence.saturating_add(1);
            out.emit(Event::Granted { fence: self.fence });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Released;
        for request in core::mem::take(&mut self.deferred) {
            self.give_permission(request, out);
        }
    }

    /// Returns whether this process had the permission of the requester until now. It loses it here, because of two
    /// processes only one can have the other's permission.
    fn give_permission(&mut self, to: Stamp, out: &mut Outbox<Self>) -> bool {
        out.send(to.process, Message::Reply { request: to.time, fence: self.fence });
        self.missing.insert(to.process)
    }
}

pub const ABOUT: About = About {
    name: "carvalho-roucairol",
    family: Family::Mutex,
    way: Some(Way::AsksEverybody),
    summary: "ask the processes whose permission is missing; a permission stays until it is asked back",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[VIEWS],
    broken: None,
};

/// n equal processes; at first no process has a permission.
pub fn group(params: &Params) -> Result<Group<CarvalhoRoucairol>, SetupError> {
    let n = params.n;
    params.at_most_quadratic()?;
    Ok(Group::new(n, n, move |me| {
        let mut others = ProcessSet::all(n);
        others.remove(me);
        CarvalhoRoucairol {
            me,
            clock: LamportClock::default(),
            state: State::Released,
            missing: others,
            deferred: Vec::new(),
            fence: 0,
        }
    }))
}
