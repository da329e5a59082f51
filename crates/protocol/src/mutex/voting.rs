//! Majority voting, after Lin, Lian, Chen and Zhang, "A practical distributed mutual exclusion protocol in dynamic
//! peer-to-peer systems" (2004).
//!
//! Assumes: nothing of the order of messages. None may be lost.
//!
//! Each of c coordinators has one vote; m > c/2 votes win. A client asks m coordinators at random (or all: variant
//! `ask-all`) with REQUEST and gets GRANT or DENY from each. With m votes it enters, and sends RELEASE to those that
//! voted for it when it leaves. With fewer it gives them back by the same RELEASE, waits for a random time and tries
//! again; it also waits after a release, or the releaser would win for ever. A coordinator that does not answer in time
//! counts as a DENY, so that up to c - m crashed coordinators do no harm. One that recovers asks the client that has
//! its vote, with INQUIRE, whether it still does: the RELEASE may have been lost.
//!
//! Invariants: a coordinator's vote is with at most one client. Two clients with m votes each would share a coordinator.
//! Costs: k attempts cost 2mk + m messages and the votes given back; 2T from request to grant if nobody competes.
//! Fences: coordinators report the highest they heard of with their vote; the entrant takes the next one with its id.
//!
//! A coordinator that recovers without memory has forgotten its vote, and may give it again: then SAFE and the growth of
//! fences hold only probably. Every message names the client's attempt, so that late ones do no harm: a REQUEST of a
//! later attempt tells that the earlier is over, and a GRANT of an earlier attempt is sent back at once. So a REQUEST
//! can end a vote like a RELEASE, and both carry the highest fence that the client knows: else the RELEASE with the
//! last fence could be overtaken, and the fence given out again.
//!
//! Variant `stored-fence` is for coordinators that forget votes: who has m votes sends its fence with STORE to those that
//! gave them, and enters when all have answered STORED (2m messages and 2T more). A coordinator has the fence on stable
//! storage before it answers, so that it outlives the vote, and stores it only for who has its vote: if it has forgotten
//! the vote, or given it to another, the answer is DENY. Then, or if there is no answer in time, the client gives its
//! votes back and tries again; the number is used up. So of two that enter, one had its fence stored at a common voter
//! before the other got that vote, and with it the fence: the other's is higher. SAFE still holds only probably, and
//! the lower of the two fences may enter last, if its vote is forgotten while other answers are on their way.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::Stamp;
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Survivors, Variant};
use crate::{Input, Outbox, Picture, ProcessId, ProcessSet, Protocol, Start, Ticks};

/// One of the two roles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Voting {
    /// May ask for the critical section.
    Client(ClientState),
    /// Has one vote.
    Coordinator(Coordinator),
}

/// The memory of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientState {
    me: ProcessId,
    rules: Rules,
    state: State,
    /// Numbers the attempts, over all requests.
    attempt: u64,
    /// Those asked in this attempt that have not answered; by coordinator number, from 0.
    awaiting: ProcessSet,
    /// Those that gave their vote in this attempt.
    votes: ProcessSet,
    /// Those that have been sent its fence and have not answered.
    storing: ProcessSet,
    /// The highest fence that it ever heard of.
    fence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// Wants nothing, but must not ask yet.
    Resting,
    /// Wants to enter and waits until it may ask.
    BackingOff,
    /// Has asked.
    Polling,
    /// Has the votes, and waits until this fence is stored with all who gave them.
    Storing(u64),
    Inside,
}

/// What all clients agree on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rules {
    /// The process id of the first coordinator.
    first: ProcessId,
    coordinators: usize,
    votes_needed: usize,
    ask_all: bool,
    stored_fence: bool,
    /// How long to wait for answers.
    patience: Ticks,
    /// How long to wait after a failed attempt.
    back_off: RangeInclusive<Ticks>,
    /// How long to wait after a release.
    rest: RangeInclusive<Ticks>,
}

/// The memory of a coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordinator {
    vote: Option<(ProcessId, u64)>,
    /// The highest fence that it ever heard of.
    fence: u64,
    /// The highest that it was told to store: on stable storage, so that it alone is left when memory is lost.
    stored: u64,
}

