//! Majority voting, after Lin, Lian, Chen and Zhang, "A practical distributed mutual exclusion protocol in dynamic
//! peer-to-peer systems" (2004).
//!
//! Each of c coordinators has one vote; m > c/2 votes win. A client sends REQUEST to m random coordinators (variant
//! `ask-all`: to all) and gets GRANT or DENY from each. With m votes it enters. When it leaves, it sends RELEASE to its
//! voters. With fewer votes it returns them with the same RELEASE, waits a random time and tries again. It also waits
//! after leaving, or the same client would win for ever. A coordinator that does not answer in time counts as a DENY,
//! so up to c - m crashed coordinators do no harm. A recovered coordinator sends INQUIRE to the client that has its
//! vote, because the RELEASE may have been lost.
//!
//! - Assumes: no message is repeated, and none is lost except in a crash; messages may arrive in any order. Only
//!   coordinators crash, they recover with their memory if at all, and m of them are alive in the end.
//! - Promises: SAFE, LIVE (probably: the waits are random) and growing fences. Not ORDER.
//! - Invariants: the vote of a coordinator is with at most one client. Two clients with m votes each would share a
//!   coordinator.
//! - Costs: k attempts cost 2mk + m messages and the returned votes; 2T from request to grant without competition; 2T
//!   and the random wait from exit to next entry.
//! - Fences: (number, id of the client). A coordinator reports the highest fence that it knows with its vote, and the
//!   entering client takes the next number.
//!
//! Traps. Each message names the client's attempt. A REQUEST of a later attempt ends the earlier attempt, so it can end
//! a vote like a RELEASE. The client returns a GRANT of an earlier attempt at once. REQUEST and RELEASE both carry the
//! highest fence that the client knows. Otherwise a REQUEST could overtake the RELEASE with the last fence, and a
//! coordinator would report an old fence.
//!
//! A coordinator that recovers without memory has forgotten its vote and may give it again. Then SAFE and growing
//! fences hold only with a certain probability. Variant `stored-fence` makes the fences safe: a client with m votes
//! sends its fence with STORE to its voters, and enters when all have answered STORED (2m messages and 2T more). A
//! coordinator writes the fence to stable storage before it answers, so the fence survives the vote. It stores the
//! fence only for the client that has its vote. If it has forgotten the vote, or given it to another client, it answers
//! DENY. After a DENY, or without an answer in time, the client returns its votes and tries again with a higher fence.
//! So if two clients enter, one of them had stored its fence at a common voter before the other got this vote and the
//! fence with it: the other's fence is higher. SAFE still holds only with a certain probability, and the client with
//! the lower fence may enter last, if a voter forgets its vote while other answers are on their way.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::clock::Stamp;
use crate::registry::{About, Assumes, Crashes, Family, Group, Params, Promises, SetupError, Survivors, Variant, Way};
use crate::views::VIEWS;
use crate::{Input, Outbox, Picture, ProcessId, ProcessSet, Protocol, Start, Ticks};

/// Processes `0..n` are clients; the coordinators follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Voting {
    Client(ClientState),
    Coordinator(Coordinator),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientState {
    me: ProcessId,
    rules: Rules,
    state: State,
    /// Number of the current attempt, counted over all requests.
    attempt: u64,
    /// Coordinators asked in this attempt that have not answered; counted from 0.
    awaiting: ProcessSet,
    /// Coordinators that have voted for this client in this attempt.
    votes: ProcessSet,
    /// Coordinators that have been sent STORE and have not answered.
    storing: ProcessSet,
    /// The highest fence that this process knows.
    fence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// The user wants nothing; the wait after a release is not over.
    Resting,
    /// The user wants to enter; the wait before the next attempt is not over.
    BackingOff,
    /// Waits for answers to its REQUESTs.
    Polling,
    /// Has the votes, and waits until all its voters have stored this fence.
    Storing(u64),
    Inside,
}

