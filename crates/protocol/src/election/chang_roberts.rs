//! Chang and Roberts, "An improved algorithm for decentralized extrema-finding in circular configurations of processes"
//! (1979), on a ring that skips dead processes.
//!
//! A process that has no leader sends ELECTION with its id to its successor. A process forwards a higher id. Instead of
//! a lower id it sends its own, unless it already takes part in an election. A process whose own id comes back is the
//! highest: it leads, and ELECTED goes once round the ring.
//!
//! - Assumes: no message between live processes is lost or repeated; messages may arrive in any order, at any speed.
//!   The failure detector makes no mistakes. Crashed processes may recover; messages that they sent, or that were sent
//!   to them, before the crash do not arrive.
//! - Promises: SAFE and LIVE: at most one leader at a time, and all live processes agree on the highest of them.
//! - Invariants: a process gives up its leader, itself included, before it forwards a higher id, and does not lead
//!   after it has forwarded one. So at most one process leads at a time. No process forwards an election whose starter
//!   is dead.
//! - Costs: for n live processes, 2n + d messages and as many T if one process starts that is d hops before the
//!   highest. If all start, 2n T and 3n-1 messages (ascending ring) to n(n+1)/2 + n messages (descending ring).
//!
//! Traps, which the checker found. When the ring changes, messages may be lost with a dead process. So each process
//! that takes part sends the highest id that it knows again ([`Change::Resend`]). The predecessor of a recovered
//! process sends it WELCOME with the leader's id. A process whose successor has crashed sends WELCOME to the next
//! successor, since ELECTED may be lost. A process that is higher than the welcomed leader holds an election. An
//! ELECTION whose starter has died must not circle for ever: each process drops it.
//!
//! Detectors report at different times. A process that still follows a dead leader gets ELECTED of a lower one: it
//! remembers this announcement until its own detector reports the crash. A process that still suspects a returned one
//! drops its ELECTION or ELECTED, and welcomes it when the detector reports the return.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::guarded::{self, Guarded};
use super::ring::{self, Ring};
use super::{Command, Event, Rule};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Variant};
use crate::views::VIEWS;
use crate::{Input, Outbox, Picture, ProcessId, Protocol, Start};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangRoberts {
    me: ProcessId,
    ring: Ring,
    leader: Option<ProcessId>,
    /// While this process takes part in an election: the highest live id that it has seen in it, its own included.
    highest: Option<ProcessId>,
    /// A leader lower than the present one, whose ELECTED or WELCOME has come here. It counts if the detector reports that
    /// the present leader is dead.
    announced: Option<ProcessId>,
    /// Number of elections that this process has started.
    number: u64,
    change: Change,
}

