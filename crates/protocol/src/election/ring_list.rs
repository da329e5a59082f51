//! The ring election with a list of ids, as Tanenbaum describes it in "Modern Operating Systems".
//!
//! A process that has no leader sends ELECTION with a list, which contains its id, to its successor. Each process adds
//! its id and forwards the list. When the list is back, the starter picks the leader from it by a rule that all
//! processes share (the highest id, or the lowest). It announces the leader with COORDINATOR, which goes once round the
//! ring (`circulate`), or to all on the list at once (`multicast`).
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order, at any speed. The failure detector
//!   makes no mistakes. Crashes are final. (A recovered process is accepted, but then agreement is not certain.)
//! - Promises: SAFE and LIVE: at most one leader at a time, and all live processes agree on the best of them.
//! - Invariants: a leader gives up before it forwards a list. A process does not lead if it has since forwarded a list
//!   with a better process. So at most one process leads at a time. No process forwards a list whose starter is dead.
//! - Costs: for n live processes and one starter, 2n messages and 2n T with `circulate`, 2n-1 messages and (n+1) T with
//!   `multicast`. If all start, n times as many messages.
//!
//! Traps. Several elections at once do no harm, since all lists are complete. But a process accepts only the result of
//! the list that passed it last, and drops a list that is older than another one of the same starter. When the ring
//! changes, messages may be lost with a dead process. So all processes that take part start again. The predecessor of a
//! recovered process sends it WELCOME with the leader's id. A process whose successor has crashed sends WELCOME to the
//! next successor, since COORDINATOR may be lost. A process that is better than the welcomed leader holds an election.

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::guarded::{self, Guarded};
use super::ring::Ring;
use super::{Command, Event, Rule};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Variant};
use crate::views::VIEWS;
use crate::{Input, Outbox, Picture, ProcessId, Protocol, Start};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingList {
    me: ProcessId,
    rule: Rule,
    announcement: Announcement,
    ring: Ring,
    leader: Option<ProcessId>,
    /// While this process takes part in an election: the best live process that it has seen in it, itself included.
    best: Option<ProcessId>,
    /// Starter and number of the list that passed last. Only the result of this list counts.
    passed: (ProcessId, u64),
    /// Number of elections that this process has started.
    number: u64,
}

/// How the starter announces the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Announcement {
    /// COORDINATOR goes once round the ring.
    Circulate,
    /// COORDINATOR goes to all processes on the list at once.
    Multicast,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Collects the ids of all live processes.
    Election {
        /// The starter, and all processes that have forwarded the list.
        ids: Vec<ProcessId>,
        /// Number of the election at its starter; only the latest counts.
        number: u64,
    },
    /// The result of an election.
    Coordinator {
        leader: ProcessId,
        /// Starter of the election. A circulating COORDINATOR ends there.
        by: ProcessId,
        /// Number of the election at its starter.
        number: u64,
    },
    /// To a new successor: this process leads; `None` if the sender knows of no leader.
    Welcome(Option<ProcessId>),
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Election { .. } => "ELECTION",
            Message::Coordinator { .. } => "COORDINATOR",
            Message::Welcome(_) => "WELCOME",
        }
    }
}

impl Protocol for RingList {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(Start::Recovered) => self.recover(out),
            Input::Command(Command::Elect) if self.best.is_none() => self.hold_election(out),
            Input::Suspect(process) if process != self.me => self.on_suspect(process, out),
            Input::Trust(process) if process != self.me => self.on_trust(process, out),
            Input::Message { message: Message::Election { ids, number }, .. } => self.on_election(ids, number, out),
            Input::Message { message: Message::Coordinator { leader, by, number }, .. } => {
                self.on_coordinator(leader, (by, number), out);
            }
            Input::Message { from, message: Message::Welcome(leader) } => self.on_welcome(from, leader, out),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        Picture::new()
            .pointer("leader", self.leader)
            .pointer("best", self.best)
            .numbers("passed", [self.passed])
            .field("number", self.number)
            .and(self.ring.view())
    }
}

impl RingList {
    /// Does not hold an election yet: the other processes still skip this one, so its messages would not come back. It
    /// waits for the WELCOME of its predecessor.
    fn recover(&mut self, out: &mut Outbox<Self>) {
        self.ring.forget();
        self.best = None;
        self.believe(None, out);
    }

    fn hold_election(&mut self, out: &mut Outbox<Self>) {
        // Keeps `best` if that process is alive: a process that has seen a better one must not lead.
        self.number = self.number.saturating_add(1);
        self.passed = (self.me, self.number);
        self.best = Some(self.best_of(&[self.me, self.best.unwrap_or(self.me)]));
        match self.ring.successor() {
            Some(next) => out.send(next, Message::Election { ids: vec![self.me], number: self.number }),
            None => self.accept(self.me, out),
        }
    }

    fn on_suspect(&mut self, process: ProcessId, out: &mut Outbox<Self>) {
        let was_successor = self.ring.successor() == Some(process);
        self.ring.suspect(process);
        if self.leader == Some(process) {
            self.believe(None, out);
        }
        if self.leader.is_none() || self.best.is_some() {
            self.hold_election(out);
        } else if was_successor {
            self.pass_on(Message::Welcome(self.leader), out);
        }
    }

    fn on_trust(&mut self, process: ProcessId, out: &mut Outbox<Self>) {
        let early = self.ring.trust(process);
        if early || self.ring.successor() == Some(process) {
            out.send(process, Message::Welcome(self.leader));
        }
        if self.leader.is_none() || self.best.is_some() {
            self.hold_election(out);
        }
    }

