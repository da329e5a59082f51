//! Maekawa, "A sqrt(N) algorithm for mutual exclusion in decentralized systems" (1985), repaired after Sanders (1987).
//!
//! Assumes: nothing of the order of messages. None may be lost, nobody may crash.
//!
//! Every process has a voting set with itself in it, and every two sets meet. Who wants to enter sends REQUEST, stamped
//! (time, id), to its set, enters when all have sent GRANT, and sends them RELEASE when it leaves. A voter grants one
//! request at a time, the best (smallest) first, and sends POSTPONE to one that is not the best it knows of. If a better
//! one than the grantee's comes, it sends the grantee INQUIRE, once per grant; who waits and cannot win now, because of
//! a POSTPONE or of another grant given back, gives the grant back with RELINQUISH. The paper forgets the POSTPONE to
//! a request that was the best until a still better one came: neither the two nor the grantee might ever move. Variant
//! `yield-at-once` needs no POSTPONE: who waits gives back whatever grant it is asked for.
//!
//! Invariants: a voter has one grant out; nobody in its queue was better when it was given. Of those that wait at a
//! voter, all but the best, and the best unless the grantee has been sent INQUIRE, know that they are postponed.
//! Costs: 3(K-1) messages an entry if nobody competes; if all do, 4(K-1), or 3(K-1) by yielding at once; K voters each.
//! 2T from request to grant; T or 2T from exit to the next entry.
//! Fences: voters report the highest they know of with GRANT; the entrant takes the next one, RELEASE leaves it there.
//!
//! Every message names the request it is about, by its time, and carries the sender's clock. An INQUIRE may overtake the
//! GRANT it is about: it is kept until that comes. A POSTPONE is the first that a voter says to a request: after a GRANT
//! it is stale. ORDER is not promised: a later request may win at voters that have not heard of the earlier one. It
//! cannot overtake the request of a process that it asks itself.
//!
//! Sanders tells those to ask, the request set, from those to tell, the inform set: see [`super::generalized`]. The same
//! code does it, at two places: RELEASE goes to the inform set, and a voter that will not be told of the end of a
//! grant does not wait for it. For Maekawa both sets are the voting set.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::{LamportClock, Stamp};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Topology, Variant};
use crate::topology::information_structure::InformationStructure;
use crate::topology::quorum::Construction;
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol};

/// One process of the group: it may ask, and it votes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Maekawa {
    me: ProcessId,
    deadlocks: Deadlocks,
    clock: LamportClock,
    /// The highest fence that it ever heard of.
    fence: u64,
    state: State,
    /// Whom to ask, and whom to tell.
    request_set: ProcessSet,
    inform_set: ProcessSet,
    /// Whose grant it has.
    granted: ProcessSet,
    /// Who has postponed it, or got its grant back, and has not granted since.
    postponed: ProcessSet,
    /// Who wants its grant back; the grant itself may still be on its way.
    inquired: ProcessSet,
    /// As a voter: the grant that is out.
    vote: Option<Vote>,
    /// Requests that wait for it.
    queue: BTreeSet<Stamp>,
    /// Who will tell it of having left: of the others' grants it cannot know the end.
    status_set: ProcessSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// With the time of the request.
    Waiting(u64),
    Inside(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Vote {
    grantee: Stamp,
    /// Whether it has been asked back.
    inquired: bool,
}

/// How requests that wait for each other are brought apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deadlocks {
    /// By POSTPONE, which makes a grantee give way when it is asked to.
    Postpone,
    /// By giving way whenever asked to.
    YieldAtOnce,
    /// Not always: as in 1985, the best request at a voter learns nothing when a better one comes.
    Paper1985,
    /// Not at all.
    NoInquire,
    /// By giving way whenever asked to, even with a grant that has yet to come, and counts when it does.
    YieldUnseen,
}

/// What processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// To a voter: I want to enter.
    Request(Body),
    /// From a voter: you may, as far as I am concerned.
    Grant(Body),
    /// From a voter: others come before you.
    Postpone(Body),
    /// From a voter: may I have my grant back?
    Inquire(Body),
    /// To a voter: you may, and grant me later.
    Relinquish(Body),
    /// To a voter: I have left.
    Release(Body),
}

/// What every message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Body {
    /// The sender's clock.
    time: u64,
    /// The time of the request that the message is about.
    request: u64,
    /// The highest fence that the sender knows of.
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
        // What a voter says counts only while the request that it names is waiting for it.
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

    /// What a process has to tell itself it handles at once.
    fn send(&mut self, to: ProcessId, message: fn(Body) -> Message, request: u64, out: &mut Outbox<Self>) {
        let message = message(Body { time: self.clock.tick(), request, fence: self.fence });
        if to == self.me { self.on_message(to, message, out) } else { out.send(to, message) }
    }

    /// The others first: what it tells itself may have consequences.
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

    /// Gives back the grants that it has and is asked for, if it cannot win now.
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

    /// Grants the best request, and those after it until it grants one that it will be told the end of.
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

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "maekawa",
    family: Family::Mutex,
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
    ],
    broken: None,
};

/// The variant with the second repair.
pub const YIELD_AT_ONCE: Variant =
    Variant { name: "yield-at-once", summary: "no POSTPONE: who waits gives a grant back whenever asked to" };

impl Deadlocks {
    /// The repair that the variant asks for.
    pub fn repaired(params: &Params) -> Self {
        if params.has(YIELD_AT_ONCE.name) { Deadlocks::YieldAtOnce } else { Deadlocks::Postpone }
    }
}

/// n equal processes and their voting sets.
pub fn group(params: &Params) -> Result<Group<Maekawa>, SetupError> {
    group_with(params, Deadlocks::repaired(params))
}

/// The same with a way to deal with deadlocks to choose.
pub fn group_with(params: &Params, deadlocks: Deadlocks) -> Result<Group<Maekawa>, SetupError> {
    let quorums = Construction::choose(params)?.quorums(params.n)?;
    Ok(group_of(InformationStructure::of_quorums(quorums), deadlocks))
}

/// The same with any request and inform sets.
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