/// What clients and coordinators tell each other. Each names the client's attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Client: may I have your vote?
    Request {
        /// Which attempt.
        attempt: u64,
        /// The highest fence known.
        fence: u64,
    },
    /// Coordinator: you have it.
    Grant {
        /// Which attempt.
        attempt: u64,
        /// The highest fence known.
        fence: u64,
    },
    /// Coordinator: it is not yours, somebody else has it or I have forgotten.
    Deny {
        /// Which attempt.
        attempt: u64,
    },
    /// Client: here is your vote back.
    Release {
        /// Which attempt.
        attempt: u64,
        /// The highest fence known.
        fence: u64,
    },
    /// Coordinator, after a crash: do you still have my vote?
    Inquire {
        /// Which attempt.
        attempt: u64,
    },
    /// Client: keep this fence, whatever happens.
    Store {
        /// Which attempt.
        attempt: u64,
        /// With which it is going to enter.
        fence: u64,
    },
    /// Coordinator: I shall.
    Stored {
        /// Which attempt.
        attempt: u64,
    },
}

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Answers are overdue.
    Patience,
    /// It may ask again.
    BackOff,
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Grant { .. } => "GRANT",
            Message::Deny { .. } => "DENY",
            Message::Release { .. } => "RELEASE",
            Message::Inquire { .. } => "INQUIRE",
            Message::Store { .. } => "STORE",
            Message::Stored { .. } => "STORED",
        }
    }
}

impl Protocol for Voting {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match (self, input) {
            (Voting::Client(client), Input::Command(Command::Acquire)) => client.acquire(out),
            (Voting::Client(client), Input::Command(Command::Release)) => client.release(out),
            (Voting::Client(client), Input::Message { from, message }) => match message {
                Message::Grant { attempt, fence } => client.on_grant(from, attempt, fence, out),
                Message::Deny { attempt } => client.on_deny(from, attempt, out),
                Message::Inquire { attempt } => client.on_inquire(from, attempt, out),
                Message::Stored { attempt } => client.on_stored(from, attempt, out),
                Message::Request { .. } | Message::Release { .. } | Message::Store { .. } => {}
            },
            (Voting::Client(client), Input::Timer(Timer::Patience)) => client.give_up(out),
            (Voting::Client(client), Input::Timer(Timer::BackOff)) => client.on_back_off_over(out),
            (Voting::Coordinator(voter), Input::Message { from, message }) => match message {
                Message::Request { attempt, fence } => voter.on_request(from, attempt, fence, out),
                Message::Release { attempt, fence } => voter.on_release(from, attempt, fence),
                Message::Store { attempt, fence } => voter.on_store(from, attempt, fence, out),
                Message::Grant { .. } | Message::Deny { .. } | Message::Inquire { .. } | Message::Stored { .. } => {}
            },
            (Voting::Coordinator(voter), Input::Start(Start::Recovered)) => voter.recover(out),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        match self {
            Voting::Client(client) => {
                let ids = |of: &ProcessSet| of.iter().map(|voter| client.rules.first + voter).collect::<Vec<_>>();
                Picture::new()
                    .state(&client.state)
                    .field("attempt", client.attempt)
                    .set("awaiting", ids(&client.awaiting))
                    .set("votes", ids(&client.votes))
                    .set("storing", ids(&client.storing))
                    .field("fence", client.fence)
            }
            Voting::Coordinator(voter) => Picture::new()
                .pointer("vote", voter.vote.map(|(client, _)| client))
                .field("fence", voter.fence)
                .field("stored", voter.stored),
        }
    }

    fn forget(&mut self, fresh: Self) {
        match self {
            Voting::Client(_) => *self = fresh,
            Voting::Coordinator(voter) => {
                *voter = Coordinator { vote: None, fence: voter.stored, stored: voter.stored };
            }
        }
    }
}

impl ClientState {
    fn acquire(&mut self, out: &mut Outbox<Voting>) {
        match self.state {
            State::Resting => self.state = State::BackingOff,
            _ => self.poll(out),
        }
    }

    fn poll(&mut self, out: &mut Outbox<Voting>) {
        self.state = State::Polling;
        self.attempt += 1;
        self.votes.clear();
        self.awaiting = self.rules.whom_to_ask(out);
        let asked = self.awaiting.iter().map(|voter| self.rules.first + voter);
        out.multicast(asked, Message::Request { attempt: self.attempt, fence: self.fence });
        out.set_timer(Timer::Patience, self.rules.patience);
    }

    fn on_grant(&mut self, from: ProcessId, attempt: u64, fence: u64, out: &mut Outbox<Voting>) {
        let voter = self.rules.voter(from);
        if self.is_current(attempt) && self.awaiting.remove(voter) {
            self.votes.insert(voter);
            self.fence = self.fence.max(fence);
            self.count_votes(out);
        } else {
            self.on_inquire(from, attempt, out);
        }
    }