    fn on_election(&mut self, mut ids: Vec<ProcessId>, number: u64, out: &mut Outbox<Self>) {
        let Some(&starter) = ids.first() else { return };
        if starter == self.me {
            self.on_list_back(&ids, number, out);
        } else if !ids.contains(&self.me) && self.ring.admits(starter, number) {
            self.passed = (starter, number);
            ids.push(self.me);
            let candidate = self.best_of(&ids);
            self.best = self.best_of(&[candidate, self.best.unwrap_or(candidate)]).into();
            // A leader gives up in any case: a better process may join the list after it.
            if self.leader.is_some_and(|leader| leader == self.me || self.rule.prefers(candidate, leader)) {
                self.believe(None, out);
            }
            self.pass_on(Message::Election { ids, number }, out);
        }
    }

    fn on_list_back(&mut self, ids: &[ProcessId], number: u64, out: &mut Outbox<Self>) {
        if number > self.number {
            // An election from before a crash with loss of memory. The next one must have a higher number.
            self.number = number;
            return self.hold_election(out);
        }
        if number < self.number {
            return;
        }
        let (leader, by) = (self.best_of(ids), self.me);
        self.on_outcome(leader, (by, number), out);
        let coordinator = Message::Coordinator { leader, by, number };
        match self.announcement {
            Announcement::Circulate => self.pass_on(coordinator, out),
            Announcement::Multicast => {
                out.multicast(ids.iter().copied().filter(|&id| self.ring.trusts(id) && id != by), coordinator);
            }
        }
    }

    fn on_coordinator(&mut self, leader: ProcessId, (by, number): (ProcessId, u64), out: &mut Outbox<Self>) {
        if by == self.me || !self.ring.trusts(by) {
            return;
        }
        if self.announcement == Announcement::Circulate {
            self.pass_on(Message::Coordinator { leader, by, number }, out);
        }
        self.on_outcome(leader, (by, number), out);
    }

    fn on_outcome(&mut self, leader: ProcessId, of: (ProcessId, u64), out: &mut Outbox<Self>) {
        if self.passed == of {
            self.accept(leader, out);
        }
    }

    fn on_welcome(&mut self, from: ProcessId, leader: Option<ProcessId>, out: &mut Outbox<Self>) {
        match leader {
            Some(leader) => {
                if self.leader.is_some_and(|known| self.rule.prefers(known, leader)) {
                    // The sender took this process's leader for dead for a while.
                    out.send(from, Message::Welcome(self.leader));
                }
                let is_new = self.leader != Some(leader);
                self.accept(leader, out);
                if is_new && self.leader == Some(leader) {
                    // After a partition, the next processes on the ring may not know this leader either.
                    self.pass_on(Message::Welcome(Some(leader)), out);
                }
            }
            None => self.hold_election(out),
        }
    }

    /// Follows an announced leader, unless a better process is known.
    fn accept(&mut self, leader: ProcessId, out: &mut Outbox<Self>) {
        let worse_than = |known: Option<ProcessId>| known.is_some_and(|known| self.rule.prefers(known, leader));
        if worse_than(self.leader) {
            // Outdated: a new leader is better than the one before, unless that one died.
        } else if worse_than(Some(self.me)) {
            // Elected without this process, which is better.
            self.hold_election(out);
        } else if self.ring.trusts(leader) && !worse_than(self.best) {
            self.best = None;
            self.believe(Some(leader), out);
        } else {
            self.ring.remember(leader);
        }
    }

    /// The best process of a list that is alive as far as this process knows; this process itself if there is none.
    fn best_of(&self, ids: &[ProcessId]) -> ProcessId {
        let live = ids.iter().copied().filter(|&id| id == self.me || self.ring.trusts(id));
        self.rule.best(live).unwrap_or(self.me)
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

pub const ABOUT: About = About {
    name: "ring-list",
    family: Family::Election,
    way: None,
    summary: "a list of ids goes round a ring, and the best on it leads",
    assumes: Assumes { crashes: Crashes::Final, ..Assumes::LOSSLESS },
    promises: Promises { order: false, fence: false, ..Promises::ALL },
    variants: &[
        Variant { name: "highest", summary: "the highest id leads; the default" },
        Variant { name: "lowest", summary: "the lowest id leads" },
        Variant { name: "circulate", summary: "the outcome goes once round the ring; the default" },
        Variant { name: "multicast", summary: "the outcome is sent to all at once" },
        guarded::QUORUM,
        guarded::WITNESS,
        VIEWS,
    ],
    broken: None,
};

/// n processes on a ring in ascending order; no process leads yet.
pub fn group(params: &Params) -> Result<Group<Guarded<RingList>>, SetupError> {
    let order: Vec<ProcessId> = (0..params.n).collect();
    let rule = match params.one_of(&["highest", "lowest"])? {
        Some("lowest") => Rule::Lowest,
        _ => Rule::Highest,
    };
    let announcement = match params.one_of(&["circulate", "multicast"])? {
        Some("multicast") => Announcement::Multicast,
        _ => Announcement::Circulate,
    };
    let make = move |me| {
        let ring = Ring::new(&order, me);
        RingList { me, rule, announcement, ring, leader: None, best: None, passed: (me, 0), number: 0 }
    };
    Ok(guarded::group(params, rule, make)?.on_ring(0..params.n))
}
