//! Maekawa, "A sqrt(N) algorithm for mutual exclusion in decentralized systems" (1985), repaired after Sanders (1987).
//!
//! Each process has a voting set that contains the process itself, and every two voting sets meet. A process that wants
//! to enter sends REQUEST, stamped (time, id), to its voting set, and enters when all of the set have sent GRANT. When
//! it leaves, it sends RELEASE to the set. A voter grants one request at a time: the best one in its queue, which has
//! the smallest stamp. It sends POSTPONE to a request that is not the best one it knows. If a request arrives that is
//! better than the granted one, the voter sends INQUIRE to the grantee, once per grant. A waiting grantee that cannot
//! win now returns the grant with RELINQUISH. It cannot win now if another voter has postponed it, or if it has
//! returned another grant, and that voter has not granted since.
//!
//! Variant `yield-at-once` needs no POSTPONE: a waiting process returns any grant that it has and that a voter inquires
//! about.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. No process crashes.
//! - Promises: SAFE, LIVE and growing fences. Not ORDER: a later request may win at voters that have not received the
//!   earlier one. But it cannot overtake the request of a process in its own voting set.
//! - Invariants: a voter has at most one grant out, and when it granted, its queue held no better request. At each
//!   voter every waiting request has been sent POSTPONE or has returned its grant, except the best one if the grantee
//!   has been sent INQUIRE for it.
//! - Costs: with K voters in a set, 3(K-1) messages an entry without competition. If all processes want to enter,
//!   4(K-1), or 3(K-1) with `yield-at-once`. 2T from request to grant; T or 2T from exit to next entry.
//! - Fences: a voter reports the highest fence that it knows with GRANT. The entering process takes the next number,
//!   and RELEASE brings it to the voters.
//!
//! Traps. When a better request displaces the best one in the queue, the displaced request must get a POSTPONE. The
//! paper of 1985 does not send it, and then the two requests and the grantee may wait for each other for ever. Each
//! message names its request by the request's time, and carries the sender's clock. An INQUIRE may overtake its GRANT:
//! the process keeps the INQUIRE until the GRANT arrives. A POSTPONE that arrives after a GRANT of the same voter is
//! outdated, since a voter sends POSTPONE before GRANT.
//!
//! Sanders separates the processes to ask (request set) from the processes to inform (inform set), see
//! [`super::generalized`]. This file serves both algorithms. It differs from Maekawa's paper in two places: RELEASE
//! goes to the inform set, and a voter that will get no RELEASE for a grant does not wait for one. In Maekawa's
//! algorithm both sets are the voting set.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Topology, Variant, Way};
use crate::topology::information_structure::InformationStructure;
use crate::topology::quorum::Construction;
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol};

/// Every process is a requester and a voter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Maekawa {
    me: ProcessId,
    deadlocks: Deadlocks,
    clock: LamportClock,
    /// The highest fence that this process knows.
    fence: u64,
    state: State,
    request_set: ProcessSet,
    inform_set: ProcessSet,
    /// As a requester: voters whose grant this process has.
    granted: ProcessSet,
    /// Voters that have postponed its request, or got their grant back, and have not granted since.
    postponed: ProcessSet,
    /// Voters that want their grant back. The GRANT itself may still be on its way.
    inquired: ProcessSet,
    /// As a voter: the grant that is out.
    vote: Option<Vote>,
    /// As a voter: waiting requests, best first.
    queue: BTreeSet<Stamp>,
    /// As a voter: processes that will send it RELEASE. It does not learn when a grant to any other process ends.
    status_set: ProcessSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// Time of the own request.
    Waiting(u64),
    Inside(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Vote {
    grantee: Stamp,
    /// Whether the grantee has been sent INQUIRE.
    inquired: bool,
}

/// How the algorithm resolves deadlocks. The last three are broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deadlocks {
    /// A grantee that has a POSTPONE returns the grants that voters inquire about.
    Postpone,
    /// A waiting grantee returns every grant that a voter inquires about.
    YieldAtOnce,
    /// As `Postpone`, but a displaced request gets no POSTPONE, as in the paper of 1985.
    Paper1985,
    /// Voters do not send INQUIRE.
    NoInquire,
    /// As `YieldAtOnce`, but a process returns a grant even before the GRANT arrives, and counts that GRANT when it
    /// does.
    YieldUnseen,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// To a voter: the sender wants to enter.
    Request(Body),
    /// From a voter: you have my vote.
    Grant(Body),
    /// From a voter: another request comes before yours.
    Postpone(Body),
    /// From a voter: return my grant, unless you can win now.
    Inquire(Body),
    /// To a voter: here is your grant; put me back into your queue.
    Relinquish(Body),
    /// To a voter: the sender has left.
    Release(Body),
}

