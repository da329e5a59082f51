//! The processes of one resource that a member carries. The driver passes inputs to the step function and carries out
//! the outputs. Everything outside, but for the clock and random durations, goes through [`Wires`].

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use baton_protocol::clock::LamportClock;
use baton_protocol::{Choices, Group, Input, Message, Outbox, Output, ProcessId, Protocol, Start};
use baton_trace::Event;
use serde::Serialize;
use tokio::time::Instant;

use crate::fences::{COUNT_MAX, Fences};
use crate::frame::{self, Envelope, FrameError};
use crate::handshake::LinkError;
use crate::wires::{Touched, Wires};

/// Counters of one member since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Messages that the processes of this member sent, to each other as well.
    pub messages: u64,
    /// The same by kind, e.g. `REQUEST`.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// The bytes of these messages, without envelopes and frames.
    pub bytes: u64,
    /// How often this member requested a critical section.
    pub requests: u64,
    /// How often this member entered a critical section.
    pub entries: u64,
    /// How often the caller had given up before the grant came.
    pub cancelled: u64,
    /// Number of resources that this member knows.
    pub resources: u64,
}

impl Stats {
    pub(crate) fn add(&mut self, other: &Stats) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.entries += other.entries;
        self.cancelled += other.cancelled;
        self.resources += other.resources;
        for (kind, count) in &other.messages_by_kind {
            *self.messages_by_kind.entry(kind).or_default() += count;
        }
    }
}

/// One process of the algorithm.
struct Process<P: Protocol> {
    id: ProcessId,
    protocol: P,
    clock: LamportClock,
    timers: BTreeMap<P::Timer, Instant>,
}

/// A message for a process of this member.
struct Arrived<P: Protocol> {
    from: ProcessId,
    to: ProcessId,
    id: u64,
    lamport: u64,
    message: P::Message,
}

pub(crate) struct Driver<P: Protocol> {
    /// The number of the resource at this member.
    resource: u32,
    /// In ascending order of ids. The first one is the member's own process.
    processes: Vec<Process<P>>,
    outbox: Outbox<P>,
    outputs: Vec<Output<P>>,
    /// Messages from other members, and between two processes of this member.
    arrived: VecDeque<Arrived<P>>,
    /// Events of the protocol that the user has not taken yet.
    events: VecDeque<(ProcessId, P::Event)>,
    fences: Fences,
    pub stats: Stats,
}

impl<P: Protocol> Driver<P> {
    /// Makes the processes with these ids. They have not made their first step.
    pub fn new(resource: u32, group: &Group<P>, carried: impl Iterator<Item = ProcessId>) -> Self {
        let process =
            |id| Process { id, protocol: (group.make)(id), clock: LamportClock::default(), timers: BTreeMap::new() };
        Driver {
            resource,
            processes: carried.map(process).collect(),
            outbox: Outbox::new(Choices::seeded(fastrand::u64(..))),
            outputs: Vec::new(),
            arrived: VecDeque::new(),
            events: VecDeque::new(),
            fences: Fences::default(),
            stats: Stats { resources: 1, ..Stats::default() },
        }
    }

    /// All processes start before a message of one arrives at another.
    pub fn start(&mut self, start: Start, wires: &Wires, touched: &mut Touched) {
        for at in 0..self.processes.len() {
            self.step_once(at, Input::Start(start), wires, touched);
        }
        self.receive(wires, touched);
    }

    /// A command for the member's own process.
    pub fn command(&mut self, command: P::Command, wires: &Wires, touched: &mut Touched) {
        self.step(0, Input::Command(command), wires, touched);
    }

    /// Whether the member's own process takes commands.
    pub fn is_ready(&self) -> bool {
        self.processes[0].protocol.is_ready()
    }

    /// A message has arrived from another member.
    pub fn deliver(&mut self, envelope: &Envelope<'_>, wires: &Wires, touched: &mut Touched) -> Result<(), LinkError> {
        let &Envelope { from, to, id, lamport, count, payload, .. } = envelope;
        if self.place(to).is_none() {
            return Err(LinkError::Foreign { id, from, to });
        }
        if count > COUNT_MAX {
            return Err(
                FrameError::Malformed { bytes: payload.len(), expected: "a message with a count of grants" }.into()
            );
        }
        let message = frame::decode_exactly::<P::Message>(payload, "a message of the protocol")?;
        self.fences.learn(count);
        self.arrived.push_back(Arrived { from, to, id, lamport, message });
        self.receive(wires, touched);
        Ok(())
    }

    /// The detector of this member suspects a process, or trusts it again.
    pub fn suspect(&mut self, peer: ProcessId, suspected: bool, wires: &Wires, touched: &mut Touched) {
        for at in 0..self.processes.len() {
            let event = if suspected { Event::Suspect { peer } } else { Event::Trust { peer } };
            wires.journal(self.resource, self.processes[at].id, || event);
            let input = if suspected { Input::Suspect(peer) } else { Input::Trust(peer) };
            self.step(at, input, wires, touched);
        }
    }

