//! Chang and Roberts, "An improved algorithm for decentralized extrema-finding" (1979), on a ring that skips the dead.
//!
//! Assumes: nothing of the order of messages, or of time. None may be lost between those who live; crashes are detected. Who
//! comes back is taken in; what it sent, or was sent, in its earlier life does not arrive.
//!
//! A process without a leader sends ELECTION(its id) to its successor. A higher id is passed on; in place of a lower one a
//! process sends its own, unless it has done so already. Whose id comes back is the highest: it leads, and ELECTED goes
//! once round. When the ring changes during an election, all that take part send the highest id that they know of once
//! more, since it may be lost. The predecessor of a newcomer sends it WELCOME with the leader's id, and so does who learns
//! that its successor is dead to the next one, since ELECTED may be lost; who is higher than that holds an election.
//!
//! Invariants: a process gives up its leader, itself included, before it passes on a higher id, and does not lead after
//! it has passed one on; so at most one leads at a time. What the dead have begun is passed on by nobody.
//! Costs, for n live processes: one starter 2n + d messages and T, d the hops from it to the highest; all start, 3n-1
//! messages (ascending ring) to n(n+1)/2 + n (descending), in 2n T.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::guarded::{self, Guarded};
use super::ring::{self, Ring};
use super::{Command, Event, Rule};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Variant};
use crate::{Input, Outbox, Picture, ProcessId, Protocol, Start};

/// One process of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangRoberts {
    me: ProcessId,
    ring: Ring,
    leader: Option<ProcessId>,
    /// While it takes part in an election: the highest live id that it has seen in it, its own included.
    highest: Option<ProcessId>,
    /// How many elections it has begun.
    number: u64,
    change: Change,
}

/// What a process that takes part in an election does when it learns that the ring has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It sends the highest live id that has passed once more.
    Resend,
    /// It sends its own id once more, and nothing else. Kept for how that gets stuck.
    OwnIdOnly,
}

/// What goes round the ring.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Is there a higher id than this?
    Election {
        /// Of the one who asks.
        id: ProcessId,
        /// Which of its elections this is; only the latest counts.
        number: u64,
    },
    /// There is none: this one leads.
    Elected(ProcessId),
    /// To a process that is new on the ring: this one leads.
    Welcome(Option<ProcessId>),
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Election { .. } => "ELECTION",
            Message::Elected(_) => "ELECTED",
            Message::Welcome(_) => "WELCOME",
        }
    }
}

impl Protocol for ChangRoberts {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(Start::Recovered) => self.recover(out),
            Input::Command(Command::Elect) if self.highest.is_none() => self.hold_election(out),
            Input::Suspect(process) if process != self.me => self.on_suspect(process, out),
            Input::Trust(process) if process != self.me => self.on_trust(process, out),
            Input::Message { message: Message::Election { id, number }, .. } => self.on_election(id, number, out),
            Input::Message { message: Message::Elected(id), .. } => self.on_elected(id, out),
            Input::Message { message: Message::Welcome(leader), .. } => self.on_welcome(leader, out),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        Picture::new()
            .pointer("leader", self.leader)
            .pointer("highest", self.highest)
            .field("number", self.number)
            .and(self.ring.view())
    }
}

impl ChangRoberts {
    /// One process of the ring in this order, that believes in this leader.
    pub fn new(me: ProcessId, order: &[ProcessId], leader: Option<ProcessId>) -> Self {
        ChangRoberts { me, ring: Ring::new(order, me), leader, highest: None, number: 0, change: Change::Resend }
    }

    /// Whom it believes in.
    pub fn leader(&self) -> Option<ProcessId> {
        self.leader
    }

    /// Whether a process is not suspected.
    pub fn trusts(&self, process: ProcessId) -> bool {
        self.ring.trusts(process)
    }

    /// Nobody would send to it before its predecessor does; its own messages would end there too.
    fn recover(&mut self, out: &mut Outbox<Self>) {
        self.ring.forget();
        self.highest = None;
        self.believe(None, out);
    }

    fn hold_election(&mut self, out: &mut Outbox<Self>) {
        // What has passed counts on, if it lives: who has seen a higher id must not lead.
        self.number = self.number.saturating_add(1);
        self.highest = self.highest.filter(|&highest| self.ring.trusts(highest)).max(Some(self.me));
        match self.ring.successor() {
            Some(next) => out.send(next, Message::Election { id: self.me, number: self.number }),
            None => {
                self.highest = None;
                self.believe(Some(self.me), out);
            }
        }
    }

