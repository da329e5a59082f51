//! Singhal, "A heuristically-aided algorithm for mutual exclusion in distributed systems" (1989), repaired.
//!
//! The process with the TOKEN may enter, as in [Suzuki and Kasami's](super::suzuki_kasami) algorithm. But a process
//! that wants the token sends REQUEST(number) only to the processes that may have it: its ask set. At first the ask set
//! of P_i is all processes with smaller ids (the staircase), and P0 has the token. Each process keeps the highest
//! request number that it has heard from each process. The token carries the number of the last request served of each
//! process. On release the token goes to the first process, round the ids from the own id + 1, that has a pending
//! request. The processes that the releasing process asked for this entry leave its ask set, unless they wait: they now
//! have this process in their own ask sets.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. No process crashes: without the holder
//!   of the token no process enters again.
//! - Promises: SAFE, LIVE and growing fences. Not ORDER.
//! - Invariants: there is one token. Of two processes, at least one has the other in its ask set, or will when the
//!   messages on their way have arrived.
//! - Costs: n messages an entry if all processes want to enter or enter in turns; n/2 + 1 on average if single requests
//!   come from random processes; 0 if the token is here. 2T or 0 from request to grant; T from exit to next entry.
//! - Fences: a counter on the token.
//!
//! Trap. The [paper](crate::broken::singhal_1989) keeps one state per process, which says both which processes to ask
//! and which processes wait, and drops a REQUEST with a known number. If the token has overtaken that REQUEST, its
//! sender can be forgotten for ever. Here the ask set is separate, and no REQUEST is dropped: even an outdated one puts
//! its sender into the ask set and gets an answer. A waiting process answers with its own REQUEST, the holder of the
//! token with NOTE. So the sender learns which processes to ask.

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::suzuki_kasami::show_numbers;
use super::{Command, Event};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Way};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Singhal {
    me: ProcessId,
    state: State,
    /// The highest request number heard from each process.
    requested: Vec<u64>,
    /// The processes to ask for the token.
    ask: ProcessSet,
    /// The processes asked for the current entry; empty while idle.
    asked: ProcessSet,
    token: Option<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Waiting,
    Inside,
}

/// The right to enter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    /// Number of the last request served, per process.
    served: Vec<u64>,
    /// Entries so far: the fence of the latest grant.
    entries: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// The sender wants the token.
    Request {
        number: u64,
    },
    /// From the holder of the token, in answer to an outdated REQUEST: put me into your ask set.
    Note {
        /// Number of the sender's latest request.
        number: u64,
    },
    Token(Token),
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Note { .. } => "NOTE",
            Message::Token(_) => "TOKEN",
        }
    }

    fn counters(&mut self, from: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Message::Request { number } | Message::Note { number } => visit(Counter::Number(from), number),
            Message::Token(token) => {
                show_numbers(&mut token.served, visit);
                visit(Counter::Fence, &mut token.entries);
            }
        }
    }
}

impl Protocol for Singhal {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { from, message: Message::Request { number } } => {
                self.hear_of(from, number, out);
                self.answer_if_outdated(from, out);
            }
            Input::Message { from, message: Message::Note { number } } => self.hear_of(from, number, out),
            Input::Message { message: Message::Token(token), .. } if token.served.len() == self.requested.len() => {
                self.on_token(token, out);
            }
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        let token = self.token.as_ref().map(|token| {
            let served = Picture::new().numbers("served", token.served.iter().copied().enumerate());
            (token.entries, served.queue("due", self.due(token)))
        });
        Picture::new()
            .state(&self.state)
            .numbers("requested", self.requested.iter().copied().enumerate())
            .set("ask", self.ask.iter())
            .set("asked", self.asked.iter())
            .token(token)
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        show_numbers(&mut self.requested, visit);
        if let Some(token) = &mut self.token {
            show_numbers(&mut token.served, visit);
            visit(Counter::Fence, &mut token.entries);
        }
    }
}

impl Singhal {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Waiting;
        if self.token.is_some() {
            self.enter(out);
        } else {
            self.requested[self.me] += 1;
            self.asked = self.ask.clone();
            out.multicast(self.ask.iter(), Message::Request { number: self.requested[self.me] });
        }
    }

    /// A REQUEST or NOTE of `other`: puts it into the ask set. A waiting process asks it at once.
    fn hear_of(&mut self, other: ProcessId, number: u64, out: &mut Outbox<Self>) {
        self.requested[other] = self.requested[other].max(number);
        self.ask.insert(other);
        match self.state {
            State::Idle => self.pass_token(out),
            State::Waiting if self.asked.insert(other) => {
                out.send(other, Message::Request { number: self.requested[self.me] });
            }
            State::Waiting | State::Inside => {}
        }
    }

    fn answer_if_outdated(&self, from: ProcessId, out: &mut Outbox<Self>) {
        if let Some(token) = &self.token
            && !token.is_due(from, &self.requested)
        {
            out.send(from, Message::Note { number: self.requested[self.me] });
        }
    }

    fn on_token(&mut self, token: Token, out: &mut Outbox<Self>) {
        self.token = Some(token);
        match self.state {
            State::Waiting => self.enter(out),
            State::Idle => self.pass_token(out),
            State::Inside => {}
        }
    }

    fn enter(&mut self, out: &mut Outbox<Self>) {
        if let Some(token) = &mut self.token {
            token.entries += 1;
            self.state = State::Inside;
            out.emit(Event::Granted { fence: token.entries });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Idle;
        if let Some(mut token) = self.token.take() {
            token.served[self.me] = self.requested[self.me];
            for other in self.asked.iter() {
                if !token.is_due(other, &self.requested) {
                    self.ask.remove(other);
                }
            }
            self.token = Some(token);
        }
        self.asked.clear();
        self.pass_token(out);
    }

    /// If the token is here, sends it to the next waiting process, if any.
    fn pass_token(&mut self, out: &mut Outbox<Self>) {
        if let Some(token) = self.token.take() {
            let next = self.due(&token).next();
            match next {
                Some(next) => out.send(next, Message::Token(token)),
                None => self.token = Some(token),
            }
        }
    }

    /// The processes that wait for the token, as far as this one knows, round the ids from the own one on.
    fn due(&self, token: &Token) -> impl Iterator<Item = ProcessId> {
        let n = self.requested.len();
        let round = (1..n).map(move |distance| (self.me + distance) % n);
        round.filter(|&next| token.is_due(next, &self.requested))
    }
}

impl Token {
    /// Whether `process` has a known request that is not served.
    fn is_due(&self, process: ProcessId, requested: &[u64]) -> bool {
        requested[process] > self.served[process]
    }
}

pub const ABOUT: About = About {
    name: "singhal",
    family: Family::Mutex,
    way: Some(Way::PassesToken),
    summary: "one token; ask only the processes that may have it",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[VIEWS],
    broken: None,
};

/// P0 has the token; the ask set of P_i is all processes with smaller ids.
pub fn group(params: &Params) -> Result<Group<Singhal>, SetupError> {
    let n = params.n;
    params.at_most_quadratic()?;
    Ok(Group::new(n, n, move |me| {
        let mut ask = ProcessSet::none(n);
        (0..me).for_each(|lower| {
            ask.insert(lower);
        });
        Singhal {
            me,
            state: State::Idle,
            requested: vec![0; n],
            ask,
            asked: ProcessSet::none(n),
            token: (me == 0).then(|| Token { served: vec![0; n], entries: 0 }),
        }
    }))
}
