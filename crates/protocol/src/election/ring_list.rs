//! The ring election with a list of ids, as Tanenbaum describes it in "Modern Operating Systems".
//!
//! Assumes: nothing of the order of messages, or of time. None may be lost; crashes are detected, and for good: who comes
//! back is taken in, but a message of its earlier life that is still under way may do harm.
//!
//! A process without a leader sends ELECTION with its id to its successor; everybody adds its own and passes it on. When it
//! is back, the one who began picks the leader from the list, by a rule that all share (the highest id, or the lowest),
//! and announces it: COORDINATOR goes once round, or to all on the list at once. Several elections at a time do no
//! harm: all lists are complete. When the ring changes during an election, all that take part begin anew. The
//! predecessor of a newcomer sends it WELCOME with the leader's id, and so does who learns that its successor is dead to
//! the next one, since COORDINATOR may be lost; who is better than that holds an election.
//!
//! Invariants: a leader gives up before it passes on a list, and nobody leads who has passed on a list with a better one
//! since; so at most one leads at a time. What the dead have begun is passed on by nobody.
//! Costs, for n live processes: one starter 2n messages and T (2n-1 and n+1 with `multicast`); all start, n times that.

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::guarded::{self, Guarded};
use super::ring::Ring;
use super::{Command, Event, Rule};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Variant};
use crate::{Input, Outbox, Picture, ProcessId, Protocol, Start};

/// One process of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingList {
    me: ProcessId,
    rule: Rule,
    announcement: Announcement,
    ring: Ring,
    leader: Option<ProcessId>,
    /// While it takes part in an election: the best live process that it has seen in it, itself included.
    best: Option<ProcessId>,
    /// Who began the election that passed last, and its number; only its outcome counts.
    passed: (ProcessId, u64),
    /// How many elections it has begun.
    number: u64,
}

/// How the outcome is made known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Announcement {
    /// Once round the ring.
    Circulate,
    /// To everybody at once.
    Multicast,
}

/// What goes round the ring.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Who lives?
    Election {
        /// All that have passed it on, beginning with the one who asks.
        ids: Vec<ProcessId>,
        /// Which of that one's elections this is; only the latest counts.
        number: u64,
    },
    /// This one leads.
    Coordinator {
        /// The outcome.
        leader: ProcessId,
        /// Who announces it; if it goes round, it ends there.
        by: ProcessId,
        /// Of which of that one's elections.
        number: u64,
    },
    /// To a process that is new on the ring: this one leads.
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
            Input::Message { message: Message::Welcome(leader), .. } => self.on_welcome(leader, out),
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
    /// Nobody would send to it before its predecessor does; its own messages would end there too.
    fn recover(&mut self, out: &mut Outbox<Self>) {
        self.ring.forget();
        self.best = None;
        self.believe(None, out);
    }

    fn hold_election(&mut self, out: &mut Outbox<Self>) {
        // What has passed counts on, if it lives: who has seen a better one must not lead.
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
        self.ring.trust(process);
        if self.ring.successor() == Some(process) {
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
            // The leader itself gives up in any case: a better one may join the list after it.
            if self.leader.is_some_and(|leader| leader == self.me || self.rule.prefers(candidate, leader)) {
                self.believe(None, out);
            }
            self.pass_on(Message::Election { ids, number }, out);
        }
    }

    fn on_list_back(&mut self, ids: &[ProcessId], number: u64, out: &mut Outbox<Self>) {
        if number > self.number {
            // From before a crash that took the memory: what is younger must count more.
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

    fn on_welcome(&mut self, leader: Option<ProcessId>, out: &mut Outbox<Self>) {
        match leader {
            Some(leader) => {
                let news = self.leader != Some(leader);
                self.accept(leader, out);
                if news && self.leader == Some(leader) {
                    // The others on this side of a former partition may not know either.
                    self.pass_on(Message::Welcome(Some(leader)), out);
                }
            }
            None => self.hold_election(out),
        }
    }

    /// Believes in a leader that was announced, unless a better one is known.
    fn accept(&mut self, leader: ProcessId, out: &mut Outbox<Self>) {
        let worse_than = |known: Option<ProcessId>| known.is_some_and(|known| self.rule.prefers(known, leader));
        if worse_than(self.leader) {
            // Outdated: a leader is followed only by a better one, unless it dies.
        } else if worse_than(Some(self.me)) {
            // Elected without us.
            self.hold_election(out);
        } else if self.ring.trusts(leader) && !worse_than(self.best) {
            self.best = None;
            self.believe(Some(leader), out);
        }
    }

    /// The best of a list that lives, as far as this process knows; itself if there is no other.
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

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "ring-list",
    family: Family::Election,
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
    ],
    broken: None,
};

/// n processes on a ring in ascending order, none of which leads yet.
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
    guarded::group(params, rule, move |me| {
        let ring = Ring::new(&order, me);
        RingList { me, rule, announcement, ring, leader: None, best: None, passed: (me, 0), number: 0 }
    })
}
