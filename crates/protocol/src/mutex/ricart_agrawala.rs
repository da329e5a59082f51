//! Ricart and Agrawala, "An optimal algorithm for mutual exclusion in computer networks" (1981).
//!
//! A process that wants to enter sends REQUEST, stamped (time, id), to all others, and enters when all have sent REPLY.
//! A process that is in the critical section, or wants to enter and has the smaller stamp, defers its REPLY until it
//! leaves.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. The failure detector reports crashes to
//!   all live processes, without mistakes. Crashes without recovery may overlap; a crash with recovery is over before
//!   the next crash.
//! - Promises: SAFE, LIVE, ORDER and growing fences.
//! - Invariants: of two waiting processes, the one with the smaller stamp has sent no REPLY to the other's request.
//!   Entries happen in the order of stamps.
//! - Costs: 2(n-1) messages an entry; 2T from request to grant; T from exit to next entry.
//! - Fences: the stamp of the request, since entries happen in the order of stamps.
//!
//! Traps. Ids must break ties ([`Precedence::TimeThenId`]): by time alone, two requests with equal times let each other
//! in. A process compares the stamp of its request, not its clock, which has moved on. A REPLY names the request that
//! it answers, so that a late REPLY does not count for a later request. A REPLY also carries the sender's clock, so
//! that the next request of its receiver comes after all events that the sender knew of.
//!
//! Crashes. Crashed processes need not answer and get no REQUEST, and their requests are void. A crash ends a request
//! and a stay inside even if the memory survives, since the other processes go on. A recovered process must not use a
//! stamp below its earlier ones. When a process learns of the recovery, it sends WELCOME with its clock to the
//! recovered process; if it waits, it also sends its REQUEST. The recovered process sends requests only after all live
//! processes have sent WELCOME. Requests of its user before that count from then on. Processes must recover one at a
//! time: each WELCOME arrives before the next recovery. At each recovery some live process must know of the last entry,
//! or fences start again.

use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Crashes, Family, Group, Overlap, Params, Promises, SetupError, Way};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol, Start};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RicartAgrawala {
    me: ProcessId,
    precedence: Precedence,
    clock: LamportClock,
    state: State,
    /// Processes whose REPLY is missing; empty unless WANTED.
    awaiting: ProcessSet,
    /// Requests that get their REPLY when this process leaves.
    deferred: Vec<Stamp>,
    /// The other processes that have not crashed.
    alive: ProcessSet,
    /// Processes whose WELCOME is missing; empty unless this process has recovered.
    unwelcomed: ProcessSet,
}

/// The paper's three states, and one for a recovered process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Released,
    /// The user wants to enter, but WELCOMEs are missing, so the process must not send REQUEST yet.
    Unwelcome,
    Wanted(Stamp),
    Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precedence {
    TimeThenId,
    /// Not a total order: of two requests with equal times, neither precedes the other. Broken on purpose.
    TimeOnly,
    /// A waiting process compares a request with its clock of now instead of the stamp of its own request. Broken on
    /// purpose.
    CurrentClock,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    Request {
        /// The sender's clock. With the sender's id it is the stamp of the request.
        time: u64,
    },
    /// The sender permits the receiver to enter.
    Reply {
        time: u64,
        /// Time of the request that this answers.
        request: u64,
    },
    /// To a recovered process, when the sender's detector reports the recovery.
    Welcome { time: u64 },
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
            Message::Welcome { .. } => "WELCOME",
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Message::Request { time } | Message::Welcome { time } => visit(Counter::Clock, time),
            Message::Reply { time, request } => {
                visit(Counter::Clock, time);
                visit(Counter::Clock, request);
            }
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
            Input::Message { from, message } => self.on_message(from, message, out),
            Input::Start(Start::Recovered) => self.recover(),
            Input::Suspect(other) => self.on_suspect(other, out),
            Input::Trust(other) if other != self.me => self.on_trust(other, out),
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
            .set("awaiting", self.awaiting.iter())
            .queue("deferred", self.deferred.iter().copied())
            .set("alive", self.alive.iter())
            .set("unwelcomed", self.unwelcomed.iter())
    }

    fn is_ready(&self) -> bool {
        self.unwelcomed.is_empty()
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Clock, self.clock.time_mut());
        self.deferred.iter_mut().for_each(|request| visit(Counter::Clock, &mut request.time));
        if let State::Wanted(request) = &mut self.state {
            visit(Counter::Clock, &mut request.time);
        }
    }
}

