//! Lamport, "Time, clocks, and the ordering of events in a distributed system" (1978).
//!
//! Assumes: links keep the order of messages and lose none. Crashes are reported to all who live, without mistakes. A crash
//! and the recovery from it are over before the next crash, unless nobody comes back.
//!
//! Everybody keeps a queue of all requests, by (time, id). Who wants to enter puts its own there and sends it as REQUEST
//! to all others, who answer with ACK, and enters when its request heads the queue and something later has come from
//! everyone. RELEASE to all takes it out. Any later message counts, a REQUEST as well as an ACK: on links that keep
//! the order, nothing earlier can follow it. On others SAFE fails with two processes in 4 steps. In the variant
//! `ack-only` a REQUEST does not count, only what answers one: ACK or RELEASE. It fails on such links too, in 6 steps.
//!
//! Invariants: a request is in the queue of everyone from whom something later has come; entries are in queue order.
//! Costs: 3(n-1) messages an entry; 2T from request to grant; T from exit to the next entry.
//! Fences: the request's stamp, since entries happen in that order.
//!
//! The dead need not answer, and their requests leave the queues. A crash ends a request and a stay inside even if
//! memory survives, since the others go on. Who is told of a recovery sends WELCOME with its clock and its request, and
//! JOINED comes back: on both sides, what came on the link before that is of an earlier life. Who recovers asks only
//! when all who live have sent it WELCOME: then it knows the queue, and uses no stamp below earlier ones. What its user
//! asks before it is ready counts from then on. Processes have to recover one at a time, each WELCOME and JOINED arriving
//! before the next recovery, and somebody who knows of the last entry has to be alive then, or fences begin anew.

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Crashes, Family, Group, Overlap, Params, Promises, SetupError, Variant};
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol, Start};

/// One process of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lamport {
    me: ProcessId,
    answers: Answers,
    clock: LamportClock,
    state: State,
    /// What is known of each process; the own place is not used.
    peers: Vec<Peer>,
}

/// What tells a process that waits that nothing earlier can come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answers {
    /// Any later message.
    Any,
    /// Any but a REQUEST.
    AckOnly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// Wants to enter, but must not ask yet.
    Unwelcome,
    /// Has asked at this time.
    Waiting(u64),
    /// Is inside with the request of this time.
    Inside(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Peer {
    standing: Standing,
    /// The time of the latest message from it that counts as an answer.
    latest: u64,
    /// The time of its request: its place in the queue, if it has one.
    request: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    Alive,
    /// It has recovered: what comes from it before JOINED is of its earlier life.
    Joining,
    /// This process has recovered: what comes from the other before WELCOME was meant for its earlier life.
    Unmet,
    Dead,
}

/// What processes tell each other; each with the sender's clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// I want to enter.
    Request {
        /// With the sender's id, the stamp of the request.
        time: u64,
    },
    /// I know that you want to.
    Ack {
        /// The sender's clock.
        time: u64,
    },
    /// I have left.
    Release {
        /// The sender's clock.
        time: u64,
    },
    /// You have recovered, and I know.
    Welcome {
        /// The sender's clock.
        time: u64,
        /// The time of the sender's request, if it waits or is inside.
        request: Option<u64>,
    },
    /// I have recovered, and know that you know.
    Joined {
        /// The sender's clock.
        time: u64,
    },
}

impl Message {
    /// The sender's clock.
    fn time(&self) -> u64 {
        match *self {
            Message::Request { time }
            | Message::Ack { time }
            | Message::Release { time }
            | Message::Welcome { time, .. }
            | Message::Joined { time } => time,
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Ack { .. } => "ACK",
            Message::Release { .. } => "RELEASE",
            Message::Welcome { .. } => "WELCOME",
            Message::Joined { .. } => "JOINED",
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Message::Request { time }
            | Message::Ack { time }
            | Message::Release { time }
            | Message::Joined { time } => {
                visit(Counter::Clock, time);
            }
            Message::Welcome { time, request } => {
                visit(Counter::Clock, time);
                request.iter_mut().for_each(|time| visit(Counter::Clock, time));
            }
        }
    }
}

impl Protocol for Lamport {
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
        let alive = || self.others().filter(|(_, peer)| peer.standing == Standing::Alive);
        let theirs = alive().filter_map(|(process, peer)| Some(Stamp { time: peer.request?, process }));
        let mut queue: Vec<Stamp> = theirs.collect();
        queue.extend(self.request().map(|time| Stamp { time, process: self.me }));
        queue.sort_unstable();
        Picture::new()
            .state(&self.state)
            .field("clock", self.clock.now())
            .queue("queue", queue)
            .numbers("latest", alive().map(|(process, peer)| (process, peer.latest)))
    }

    fn is_ready(&self) -> bool {
        self.others().all(|(_, peer)| peer.standing != Standing::Unmet)
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Clock, self.clock.time_mut());
        if let State::Waiting(time) | State::Inside(time) = &mut self.state {
            visit(Counter::Clock, time);
        }
        for (_, peer) in self.peers.iter_mut().enumerate().filter(|(process, _)| *process != self.me) {
            visit(Counter::Clock, &mut peer.latest);
            peer.request.iter_mut().for_each(|time| visit(Counter::Clock, time));
        }
    }
}