/// Parameters of the group, the same for all clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rules {
    /// The process id of the first coordinator.
    first: ProcessId,
    coordinators: usize,
    votes_needed: usize,
    ask_all: bool,
    stored_fence: bool,
    /// Longest wait for answers.
    patience: Ticks,
    /// Range of the random wait after a failed attempt.
    back_off: RangeInclusive<Ticks>,
    /// Range of the random wait after a release.
    rest: RangeInclusive<Ticks>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordinator {
    /// The client that has the vote, and its attempt.
    vote: Option<(ProcessId, u64)>,
    /// The highest fence that this process knows.
    fence: u64,
    /// The highest fence that a client has stored here. On stable storage, so it alone survives a loss of memory.
    stored: u64,
}

/// Each message names the client's attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// From a client: asks for a vote.
    Request {
        attempt: u64,
        /// The highest fence that the sender knows.
        fence: u64,
    },
    /// From a coordinator: you have my vote.
    Grant {
        attempt: u64,
        /// The highest fence that the sender knows.
        fence: u64,
    },
    /// From a coordinator: you do not have my vote. Another client has it, or I have forgotten it.
    Deny { attempt: u64 },
    /// From a client: returns the vote.
    Release {
        attempt: u64,
        /// The highest fence that the sender knows.
        fence: u64,
    },
    /// From a recovered coordinator: do you still have my vote?
    Inquire { attempt: u64 },
    /// From a client: write this fence to stable storage.
    Store {
        attempt: u64,
        /// The fence with which the client will enter.
        fence: u64,
    },
    /// From a coordinator: the fence is stored.
    Stored { attempt: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Answers are missing.
    Patience,
    /// The client may try again.
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

    /// Answers REQUEST, or STORE if the coordinator has forgotten its vote.
    fn on_deny(&mut self, from: ProcessId, attempt: u64, out: &mut Outbox<Voting>) {
        let voter = self.rules.voter(from);
        if self.is_current(attempt) && self.awaiting.remove(voter) {
            self.count_votes(out);
        } else if self.is_current(attempt) && self.storing.remove(voter) {
            self.votes.remove(voter);
            self.give_up(out);
        }
    }

    /// Returns the vote of `from`, unless it counts in the current attempt.
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

    /// `fence` is the stored one, if fences are stored. `self.fence` may be higher: a surplus vote may have arrived
    /// since.
    fn enter(&mut self, fence: u64, out: &mut Outbox<Voting>) {
        out.cancel_timer(Timer::Patience);
        self.state = State::Inside;
        out.emit(Event::Granted { fence });
    }

    /// This attempt has failed: returns the votes and tries again later. A vote that is still on its way is returned
    /// when it arrives.
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
    /// All coordinators, or as many random ones as votes are needed.
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

    /// The number of a coordinator, from 0. For a client: a number that no coordinator has.
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

pub const ABOUT: About = About {
    name: "voting",
    family: Family::Mutex,
    way: Some(Way::AsksQuorum),
    summary: "m of c coordinators must vote for a client; a denied client waits a random time",
    assumes: Assumes { crashes: Crashes::Coordinators, ..Assumes::LOSSLESS },
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[
        Variant { name: "ask-m", summary: "asks m coordinators at random (the default)" },
        Variant { name: "ask-all", summary: "asks all coordinators and enters with the first m votes" },
        Variant {
            name: "stored-fence",
            summary: "stores its fence with its voters before it enters, for coordinators that forget votes",
        },
        Variant { name: "back-off:B", summary: "waits for 1 to B message delays after a failed attempt (default: 2n)" },
        VIEWS,
    ],
    broken: None,
};

/// n clients, and [`Params::coordinators`] coordinators, by default n.
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
        // REQUEST and answer take up to 2D. With exactly 2D a client with a fast clock might never receive an answer.
        patience: 3 * delay,
        back_off: delay..=delay.saturating_mul(back_off),
        // Long enough that the votes return and another client can ask, short enough not to delay a single client.
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

/// Longest back-off, in D. The default grows with the number of clients, or many clients would collide for ever.
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
