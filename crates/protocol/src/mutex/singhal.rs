//! Singhal, "A heuristically-aided algorithm for mutual exclusion in distributed systems" (1989), repaired.
//!
//! Assumes: nothing of the order of messages. None may be lost, and the holder of the token may not crash.
//!
//! Whoever has the TOKEN may enter, as in [Suzuki and Kasami's](super::suzuki_kasami) algorithm, but who wants it sends
//! REQUEST(number) only to those of whom it has heard that they might have it: its ask set. At first these are all with
//! a smaller id (the staircase), and P0 has the token. Everybody keeps the highest number heard of each process, and
//! the token carries the number last served of each. On release the token goes to the first process, round the ids from
//! the own one on, that is known to wait; and those that the process asked for this entry leave its ask set, since they
//! in turn have it in theirs.
//!
//! Invariants: there is one token; of two processes, one at least has the other in its ask set or will hear of it.
//! Costs: n messages an entry if all want it or take turns; n/2 + 1 on average if a random other asks; none if the
//! token is here. 2T or 0 from request to grant; T from exit to next entry.
//! Fences: a counter on the token.
//!
//! The [paper](crate::broken::singhal_1989) keeps one state per process, which tells both whom to ask and who waits, and
//! drops a REQUEST whose number is known: when the token has overtaken it, its sender can be left out for ever. Here the
//! ask set is a thing of its own, and no REQUEST is dropped: even an outdated one puts its sender into the ask set, and
//! is answered, by a REQUEST from who waits and by a NOTE from who has the token. So it learns whom to ask.

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::suzuki_kasami::show_numbers;
use super::{Command, Event};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError};
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol};

/// One process of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Singhal {
    me: ProcessId,
    state: State,
    /// The highest request number heard of each process.
    requested: Vec<u64>,
    /// Whom to ask.
    ask: ProcessSet,
    /// Who has been asked for this entry; empty while idle.
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
    /// Your request is outdated; if you want the token, ask me.
    Note {
        /// The sender's latest request.
        number: u64,
    },
    /// Here it is.
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

    /// `other` has told its number: from now on it is one to ask, and who waits does so.
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

    /// Gives the token, if it is here, to the next process that waits for it, if one does.
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
    /// Whether a request of `process` is known that has not been served.
    fn is_due(&self, process: ProcessId, requested: &[u64]) -> bool {
        requested[process] > self.served[process]
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "singhal",
    family: Family::Mutex,
    summary: "one token; ask only those who may have it",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[],
    broken: None,
};

/// n processes on the staircase, the token at P0.
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
