//! Singhal, "A heuristically-aided algorithm for mutual exclusion in distributed systems" (1989), as published.
//!
//! Each process keeps a state of each process, Requesting, Executing, Holding the token idly or Other, and the number
//! of its latest known request. The token carries the same. At first P0 holds the token, and P_i believes that all
//! processes with smaller ids are R and all others are O (the staircase). A process that wants to enter sends REQUEST
//! only to the processes that it believes to be R. On release the process and the token merge their beliefs: the larger
//! number wins; on equal numbers the token's state wins.
//!
//! LIVE fails. The token may overtake an older REQUEST through a third process. The receiver drops this REQUEST, since
//! it knows the number from the token. So it never learns that it must ask the sender, and the sender waits for ever,
//! even on FIFO links. Three processes and 15 steps are enough. [Repaired](crate::mutex::singhal).

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use crate::Property;
use crate::mutex::{Command, Event, singhal};
use crate::registry::{About, Broken, Group, Params, SetupError};
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Singhal1989 {
    me: ProcessId,
    /// The believed state of each process, this process included.
    beliefs: Vec<Belief>,
    token: Option<Token>,
}

/// Of two beliefs about a process, the one with the larger number is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Belief {
    state: State,
    number: u64,
}

/// The paper's four states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum State {
    /// Requesting.
    R,
    /// Executing.
    E,
    /// Holding the token idly.
    H,
    /// Other: none of these.
    O,
}

/// The right to enter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    beliefs: Vec<Belief>,
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
                show_numbers(&mut token.beliefs, visit);
                visit(Counter::Fence, &mut token.entries);
            }
        }
    }
}

impl Protocol for Singhal1989 {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { from, message: Message::Request { number } } => self.on_request(from, number, out),
            Input::Message { message: Message::Token(token), .. } if token.beliefs.len() == self.beliefs.len() => {
                self.on_token(token, out);
            }
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        let token = self.token.as_ref();
        show(&self.beliefs).token(token.map(|token| (token.entries, show(&token.beliefs))))
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        show_numbers(&mut self.beliefs, visit);
        if let Some(token) = &mut self.token {
            show_numbers(&mut token.beliefs, visit);
            visit(Counter::Fence, &mut token.entries);
        }
    }
}

impl Singhal1989 {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        if self.token.is_some() {
            return self.enter(out);
        }
        let own = &mut self.beliefs[self.me];
        own.state = State::R;
        own.number += 1;
        let number = own.number;
        out.multicast(self.round().filter(|&other| self.beliefs[other].state == State::R), Message::Request { number });
    }

    fn on_request(&mut self, from: ProcessId, number: u64, out: &mut Outbox<Self>) {
        if number <= self.beliefs[from].number {
            return;
        }
        let known_to_request = self.beliefs[from].state == State::R;
        self.beliefs[from] = Belief { state: State::R, number };
        match self.beliefs[self.me].state {
            State::O | State::E => {}
            State::R if known_to_request => {}
            State::R => out.send(from, Message::Request { number: self.beliefs[self.me].number }),
            State::H => {
                if let Some(mut token) = self.token.take() {
                    self.beliefs[self.me].state = State::O;
                    token.beliefs[from] = self.beliefs[from];
                    out.send(from, Message::Token(token));
                }
            }
        }
    }

    fn on_token(&mut self, token: Token, out: &mut Outbox<Self>) {
        if self.beliefs[self.me].state == State::R {
            self.token = Some(token);
            self.enter(out);
        }
    }

    fn enter(&mut self, out: &mut Outbox<Self>) {
        if let Some(token) = &mut self.token {
            self.beliefs[self.me].state = State::E;
            token.entries += 1;
            out.emit(Event::Granted { fence: token.entries });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        let Some(mut token) = self.token.take() else { return };
        self.beliefs[self.me].state = State::O;
        token.beliefs[self.me] = self.beliefs[self.me];
        for (own, on_token) in self.beliefs.iter_mut().zip(&mut token.beliefs) {
            if own.number > on_token.number {
                *on_token = *own;
            } else {
                *own = *on_token;
            }
        }
        match self.round().find(|&next| self.beliefs[next].state == State::R) {
            Some(next) => out.send(next, Message::Token(token)),
            None => {
                self.beliefs[self.me].state = State::H;
                self.token = Some(token);
            }
        }
    }

    /// The other processes, round the ids from the own id + 1.
    fn round(&self) -> impl Iterator<Item = ProcessId> + use<> {
        let (me, n) = (self.me, self.beliefs.len());
        (1..n).map(move |distance| (me + distance) % n)
    }
}

/// The numbers, and the processes that this one believes to be in each state of the paper. All others are in O.
fn show(beliefs: &[Belief]) -> Picture {
    let believed = |state| (0..beliefs.len()).filter(move |&process| beliefs[process].state == state);
    Picture::new()
        .set("R", believed(State::R))
        .set("E", believed(State::E))
        .set("H", believed(State::H))
        .numbers("numbers", beliefs.iter().map(|belief| belief.number).enumerate())
}

fn show_numbers(beliefs: &mut [Belief], visit: &mut dyn FnMut(Counter, &mut u64)) {
    beliefs.iter_mut().enumerate().for_each(|(process, belief)| visit(Counter::Number(process), &mut belief.number));
}

pub const ABOUT: About = About {
    name: "singhal-1989",
    summary: "Singhal's algorithm as published",
    broken: Some(Broken {
        breaks: &[Property::Liveness],
        how: "an outdated request teaches its receiver nothing, and its sender waits for ever: LIVE fails at n = 3",
    }),
    ..singhal::ABOUT
};

/// P0 has the token; P_i believes that all processes with smaller ids are requesting.
pub fn group(params: &Params) -> Result<Group<Singhal1989>, SetupError> {
    let n = params.n;
    params.at_most_quadratic()?;
    let belief = |state| Belief { state, number: 0 };
    Ok(Group::new(n, n, move |me| {
        let mut beliefs = vec![belief(State::O); n];
        beliefs[..me].fill(belief(State::R));
        if me == 0 {
            beliefs[me].state = State::H;
        }
        let token = (me == 0).then(|| Token { beliefs: vec![belief(State::O); n], entries: 0 });
        Singhal1989 { me, beliefs, token }
    }))
}
