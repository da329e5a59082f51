//! Raymond, "A tree-based algorithm for distributed mutual exclusion" (1989).
//!
//! The processes form a tree, given in advance; messages use only its edges. Each process knows its `holder`: the
//! neighbour in the direction of the TOKEN, or itself if it has the token. A process that wants to enter puts itself
//! into its FIFO queue; a REQUEST of a neighbour puts this neighbour there. If the process has no token, it sends one
//! REQUEST to its holder, however many wait in its queue. The token goes to the head of the queue. If more processes
//! wait in the queue, a REQUEST for the token follows it at once.
//!
//! - Assumes: no message is lost or repeated; messages may arrive in any order. No process crashes.
//! - Promises: SAFE, LIVE and growing fences. Not ORDER.
//! - Invariants: from each process the holders lead to the one token. A process has at most one REQUEST outstanding.
//!   Its queue contains each neighbour, and itself, at most once.
//! - Costs: 2 messages for each edge between the process and the token, and as many T from request to grant, without
//!   competition. 4(n-1)/n messages an entry if all processes want to enter, since the token crosses each edge twice a
//!   round, each time with one REQUEST. From exit to next entry 2(n-1)/n T on average if all want to enter, at most the
//!   diameter.
//! - Fences: a counter on the token.
//!
//! Trap. The paper allows greedy processes, which serve themselves before their neighbours. Without a bound ([`Greed`])
//! a process that always wants to enter again keeps the token for ever.

use alloc::collections::VecDeque;
use alloc::string::ToString;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Variant, Way};
use crate::topology::tree::Tree;
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol, Ticks};

/// Kept small, since a group may have a million processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Raymond {
    me: ProcessId,
    /// The neighbour in the direction of the token, or this process itself if it has the token.
    holder: ProcessId,
    state: State,
    /// Whether this process has sent REQUEST to its holder.
    asked: bool,
    /// Waiting neighbours, and this process itself if it waits, in the order of their requests.
    queue: VecDeque<ProcessId>,
    /// Entries so far: the value on the token when it was last here.
    entries: u64,
    greed: Greed,
    after_token: AfterToken,
    /// Entries of this process since the token came, up to the bound on its greed.
    in_a_row: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Outside,
    Inside,
    /// A greedy process has left and neighbours wait, but its user may want to enter again before they get the token.
    Lingering,
}

/// What a process does when it has sent the token away and others still wait in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AfterToken {
    /// It asks for the token again.
    AsksAgain,
    /// It waits for the next request. Broken on purpose.
    Waits,
}

/// Which waiting process gets a free token first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Greed {
    /// The head of the queue.
    None,
    /// This process itself, if it waits, or if its user asks again within `linger` of leaving.
    SelfFirst {
        /// Entries in a row; no bound if `None`.
        bound: Option<u32>,
        /// How long the token stays here after a release, in case the user asks again.
        linger: Ticks,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// A process on the sender's side of the edge wants the token.
    Request,
    Token {
        /// Entries so far: the fence of the latest grant.
        entries: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The user has not asked again in time, so the token goes to the neighbours.
    Linger,
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request => "REQUEST",
            Message::Token { .. } => "TOKEN",
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Message::Token { entries } = self {
            visit(Counter::Fence, entries);
        }
    }
}

impl Protocol for Raymond {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { from, message: Message::Request } => self.on_request(from, out),
            Input::Message { message: Message::Token { entries }, .. } => self.on_token(entries, out),
            Input::Timer(Timer::Linger) => self.stop_lingering(out),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        Picture::new()
            .state(&self.state)
            .pointer("holder", self.holder)
            .field("asked", self.asked)
            .queue("queue", self.queue.iter().copied())
            .token((self.holder == self.me).then(|| (self.entries, Picture::new())))
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Fence, &mut self.entries);
    }
}

impl Raymond {
    fn acquire(&mut self, out: &mut Outbox<Self>) {
        if self.state == State::Lingering {
            self.state = State::Outside;
            out.cancel_timer(Timer::Linger);
        }
        self.queue.push_back(self.me);
        self.assign_token(out);
        self.make_request(out);
    }

    fn on_request(&mut self, from: ProcessId, out: &mut Outbox<Self>) {
        self.queue.push_back(from);
        self.assign_token(out);
        self.make_request(out);
    }