    fn on_suspect(&mut self, process: ProcessId, out: &mut Outbox<Self>) {
        let was_successor = self.ring.successor() == Some(process);
        self.ring.suspect(process);
        if self.leader == Some(process) {
            self.believe(None, out);
        }
        if self.leader.is_none() || self.highest.is_some() {
            self.begin_anew(out);
        } else if was_successor {
            self.pass_on(Message::Welcome(self.leader), out);
        }
    }

    /// The ring has changed, and what was sent may be lost: the highest id that has passed and lives is sent again.
    fn begin_anew(&mut self, out: &mut Outbox<Self>) {
        if self.change == Change::OwnIdOnly {
            return self.hold_election(out);
        }
        let passed = self.ring.highest_passed(self.me);
        let id = passed.map(|(id, _)| id);
        if id.is_none() || id != self.highest {
            self.highest = id;
            self.hold_election(out);
        }
        if let Some((id, number)) = passed {
            self.pass_on(Message::Election { id, number }, out);
        }
    }

    fn on_trust(&mut self, process: ProcessId, out: &mut Outbox<Self>) {
        self.ring.trust(process);
        if self.ring.successor() == Some(process) {
            out.send(process, Message::Welcome(self.leader));
        }
        if self.leader.is_none() || self.highest.is_some() {
            self.begin_anew(out);
        }
    }

    fn on_election(&mut self, id: ProcessId, number: u64, out: &mut Outbox<Self>) {
        if id == self.me {
            self.on_own_id_back(number, out);
        } else if !self.ring.admits(id, number) {
            // Whoever began this has died, and nobody else would end it, or has begun a later one.
        } else if id > self.me {
            self.highest = self.highest.max(Some(id));
            if self.leader < Some(id) {
                self.believe(None, out);
            }
            self.pass_on(Message::Election { id, number }, out);
        } else if self.highest.is_none() || self.leader == Some(self.me) {
            // Who asks does not know of this leader, or not any more: the announcement has not come round, and may not.
            self.hold_election(out);
        }
    }

    fn on_own_id_back(&mut self, number: u64, out: &mut Outbox<Self>) {
        if number > self.number {
            // From before a crash that took the memory: what is younger must count more.
            self.number = number;
            self.hold_election(out);
        } else if self.highest == Some(self.me) && number == self.number {
            self.believe(Some(self.me), out);
            self.pass_on(Message::Elected(self.me), out);
        }
    }

    fn on_elected(&mut self, id: ProcessId, out: &mut Outbox<Self>) {
        if id == self.me {
            // The announcement has come round. Until now a loss on its way would have mattered. If it is of an earlier
            // election, the one that goes on now is still to be decided.
            if self.leader == Some(self.me) {
                self.highest = None;
            }
        } else if self.leader > Some(id) {
            // Outdated: a leader is followed only by a higher one, unless it dies.
        } else if id < self.me {
            // Elected without us.
            self.hold_election(out);
        } else if self.ring.trusts(id) && (self.leader != Some(id) || self.highest.is_some()) {
            self.highest = None;
            self.believe(Some(id), out);
            self.pass_on(Message::Elected(id), out);
        }
    }

    fn on_welcome(&mut self, leader: Option<ProcessId>, out: &mut Outbox<Self>) {
        match leader {
            Some(leader) => self.on_elected(leader, out),
            None => self.hold_election(out),
        }
    }

    fn pass_on(&self, message: Message, out: &mut Outbox<Self>) {
        if let Some(next) = self.ring.successor() {
            out.send(next, message);
        }
    }

    fn believe(&mut self, leader: Option<ProcessId>, out: &mut Outbox<Self>) {
        if self.leader != leader {
            self.leader = leader;
            out.emit(Event::Elected { leader, term: None });
        }
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "chang-roberts",
    family: Family::Election,
    summary: "ids go round a ring, and each is stopped by a higher one; whose id comes back leads",
    assumes: Assumes { crashes: Crashes::Detected, ..Assumes::LOSSLESS },
    promises: Promises { order: false, fence: false, ..Promises::ALL },
    variants: &[
        Variant { name: "descending", summary: "the ring goes from each id to the next lower one" },
        Variant { name: "ring:IDS", summary: "the ring in this order, with commas between" },
        guarded::QUORUM,
        guarded::WITNESS,
    ],
    broken: None,
};

/// n processes on a ring, none of which leads yet.
pub fn group(params: &Params) -> Result<Group<Guarded<ChangRoberts>>, SetupError> {
    group_with(params, Change::Resend)
}

/// The same, with what they do about changes of the ring.
pub fn group_with(params: &Params, change: Change) -> Result<Group<Guarded<ChangRoberts>>, SetupError> {
    let order: Arc<Vec<ProcessId>> = Arc::new(ring::order(params)?);
    let make = move |me| ChangRoberts { change, ..ChangRoberts::new(me, &order, None) };
    guarded::group(params, Rule::Highest, make)
}