/// The content of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Body {
    /// The sender's clock.
    time: u64,
    /// Time of the request that the message is about.
    request: u64,
    /// The highest fence that the sender knows.
    fence: u64,
}

impl Message {
    fn body(&self) -> Body {
        let (Message::Request(body)
        | Message::Grant(body)
        | Message::Postpone(body)
        | Message::Inquire(body)
        | Message::Relinquish(body)
        | Message::Release(body)) = self;
        *body
    }

    fn body_mut(&mut self) -> &mut Body {
        let (Message::Request(body)
        | Message::Grant(body)
        | Message::Postpone(body)
        | Message::Inquire(body)
        | Message::Relinquish(body)
        | Message::Release(body)) = self;
        body
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request(_) => "REQUEST",
            Message::Grant(_) => "GRANT",
            Message::Postpone(_) => "POSTPONE",
            Message::Inquire(_) => "INQUIRE",
            Message::Relinquish(_) => "RELINQUISH",
            Message::Release(_) => "RELEASE",
        }
    }

    fn request(&self, from: ProcessId, to: ProcessId) -> Option<Stamp> {
        let process = match self {
            Message::Request(_) | Message::Relinquish(_) | Message::Release(_) => from,
            Message::Grant(_) | Message::Postpone(_) | Message::Inquire(_) => to,
        };
        Some(Stamp { time: self.body().request, process })
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let body = self.body_mut();
        visit(Counter::Clock, &mut body.time);
        visit(Counter::Clock, &mut body.request);
        visit(Counter::Fence, &mut body.fence);
    }
}

impl Protocol for Maekawa {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { from, message } => {
                self.clock.receive(message.body().time);
                self.fence = self.fence.max(message.body().fence);
                self.on_message(from, message, out);
            }
            Input::AppSend => out.stamp(self.clock.tick()),
            Input::AppReceive(time) => {
                self.clock.receive(time);
            }
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        let request = if let State::Waiting(time) | State::Inside(time) = self.state { Some(time) } else { None };
        Picture::new()
            .state(&self.state)
            .field("request", request)
            .field("clock", self.clock.now())
            .field("fence", self.fence)
            .set("request set", self.request_set.iter())
            .set("inform set", self.inform_set.iter())
            .set("granted", self.granted.iter())
            .set("postponed", self.postponed.iter())
            .set("inquired", self.inquired.iter())
            .pointer("vote", self.vote.map(|vote| vote.grantee.process))
            .field("vote inquired", self.vote.is_some_and(|vote| vote.inquired))
            .queue("queue", self.queue.iter().copied())
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Clock, self.clock.time_mut());
        if let State::Waiting(request) | State::Inside(request) = &mut self.state {
            visit(Counter::Clock, request);
        }
        if let Some(vote) = &mut self.vote {
            visit(Counter::Clock, &mut vote.grantee.time);
        }
        let mut queue: Vec<Stamp> = core::mem::take(&mut self.queue).into_iter().collect();
        queue.iter_mut().for_each(|request| visit(Counter::Clock, &mut request.time));
        self.queue = queue.into_iter().collect();
        visit(Counter::Fence, &mut self.fence);
    }
}

