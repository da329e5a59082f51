//! The permission ring: a request travels once round the ring and enters when it comes back.
//!
//! Assumes: nothing of the order of messages. None may be lost, nobody may crash.
//!
//! Who wants to enter sends REQUEST, stamped (time, id), to the next process on the ring, i to i + 1 mod n. Whoever is
//! in the critical section, or waits with a smaller stamp, parks a passing request and sends it on when it leaves; all
//! others send it on at once. It is Ricart and Agrawala's rule, with one message that collects all permissions.
//!
//! Invariants: a request that has come back has been seen by everybody, so that every later one is stamped higher, and
//! no smaller one is waiting; entries happen in the order of stamps.
//! Costs: n messages an entry; nT from request to grant if nobody competes; T to (n-1)T from exit to the entry of one
//! that was parked, T if everybody wants.
//! Fences: the request's stamp, since entries happen in that order.
//!
//! The original rule ([`Rivalry::Swallow`]) is that whoever wants to enter swallows the requests of others, and that
//! the loser will try again. But nobody tells the loser, and while two want to enter each swallows what the other
//! sends. A REQUEST carries its last sender's clock too, so that what a process asks for after it has sent one on
//! comes later for the receiver as well.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError};
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol, Ticks};

/// One process of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PermissionRing {
    me: ProcessId,
    n: usize,
    rivalry: Rivalry,
    clock: LamportClock,
    state: State,
    /// Requests to be sent on when leaving.
    parked: Vec<Stamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Released,
    Wanted(Stamp),
    Held,
}

/// What becomes of a request that meets a process with a better claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rivalry {
    /// It waits for those that came before it.
    Park,
    /// It is lost, whoever came first.
    Swallow {
        /// When it is sent again if it has not come back, if ever.
        retry_after: Option<Ticks>,
    },
}

/// What processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Somebody wants to enter.
    Request {
        /// Who, and since when.
        stamp: Stamp,
        /// The clock of whoever sent it on.
        time: u64,
    },
}

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The own request seems to be lost.
    Retry,
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        "REQUEST"
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let Message::Request { stamp, time } = self;
        visit(Counter::Clock, &mut stamp.time);
        visit(Counter::Clock, time);
    }
}

impl Protocol for PermissionRing {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { message: Message::Request { stamp, time }, .. } => {
                self.clock.observe(time.max(stamp.time));
                self.on_request(stamp, out);
            }
            Input::Timer(Timer::Retry) => self.send_own(out),
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
            .pointer("next", self.next())
            .queue("parked", self.parked.iter().copied())
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Clock, self.clock.time_mut());
        self.parked.iter_mut().for_each(|request| visit(Counter::Clock, &mut request.time));
        if let State::Wanted(request) = &mut self.state {
            visit(Counter::Clock, &mut request.time);
        }
    }
}

impl PermissionRing {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Wanted(Stamp { time: self.clock.tick(), process: self.me });
        self.send_own(out);
    }

    fn send_own(&mut self, out: &mut Outbox<Self>) {
        let State::Wanted(ours) = self.state else { return };
        self.send_on(ours, out);
        if let Some(retry_after) = self.rivalry.retry_after() {
            out.set_timer(Timer::Retry, retry_after);
        }
    }

    fn on_request(&mut self, stamp: Stamp, out: &mut Outbox<Self>) {
        if stamp.process == self.me {
            return self.on_return(stamp, out);
        }
        match (self.rivalry, self.state) {
            (_, State::Released) => self.send_on(stamp, out),
            (Rivalry::Park, State::Wanted(ours)) if stamp < ours => self.send_on(stamp, out),
            (Rivalry::Park, State::Wanted(_) | State::Held) => self.parked.push(stamp),
            (Rivalry::Swallow { .. }, State::Wanted(_) | State::Held) => {}
        }
    }

    /// The own request is back: everybody has let it pass.
    fn on_return(&mut self, stamp: Stamp, out: &mut Outbox<Self>) {
        if self.state == State::Wanted(stamp) {
            self.state = State::Held;
            if self.rivalry.retry_after().is_some() {
                out.cancel_timer(Timer::Retry);
            }
            out.emit(Event::Granted { fence: stamp.fence() });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Released;
        for stamp in core::mem::take(&mut self.parked) {
            self.send_on(stamp, out);
        }
    }

    fn send_on(&mut self, stamp: Stamp, out: &mut Outbox<Self>) {
        out.send(self.next(), Message::Request { stamp, time: self.clock.now() });
    }

    fn next(&self) -> ProcessId {
        (self.me + 1) % self.n
    }
}

impl Rivalry {
    fn retry_after(self) -> Option<Ticks> {
        match self {
            Rivalry::Park => None,
            Rivalry::Swallow { retry_after } => retry_after,
        }
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "permission-ring",
    family: Family::Mutex,
    summary: "a request goes round the ring; who has a better claim parks it for as long",
    assumes: Assumes::LOSSLESS,
    promises: Promises::ALL,
    variants: &[],
    broken: None,
};

/// n equal processes.
pub fn group(params: &Params) -> Result<Group<PermissionRing>, SetupError> {
    group_with(params, Rivalry::Park)
}

/// The same with another rule for rivals.
pub fn group_with(params: &Params, rivalry: Rivalry) -> Result<Group<PermissionRing>, SetupError> {
    let n = params.n;
    params.at_most(Stamp::PROCESSES_MAX, "its fences carry the id in 16 bits")?;
    Ok(Group::new(n, n, move |me| PermissionRing {
        me,
        n,
        rivalry,
        clock: LamportClock::default(),
        state: State::Released,
        parked: Vec::new(),
    }))
}