/// What a process that takes part in an election does when the ring changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Sends the highest live id that it has forwarded again.
    Resend,
    /// Sends only its own id again. Broken on purpose: the election may get stuck.
    OwnIdOnly,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Is there a process with a higher id?
    Election {
        /// Starter of the election.
        id: ProcessId,
        /// Number of the election at its starter; only the latest counts.
        number: u64,
    },
    /// This process leads.
    Elected(ProcessId),
    /// To a new successor: this process leads; `None` if the sender knows of no leader.
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
            Input::Message { from, message: Message::Welcome(leader) } => self.on_welcome(from, leader, out),
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
    /// `order` is the order of the ring, `leader` the leader that the process follows at first.
    pub fn new(me: ProcessId, order: &[ProcessId], leader: Option<ProcessId>) -> Self {
        ChangRoberts {
            me,
            ring: Ring::new(order, me),
            leader,
            highest: None,
            announced: None,
            number: 0,
            change: Change::Resend,
        }
    }

    /// The leader that this process follows.
    pub fn leader(&self) -> Option<ProcessId> {
        self.leader
    }

    pub fn trusts(&self, process: ProcessId) -> bool {
        self.ring.trusts(process)
    }

    /// Does not hold an election yet: the other processes still skip this one, so its messages would not come back. It
    /// waits for the WELCOME of its predecessor.
    fn recover(&mut self, out: &mut Outbox<Self>) {
        self.ring.forget();
        self.highest = None;
        self.announced = None;
        self.believe(None, out);
    }

    fn hold_election(&mut self, out: &mut Outbox<Self>) {
        // Keeps `highest` if that process is alive: a process that has seen a higher id must not lead.
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
            if let Some(announced) = self.announced.take().filter(|&announced| self.ring.trusts(announced)) {
                return self.on_elected(announced, out);
            }
        }
        if self.leader.is_none() || self.highest.is_some() {
            self.begin_anew(out);
        } else if was_successor {
            self.pass_on(Message::Welcome(self.leader), out);
        }
    }

    /// The ring has changed, and forwarded ids may be lost: sends the highest live id that has passed again.
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
        let early = self.ring.trust(process);
        // After a welcome a higher process holds an election, also if its last one was dropped here.
        if early || self.ring.successor() == Some(process) {
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
            // The starter has died, and no other process would end this election; or it has returned, and holds another
            // one when this process welcomes it. Or the starter has begun a later one.
        } else if id > self.me {
            self.highest = self.highest.max(Some(id));
            if self.leader < Some(id) {
                self.believe(None, out);
            }
            self.pass_on(Message::Election { id, number }, out);
        } else if self.highest.is_none() || self.leader == Some(self.me) {
            // The starter does not follow the leader that this process follows. ELECTED has not reached the starter,
            // and may be lost.
            self.hold_election(out);
        }
    }

    fn on_own_id_back(&mut self, number: u64, out: &mut Outbox<Self>) {
        if number > self.number {
            // An election from before a crash with loss of memory. The next one must have a higher number.
            self.number = number;
            self.hold_election(out);
        } else if self.highest == Some(self.me) && number == self.number {
            self.believe(Some(self.me), out);
            self.pass_on(Message::Elected(self.me), out);
        }
    }

    fn on_elected(&mut self, id: ProcessId, out: &mut Outbox<Self>) {
        if id == self.me {
            // ELECTED has come round, so it cannot get lost any more. If this process does not lead, the ELECTED
            // belongs to an earlier election, and the current one goes on.
            if self.leader == Some(self.me) {
                self.highest = None;
            }
        } else if self.leader > Some(id) {
            // Outdated: a new leader is higher than the one before, unless that one died.
            self.announced = Some(id);
        } else if id < self.me {
            // Elected without this process, which is higher.
            self.hold_election(out);
        } else if self.ring.trusts(id) && (self.leader != Some(id) || self.highest.is_some()) {
            self.highest = None;
            self.believe(Some(id), out);
            self.pass_on(Message::Elected(id), out);
        } else {
            self.ring.remember(id);
        }
    }

    fn on_welcome(&mut self, from: ProcessId, leader: Option<ProcessId>, out: &mut Outbox<Self>) {
        match leader {
            Some(leader) => {
                if self.leader > Some(leader) {
                    // The sender took this process's leader for dead for a while.
                    out.send(from, Message::Welcome(self.leader));
                }
                self.on_elected(leader, out);
            }
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
            if leader.is_some() {
                self.announced = None;
            }
            out.emit(Event::Elected { leader, term: None });
        }
    }
}

pub const ABOUT: About = About {
    name: "chang-roberts",
    family: Family::Election,
    way: None,
    summary: "ids go round a ring, and a higher id stops a lower one; the process whose id comes back leads",
    assumes: Assumes { crashes: Crashes::Detected, ..Assumes::LOSSLESS },
    promises: Promises { order: false, fence: false, ..Promises::ALL },
    variants: &[
        Variant { name: "descending", summary: "the ring goes from each id to the next lower one" },
        Variant { name: "ring:IDS", summary: "the order of the ring: ids with commas between" },
        guarded::QUORUM,
        guarded::WITNESS,
        VIEWS,
    ],
    broken: None,
};

/// n processes on a ring; no process leads yet.
pub fn group(params: &Params) -> Result<Group<Guarded<ChangRoberts>>, SetupError> {
    group_with(params, Change::Resend)
}

/// Also used by the broken variant, which sends only its own id again.
pub fn group_with(params: &Params, change: Change) -> Result<Group<Guarded<ChangRoberts>>, SetupError> {
    let order: Arc<Vec<ProcessId>> = Arc::new(ring::order(params)?);
    let ring = order.to_vec();
    let make = move |me| ChangRoberts { change, ..ChangRoberts::new(me, &order, None) };
    Ok(guarded::group(params, Rule::Highest, make)?.on_ring(ring))
}
