//! The loop that owns one process of a protocol: it passes inputs to the step function and carries out the outputs.
//! `mutex` and `election` drive it with [`Driver::next`] and [`Driver::handle`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use baton_protocol::clock::LamportClock;
use baton_protocol::{Choices, Input, Message, Outbox, Output, ProcessId, Protocol, Start};
use baton_trace::{DropReason, Event};
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::frame::{self, Envelope, Frame, FrameError};
use crate::handshake::LinkError;
use crate::journal::Journal;
use crate::link::{Arrival, Assembled, Link};
use crate::options::{Warning, Warnings};

/// How many arrivals may wait for the driver. Beyond that the readers wait, and so does the network.
const ARRIVALS_MAX: usize = 1024;

/// How long leaving waits until the other members close their side.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Counters of one member since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Messages of the protocol that this member sent.
    pub messages: u64,
    /// The same by kind, e.g. `REQUEST`.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// The bytes of these messages, without envelopes and frames.
    pub bytes: u64,
    /// How often this member requested the critical section.
    pub requests: u64,
    /// How often this member entered the critical section.
    pub entries: u64,
    /// How often the caller had given up before the grant came.
    pub cancelled: u64,
}

/// What one member knows of the other members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Members whose users will make no more requests.
    pub done: BTreeSet<ProcessId>,
    /// Members that left or crashed, in order of time. Their connections are closed and will not be opened again.
    pub lost: Vec<ProcessId>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The protocol sends a message that is too long for a frame.
    #[error("cannot send {kind}: {error}")]
    Unsendable { kind: &'static str, error: FrameError },
    #[error("the runtime was shut down before the member could leave the group")]
    RuntimeGone,
}

/// An input for the process that does not come from its user.
#[derive(Debug)]
pub(crate) enum Incoming<T> {
    Arrived(ProcessId, Arrival),
    TimerDue(T),
}

pub(crate) struct Driver<P: Protocol> {
    pub me: ProcessId,
    pub stats: Stats,
    pub journal: Journal,
    pub warnings: Warnings,
    protocol: P,
    outbox: Outbox<P>,
    clock: LamportClock,
    timers: BTreeMap<P::Timer, Instant>,
    links: Vec<Option<Link>>,
    arrivals: mpsc::Receiver<(ProcessId, Arrival)>,
    /// The readers and writers of all links.
    tasks: JoinSet<()>,
    listening: JoinSet<()>,
    status: watch::Sender<Status>,
    /// Events of the protocol that the user has not taken yet.
    events: VecDeque<P::Event>,
    /// Links that broke during a step. The process suspects these members as soon as the step is over.
    broken: VecDeque<(ProcessId, LinkError)>,
}

impl<P: Protocol> Driver<P> {
    /// Makes a driver for `protocol`, which has not made its first step, over these connections.
    pub fn new(me: ProcessId, processes: usize, protocol: P, assembled: Assembled, journal: Journal) -> Self {
        let (arrival, arrivals) = mpsc::channel(ARRIVALS_MAX);
        let mut tasks = JoinSet::new();
        let mut links: Vec<Option<Link>> = (0..processes).map(|_| None).collect();
        for (peer, stream) in assembled.streams {
            links[peer] = Some(Link::open(peer, stream, arrival.clone(), &mut tasks));
        }
        Driver {
            me,
            stats: Stats::default(),
            warnings: journal.warnings().clone(),
            journal,
            protocol,
            outbox: Outbox::new(Choices::seeded(fastrand::u64(..))),
            clock: LamportClock::default(),
            timers: BTreeMap::new(),
            links,
            arrivals,
            tasks,
            listening: assembled.listening,
            status: watch::Sender::default(),
            events: VecDeque::new(),
            broken: VecDeque::new(),
        }
    }

    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    pub fn start(&mut self) -> Result<(), PeerError> {
        self.step(Input::Start(Start::Fresh))
    }