    /// Fires the timers that are due.
    pub fn tick(&mut self, now: Instant, wires: &Wires, touched: &mut Touched) {
        for at in 0..self.processes.len() {
            while let Some(timer) = self.processes[at].due(now) {
                self.processes[at].timers.remove(&timer);
                wires.journal(self.resource, self.processes[at].id, || Event::Timer { name: format!("{timer:?}") });
                self.step(at, Input::Timer(timer), wires, touched);
            }
        }
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.processes.iter().flat_map(|process| process.timers.values()).min().copied()
    }

    /// Takes the oldest event of the protocol, and the process that it happened to.
    pub fn take_event(&mut self) -> Option<(ProcessId, P::Event)> {
        self.events.pop_front()
    }

    /// The fence of a grant to the member's own process. None: the group has no more in this generation.
    pub fn next_fence(&mut self, wires: &Wires) -> Option<u64> {
        self.fences.next(wires.generation())
    }

    /// The user of the member's own process makes a request: an event in the sense of Lamport.
    pub fn request(&mut self, req: u64, wires: &Wires) {
        self.stats.requests += 1;
        let lamport = self.processes[0].clock.tick();
        self.journal(wires, || Event::Request { req, lamport });
    }

    /// Writes an event of the member's own process to the trace.
    pub fn journal(&self, wires: &Wires, event: impl FnOnce() -> Event) {
        wires.journal(self.resource, self.processes[0].id, event);
    }

    fn place(&self, id: ProcessId) -> Option<usize> {
        self.processes.iter().position(|process| process.id == id)
    }

    /// A step, and then the steps for the messages that it sends to processes of this member.
    fn step(&mut self, at: usize, input: Input<P>, wires: &Wires, touched: &mut Touched) {
        self.step_once(at, input, wires, touched);
        self.receive(wires, touched);
    }

    fn receive(&mut self, wires: &Wires, touched: &mut Touched) {
        while let Some(Arrived { from, to, id, lamport, message }) = self.arrived.pop_front() {
            let at = self.place(to).expect("only messages to processes of this member arrive here");
            self.processes[at].clock.receive(lamport);
            wires.journal(self.resource, to, || Event::Deliver { msg: id, from, kind: message.kind().to_string() });
            self.step_once(at, Input::Message { from, message }, wires, touched);
        }
    }

    fn step_once(&mut self, at: usize, input: Input<P>, wires: &Wires, touched: &mut Touched) {
        self.processes[at].protocol.step(input, &mut self.outbox);
        for choice in self.outbox.choices().take_made() {
            let id = self.processes[at].id;
            wires.journal(self.resource, id, || Event::Choice { of: choice.of, chosen: choice.chosen });
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        outputs.extend(self.outbox.drain());
        outputs.drain(..).for_each(|output| self.carry_out(at, output, wires, touched));
        self.outputs = outputs;
    }

    fn carry_out(&mut self, at: usize, output: Output<P>, wires: &Wires, touched: &mut Touched) {
        let process = &mut self.processes[at];
        match output {
            Output::Send { to, message } => self.send(at, to, message, wires, touched),
            Output::SetTimer { timer, after } => {
                let after = Duration::from_micros(fastrand::u64(after));
                process.timers.insert(timer, Instant::now() + after);
            }
            Output::CancelTimer(timer) => {
                process.timers.remove(&timer);
            }
            Output::Event(event) => self.events.push_back((process.id, event)),
            // No application messages travel over these links.
            Output::Stamp(_) => {}
        }
    }

    fn send(&mut self, at: usize, to: ProcessId, message: P::Message, wires: &Wires, touched: &mut Touched) {
        let process = &mut self.processes[at];
        let (from, lamport, id, kind) = (process.id, process.clock.tick(), wires.next_id(), message.kind());
        assert!(to != from, "process {from} sends {kind} to itself");
        let payload = frame::encode_payload(&message);
        self.stats.messages += 1;
        self.stats.bytes += payload.len() as u64;
        *self.stats.messages_by_kind.entry(kind).or_default() += 1;
        wires.journal(self.resource, from, || Event::send(id, to, &message, payload.len() as u64));
        if self.place(to).is_some() {
            self.arrived.push_back(Arrived { from, to, id, lamport, message });
        } else {
            let count = self.fences.count();
            let envelope = Envelope { resource: self.resource, from, to, id, lamport, count, payload: &payload };
            wires.send(envelope, kind, touched);
        }
    }
}

impl<P: Protocol> Process<P> {
    fn due(&self, now: Instant) -> Option<P::Timer> {
        let first = self.timers.iter().min_by_key(|(_, at)| **at);
        first.filter(|(_, at)| **at <= now).map(|(timer, _)| *timer)
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
