//! The bully algorithm: Garcia-Molina, "Elections in a distributed computing system" (1982).
//!
//! A process that misses the leader sends ELECTION to all higher ids. Each live receiver answers OK, which silences the
//! sender, and holds an election itself. A process that gets no OK within 2D is the highest: it leads, and sends
//! COORDINATOR to all lower ids. A silenced process waits for COORDINATOR, and holds an election again if none comes
//! within 4D. A leader repeats COORDINATOR every 20 D; a follower treats its silence like a suspicion. A recovered
//! process holds an election.
//!
//! - Assumes: a synchronous network, in which every message arrives within D and none is lost or repeated. The failure
//!   detector makes no mistakes. Crashes are final, and no id is used again.
//! - Promises: SAFE and LIVE: at most one leader at a time, and all live processes agree on the highest of them.
//! - Invariants: a process follows itself or a leader with a higher id.
//! - Costs: for n processes with the dead leader among them, n-1 messages and 3T if the runner-up notices the crash;
//!   n^2-n-1 messages and 4T if the lowest process notices; n^2-n-1 messages and 3T if all notice.
//!
//! Traps. SAFE breaks if the deadline is too short, if an id is used again, or if the network is asynchronous. A
//! recovered process with a higher id pushes out a healthy leader. If it crashes and recovers again and again, the
//! leadership changes each time.

use serde::{Deserialize, Serialize};

use super::guarded::{self, Guarded};
use super::{Command, Event, Rule};
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError};
use crate::views::VIEWS;
use crate::{Input, Outbox, Picture, ProcessId, Protocol, Start, Ticks};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bully {
    me: ProcessId,
    n: usize,
    /// The bound D on message delays.
    delay_max: Ticks,
    leader: Option<ProcessId>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Has a leader, or waits for no answer.
    Following,
    /// Has sent ELECTION to the higher ids and waits for an OK.
    Asking,
    /// Has an OK and waits for COORDINATOR.
    Silenced,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// To higher ids: is one of you alive?
    Election,
    /// Answers [`Message::Election`]: a higher process is alive and takes over.
    Ok,
    /// To lower ids: the sender leads.
    Coordinator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// No OK, or no COORDINATOR after the OK, has come in time.
    Answer,
    /// The leader has not repeated COORDINATOR in time.
    Silence,
    /// Time to repeat COORDINATOR.
    Announce,
}

/// Period of COORDINATOR, in D; far longer than an election.
const ANNOUNCE_EVERY_D: Ticks = 20;

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Election => "ELECTION",
            Message::Ok => "OK",
            Message::Coordinator => "COORDINATOR",
        }
    }
}

impl Protocol for Bully {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(Start::Fresh) => self.follow(self.n - 1, out),
            Input::Start(Start::Recovered) => self.recover(out),
            Input::Command(Command::Elect) => self.hold_election_unless_holding(out),
            Input::Suspect(process) if self.leader == Some(process) => self.on_leader_lost(out),
            Input::Timer(Timer::Silence) => self.on_leader_lost(out),
            Input::Timer(Timer::Announce) => self.announce(out),
            Input::Timer(Timer::Answer) => self.on_no_answer(out),
            Input::Message { from, message: Message::Election } => self.on_election(from, out),
            Input::Message { message: Message::Ok, .. } => self.on_ok(out),
            Input::Message { from, message: Message::Coordinator } => self.on_coordinator(from, out),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        Picture::new().state(&self.state).pointer("leader", self.leader)
    }
}

impl Bully {
    /// A process before its start.
    pub fn new(me: ProcessId, n: usize, delay_max: Ticks) -> Self {
        Bully { me, n, delay_max, leader: None, state: State::Following }
    }

    fn recover(&mut self, out: &mut Outbox<Self>) {
        self.forget_leader(out);
        self.hold_election(out);
    }

    fn on_leader_lost(&mut self, out: &mut Outbox<Self>) {
        self.forget_leader(out);
        self.hold_election_unless_holding(out);
    }

    fn forget_leader(&mut self, out: &mut Outbox<Self>) {
        if self.leader.take().is_some() {
            out.emit(Event::Elected { leader: None, term: None });
        }
    }

    fn hold_election_unless_holding(&mut self, out: &mut Outbox<Self>) {
        if self.state == State::Following {
            self.hold_election(out);
        }
    }

    fn hold_election(&mut self, out: &mut Outbox<Self>) {
        if self.me + 1 == self.n {
            return self.lead(out);
        }
        out.cancel_timer(Timer::Announce);
        out.cancel_timer(Timer::Silence);
        self.state = State::Asking;
        out.multicast(self.me + 1..self.n, Message::Election);
        out.set_timer(Timer::Answer, 2 * self.delay_max);
    }

    fn on_election(&mut self, from: ProcessId, out: &mut Outbox<Self>) {
        if from < self.me {
            out.send(from, Message::Ok);
            self.hold_election_unless_holding(out);
        }
    }

    fn on_ok(&mut self, out: &mut Outbox<Self>) {
        if self.state == State::Asking {
            self.state = State::Silenced;
            // The process that sent OK waits at most 2D for an OK itself. Its COORDINATOR, or that of a higher process,
            // takes D.
            out.set_timer(Timer::Answer, 4 * self.delay_max);
        }
    }

    fn on_no_answer(&mut self, out: &mut Outbox<Self>) {
        match self.state {
            State::Asking => self.lead(out),
            State::Silenced => self.hold_election(out),
            State::Following => {}
        }
    }

    fn lead(&mut self, out: &mut Outbox<Self>) {
        self.follow(self.me, out);
        out.multicast(0..self.me, Message::Coordinator);
    }

    fn announce(&mut self, out: &mut Outbox<Self>) {
        if self.leader == Some(self.me) {
            out.multicast(0..self.me, Message::Coordinator);
            out.set_timer(Timer::Announce, ANNOUNCE_EVERY_D * self.delay_max);
        }
    }

    fn on_coordinator(&mut self, from: ProcessId, out: &mut Outbox<Self>) {
        if from > self.me {
            self.follow(from, out);
        } else {
            self.hold_election_unless_holding(out);
        }
    }

    fn follow(&mut self, leader: ProcessId, out: &mut Outbox<Self>) {
        self.state = State::Following;
        out.cancel_timer(Timer::Answer);
        if leader == self.me {
            out.cancel_timer(Timer::Silence);
            out.set_timer(Timer::Announce, ANNOUNCE_EVERY_D * self.delay_max);
        } else {
            out.cancel_timer(Timer::Announce);
            out.set_timer(Timer::Silence, (ANNOUNCE_EVERY_D + 2) * self.delay_max);
        }
        if self.leader != Some(leader) {
            self.leader = Some(leader);
            out.emit(Event::Elected { leader: Some(leader), term: None });
        }
    }
}

pub const ABOUT: About = About {
    name: "bully",
    family: Family::Election,
    way: None,
    summary: "the highest id that answers leads",
    assumes: Assumes { synchronous: true, crashes: Crashes::Final, ..Assumes::LOSSLESS },
    promises: Promises { order: false, fence: false, ..Promises::ALL },
    variants: &[guarded::QUORUM, guarded::WITNESS, VIEWS],
    broken: None,
};

/// n processes. The highest leads at the start, as after an election.
pub fn group(params: &Params) -> Result<Group<Guarded<Bully>>, SetupError> {
    let (n, delay_max) = (params.n, params.delay_max);
    guarded::group(params, Rule::Highest, move |me| Bully::new(me, n, delay_max))
}
