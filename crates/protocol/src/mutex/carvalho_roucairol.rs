//! Carvalho and Roucairol, "On mutual exclusion in computer networks" (1983).
//!
//! Assumes: nothing of the order of messages. None may be lost, nobody may crash.
//!
//! [Ricart and Agrawala's](super::ricart_agrawala) algorithm, but a permission once given stays until it is asked back:
//! who wants to enter sends REQUEST, stamped (time, id), only to those whose permission is missing. Who waits with a
//! larger stamp gives the permission by REPLY; if it had that of the other, which is gone now, it asks for it again.
//!
//! Invariants: of two processes at most one has the other's permission, and who is inside has that of all others.
//! Costs: twice the number of missing permissions an entry, 0 to 2(n-1); 0 or 2T from request to grant; T from exit to
//! the next entry.
//! Fences: REPLY carries the highest fence known, the entrant takes the next. That is enough: whoever entered last had
//! everybody's permission, so all others must ask it before they can enter.
//!
//! It loses ORDER: who still has all permissions enters at once, without asking whether somebody asked before.

use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError};
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol};

/// One process of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CarvalhoRoucairol {
    me: ProcessId,
    clock: LamportClock,
    state: State,
    /// Whose permission is not here.
    missing: ProcessSet,
    /// Requests to be answered on leaving.
    deferred: Vec<Stamp>,
    /// The highest that it knows of.
    fence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Released,
    Wanted(Stamp),
    Held,
}

/// What processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// I want to enter and have not got your permission.
    Request {
        /// With the sender's id, the stamp of the request.
        time: u64,
    },
    /// You have it, until I ask for yours.
    Reply {
        /// The time of the request that this answers.
        request: u64,
        /// The highest fence known.
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

    /// Of two processes only one can have the other's permission: returns whether it was here until now.
    fn give_permission(&mut self, to: Stamp, out: &mut Outbox<Self>) -> bool {
        out.send(to.process, Message::Reply { request: to.time, fence: self.fence });
        self.missing.insert(to.process)
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "carvalho-roucairol",
    family: Family::Mutex,
    summary: "ask everybody whose permission you have not got; one once given stays until asked back",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[],
    broken: None,
};

/// n equal processes, nobody with a permission.
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