impl RicartAgrawala {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Unwelcome;
        self.ask_if_welcome(out);
    }

    fn ask_if_welcome(&mut self, out: &mut Outbox<Self>) {
        if self.state == State::Unwelcome && self.is_ready() {
            let request = Stamp { time: self.clock.tick(), process: self.me };
            self.state = State::Wanted(request);
            self.awaiting = self.alive.clone();
            out.multicast(self.alive.iter(), Message::Request { time: request.time });
            self.enter_if_allowed(out);
        }
    }

    fn on_message(&mut self, from: ProcessId, message: Message, out: &mut Outbox<Self>) {
        let (Message::Request { time } | Message::Reply { time, .. } | Message::Welcome { time }) = message;
        self.clock.observe(time);
        match message {
            // The sender has crashed since. Only its clock counts: the next request of this process comes after the
            // message.
            _ if !self.alive.contains(from) => {}
            Message::Request { time } => self.on_request(Stamp { time, process: from }, out),
            Message::Reply { request, .. } => self.on_reply(from, request, out),
            Message::Welcome { .. } => {
                self.unwelcomed.remove(from);
                self.ask_if_welcome(out);
            }
        }
    }

    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<Self>) {
        let defer = match self.state {
            State::Released | State::Unwelcome => false,
            State::Wanted(ours) => {
                let ours = match self.precedence {
                    // The arrival of the request is an event, so the clock has moved beyond its time.
                    Precedence::CurrentClock => Stamp { time: self.clock.receive(theirs.time), process: self.me },
                    Precedence::TimeThenId | Precedence::TimeOnly => ours,
                };
                self.precedence.precedes(ours, theirs)
            }
            State::Held => true,
        };
        if defer {
            self.deferred.push(theirs);
        } else {
            self.reply(theirs, out);
        }
    }

    fn on_reply(&mut self, from: ProcessId, request: u64, out: &mut Outbox<Self>) {
        if matches!(self.state, State::Wanted(ours) if ours.time == request) {
            self.awaiting.remove(from);
            self.enter_if_allowed(out);
        }
    }

    fn enter_if_allowed(&mut self, out: &mut Outbox<Self>) {
        if let State::Wanted(request) = self.state
            && self.awaiting.is_empty()
        {
            self.state = State::Held;
            out.emit(Event::Granted { fence: request.fence() });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Released;
        for request in core::mem::take(&mut self.deferred) {
            self.reply(request, out);
        }
    }

    fn reply(&mut self, to: Stamp, out: &mut Outbox<Self>) {
        out.send(to.process, Message::Reply { time: self.clock.now(), request: to.time });
    }

    fn recover(&mut self) {
        self.state = State::Released;
        self.awaiting.clear();
        self.deferred.clear();
        self.alive.fill();
        self.alive.remove(self.me);
        self.unwelcomed = self.alive.clone();
    }

    fn on_suspect(&mut self, dead: ProcessId, out: &mut Outbox<Self>) {
        self.alive.remove(dead);
        self.deferred.retain(|request| request.process != dead);
        self.awaiting.remove(dead);
        self.enter_if_allowed(out);
        self.unwelcomed.remove(dead);
        self.ask_if_welcome(out);
    }

    fn on_trust(&mut self, other: ProcessId, out: &mut Outbox<Self>) {
        self.alive.insert(other);
        out.send(other, Message::Welcome { time: self.clock.now() });
        if let State::Wanted(request) = self.state {
            self.awaiting.insert(other);
            out.send(other, Message::Request { time: request.time });
        }
    }
}

impl Precedence {
    fn precedes(self, ours: Stamp, theirs: Stamp) -> bool {
        match self {
            Precedence::TimeThenId | Precedence::CurrentClock => ours < theirs,
            Precedence::TimeOnly => ours.time < theirs.time,
        }
    }
}

pub const ABOUT: About = About {
    name: "ricart-agrawala",
    family: Family::Mutex,
    way: Some(Way::AsksEverybody),
    summary: "ask all processes; the later request, by Lamport time and id, waits for its replies",
    assumes: Assumes { crashes: Crashes::Detected, overlap: Overlap::Final, ..Assumes::LOSSLESS },
    promises: Promises::ALL,
    variants: &[VIEWS],
    broken: None,
};

pub fn group(params: &Params) -> Result<Group<RicartAgrawala>, SetupError> {
    group_with(params, Precedence::TimeThenId)
}

/// Also used by the broken variants, which compare something else.
pub fn group_with(params: &Params, precedence: Precedence) -> Result<Group<RicartAgrawala>, SetupError> {
    let n = params.n;
    params.at_most_quadratic()?;
    Ok(Group::new(n, n, move |me| {
        let mut others = ProcessSet::all(n);
        others.remove(me);
        RicartAgrawala {
            me,
            precedence,
            clock: LamportClock::default(),
            state: State::Released,
            awaiting: ProcessSet::none(n),
            deferred: Vec::new(),
            alive: others,
            unwelcomed: ProcessSet::none(n),
        }
    }))
}
