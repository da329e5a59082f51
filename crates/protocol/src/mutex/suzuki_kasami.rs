//! Suzuki and Kasami, "A distributed mutual exclusion algorithm" (1985).
//!
//! Assumes: nothing of the order of messages. None may be lost, and the holder of the token may not crash.
//!
//! Whoever has the TOKEN may enter. Who wants it sends REQUEST(number) to all others, its requests numbered from 1.
//! Everybody keeps the highest number heard of each process, and the token carries the number last served of each.
//! On release the token goes to the first process, round the ids from the own one on, with requested = served + 1.
//!
//! Invariants: there is one token, at a process or on its way; served <= requested everywhere.
//! Costs: n messages an entry, none if the token is here; 2T or 0 from request to grant; T from exit to next entry.
//! Fences: a counter on the token.
//!
//! The comparison with `served` is what tells an outdated request, overtaken by the token, from a new one. Holding
//! the token idly and being in the critical section are two states: only the idle holder gives it away at once.

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError};
use crate::{Input, Outbox, ProcessId, Protocol};

/// One process of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SuzukiKasami {
    me: ProcessId,
    state: State,
    /// The highest request number heard of each process.
    requested: Vec<u64>,
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
    /// The number of the request last served of each process.
    served: Vec<u64>,
    /// Entries so far.
    entries: u64,
}

/// What processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// I want the token.
    Request {
        /// Which of the sender's requests this is.
        number: u64,
    },
    /// Here it is.
    Token(Token),
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Token(_) => "TOKEN",
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
}

impl SuzukiKasami {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.requested[self.me] += 1;
        self.state = State::Waiting;
        if self.token.is_some() {
            self.enter(out);
        } else {
            let others = (0..self.requested.len()).filter(|&other| other != self.me);
            out.multicast(others, Message::Request { number: self.requested[self.me] });
        }
    }

    fn on_request(&mut self, from: ProcessId, number: u64, out: &mut Outbox<Self>) {
        self.requested[from] = self.requested[from].max(number);
        if self.state == State::Idle {
            self.pass_token(out);
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

    /// Gives the token, if it is here, to the next process that waits for it, if one does.
    fn pass_token(&mut self, out: &mut Outbox<Self>) {
        let n = self.requested.len();
        let round = (1..n).map(|distance| (self.me + distance) % n);
        if let Some(token) = self.token.take() {
            match round.into_iter().find(|&next| self.requested[next].checked_sub(token.served[next]) == Some(1)) {
                Some(next) => out.send(next, Message::Token(token)),
                None => self.token = Some(token),
            }
        }
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "suzuki-kasami",
    family: Family::Mutex,
    summary: "one token; ask everybody for it, and it knows whose turn it is",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[],
    broken: None,
};

/// n processes, the token at P0.
pub fn group(params: &Params) -> Result<Group<SuzukiKasami>, SetupError> {
    let n = params.n;
    Ok(Group::new(n, n, move |me| SuzukiKasami {
        me,
        state: State::Idle,
        requested: vec![0; n],
        token: (me == 0).then(|| Token { served: vec![0; n], entries: 0 }),
    }))
}
