//! Naimi, Trehel and Arnold, "A log(N) distributed mutual exclusion algorithm based on path reversal" (1996).
//!
//! The process with the TOKEN may enter. Each process has a `father`: the process that made the last request, as far as
//! this process knows. The process that made the last request of all is the root and has no father. A process that
//! wants to enter sends REQUEST with its id to its father and becomes the root. A process that gets a REQUEST forwards
//! it to its father, and the requester is its father from then on: the path is reversed. The old root has no father. It
//! sends the TOKEN to the requester at once if it is idle, and otherwise remembers the requester as its `next` and
//! sends it the token when it leaves. P0 has the token at first and is the father of all others.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. No process crashes: without the token,
//!   or without a process on the path to the root, requests wait for ever.
//! - Promises: SAFE, LIVE and growing fences. Not ORDER.
//! - Invariants: there is one token, at a process or on its way. While no REQUEST is on its way, the fathers form a tree,
//!   and the `next` pointers form one queue from the process that has or gets the token to the root.
//! - Costs: one REQUEST for each edge of the path to the root, and one TOKEN; 0 at the root. For a lone request at worst n
//!   messages, and on average n H(n-1)/(n-1) if the requesters are chosen at random, with H(k) = 1 + 1/2 + ... + 1/k.
//!   (4n-2)/(n+1) messages if the processes take turns, or if all want to enter. As many T from request to grant as
//!   messages, without competition; T from exit to next entry.
//! - Fences: a counter on the token.
//!
//! Trap. "Has the token and is idle" and "is inside" are two states: only an idle root sends the token at once.

use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Way};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol};

/// Kept small, since a group may have a million processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NaimiTrehel {
    me: ProcessId,
    n: usize,
    state: State,
    /// The last requester that this process knows of. None if this process is the root.
    father: Option<ProcessId>,
    /// The process that gets the token when this process leaves.
    next: Option<ProcessId>,
    /// The token, if it is here: entries so far, which is the fence of the latest grant.
    token: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Waiting,
    Inside,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    Request {
        /// The process that wants the token. The sender may only forward its request.
        requester: ProcessId,
    },
    Token {
        /// Entries so far: the fence of the latest grant.
        entries: u64,
    },
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Token { .. } => "TOKEN",
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Message::Token { entries } = self {
            visit(Counter::Fence, entries);
        }
    }
}

impl Protocol for NaimiTrehel {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { message: Message::Request { requester }, .. }
                if requester < self.n && requester != self.me =>
            {
                self.on_request(requester, out);
            }
            Input::Message { message: Message::Token { entries }, .. } => self.on_token(entries, out),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        Picture::new()
            .state(&self.state)
            .pointer("father", self.father)
            .pointer("next", self.next)
            .token(self.token.map(|entries| (entries, Picture::new())))
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Some(entries) = &mut self.token {
            visit(Counter::Fence, entries);
        }
    }
}

impl NaimiTrehel {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Waiting;
        match self.father.take() {
            Some(father) => out.send(father, Message::Request { requester: self.me }),
            None => self.enter(out),
        }
    }

    fn on_request(&mut self, requester: ProcessId, out: &mut Outbox<Self>) {
        match self.father.replace(requester) {
            Some(father) => out.send(father, Message::Request { requester }),
            None if self.state == State::Idle => self.send_token(requester, out),
            None => self.next = Some(requester),
        }
    }

    fn on_token(&mut self, entries: u64, out: &mut Outbox<Self>) {
        self.token = Some(entries);
        if self.state == State::Waiting {
            self.enter(out);
        }
    }

    fn enter(&mut self, out: &mut Outbox<Self>) {
        if let Some(entries) = &mut self.token {
            *entries = entries.saturating_add(1);
            self.state = State::Inside;
            out.emit(Event::Granted { fence: *entries });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Idle;
        if let Some(next) = self.next.take() {
            self.send_token(next, out);
        }
    }

    fn send_token(&mut self, to: ProcessId, out: &mut Outbox<Self>) {
        if let Some(entries) = self.token.take() {
            out.send(to, Message::Token { entries });
        }
    }
}

pub const ABOUT: About = About {
    name: "naimi-trehel",
    family: Family::Mutex,
    way: Some(Way::PassesToken),
    summary: "one token; a request goes from each process to the last requester that it knows, and reverses the path",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[VIEWS],
    broken: None,
};

/// P0 is the root, has the token, and is the father of all others.
pub fn group(params: &Params) -> Result<Group<NaimiTrehel>, SetupError> {
    let n = params.n;
    Ok(Group::new(n, n, move |me| NaimiTrehel {
        me,
        n,
        state: State::Idle,
        father: (me != 0).then_some(0),
        next: None,
        token: (me == 0).then_some(0),
    }))
}
