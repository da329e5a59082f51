//! Raymond, "A tree-based algorithm for distributed mutual exclusion" (1989).
//!
//! Assumes: a tree given ahead, its edges the only links in use, in any order of messages. None may be lost, nobody
//! may crash.
//!
//! Every process knows only its `holder`: itself, or the neighbour towards the TOKEN. Who wants to enter, or is asked
//! by a neighbour with REQUEST, puts that into its own FIFO queue and asks its holder, once, however many wait. The
//! token goes to the head of the queue, and if others still wait there, a REQUEST to bring it back goes with it.
//!
//! Invariants: the holders lead from everybody to the one token; a process has at most one REQUEST outstanding; its
//! queue holds each neighbour, and itself, at most once.
//! Costs: 2 x distance to the token if nobody competes; 4(n-1)/n if everybody does, since the token crosses each edge
//! twice a round, each time asked for once.
//! Fences: a counter on the token.
//!
//! The paper allows a process to be greedy and serve itself before its neighbours. Without a bound ([`Greed`]) one that
//! always wants again keeps the token for ever.

use alloc::collections::VecDeque;
use alloc::string::ToString;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::registry::{About, Assumes, Family, Group, Params, Promises, SetupError, Variant};
use crate::topology::tree::Tree;
use crate::{Counter, Input, Outbox, Picture, ProcessId, Protocol, Ticks};

/// One process of the group. There may be a million of them: it must stay small.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Raymond {
    me: ProcessId,
    /// Where the token is: here, or in the direction of this neighbour.
    holder: ProcessId,
    state: State,
    /// Whether the holder has been asked for the token.
    asked: bool,
    /// Neighbours that want the token, and this process itself, in the order of their requests.
    queue: VecDeque<ProcessId>,
    /// Entries so far, as the token said when it was here.
    entries: u64,
    greed: Greed,
    /// How often this process has entered since the token came, as far as its greed has a bound.
    in_a_row: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Outside,
    Inside,
    /// Greedy: has left, neighbours wait, but it may want to enter again before they get the token.
    Lingering,
}

/// Who goes first where the token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Greed {
    /// The head of the queue.
    None,
    /// This process itself, if it wants to, or wants to again within `linger` of leaving; at most `bound` times in a
    /// row, or for ever if there is none.
    SelfFirst {
        /// How often.
        bound: Option<u32>,
        /// How long it waits for its own user to ask again.
        linger: Ticks,
    },
}

/// What neighbours tell each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Somebody on my side of this edge wants the token.
    Request,
    /// Here it is.
    Token {
        /// Entries so far.
        entries: u64,
    },
}

/// What a greedy process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Its own user has not asked again: the neighbours' turn.
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
        self.make_request(out);
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
        self.make_request(out);
    }

    fn stop_lingering(&mut self, out: &mut Outbox<Self>) {
        if self.state == State::Lingering {
            self.state = State::Outside;
            self.assign_token(out);
            self.make_request(out);
        }
    }

    /// The paper's ASSIGN_PRIVILEGE: a token that is here and not in use goes to whose turn it is.
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

    /// The paper's MAKE_REQUEST: one REQUEST stands for all that wait here.
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

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "raymond",
    family: Family::Mutex,
    summary: "one token in a tree; each process knows only in which direction it is",
    assumes: Assumes::LOSSLESS,
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[
        Variant { name: "chain", summary: "the tree is a chain" },
        Variant { name: "star", summary: "the tree is a star round P0" },
        Variant { name: "binary", summary: "the tree is balanced, two children each (the default)" },
        Variant { name: "k-ary:K", summary: "the tree is balanced, K children each" },
        Variant { name: "edges:A-B,C-D", summary: "the tree has these edges" },
        Variant { name: "greedy:B", summary: "a process may go before its neighbours, up to B times in a row" },
    ],
    broken: None,
};

/// n processes in a tree, the token at P0.
pub fn group(params: &Params) -> Result<Group<Raymond>, SetupError> {
    let Some(bound) = params.value("greedy") else { return group_with(params, Greed::None) };
    match bound.parse() {
        Ok(bound) if bound > 0 => group_with(params, self_first(params, Some(bound))),
        _ => Err(SetupError::Value {
            what: "the bound on greed",
            value: bound.to_string(),
            reason: "it is how often in a row, at least 1, as in greedy:3".to_string(),
        }),
    }
}

/// Greed up to a bound. A process waits for its own user for at most the time that a message takes.
pub fn self_first(params: &Params, bound: Option<u32>) -> Greed {
    Greed::SelfFirst { bound, linger: params.delay_max.max(1) }
}

/// The same with more or less greed.
pub fn group_with(params: &Params, greed: Greed) -> Result<Group<Raymond>, SetupError> {
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
        in_a_row: 0,
    });
    group.topology.tree = Some(edges);
    Ok(group)
}