impl Maekawa {
    fn on_message(&mut self, from: ProcessId, message: Message, out: &mut Outbox<Self>) {
        let request = message.body().request;
        let theirs = Stamp { time: request, process: from };
        // A message of a voter counts only while the request that it names is waiting.
        let awaited = self.state == State::Waiting(request) && self.request_set.contains(from);
        match message {
            Message::Request(_) => self.on_request(theirs, out),
            Message::Relinquish(_) => self.on_relinquish(theirs, out),
            Message::Release(_) => self.on_release(theirs, out),
            Message::Grant(_) if awaited => self.on_grant(from, out),
            Message::Postpone(_) if awaited => self.on_postpone(from, out),
            Message::Inquire(_) if awaited => self.on_inquire(from, out),
            Message::Grant(_) | Message::Postpone(_) | Message::Inquire(_) => {}
        }
    }

    /// A process handles a message to itself at once.
    fn send(&mut self, to: ProcessId, message: fn(Body) -> Message, request: u64, out: &mut Outbox<Self>) {
        let message = message(Body { time: self.clock.tick(), request, fence: self.fence });
        if to == self.me { self.on_message(to, message, out) } else { out.send(to, message) }
    }

    /// Sends to the others first, since the message to itself may cause further messages.
    fn multicast(&mut self, to: ProcessSet, message: Message, out: &mut Outbox<Self>) {
        out.multicast(to.iter().filter(|&other| other != self.me), message.clone());
        if to.contains(self.me) {
            self.on_message(self.me, message, out);
        }
    }

    // The requester.

    fn acquire(&mut self, out: &mut Outbox<Self>) {
        let request = self.clock.tick();
        self.state = State::Waiting(request);
        let message = Message::Request(Body { time: request, request, fence: self.fence });
        self.multicast(self.request_set.clone(), message, out);
    }

    fn on_grant(&mut self, voter: ProcessId, out: &mut Outbox<Self>) {
        self.postponed.remove(voter);
        self.granted.insert(voter);
        if self.granted == self.request_set { self.enter(out) } else { self.give_way(out) }
    }

    fn on_postpone(&mut self, voter: ProcessId, out: &mut Outbox<Self>) {
        if !self.granted.contains(voter) {
            self.postponed.insert(voter);
            self.give_way(out);
        }
    }

    fn on_inquire(&mut self, voter: ProcessId, out: &mut Outbox<Self>) {
        self.inquired.insert(voter);
        self.give_way(out);
    }

    /// Returns the grants that voters inquire about, if this process cannot win now.
    fn give_way(&mut self, out: &mut Outbox<Self>) {
        let yields = matches!(self.deadlocks, Deadlocks::YieldAtOnce | Deadlocks::YieldUnseen);
        while let State::Waiting(request) = self.state
            && (yields || !self.postponed.is_empty())
            && let Some(voter) = self.grant_to_give_back()
        {
            self.inquired.remove(voter);
            self.granted.remove(voter);
            self.postponed.insert(voter);
            self.send(voter, Message::Relinquish, request, out);
        }
    }

    fn grant_to_give_back(&self) -> Option<ProcessId> {
        match self.deadlocks {
            Deadlocks::YieldUnseen => self.inquired.iter().next(),
            _ => self.inquired.first_common(&self.granted),
        }
    }

    fn enter(&mut self, out: &mut Outbox<Self>) {
        if let State::Waiting(request) = self.state {
            self.state = State::Inside(request);
            self.inquired.clear();
            self.fence = self.fence.saturating_add(1);
            out.emit(Event::Granted { fence: self.fence });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        if let State::Inside(request) = self.state {
            self.state = State::Idle;
            self.granted.clear();
            let message = Message::Release(Body { time: self.clock.tick(), request, fence: self.fence });
            self.multicast(self.inform_set.clone(), message, out);
        }
    }

    // The voter.

    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<Self>) {
        let best_before = self.queue.first().copied();
        let Some(Vote { grantee, .. }) = self.vote else {
            self.queue.insert(theirs);
            return self.grant_next(out);
        };
        if theirs == grantee || !self.queue.insert(theirs) {
            return;
        }
        if grantee < theirs || best_before.is_some_and(|best| best < theirs) {
            return self.postpone(theirs, out);
        }
        if let Some(displaced) = best_before.filter(|&best| best < grantee)
            && self.deadlocks != Deadlocks::Paper1985
        {
            self.postpone(displaced, out);
        }
        self.inquire(out);
    }