    /// The answer to REQUEST, or to STORE: then there was a vote, and it is forgotten.
    fn on_deny(&mut self, from: ProcessId, attempt: u64, out: &mut Outbox<Voting>) {
        let voter = self.rules.voter(from);
        if self.is_current(attempt) && self.awaiting.remove(voter) {
            self.count_votes(out);
        } else if self.is_current(attempt) && self.storing.remove(voter) {
            self.votes.remove(voter);
            self.give_up(out);
        }
    }

    /// Whoever has given a vote that is of no use gets it back.
    fn on_inquire(&mut self, from: ProcessId, attempt: u64, out: &mut Outbox<Voting>) {
        let voter = self.rules.voter(from);
        let of_use = self.is_current(attempt) && (self.votes.contains(voter) || self.awaiting.contains(voter));
        if !of_use {
            out.send(from, Message::Release { attempt, fence: self.fence });
        }
    }

    fn is_current(&self, attempt: u64) -> bool {
        attempt == self.attempt && matches!(self.state, State::Polling | State::Storing(_) | State::Inside)
    }

    fn count_votes(&mut self, out: &mut Outbox<Voting>) {
        if self.state != State::Polling {
            return;
        }
        if self.votes.len() >= self.rules.votes_needed {
            self.win(out);
        } else if self.awaiting.is_empty() {
            self.give_up(out);
        }
    }

    fn win(&mut self, out: &mut Outbox<Voting>) {
        let number = self.fence / Stamp::PROCESSES_MAX as u64 + 1;
        self.fence = Stamp { time: number, process: self.me }.fence();
        if self.rules.stored_fence { self.store(out) } else { self.enter(self.fence, out) }
    }

    fn store(&mut self, out: &mut Outbox<Voting>) {
        self.state = State::Storing(self.fence);
        self.storing.clone_from(&self.votes);
        let voters = self.votes.iter().map(|voter| self.rules.first + voter);
        out.multicast(voters, Message::Store { attempt: self.attempt, fence: self.fence });
        out.set_timer(Timer::Patience, self.rules.patience);
    }

    fn on_stored(&mut self, from: ProcessId, attempt: u64, out: &mut Outbox<Voting>) {
        let awaited = self.is_current(attempt) && self.storing.remove(self.rules.voter(from));
        if let State::Storing(fence) = self.state
            && awaited
            && self.storing.is_empty()
        {
            self.enter(fence, out);
        }
    }

    /// With the fence that is stored, if any is: a vote more than needed may have brought news of a higher one since.
    fn enter(&mut self, fence: u64, out: &mut Outbox<Voting>) {
        out.cancel_timer(Timer::Patience);
        self.state = State::Inside;
        out.emit(Event::Granted { fence });
    }

    /// This attempt has failed: give back what votes there are and try again later. A vote that is still on its way
    /// is given back when it comes.
    fn give_up(&mut self, out: &mut Outbox<Voting>) {
        if matches!(self.state, State::Polling | State::Storing(_)) {
            out.cancel_timer(Timer::Patience);
            self.return_votes(out);
            self.state = State::BackingOff;
            out.set_timer_within(Timer::BackOff, self.rules.back_off.clone());
        }
    }

    fn release(&mut self, out: &mut Outbox<Voting>) {
        self.return_votes(out);
        self.state = State::Resting;
        out.set_timer_within(Timer::BackOff, self.rules.rest.clone());
    }

    fn return_votes(&mut self, out: &mut Outbox<Voting>) {
        let voters = self.votes.iter().map(|voter| self.rules.first + voter);
        out.multicast(voters, Message::Release { attempt: self.attempt, fence: self.fence });
        self.votes.clear();
        self.awaiting.clear();
        self.storing.clear();
    }

    fn on_back_off_over(&mut self, out: &mut Outbox<Voting>) {
        match self.state {
            State::BackingOff => self.poll(out),
            State::Resting => self.state = State::Idle,
            State::Idle | State::Polling | State::Storing(_) | State::Inside => {}
        }
    }
}

impl Rules {
    /// All coordinators, or as many at random as there are votes needed.
    fn whom_to_ask(&self, out: &mut Outbox<Voting>) -> ProcessSet {
        if self.ask_all {
            return ProcessSet::all(self.coordinators);
        }
        let mut asked = ProcessSet::none(self.coordinators);
        let mut left: Vec<usize> = (0..self.coordinators).collect();
        for _ in 0..self.votes_needed {
            asked.insert(left.swap_remove(out.choose(left.len())));
        }
        asked
    }