    fn on_token(&mut self, entries: u64, out: &mut Outbox<Self>) {
        self.holder = self.me;
        self.entries = self.entries.max(entries);
        self.in_a_row = 0;
        self.assign_token(out);
        self.ask_again(out);
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        if let Greed::SelfFirst { linger, .. } = self.greed
            && self.may_go_first()
            && !self.queue.is_empty()
        {
            self.state = State::Lingering;
            return out.set_timer(Timer::Linger, linger);
        }
        self.state = State::Outside;
        self.assign_token(out);
        self.ask_again(out);
    }

    fn stop_lingering(&mut self, out: &mut Outbox<Self>) {
        if self.state == State::Lingering {
            self.state = State::Outside;
            self.assign_token(out);
            self.ask_again(out);
        }
    }

    /// For those that still wait after the token has gone.
    fn ask_again(&mut self, out: &mut Outbox<Self>) {
        if self.after_token == AfterToken::AsksAgain {
            self.make_request(out);
        }
    }

    /// The paper's ASSIGN_PRIVILEGE: gives a free token that is here to the next waiting process.
    fn assign_token(&mut self, out: &mut Outbox<Self>) {
        if self.holder != self.me || self.state != State::Outside {
            return;
        }
        let Some(next) = self.take_next() else { return };
        self.holder = next;
        self.asked = false;
        if next == self.me {
            self.state = State::Inside;
            self.entries += 1;
            if let Greed::SelfFirst { bound: Some(bound), .. } = self.greed {
                self.in_a_row = bound.min(self.in_a_row + 1);
            }
            out.emit(Event::Granted { fence: self.entries });
        } else {
            out.send(next, Message::Token { entries: self.entries });
        }
    }

    /// The paper's MAKE_REQUEST: one REQUEST stands for all processes in the queue.
    fn make_request(&mut self, out: &mut Outbox<Self>) {
        if self.holder != self.me && !self.queue.is_empty() && !self.asked {
            self.asked = true;
            out.send(self.holder, Message::Request);
        }
    }

    fn take_next(&mut self) -> Option<ProcessId> {
        let own = self.queue.iter().position(|&waiting| waiting == self.me);
        match own.filter(|_| self.may_go_first()) {
            Some(own) => self.queue.remove(own),
            None => self.queue.pop_front(),
        }
    }

    fn may_go_first(&self) -> bool {
        match self.greed {
            Greed::None => false,
            Greed::SelfFirst { bound, .. } => bound.is_none_or(|bound| self.in_a_row < bound),
        }
    }
}

pub const ABOUT: About = About {
    name: "raymond",
    family: Family::Mutex,
    way: Some(Way::PassesToken),
    summary: "one token in a tree; each process knows only the direction of the token",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[
        VIEWS,
        Variant { name: "chain", summary: "the tree is a chain" },
        Variant { name: "star", summary: "the tree is a star round P0" },
        Variant { name: "binary", summary: "the tree is balanced, two children each (the default)" },
        Variant { name: "k-ary:K", summary: "the tree is balanced, K children each" },
        Variant { name: "edges:A-B,C-D", summary: "the tree has these edges" },
        Variant { name: "greedy:B", summary: "a process may go before its neighbours, up to B times in a row" },
    ],
    broken: None,
};

/// n processes in a tree; P0 is the root and has the token.
pub fn group(params: &Params) -> Result<Group<Raymond>, SetupError> {
    let asks = AfterToken::AsksAgain;
    let Some(bound) = params.value("greedy") else { return group_with(params, Greed::None, asks) };
    match bound.parse() {
        Ok(bound) if bound > 0 => group_with(params, self_first(params, Some(bound)), asks),
        _ => Err(SetupError::Value {
            what: "the bound on greed",
            value: bound.to_string(),
            reason: "write the most entries in a row, at least 1, as in greedy:3".to_string(),
        }),
    }
}

/// A greedy process waits for its user at most D.
pub fn self_first(params: &Params, bound: Option<u32>) -> Greed {
    Greed::SelfFirst { bound, linger: params.delay_max.max(1) }
}

/// Also used by the broken variants.
pub fn group_with(params: &Params, greed: Greed, after_token: AfterToken) -> Result<Group<Raymond>, SetupError> {
    let n = params.n;
    let tree = Tree::from_variant(params)?;
    let edges = tree.edges().collect();
    let mut group = Group::new(n, n, move |me| Raymond {
        me,
        holder: tree.parent(me),
        state: State::Outside,
        asked: false,
        queue: VecDeque::new(),
        entries: 0,
        greed,
        after_token,
        in_a_row: 0,
    });
    group.topology.tree = Some(edges);
    Ok(group)
}