impl Lamport {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Unwelcome;
        self.ask_if_welcome(out);
    }

    fn ask_if_welcome(&mut self, out: &mut Outbox<Self>) {
        if self.state == State::Unwelcome && self.is_ready() {
            let time = self.clock.tick();
            self.state = State::Waiting(time);
            self.tell_others(Message::Request { time }, out);
            self.enter_if_first(out);
        }
    }

    fn on_message(&mut self, from: ProcessId, message: Message, out: &mut Outbox<Self>) {
        // Of the dead, too: what we ask for from now on comes after what they had heard of.
        self.clock.observe(message.time());
        match (self.peers[from].standing, message) {
            (Standing::Alive, Message::Request { time }) => {
                let latest = if self.answers == Answers::AckOnly { self.peers[from].latest } else { time };
                self.hear(from, latest, Some(time));
                out.send(from, Message::Ack { time: self.clock.tick() });
            }
            (Standing::Alive, Message::Ack { time }) => self.hear(from, time, self.peers[from].request),
            (Standing::Alive, Message::Release { time }) => self.hear(from, time, None),
            (Standing::Alive | Standing::Joining | Standing::Unmet, Message::Welcome { time, request }) => {
                self.hear(from, time, request);
                out.send(from, Message::Joined { time: self.clock.tick() });
            }
            (Standing::Joining, Message::Joined { time }) => self.hear(from, time, None),
            _ => return,
        }
        self.enter_if_first(out);
        self.ask_if_welcome(out);
    }

    /// A message of this life says what the time is there, and what request there is in the queue.
    fn hear(&mut self, from: ProcessId, latest: u64, request: Option<u64>) {
        self.peers[from] = Peer { standing: Standing::Alive, latest, request };
    }

    fn enter_if_first(&mut self, out: &mut Outbox<Self>) {
        let State::Waiting(time) = self.state else { return };
        let ours = Stamp { time, process: self.me };
        let after_ours = |process, time| ours < Stamp { time, process };
        let first = self.others().all(|(other, peer)| match peer.standing {
            Standing::Alive => {
                after_ours(other, peer.latest) && peer.request.is_none_or(|theirs| after_ours(other, theirs))
            }
            Standing::Joining | Standing::Unmet => false,
            Standing::Dead => true,
        });
        if first {
            self.state = State::Inside(time);
            out.emit(Event::Granted { fence: ours.fence() });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        if let State::Inside(_) = self.state {
            self.state = State::Idle;
            let time = self.clock.tick();
            self.tell_others(Message::Release { time }, out);
        }
    }

    fn recover(&mut self) {
        self.state = State::Idle;
        self.peers.fill(Peer { standing: Standing::Unmet, latest: 0, request: None });
    }

    fn on_suspect(&mut self, dead: ProcessId, out: &mut Outbox<Self>) {
        self.peers[dead].standing = Standing::Dead;
        self.enter_if_first(out);
        self.ask_if_welcome(out);
    }

    fn on_trust(&mut self, other: ProcessId, out: &mut Outbox<Self>) {
        self.peers[other].standing = Standing::Joining;
        out.send(other, Message::Welcome { time: self.clock.tick(), request: self.request() });
    }

    /// The time of the own request: its place in the queue, if it has one.
    fn request(&self) -> Option<u64> {
        match self.state {
            State::Waiting(time) | State::Inside(time) => Some(time),
            State::Idle | State::Unwelcome => None,
        }
    }

    fn tell_others(&self, message: Message, out: &mut Outbox<Self>) {
        let told = self.others().filter(|(_, peer)| peer.standing != Standing::Dead);
        out.multicast(told.map(|(other, _)| other), message);
    }

    fn others(&self) -> impl Iterator<Item = (ProcessId, &Peer)> {
        self.peers.iter().enumerate().filter(|(process, _)| *process != self.me)
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "lamport",
    family: Family::Mutex,
    summary: "everybody keeps the same queue of requests, by Lamport time and id",
    assumes: Assumes { fifo: true, crashes: Crashes::Detected, overlap: Overlap::Final, ..Assumes::LOSSLESS },
    promises: Promises::ALL,
    variants: &[ACK_ONLY],
    broken: None,
};

const ACK_ONLY: Variant =
    Variant { name: "ack-only", summary: "a REQUEST does not count as an answer, however late it is" };

/// n equal processes.
pub fn group(params: &Params) -> Result<Group<Lamport>, SetupError> {
    let n = params.n;
    params.at_most_quadratic()?;
    let answers = if params.has(ACK_ONLY.name) { Answers::AckOnly } else { Answers::Any };
    Ok(Group::new(n, n, move |me| Lamport {
        me,
        answers,
        clock: LamportClock::default(),
        state: State::Idle,
        peers: vec![Peer { standing: Standing::Alive, latest: 0, request: None }; n],
    }))
}
