//! Suzuki and Kasami, "A distributed mutual exclusion algorithm" (1985).
//!
//! The process with the TOKEN may enter. A process without the token that wants to enter sends REQUEST(number) to all
//! others; each process numbers its requests from 1. A process that has the token enters without a REQUEST. Each
//! process keeps the highest request number that it has heard from each process. The token carries the number of the
//! last request served of each process. On release the token goes to the first process, round the ids from the own id +
//! 1, with requested = served + 1. P0 has the token at first.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. No process crashes: without the holder
//!   of the token no process enters again.
//! - Promises: SAFE, LIVE and growing fences. Not ORDER.
//! - Invariants: there is one token, at a process or on its way; served <= requested for each process.
//! - Costs: n messages an entry, 0 if the token is here; 2T or 0 from request to grant; T from exit to next entry.
//! - Fences: a counter on the token.
//!
//! Traps. The comparison with `served` tells an outdated request, overtaken by the token, from a new one. "Has the
//! token and is idle" and "is inside" are two states: only an idle holder sends the token at once.

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Way};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SuzukiKasami {
    me: ProcessId,
    outdated: Outdated,
    state: State,
    /// The highest request number heard from each process.
    requested: Vec<u64>,
    token: Option<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Waiting,
    Inside,
}

/// What the idle holder of the token does with a request that has been served already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outdated {
    Ignored,
    /// Sends the token to its sender, which does not want it. Broken on purpose.
    Served,
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
    Token(Token),
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Token(_) => "TOKEN",
        }
    }

    fn counters(&mut self, from: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Message::Request { number } => visit(Counter::Number(from), number),
            Message::Token(token) => {
                show_numbers(&mut token.served, visit);
                visit(Counter::Fence, &mut token.entries);
            }
        }
    }
}

impl Protocol for SuzukiKasami {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { from, message: Message::Request { number } } => self.on_request(from, number, out),
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
        Picture::new().state(&self.state).numbers("requested", self.requested.iter().copied().enumerate()).token(token)
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        show_numbers(&mut self.requested, visit);
        if let Some(token) = &mut self.token {
            show_numbers(&mut token.served, visit);
            visit(Counter::Fence, &mut token.entries);
        }
    }
}

impl SuzukiKasami {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Waiting;
        if self.token.is_some() {
            self.enter(out);
        } else {
            self.requested[self.me] += 1;
            let others = (0..self.requested.len()).filter(|&other| other != self.me);
            out.multicast(others, Message::Request { number: self.requested[self.me] });
        }
    }

    fn on_request(&mut self, from: ProcessId, number: u64, out: &mut Outbox<Self>) {
        self.requested[from] = self.requested[from].max(number);
        if self.state == State::Idle
            && let Some(token) = self.token.take_if(|token| match self.outdated {
                Outdated::Ignored => token.is_due(from, &self.requested),
                Outdated::Served => true,
            })
        {
            out.send(from, Message::Token(token));
        }
    }

    fn on_token(&mut self, token: Token, out: &mut Outbox<Self>) {
        self.token = Some(token);
        if self.state == State::Waiting {
            self.enter(out);
        }
    }

    fn enter(&mut self, out: &mut Outbox<Self>) {
        if let Some(token) = &mut self.token {
            token.entries = token.entries.saturating_add(1);
            self.state = State::Inside;
            out.emit(Event::Granted { fence: token.entries });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Idle;
        if let Some(token) = &mut self.token {
            token.served[self.me] = self.requested[self.me];
        }
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
        requested[process].checked_sub(self.served[process]) == Some(1)
    }
}

pub(super) fn show_numbers(numbers: &mut [u64], visit: &mut dyn FnMut(Counter, &mut u64)) {
    numbers.iter_mut().enumerate().for_each(|(process, number)| visit(Counter::Number(process), number));
}

pub const ABOUT: About = About {
    name: "suzuki-kasami",
    family: Family::Mutex,
    way: Some(Way::PassesToken),
    summary: "one token; ask all processes for it; the token knows which requests are served",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[VIEWS],
    broken: None,
};

pub fn group(params: &Params) -> Result<Group<SuzukiKasami>, SetupError> {
    group_with(params, Outdated::Ignored)
}

/// Also used by the broken variant, which serves outdated requests.
pub fn group_with(params: &Params, outdated: Outdated) -> Result<Group<SuzukiKasami>, SetupError> {
    let n = params.n;
    params.at_most_quadratic()?;
    Ok(Group::new(n, n, move |me| SuzukiKasami {
        me,
        outdated,
        state: State::Idle,
        requested: vec![0; n],
        token: (me == 0).then(|| Token { served: vec![0; n], entries: 0 }),
    }))
}
