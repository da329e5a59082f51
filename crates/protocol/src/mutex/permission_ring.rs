//! The permission ring: a request travels once round the ring and enters when it comes back.
//!
//! A process that wants to enter sends REQUEST, stamped (time, id), to the next process on the ring, i to i + 1 mod n.
//! A process that is in the critical section, or waits with a smaller stamp, parks a passing request and forwards it
//! when it leaves. All other processes forward the request at once. This is the rule of [Ricart and
//! Agrawala](super::ricart_agrawala), with one message that collects all permissions.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. No process crashes.
//! - Promises: SAFE, LIVE, ORDER and growing fences.
//! - Invariants: when a request has come back, all processes have seen it. So every later request has a larger stamp,
//!   and no request with a smaller stamp is waiting. Entries happen in the order of stamps.
//! - Costs: n messages an entry; nT from request to grant without competition; T to (n-1)T from exit to the entry of a
//!   parked request, T if all processes want to enter.
//! - Fences: the stamp of the request, since entries happen in the order of stamps.
//!
//! Traps. In the original rule ([`Rivalry::Swallow`]) a process that wants to enter swallows the requests of others,
//! and the loser tries again. But the loser never learns that it lost, and while two processes want to enter, each
//! swallows every request of the other. Without the clock of the forwarding process in each REQUEST, ORDER fails: a
//! later request of the receiver could get a smaller stamp than an earlier request of the sender.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Way};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol, Ticks};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PermissionRing {
    me: ProcessId,
    n: usize,
    rivalry: Rivalry,
    clock: LamportClock,
    state: State,
    /// Requests that this process forwards when it leaves.
    parked: Vec<Stamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Released,
    Wanted(Stamp),
    Held,
}

/// What a process that is inside or waits does with a passing request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rivalry {
    /// Parks it, if the own request came first.
    Park,
    /// Drops it, whichever request came first. Broken on purpose.
    Swallow {
        /// The time after which a process repeats a request that has not come back; never if `None`.
        retry_after: Option<Ticks>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    Request {
        /// The request: its process and its time.
        stamp: Stamp,
        /// The clock of the process that forwarded the message.
        time: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The own request has not come back in time.
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

    /// The own request is back: all other processes have let it pass.
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

pub const ABOUT: About = About {
    name: "permission-ring",
    family: Family::Mutex,
    way: Some(Way::AsksEverybody),
    summary: "a request goes round the ring; a process with an earlier request parks it until it leaves",
    assumes: Assumes::LOSSLESS,
    promises: Promises::ALL,
    variants: &[VIEWS],
    broken: None,
};

pub fn group(params: &Params) -> Result<Group<PermissionRing>, SetupError> {
    group_with(params, Rivalry::Park)
}

/// Also used by the broken variant, which swallows requests.
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
    })
    .on_ring(0..n))
}
