//! Lamport, "Time, clocks, and the ordering of events in a distributed system" (1978).
//!
//! Each process keeps a queue of all requests, ordered by (time, id). A process that wants to enter puts its request
//! into its own queue and sends it as REQUEST to all others. Each of them answers with ACK, which has a later time. The
//! process enters when its request is the first of its queue and it has received a message with a later time from every
//! other process. When it leaves, it sends RELEASE to all, and they remove its request.
//!
//! - Assumes: FIFO links that lose and repeat no message. The failure detector reports crashes to all live processes,
//!   without mistakes. Crashes without recovery may overlap; a crash with recovery is over before the next crash.
//! - Promises: SAFE, LIVE, ORDER and growing fences.
//! - Invariants: if a process has received a later message from another process, then the other's earlier request is in
//!   its queue. Entries happen in the order of the queue.
//! - Costs: 3(n-1) messages an entry; 2T from request to grant; T from exit to next entry.
//! - Fences: the stamp of the request, since entries happen in the order of stamps.
//!
//! Traps. Any later message counts as an answer, a REQUEST as well as an ACK: on a FIFO link nothing earlier can follow
//! it. On other links SAFE fails with two processes in 4 steps. In the variant `ack-only` a REQUEST does not count as
//! an answer, only ACK and RELEASE do. On links that are not FIFO this variant fails too, in 6 steps.
//!
//! Crashes. Crashed processes need not answer, and their requests leave the queues. A crash ends a request and a stay
//! inside even if the memory survives, since the other processes go on. When a process learns of a recovery, it sends
//! WELCOME with its clock and its request to the recovered process, which answers JOINED. On each of the two links, all
//! messages before WELCOME and JOINED belong to an earlier life. The recovered process sends requests only after all
//! live processes have sent WELCOME: then it knows the queue, and its stamps are above all earlier ones. Requests of
//! its user before that count from then on. Processes must recover one at a time: each WELCOME and JOINED arrives
//! before the next recovery. At each recovery some live process must know of the last entry, or fences start again.

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Crashes, Family, Group, Overlap, Params, Promises, SetupError, Variant, Way};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol, Start};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lamport {
    me: ProcessId,
    answers: Answers,
    clock: LamportClock,
    state: State,
    /// By process id; the own place is not used.
    peers: Vec<Peer>,
}

/// The messages that tell a waiting process that no earlier request can still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answers {
    /// Every later message.
    Any,
    /// Every later message except REQUEST.
    AckOnly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// The user wants to enter, but WELCOMEs are missing, so the process must not send REQUEST yet.
    Unwelcome,
    /// The time of the request.
    Waiting(u64),
    /// The time of the request.
    Inside(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Peer {
    standing: Standing,
    /// Time of the latest message from this process that counts as an answer.
    latest: u64,
    /// Time of the request of this process: its place in the queue.
    request: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    Alive,
    /// It has recovered. Its messages before JOINED are from its earlier life.
    Joining,
    /// This process has recovered. Messages of the other process before WELCOME were meant for its earlier life.
    Unmet,
    Dead,
}

/// Each message carries the sender's clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    Request {
        /// The sender's clock. With the sender's id it is the stamp of the request.
        time: u64,
    },
    /// Answers [`Message::Request`].
    Ack { time: u64 },
    /// The sender has left the critical section.
    Release { time: u64 },
    /// To a recovered process, when the sender's detector reports the recovery.
    Welcome {
        time: u64,
        /// Time of the sender's request, if the sender waits or is inside.
        request: Option<u64>,
    },
    /// Answers [`Message::Welcome`].
    Joined { time: u64 },
}

impl Message {
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
        // Also for messages of crashed processes: the next request of this process must come after all events that they
        // had heard of.
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

    /// `from` is alive; `latest` is the time of its latest answer, `request` its place in the queue.
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

pub const ABOUT: About = About {
    name: "lamport",
    family: Family::Mutex,
    way: Some(Way::AsksEverybody),
    summary: "every process keeps the same queue of requests, by Lamport time and id",
    assumes: Assumes { fifo: true, crashes: Crashes::Detected, overlap: Overlap::Final, ..Assumes::LOSSLESS },
    promises: Promises::ALL,
    variants: &[ACK_ONLY, VIEWS],
    broken: None,
};

const ACK_ONLY: Variant =
    Variant { name: "ack-only", summary: "a REQUEST does not count as an answer, however late it is" };

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
