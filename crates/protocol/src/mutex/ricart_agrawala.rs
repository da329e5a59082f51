//! Ricart and Agrawala, "An optimal algorithm for mutual exclusion in computer networks" (1981).
//!
//! Assumes: nothing of the order of messages. None may be lost, nobody may crash.
//!
//! Who wants to enter sends REQUEST, stamped (time, id), to all others and enters when all have sent REPLY. A process
//! that is in the critical section, or wants to enter with a smaller stamp, puts its REPLY off until it has left.
//!
//! Invariants: of two processes that wait, the one with the smaller stamp has no REPLY to the other's request on
//! its way; entries happen in the order of stamps.
//! Costs: 2(n-1) messages an entry; 2T from request to grant; T from exit to the next entry.
//! Fences: the request's stamp, since entries happen in that order.
//!
//! Ids must break ties ([`Precedence::TimeThenId`]): by time alone two equal requests let each other in. A REPLY names
//! the request that it answers and carries the clock as well, so that the next request of its receiver comes after
//! everything its sender had seen.

use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError};
use crate::{Input, Outbox, ProcessId, ProcessSet, Protocol};

/// One process of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RicartAgrawala {
    me: ProcessId,
    n: usize,
    precedence: Precedence,
    clock: LamportClock,
    state: State,
    /// Whose REPLY is still missing; empty unless WANTED.
    awaiting: ProcessSet,
    /// Requests to be answered on leaving.
    deferred: Vec<Stamp>,
}

/// The paper's three states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Released,
    Wanted(Stamp),
    Held,
}

/// Which of two requests comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precedence {
    /// A total order.
    TimeThenId,
    /// Not a total order: neither of two equal times precedes the other.
    TimeOnly,
}

/// What processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// I want to enter.
    Request {
        /// With the sender's id, the stamp of the request.
        time: u64,
    },
    /// You may enter, as far as I am concerned.
    Reply {
        /// The sender's clock.
        time: u64,
        /// The time of the request that this answers.
        request: u64,
    },
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
        }
    }
}

impl Protocol for RicartAgrawala {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { from, message: Message::Request { time } } => {
                self.clock.receive(time);
                self.on_request(Stamp { time, process: from }, out);
            }
            Input::Message { from, message: Message::Reply { time, request } } => {
                self.clock.receive(time);
                self.on_reply(from, request, out);
            }
            Input::AppSend => out.stamp(self.clock.tick()),
            Input::AppReceive(time) => {
                self.clock.receive(time);
            }
            _ => {}
        }
    }
}

impl RicartAgrawala {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        let request = Stamp { time: self.clock.tick(), process: self.me };
        self.state = State::Wanted(request);
        self.awaiting.fill();
        self.awaiting.remove(self.me);
        let others = (0..self.n).filter(|&other| other != self.me);
        out.multicast(others, Message::Request { time: request.time });
    }

    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<Self>) {
        let defer = match self.state {
            State::Released => false,
            State::Wanted(ours) => self.precedence.precedes(ours, theirs),
            State::Held => true,
        };
        if defer {
            self.deferred.push(theirs);
        } else {
            self.reply(theirs, out);
        }
    }

    fn on_reply(&mut self, from: ProcessId, request: u64, out: &mut Outbox<Self>) {
        let State::Wanted(ours) = self.state else { return };
        if request == ours.time {
            self.awaiting.remove(from);
            if self.awaiting.is_empty() {
                self.state = State::Held;
                out.emit(Event::Granted { fence: ours.fence() });
            }
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Released;
        for request in core::mem::take(&mut self.deferred) {
            self.reply(request, out);
        }
    }

    fn reply(&mut self, to: Stamp, out: &mut Outbox<Self>) {
        out.send(to.process, Message::Reply { time: self.clock.tick(), request: to.time });
    }
}

impl Precedence {
    fn precedes(self, ours: Stamp, theirs: Stamp) -> bool {
        match self {
            Precedence::TimeThenId => ours < theirs,
            Precedence::TimeOnly => ours.time < theirs.time,
        }
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "ricart-agrawala",
    family: Family::Mutex,
    summary: "ask everybody; who comes later, by Lamport time and id, waits for the reply",
    assumes: Assumes::LOSSLESS,
    promises: Promises::ALL,
    variants: &[],
    broken: None,
};

/// n equal processes.
pub fn group(params: &Params) -> Result<Group<RicartAgrawala>, SetupError> {
    group_with(params, Precedence::TimeThenId)
}

/// The same with a precedence to choose.
pub fn group_with(params: &Params, precedence: Precedence) -> Result<Group<RicartAgrawala>, SetupError> {
    let n = params.n;
    params.at_most(Stamp::PROCESSES_MAX, "its fences carry the id in 16 bits")?;
    Ok(Group::new(n, n, move |me| RicartAgrawala {
        me,
        n,
        precedence,
        clock: LamportClock::default(),
        state: State::Released,
        awaiting: ProcessSet::none(n),
        deferred: Vec::new(),
    }))
}