    fn on_relinquish(&mut self, theirs: Stamp, out: &mut Outbox<Self>) {
        if self.vote == Some(Vote { grantee: theirs, inquired: true }) {
            self.vote = None;
            self.queue.insert(theirs);
            self.grant_next(out);
        }
    }

    fn on_release(&mut self, theirs: Stamp, out: &mut Outbox<Self>) {
        if self.vote.is_some_and(|vote| vote.grantee == theirs) {
            self.vote = None;
            self.grant_next(out);
        }
    }

    /// Grants the best request. Goes on with the next ones until it has granted one that will send RELEASE.
    fn grant_next(&mut self, out: &mut Outbox<Self>) {
        while self.vote.is_none()
            && let Some(grantee) = self.queue.pop_first()
        {
            if self.status_set.contains(grantee.process) {
                self.vote = Some(Vote { grantee, inquired: false });
            }
            self.send(grantee.process, Message::Grant, grantee.time, out);
        }
    }

    fn postpone(&mut self, theirs: Stamp, out: &mut Outbox<Self>) {
        if matches!(self.deadlocks, Deadlocks::Postpone | Deadlocks::Paper1985) {
            self.send(theirs.process, Message::Postpone, theirs.time, out);
        }
    }

    fn inquire(&mut self, out: &mut Outbox<Self>) {
        if let Some(Vote { grantee, inquired: false }) = self.vote
            && self.deadlocks != Deadlocks::NoInquire
        {
            self.vote = Some(Vote { grantee, inquired: true });
            self.send(grantee.process, Message::Inquire, grantee.time, out);
        }
    }
}

pub const ABOUT: About = About {
    name: "maekawa",
    family: Family::Mutex,
    way: Some(Way::AsksQuorum),
    summary: "ask a set of voters that meets every other set; a vote can be asked back for a better request",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[
        YIELD_AT_ONCE,
        Construction::VARIANTS[0],
        Construction::VARIANTS[1],
        Construction::VARIANTS[2],
        Construction::VARIANTS[3],
        Construction::VARIANTS[4],
        VIEWS,
    ],
    broken: None,
};

/// The second repair, without POSTPONE.
pub const YIELD_AT_ONCE: Variant = Variant {
    name: "yield-at-once",
    summary: "no POSTPONE: a waiting process returns any grant that a voter inquires about",
};

impl Deadlocks {
    /// The repair that the variant names.
    pub fn repaired(params: &Params) -> Self {
        if params.has(YIELD_AT_ONCE.name) { Deadlocks::YieldAtOnce } else { Deadlocks::Postpone }
    }
}

pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    group_with(params, Deadlocks::repaired(params))
}

/// Also used by the broken variants, which resolve deadlocks differently.
pub fn group_with(params: &Params, deadlocks: Deadlocks) -> Result<Group<Maekawa>, SetupError> {
    let quorums = Construction::choose(params)?.quorums(params.n)?;
    Ok(group_of(InformationStructure::of_quorums(quorums), deadlocks))
}

/// For any request and inform sets; also used by [`super::generalized`].
pub fn group_of(sets: InformationStructure, deadlocks: Deadlocks) -> Group<Maekawa> {
    let (clients, processes) = (sets.clients(), sets.processes());
    let quorums: Vec<Vec<ProcessId>> = sets.request.iter().map(|set| set.iter().collect()).collect();
    let none = move || ProcessSet::none(processes);
    let mut group = Group::new(clients, processes, move |me| Maekawa {
        me,
        deadlocks,
        clock: LamportClock::default(),
        fence: 0,
        state: State::Idle,
        request_set: sets.request.get(me).cloned().unwrap_or_else(none),
        inform_set: sets.inform.get(me).cloned().unwrap_or_else(none),
        granted: none(),
        postponed: none(),
        inquired: none(),
        vote: None,
        queue: BTreeSet::new(),
        status_set: sets.status(me),
    });
    group.topology = Topology { quorums: Some(quorums), ..Topology::default() };
    group
}
