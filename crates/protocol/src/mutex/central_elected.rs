//! The central server without a server: the members elect one of themselves as coordinator, and another one when it
//! crashes.
//!
//! The election is that of [Chang and Roberts](crate::election::chang_roberts). As in [`central`](super::central), a
//! client sends REQUEST, waits for GRANT and sends RELEASE when it leaves. The coordinator handles its own requests
//! inside the step, without messages.
//!
//! A newly elected coordinator begins a new epoch. It sends INQUIRE to all live members. Each answers STATE: it is
//! inside, with which fence, or it waits, or neither. After all answers the coordinator knows the holder and the queue,
//! and grants again. It drops suspected processes, also a suspected holder. When a process recovers, the coordinator
//! begins another epoch, to include it.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order, at any speed. The failure detector
//!   makes no mistakes. Crashes are final. (A recovered process is accepted, but fences start again if all other
//!   processes crash before it learns of the latest epoch.)
//! - Promises: SAFE, LIVE and growing fences. Not ORDER: see [`central`](super::central).
//! - Invariants: a coordinator grants nothing in an epoch before all live members know of the epoch. In each epoch at
//!   most one grant is unreleased, and there is none while a process is inside with a grant of an earlier epoch.
//! - Costs: 3 messages an entry, none if the coordinator itself enters, so 3(n-1)/n if all processes enter equally
//!   often; 2T or 0 from request to grant. A change of coordinator costs the election, 2(n-1) messages and 2T.
//! - Fences: (epoch, number of the grant in this epoch). The survivors know the epoch even if all processes that knew
//!   the number crashed.
//!
//! Traps. A process accepts messages of one epoch only, the latest that it has answered. A process that gets an INQUIRE
//! of an epoch that is not later answers with its own epoch. Then the coordinator begins an epoch after that one.
//! Otherwise it would wait for ever for a STATE of its own epoch.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::Stamp;
use crate::election::{self, chang_roberts, chang_roberts::ChangRoberts};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Way};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol, Start};

/// Every process is a client; the elected one is also the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CentralElected {
    me: ProcessId,
    n: usize,
    election: ChangRoberts,
    wish: Wish,
    /// The latest epoch that this process has answered: its number, and its coordinator.
    epoch: Stamp,
    /// Only at the coordinator of `epoch`.
    coordinating: Option<CoordinatorState>,
}

/// What a client does, as STATE reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Wish {
    Idle,
    Waiting,
    Inside { fence: u64 },
}

/// What the coordinator knows in its epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CoordinatorState {
    /// The process inside, and its fence.
    holder: Option<(ProcessId, u64)>,
    queue: VecDeque<ProcessId>,
    grants: u64,
    /// Processes whose STATE is missing. The coordinator grants nothing while there are any.
    awaited: ProcessSet,
}

/// All messages except those of the election name their epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    Election(chang_roberts::Message),
    /// Client to coordinator.
    Request {
        epoch: Stamp,
    },
    /// Coordinator to client: you may enter.
    Grant {
        epoch: Stamp,
        fence: u64,
    },
    /// Client to coordinator: I have left.
    Release {
        epoch: Stamp,
        fence: u64,
    },
    /// Coordinator to all: this epoch begins; are you inside, do you wait?
    Inquire {
        epoch: Stamp,
    },
    /// Answers [`Message::Inquire`].
    State {
        /// The epoch of the INQUIRE, or the epoch of the answering process if that is no earlier.
        epoch: Stamp,
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

/// The client.
impl CentralElected {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.wish = Wish::Waiting;
        match self.coordinator() {
            Some(me) if me == self.me => self.on_request(me, out),
            Some(coordinator) => out.send(coordinator, Message::Request { epoch: self.epoch }),
            None => {} // The next coordinator will send INQUIRE.
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

    /// The coordinator of the epoch, unless it is suspected.
    fn coordinator(&self) -> Option<ProcessId> {
        Some(self.epoch.process).filter(|&coordinator| self.election.trusts(coordinator))
    }

    fn on_inquire(&mut self, epoch: Stamp, out: &mut Outbox<Self>) {
        // An INQUIRE of a crashed coordinator needs no answer.
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

    /// The coordinator of this process's epoch has crashed. Usually there is no leader yet, and the next leader will
    /// send INQUIRE. But a late INQUIRE of the crashed coordinator may have arrived after that of its successor, with a
    /// higher epoch. Then the successor must begin a still later epoch.
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

    /// Gives the election its input. If this process is elected, it begins an epoch.
    fn elect(&mut self, input: Input<ChangRoberts>, out: &mut Outbox<Self>) {
        for output in out.step_inside(&mut self.election, input) {
            match out.map(output, Message::Election, |never| never) {
                Some(election::Event::Elected { leader, .. }) if leader == Some(self.me) => {
                    self.begin_epoch(self.epoch.time, out);
                }
                Some(_) => self.coordinating = None,
                None => {}
            }
        }
    }
}

/// The coordinator.
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
            // A process that is not awaited has already sent a request or a release in this epoch.
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

/// Bound on the grants of one epoch: a fence is epoch x 2^32 + number of the grant.
const GRANTS_MAX: u64 = 1 << 32;

/// Each epoch counts its grants from 1, so each epoch is a family of counters of its own.
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

pub const ABOUT: About = About {
    name: "central-elected",
    family: Family::Mutex,
    way: Some(Way::AsksCoordinator),
    summary: "an elected member grants in order of arrival; after its crash the next one asks all for their state",
    assumes: Assumes { crashes: Crashes::Final, ..Assumes::LOSSLESS },
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[VIEWS],
    broken: None,
};

/// n processes. The highest id coordinates epoch 1, as after an election.
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
