//! The central server without a server: the members elect one of themselves as coordinator, and another when it dies.
//!
//! Assumes: nothing of the order of messages, or of time. None may be lost; crashes are detected, and for good: who comes
//! back is taken in, but if all others die before it hears of the latest epoch, fences begin again.
//!
//! The election is that of Chang and Roberts. As in `central`, a client sends REQUEST, waits for GRANT and sends RELEASE when it
//! leaves; what the coordinator has to tell itself costs nothing. Who is elected begins a new epoch: it sends INQUIRE to
//! all, and each answers with STATE: it is inside, with which fence, or waits, or neither. When all that live have
//! answered, the queue is rebuilt and grants go on. Suspected processes are dropped, holders too; with a newcomer
//! a new epoch begins. A process that has answered to an epoch takes nothing of another; asked for one that is no
//! later, it answers with its own, and the coordinator begins one after that.
//!
//! Invariants: nobody is granted anything in an epoch before all that live know of the epoch; of each epoch at most one
//! GRANT is unreleased, and none while somebody is inside from an earlier one.
//! Costs: 3 messages an entry, none for the coordinator itself: 3(n-1)/n if all ask alike; 2T or 0 from request to
//! grant. A change of coordinator costs the election, 2(n-1) messages and 2T.
//! Fences: (epoch, number of the grant in it); the survivors know the epoch even if all who knew the number died.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::Stamp;
use crate::election::{self, chang_roberts, chang_roberts::ChangRoberts};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError};
use crate::{Counter, Input, Outbox, Output, Picture, ProcessId, ProcessSet, Protocol, Start};

/// One process of the group: client, and coordinator if it is elected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CentralElected {
    me: ProcessId,
    n: usize,
    election: ChangRoberts,
    wish: Wish,
    /// The latest epoch that this process has answered to: its number, and who coordinates it.
    epoch: Stamp,
    /// While it coordinates that epoch.
    coordinating: Option<CoordinatorState>,
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Wish {
    /// Nothing.
    Idle,
    /// To enter.
    Waiting,
    /// To stay inside for a while.
    Inside {
        /// Of the grant.
        fence: u64,
    },
}

/// The coordinator's memory of its epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CoordinatorState {
    /// Who is inside, and with which fence.
    holder: Option<(ProcessId, u64)>,
    queue: VecDeque<ProcessId>,
    grants: u64,
    /// Whose STATE is missing; nobody is granted anything before it is there.
    awaited: ProcessSet,
}

/// What processes tell each other. All but the election's name the epoch that they belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Of the election.
    Election(chang_roberts::Message),
    /// Client to coordinator: I want to enter.
    Request {
        /// The coordinator's.
        epoch: Stamp,
    },
    /// Coordinator to client: enter.
    Grant {
        /// The coordinator's.
        epoch: Stamp,
        /// Of this grant.
        fence: u64,
    },
    /// Client to coordinator: I have left.
    Release {
        /// The coordinator's.
        epoch: Stamp,
        /// Of the grant.
        fence: u64,
    },
    /// New coordinator to all: what do you want?
    Inquire {
        /// The one that it begins.
        epoch: Stamp,
    },
    /// The answer.
    State {
        /// The epoch of the question, or one that is no earlier, to which the answering process belongs.
        epoch: Stamp,
        /// What it wants.
        wish: Wish,
    },
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Election(message) => message.kind(),
            Message::Request { .. } => "REQUEST",
            Message::Grant { .. } => "GRANT",
            Message::Release { .. } => "RELEASE",
            Message::Inquire { .. } => "INQUIRE",
            Message::State { .. } => "STATE",
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Message::Grant { fence, .. } | Message::Release { fence, .. } => show_fence(fence, visit),
            Message::State { wish, .. } => wish.counters(visit),
            Message::Election(_) | Message::Request { .. } | Message::Inquire { .. } => {}
        }
    }
}