    /// Coordinators counted from 0; for a client, a number that is none of theirs.
    fn voter(&self, process: ProcessId) -> usize {
        process.wrapping_sub(self.first)
    }
}

impl Coordinator {
    fn on_request(&mut self, client: ProcessId, attempt: u64, fence: u64, out: &mut Outbox<Voting>) {
        self.fence = self.fence.max(fence);
        let answer = match self.vote {
            Some((other, _)) if other != client => Message::Deny { attempt },
            Some((_, later)) if later > attempt => Message::Deny { attempt },
            _ => {
                self.vote = Some((client, attempt));
                Message::Grant { attempt, fence: self.fence }
            }
        };
        out.send(client, answer);
    }

    fn on_release(&mut self, client: ProcessId, attempt: u64, fence: u64) {
        self.fence = self.fence.max(fence);
        if self.vote == Some((client, attempt)) {
            self.vote = None;
        }
    }

    fn on_store(&mut self, client: ProcessId, attempt: u64, fence: u64, out: &mut Outbox<Voting>) {
        if self.vote != Some((client, attempt)) {
            return out.send(client, Message::Deny { attempt });
        }
        self.fence = self.fence.max(fence);
        self.stored = self.stored.max(fence);
        out.send(client, Message::Stored { attempt });
    }

    fn recover(&mut self, out: &mut Outbox<Voting>) {
        if let Some((client, attempt)) = self.vote {
            out.send(client, Message::Inquire { attempt });
        }
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "voting",
    family: Family::Mutex,
    summary: "m of c coordinators must vote for you; the denied back off for a random time",
    assumes: Assumes { crashes: Crashes::Coordinators, ..Assumes::LOSSLESS },
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[
        Variant { name: "ask-m", summary: "asks m coordinators at random (the default)" },
        Variant { name: "ask-all", summary: "asks all coordinators and enters with the first m votes" },
        Variant {
            name: "stored-fence",
            summary: "stores its fence with its voters before it enters, for coordinators that forget votes",
        },
        Variant {
            name: "back-off:B",
            summary: "waits for 1 to B message delays after a failed attempt, however many compete (default: 2n)",
        },
    ],
    broken: None,
};

/// n clients and as many coordinators as [`Params::coordinators`] says, or as there are clients.
pub fn group(params: &Params) -> Result<Group<Voting>, SetupError> {
    let clients = params.n;
    params.at_most_quadratic()?;
    let coordinators = params.coordinators.unwrap_or(clients);
    let votes_needed = params.votes.unwrap_or(coordinators / 2 + 1);
    if coordinators == 0 || votes_needed > coordinators || votes_needed * 2 <= coordinators {
        return Err(SetupError::Votes { votes: votes_needed, coordinators });
    }
    let delay = params.delay_max;
    let back_off = back_off_max(params)?;
    let rules = Rules {
        first: clients,
        coordinators,
        votes_needed,
        ask_all: params.one_of(&["ask-m", "ask-all"])? == Some("ask-all"),
        stored_fence: params.has("stored-fence"),
        // A question and its answer take 2D. Not a moment longer, and who has a fast clock would never hear an answer.
        patience: 3 * delay,
        back_off: delay..=delay.saturating_mul(back_off),
        // Long enough for the votes to be back and for somebody else to ask, short enough not to delay a lone client.
        rest: delay..=3 * delay,
    };
    let survivors = Survivors {
        assumes: "that as many coordinators live in the end as votes are needed",
        among: clients..clients + coordinators,
        least: votes_needed,
    };
    let group = Group::new(clients, clients + coordinators, move |id| {
        if id >= clients {
            return Voting::Coordinator(Coordinator::default());
        }
        Voting::Client(ClientState {
            me: id,
            rules: rules.clone(),
            state: State::Idle,
            attempt: 0,
            awaiting: ProcessSet::none(coordinators),
            votes: ProcessSet::none(coordinators),
            storing: ProcessSet::none(coordinators),
            fence: 0,
        })
    });
    Ok(Group { survivors: Some(survivors), ..group })
}

/// In message delays. Unless told otherwise it grows with those who may compete, or they would never cease to collide.
fn back_off_max(params: &Params) -> Result<Ticks, SetupError> {
    let Some(value) = params.value("back-off") else { return Ok(2 * params.n as Ticks) };
    match value.parse() {
        Ok(delays @ 1..=1_000_000) => Ok(delays),
        _ => Err(SetupError::Value {
            what: "the longest back-off",
            value: value.into(),
            reason: "it is a number of message delays from 1 to 1,000,000".into(),
        }),
    }
}