    /// Waits for the next input. Safe to cancel: no input is lost.
    pub async fn next(&mut self) -> Incoming<P::Timer> {
        let due = self.timers.iter().min_by_key(|(_, at)| **at).map(|(timer, at)| (*timer, *at));
        let timer_due = async move {
            match due {
                Some((timer, at)) => {
                    sleep_until(at).await;
                    timer
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            timer = timer_due => Incoming::TimerDue(timer),
            Some((from, arrival)) = self.arrivals.recv() => Incoming::Arrived(from, arrival),
        }
    }

    /// Passes the input to the process.
    pub fn handle(&mut self, incoming: Incoming<P::Timer>) -> Result<(), PeerError> {
        match incoming {
            Incoming::TimerDue(timer) => {
                self.timers.remove(&timer);
                self.journal.write(|| Event::Timer { name: format!("{timer:?}") });
                self.step(Input::Timer(timer))
            }
            // An arrival of a connection that was given up.
            Incoming::Arrived(from, _) if self.links[from].is_none() => Ok(()),
            Incoming::Arrived(from, Arrival::Message(envelope)) => self.deliver(from, envelope),
            Incoming::Arrived(from, Arrival::Done) => {
                self.status.send_modify(|status| {
                    status.done.insert(from);
                });
                Ok(())
            }
            Incoming::Arrived(from, Arrival::Closed(error)) => {
                self.give_up(from, error);
                self.suspect_the_broken()
            }
        }
    }

    pub fn command(&mut self, command: P::Command) -> Result<(), PeerError> {
        self.step(Input::Command(command))
    }

    /// Takes the oldest event of the protocol.
    pub fn take_event(&mut self) -> Option<P::Event> {
        self.events.pop_front()
    }

    /// Counts a local event in the sense of Lamport, and returns its time.
    pub fn tick(&mut self) -> u64 {
        self.clock.tick()
    }

    /// Tells all other members that this member's user will make no more requests.
    pub fn announce_done(&mut self) -> Result<(), PeerError> {
        for to in 0..self.links.len() {
            self.transmit(to, &Frame::Done, "DONE")?;
        }
        self.suspect_the_broken()
    }

    /// Leaves the group: sends the queued frames, and waits a little until the other members close their side. If a
    /// socket is closed with unread data, the system discards data that the other side has not read yet.
    pub async fn leave(mut self, reason: &str) -> Stats {
        self.listening.abort_all();
        self.links.clear();
        let goodbye = async {
            while self.arrivals.recv().await.is_some() {}
            while self.tasks.join_next().await.is_some() {}
        };
        // If the other members take too long, dropping `tasks` cuts off the rest.
        let _ = timeout(LEAVE_TIMEOUT, goodbye).await;
        let (entries, messages) = (self.stats.entries, self.stats.messages);
        self.journal.end(|| Event::End { reason: reason.to_string(), entries, messages });
        self.stats
    }

    fn deliver(&mut self, from: ProcessId, envelope: Envelope) -> Result<(), PeerError> {
        let id = envelope.id;
        let message = match frame::decode_exactly::<P::Message>(&envelope.payload, "a message of the protocol") {
            _ if frame::maker_of(id) != from => Err(LinkError::Foreign { id, from }),
            Ok(message) => Ok(message),
            Err(error) => Err(error.into()),
        };
        match message {
            Ok(message) => {
                self.clock.receive(envelope.lamport);
                self.journal.write(|| Event::Deliver { msg: id, from, kind: message.kind().to_string() });
                self.step(Input::Message { from, message })
            }
            Err(error) => {
                self.give_up(from, error);
                self.suspect_the_broken()
            }
        }
    }

    fn step(&mut self, input: Input<P>) -> Result<(), PeerError> {
        self.step_once(input)?;
        self.suspect_the_broken()
    }

    fn step_once(&mut self, input: Input<P>) -> Result<(), PeerError> {
        self.protocol.step(input, &mut self.outbox);
        for choice in self.outbox.choices().take_made() {
            self.journal.write(|| Event::Choice { of: choice.of, chosen: choice.chosen });
        }
        let outputs: Vec<Output<P>> = self.outbox.drain().collect();
        outputs.into_iter().try_for_each(|output| self.carry_out(output))
    }

    fn carry_out(&mut self, output: Output<P>) -> Result<(), PeerError> {
        match output {
            Output::Send { to, message } => return self.send(to, &message),
            Output::SetTimer { timer, after } => {
                let after = Duration::from_micros(fastrand::u64(after));
                self.timers.insert(timer, Instant::now() + after);
            }
            Output::CancelTimer(timer) => {
                self.timers.remove(&timer);
            }
            Output::Event(event) => self.events.push_back(event),
            // No application messages travel over these connections.
            Output::Stamp(_) => {}
        }
        Ok(())
    }

    fn send(&mut self, to: ProcessId, message: &P::Message) -> Result<(), PeerError> {
        assert!(to != self.me && to < self.links.len(), "process {} sends to {to}", self.me);
        let (kind, payload) = (message.kind(), frame::encode_payload(message));
        let (msg, bytes) = (frame::unique_id(self.me, self.stats.messages), payload.len() as u64);
        self.stats.messages += 1;
        self.stats.bytes += bytes;
        *self.stats.messages_by_kind.entry(kind).or_default() += 1;
        let lamport = self.clock.tick();
        self.journal.write(|| Event::send(msg, to, message, bytes));
        self.transmit(to, &Frame::Message(Envelope { id: msg, lamport, payload }), kind)?;
        if self.links[to].is_none() {
            self.journal.write(|| Event::Drop { msg, reason: DropReason::Crashed });
        }
        Ok(())
    }

    fn transmit(&mut self, to: ProcessId, frame: &Frame, kind: &'static str) -> Result<(), PeerError> {
        let Some(link) = &self.links[to] else { return Ok(()) };
        let bytes = frame::encode(frame).map_err(|error| PeerError::Unsendable { kind, error })?;
        if let Err(error) = link.send(bytes) {
            self.give_up(to, error);
        }
        Ok(())
    }

    /// Closes the connection. The process suspects the member as soon as the step is over, and only once, because the
    /// link is gone then.
    fn give_up(&mut self, peer: ProcessId, error: LinkError) {
        if let Some(link) = self.links[peer].take() {
            link.stop_reading();
            self.broken.push_back((peer, error));
        }
    }

    fn suspect_the_broken(&mut self) -> Result<(), PeerError> {
        while let Some((peer, error)) = self.broken.pop_front() {
            self.journal.write(|| Event::Suspect { peer });
            // A member that announced that it is done may leave. That is no reason for a warning.
            if !self.status.borrow().done.contains(&peer) {
                self.warnings.tell(Warning::Lost { peer, error });
            }
            self.status.send_modify(|status| {
                status.lost.push(peer);
            });
            self.step_once(Input::Suspect(peer))?;
        }
        Ok(())
    }
}