impl Protocol for CentralElected {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(Start::Recovered) => self.recover(out),
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Suspect(process) if process != self.me => self.on_suspect(process, out),
            Input::Trust(process) if process != self.me => self.on_trust(process, out),
            Input::Message { from, message: Message::Election(message) } => {
                self.elect(Input::Message { from, message }, out);
            }
            Input::Message { from, message: Message::Inquire { epoch } } if epoch.process == from => {
                self.on_inquire(epoch, out);
            }
            Input::Message { from, message: Message::State { epoch, wish } } => self.on_state(from, epoch, wish, out),
            Input::Message { from, message: Message::Request { epoch } } if epoch == self.epoch => {
                self.on_request(from, out);
            }
            Input::Message { from, message: Message::Release { epoch, fence } } if epoch == self.epoch => {
                self.on_release(from, fence, out);
            }
            Input::Message { message: Message::Grant { epoch, fence }, .. } if epoch == self.epoch => {
                self.on_grant(fence, out);
            }
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        let picture = Picture::new()
            .state(&self.wish)
            .pointer("coordinator", self.coordinator())
            .field("epoch", self.epoch.time)
            .inside("election", self.election.view());
        match &self.coordinating {
            Some(coordinating) => picture
                .pointer("holder", coordinating.holder.map(|(holder, _)| holder))
                .queue("queue", coordinating.queue.iter().copied())
                .field("grants", coordinating.grants)
                .set("awaited", coordinating.awaited.iter()),
            None => picture,
        }
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.wish.counters(visit);
        if let Some(coordinating) = &mut self.coordinating {
            visit(grants_of(self.epoch.time), &mut coordinating.grants);
            coordinating.holder.iter_mut().for_each(|(_, fence)| show_fence(fence, visit));
        }
    }
}

/// As a client.
impl CentralElected {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.wish = Wish::Waiting;
        match self.coordinator() {
            Some(me) if me == self.me => self.on_request(me, out),
            Some(coordinator) => out.send(coordinator, Message::Request { epoch: self.epoch }),
            None => {} // The next one will ask.
        }
    }

    fn on_grant(&mut self, fence: u64, out: &mut Outbox<Self>) {
        if self.wish == Wish::Waiting {
            self.wish = Wish::Inside { fence };
            out.emit(Event::Granted { fence });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        let Wish::Inside { fence } = self.wish else { return };
        self.wish = Wish::Idle;
        match self.coordinator() {
            Some(me) if me == self.me => self.on_release(me, fence, out),
            Some(coordinator) => out.send(coordinator, Message::Release { epoch: self.epoch, fence }),
            None => {}
        }
    }

    /// Who coordinates the epoch, if that one lives.
    fn coordinator(&self) -> Option<ProcessId> {
        Some(self.epoch.process).filter(|&coordinator| self.election.trusts(coordinator))
    }

    fn on_inquire(&mut self, epoch: Stamp, out: &mut Outbox<Self>) {
        // What the dead have asked matters to nobody.
        if self.election.trusts(epoch.process) {
            if epoch.time > self.epoch.time {
                self.epoch = epoch;
                self.coordinating = None;
            }
            out.send(epoch.process, Message::State { epoch: self.epoch, wish: self.wish });
        }
    }

    fn recover(&mut self, out: &mut Outbox<Self>) {
        self.wish = Wish::Idle;
        self.coordinating = None;
        self.elect(Input::Start(Start::Recovered), out);
    }

    fn on_suspect(&mut self, process: ProcessId, out: &mut Outbox<Self>) {
        if let Some(coordinating) = &mut self.coordinating {
            coordinating.drop_process(process);
        }
        self.elect(Input::Suspect(process), out);
        if self.epoch.process == process {
            self.on_coordinator_lost(out);
        }
        self.grant_next(out);
    }

    /// Mostly the election is yet to come. But a question of the dead coordinator may have been overtaken by its
    /// successor's, and its epoch may be the later one.
    fn on_coordinator_lost(&mut self, out: &mut Outbox<Self>) {
        match self.election.leader() {
            Some(me) if me == self.me => self.begin_epoch(self.epoch.time, out),
            Some(leader) => out.send(leader, Message::State { epoch: self.epoch, wish: self.wish }),
            None => {}
        }
    }

    fn on_trust(&mut self, process: ProcessId, out: &mut Outbox<Self>) {
        self.elect(Input::Trust(process), out);
        if self.coordinating.is_some() {
            self.begin_epoch(self.epoch.time, out);
        }
    }

    /// Lets the election have its input, and hears whom it elects.
    fn elect(&mut self, input: Input<ChangRoberts>, out: &mut Outbox<Self>) {
        for output in out.step_inside(&mut self.election, input) {
            match output {
                Output::Send { to, message } => out.send(to, Message::Election(message)),
                Output::Event(election::Event::Elected { leader, .. }) if leader == Some(self.me) => {
                    self.begin_epoch(self.epoch.time, out);
                }
                Output::Event(_) => self.coordinating = None,
                Output::SetTimer { .. } | Output::CancelTimer(_) | Output::Stamp(_) => {}
            }
        }
    }
}

/// As the coordinator.
impl CentralElected {
    fn begin_epoch(&mut self, after: u64, out: &mut Outbox<Self>) {
        let epoch = Stamp { time: after.saturating_add(1), process: self.me };
        self.epoch = epoch;
        let mut coordinating = CoordinatorState::new(self.n);
        for other in (0..self.n).filter(|&other| other != self.me && self.election.trusts(other)) {
            coordinating.awaited.insert(other);
        }
        out.multicast(coordinating.awaited.iter(), Message::Inquire { epoch });
        coordinating.note(self.me, self.wish);
        self.coordinating = Some(coordinating);
        self.grant_next(out);
    }

    fn on_state(&mut self, from: ProcessId, epoch: Stamp, wish: Wish, out: &mut Outbox<Self>) {
        let Some(coordinating) = &mut self.coordinating else { return };
        if epoch == self.epoch {
            // One that is not awaited has meanwhile shown by a request or a release how it stands.
            if coordinating.awaited.remove(from) {
                coordinating.note(from, wish);
                self.grant_next(out);
            }
        } else if epoch.time >= self.epoch.time {
            self.begin_epoch(epoch.time, out);
        }
    }

    fn on_request(&mut self, from: ProcessId, out: &mut Outbox<Self>) {
        if let Some(coordinating) = &mut self.coordinating
            && self.election.trusts(from)
        {
            coordinating.awaited.remove(from);
            coordinating.queue.push_back(from);
            self.grant_next(out);
        }
    }

    fn on_release(&mut self, from: ProcessId, fence: u64, out: &mut Outbox<Self>) {
        if let Some(coordinating) = &mut self.coordinating {
            coordinating.awaited.remove(from);
            coordinating.holder.take_if(|holder| *holder == (from, fence));
            self.grant_next(out);
        }
    }

    fn grant_next(&mut self, out: &mut Outbox<Self>) {
        let Some(coordinating) = &mut self.coordinating else { return };
        if coordinating.holder.is_some() || !coordinating.awaited.is_empty() {
            return;
        }
        let Some(next) = coordinating.queue.pop_front() else { return };
        coordinating.grants += 1;
        let fence = self.epoch.time.saturating_mul(GRANTS_MAX).saturating_add(coordinating.grants);
        coordinating.holder = Some((next, fence));
        if next == self.me {
            self.on_grant(fence, out);
        } else {
            out.send(next, Message::Grant { epoch: self.epoch, fence });
        }
    }
}

impl CoordinatorState {
    fn new(n: usize) -> Self {
        CoordinatorState { holder: None, queue: VecDeque::new(), grants: 0, awaited: ProcessSet::none(n) }
    }

    fn note(&mut self, process: ProcessId, wish: Wish) {
        match wish {
            Wish::Idle => {}
            Wish::Waiting => self.queue.push_back(process),
            Wish::Inside { fence } => self.holder = Some((process, fence)),
        }
    }

    fn drop_process(&mut self, process: ProcessId) {
        self.holder.take_if(|(holder, _)| *holder == process);
        self.queue.retain(|waiting| *waiting != process);
        self.awaited.remove(process);
    }
}

/// In one epoch; a fence is the epoch times this, and the number of the grant.
const GRANTS_MAX: u64 = 1 << 32;

/// Every epoch counts its grants anew, and nobody adds to those of an earlier one.
fn grants_of(epoch: u64) -> Counter {
    Counter::Number(epoch as usize)
}

fn show_fence(fence: &mut u64, visit: &mut dyn FnMut(Counter, &mut u64)) {
    let (epoch, mut grant) = (*fence / GRANTS_MAX, *fence % GRANTS_MAX);
    visit(grants_of(epoch), &mut grant);
    *fence = epoch * GRANTS_MAX + grant;
}

impl Wish {
    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Wish::Inside { fence } = self {
            show_fence(fence, visit);
        }
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "central-elected",
    family: Family::Mutex,
    summary: "an elected member grants in order of arrival; the next one asks everybody how things stand",
    assumes: Assumes { crashes: Crashes::Final, ..Assumes::LOSSLESS },
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[],
    broken: None,
};

/// n processes, of which the highest coordinates epoch 1, as after an election.
pub fn group(params: &Params) -> Result<Group<CentralElected>, SetupError> {
    let n = params.n;
    params.at_most_quadratic()?;
    let order: Arc<Vec<ProcessId>> = Arc::new((0..n).collect());
    let leader = n - 1;
    Ok(Group::new(n, n, move |me| CentralElected {
        me,
        n,
        election: ChangRoberts::new(me, &order, Some(leader)),
        wish: Wish::Idle,
        epoch: Stamp { time: 1, process: leader },
        coordinating: (me == leader).then(|| CoordinatorState::new(n)),
    }))
}
