//! The token ring: Le Lann, "Distributed systems: towards a formal approach" (1977).
//!
//! Assumes: nothing of the order of messages; none may be lost but by a crash. Crashes and recoveries are reported as
//! [`roster`](crate::roster) says, who has crashed is not back before everybody has been told of the crash, and at any
//! time some process lives that has a roster.
//!
//! Whoever has the TOKEN may enter. It travels from each process to the next, i to i + 1 mod n, for ever. In the parked
//! variant it rests while nobody wants it. Who wants it sends WAKE(id, number) round the same way; one that waits
//! itself keeps that until it has the token, the holder adds it to the wishes on the token, the others send it on.
//! The token knows the number served of each process, and moves on while a wish is open.
//!
//! A crash takes a member off the ring and a recovery brings it back; either makes a new roster. The token bears the
//! number of a roster: its holder brings it into the next one, but if it is on its way it has missed that, and whoever
//! gets it destroys it. The member of longest standing sends INQUIRE with the roster to all; they REPORT whether a
//! token of that number has ever been with them, and if with none, it makes a new one: nobody else ever will. A
//! newcomer takes part from ADMIT on, which answers its REPORT: an INQUIRE may have been sent to it in an earlier
//! life.
//!
//! Invariants: of each number there is at most one token; who has one has the number of its roster.
//! Costs: plain, 1 message an entry if everybody wants, unbounded if nobody; request to grant 0 to nT, n/2 on average.
//! Parked, n messages and nT alone, 2 and T if everybody wants. A new roster costs 2(n-1), and 1 for who joins.
//! Fences: a counter on the token; a new token goes on far above all that the lost one can have reached.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::registry::{About, Assumes, Crashes, Family, Group, Overlap, Params, Promises, SetupError, Variant};
use crate::roster::{LateReports, Membership, Roster};
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol, Start};

/// One process of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRing {
    me: ProcessId,
    n: usize,
    moves: Moves,
    members: Membership,
    state: State,
    token: Option<Token>,
    /// Whether a token of the roster's number has ever been here.
    seen: bool,
    /// A token with the number of a roster that has not arrived yet.
    early: Option<Token>,
    /// A newcomer's last REPORT was about the roster of this number.
    offered: Option<u64>,
    /// Whose REPORT is missing before a new token may be made; none if none is to be made here.
    awaiting: Option<ProcessSet>,
    /// Of the own last request, in the parked variant.
    number: u64,
    /// Wishes of others, to go onto the token when it comes, or to be sent on.
    kept: BTreeMap<ProcessId, u64>,
}

/// When the token moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Moves {
    Always,
    WhileWished,
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
    /// The number of the roster in which it counts.
    roster: u64,
    /// Grows with every entry.
    fence: u64,
    /// The number of the request last served of each process; kept in the parked variant only.
    served: Vec<u64>,
    /// Who waits for it, as far as it has heard, with the number of the request.
    wishes: BTreeMap<ProcessId, u64>,
}

/// What processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Here is the token.
    Token(Token),
    /// Somebody wants it.
    Wake {
        /// Who.
        process: ProcessId,
        /// Which of its requests this is.
        number: u64,
    },
    /// The members have changed: has anybody the token?
    Inquire(Roster),
    /// Yes or no.
    Report {
        /// The number of the roster.
        roster: u64,
        /// Whether a token of that number has ever been with the sender.
        seen: bool,
        /// Whether the sender has no roster yet.
        newcomer: bool,
    },
    /// To a newcomer: from now on you are a member.
    Admit(Roster),
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Token(_) => "TOKEN",
            Message::Wake { .. } => "WAKE",
            Message::Inquire(_) => "INQUIRE",
            Message::Report { .. } => "REPORT",
            Message::Admit(_) => "ADMIT",
        }
    }

    fn counters(&mut self, _: ProcessId, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Message::Token(token) => token.counters(visit),
            Message::Wake { process, number } => visit(Counter::Number(*process), number),
            Message::Inquire(_) | Message::Report { .. } | Message::Admit(_) => {}
        }
    }
}

impl Protocol for TokenRing {
    type Message = Message;
    type Timer = Infallible;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match input {
            Input::Start(Start::Fresh) => self.start(out),
            Input::Start(Start::Recovered) => {
                *self = TokenRing::newcomer(self.me, self.n, self.moves, self.members.news())
            }
            Input::Command(Command::Acquire) => self.acquire(out),
            Input::Command(Command::Release) => self.release(out),
            Input::Message { message: Message::Token(token), .. } => self.on_token(token, out),
            Input::Message { message: Message::Wake { process, number }, .. } => self.on_wake(process, number, out),
            Input::Message { from, message: Message::Inquire(roster) } => self.on_inquire(from, roster, out),
            Input::Message { from, message: Message::Report { roster, seen, newcomer } } => {
                self.on_report(from, roster, seen, newcomer, out);
            }
            Input::Message { message: Message::Admit(roster), .. } => self.on_admit(roster, out),
            Input::Suspect(process) if self.members.hear(process, false) => self.on_new_roster(out),
            Input::Trust(process) if self.members.hear(process, true) => self.on_new_roster(out),
            _ => {}
        }
    }

    fn view(&self) -> Picture {
        let token = self.token.as_ref();
        Picture::new()
            .state(&self.state)
            .pointer("next", self.members.others().next())
            .field("roster", self.members.number())
            .set("members", (0..self.n).filter(|&process| self.members.contains(process)))
            .numbers("kept", self.kept.clone())
            .set("awaiting", self.awaiting.iter().flat_map(ProcessSet::iter))
            .token(token.map(|token| (token.fence, Picture::new().numbers("wishes", token.wishes.clone()))))
    }

    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.token.iter_mut().chain(&mut self.early).for_each(|token| token.counters(visit));
        visit(Counter::Number(self.me), &mut self.number);
        self.kept.iter_mut().for_each(|(&process, number)| visit(Counter::Number(process), number));
    }
}

impl TokenRing {
    fn newcomer(me: ProcessId, n: usize, moves: Moves, news: LateReports) -> Self {
        TokenRing {
            me,
            n,
            moves,
            members: Membership::newcomer(me, n, news),
            state: State::Idle,
            token: None,
            seen: false,
            early: None,
            offered: None,
            awaiting: None,
            number: 0,
            kept: BTreeMap::new(),
        }
    }

    fn start(&mut self, out: &mut Outbox<Self>) {
        self.members = Membership::founder(self.me, self.n, self.members.news());
        if self.me == 0 {
            self.make_token(out);
        }
    }

    fn acquire(&mut self, out: &mut Outbox<Self>) {
        self.state = State::Waiting;
        if self.token.is_some() {
            self.enter(out);
        } else {
            self.wake(out);
        }
    }

    fn enter(&mut self, out: &mut Outbox<Self>) {
        if let Some(token) = &mut self.token {
            token.fence += 1;
            self.state = State::Inside;
            out.emit(Event::Granted { fence: token.fence });
        }
    }

    fn release(&mut self, out: &mut Outbox<Self>) {
        if self.state == State::Inside {
            self.state = State::Idle;
            self.move_on(out);
        }
    }

    fn on_token(&mut self, token: Token, out: &mut Outbox<Self>) {
        if token.served.len() != self.moves.numbers(self.n) {
            return;
        }
        match self.members.number().map(|number| token.roster.cmp(&number)) {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) if self.token.is_some() => {}
            Some(Ordering::Equal) => self.take(token, out),
            Some(Ordering::Greater) | None => self.early = self.early.take().max(Some(token)),
        }
    }

    fn take(&mut self, token: Token, out: &mut Outbox<Self>) {
        self.token = Some(token);
        self.seen = true;
        self.awaiting = None;
        match self.state {
            State::Waiting => self.enter(out),
            State::Idle => self.move_on(out),
            State::Inside => {}
        }
        self.pass_wishes(out);
    }

    /// Lets the token go, if it is here and not in use.
    fn move_on(&mut self, out: &mut Outbox<Self>) {
        if self.state != State::Idle {
            return;
        }
        let Some(mut token) = self.token.take() else { return };
        token.serve(self.me, self.number);
        token.add_wishes(self.take_wishes());
        let wished = token.wishes.keys().any(|&process| process != self.me && self.members.contains(process));
        match self.members.others().next() {
            Some(next) if wished || self.moves == Moves::Always => out.send(next, Message::Token(token)),
            _ => self.token = Some(token),
        }
    }

    /// Makes the own wish known; the plain ring needs no such thing.
    fn wake(&mut self, out: &mut Outbox<Self>) {
        if let (Moves::WhileWished, Some(roster)) = (self.moves, self.members.number()) {
            self.number = self.number.max(first_number(roster)) + 1;
            self.send_wake(self.me, self.number, out);
        }
    }

    fn send_wake(&self, process: ProcessId, number: u64, out: &mut Outbox<Self>) {
        if let Some(next) = self.members.others().next() {
            out.send(next, Message::Wake { process, number });
        }
    }

    fn on_wake(&mut self, process: ProcessId, number: u64, out: &mut Outbox<Self>) {
        // A token that moves is after somebody who waits and keeps this: one that comes back after having met neither
        // has been granted meanwhile, or the token is lost, and the next roster will bring a new wish.
        if process != self.me {
            let kept = self.kept.entry(process).or_default();
            *kept = number.max(*kept);
            self.pass_wishes(out);
        }
    }

    /// Puts the wishes of others onto the token, or sends them on, unless the token will come here anyway.
    fn pass_wishes(&mut self, out: &mut Outbox<Self>) {
        if let Some(mut token) = self.token.take() {
            token.add_wishes(self.take_wishes());
            self.token = Some(token);
            self.move_on(out);
        } else if self.state == State::Idle && self.awaiting.is_none() {
            for (process, number) in self.take_wishes() {
                if self.members.contains(process) {
                    self.send_wake(process, number, out);
                }
            }
        }
    }

    /// Those of the own roster. Later ones wait for theirs: a token that goes after them now may get lost on the way,
    /// and they would not be made again.
    fn take_wishes(&mut self) -> BTreeMap<ProcessId, u64> {
        let Some(roster) = self.members.number() else { return BTreeMap::new() };
        let (now, later) = core::mem::take(&mut self.kept)
            .into_iter()
            .partition(|(_, number)| *number <= first_number(roster.saturating_add(1)));
        self.kept = later;
        now
    }

    /// Somebody has crashed or recovered, or this process has been let in.
    fn on_new_roster(&mut self, out: &mut Outbox<Self>) {
        let Some(number) = self.members.number() else { return };
        if let Some(token) = &mut self.token {
            token.bring_into(number);
        }
        self.kept.retain(|_, wish| *wish > first_number(number));
        self.seen = self.token.is_some();
        self.awaiting = None;
        if self.members.leads() {
            self.inquire(out);
        }
        if let Some(token) = self.early.take() {
            self.on_token(token, out);
        }
        if self.state == State::Waiting {
            self.wake(out);
        }
        self.move_on(out);
        self.pass_wishes(out);
    }

    fn inquire(&mut self, out: &mut Outbox<Self>) {
        let Some(roster) = self.members.roster() else { return };
        out.multicast(self.members.others(), Message::Inquire(roster.clone()));
        let mut awaiting = ProcessSet::none(self.n);
        self.members.others().for_each(|other| {
            awaiting.insert(other);
        });
        match (self.seen, awaiting.is_empty()) {
            (true, _) => {}
            (false, true) => self.make_token(out),
            (false, false) => self.awaiting = Some(awaiting),
        }
    }

    fn on_inquire(&mut self, from: ProcessId, roster: Roster, out: &mut Outbox<Self>) {
        let asked = roster.number;
        let newcomer = self.members.number().is_none();
        if newcomer {
            self.offered = self.offered.max(Some(asked));
        } else if self.members.adopt(roster) {
            self.on_new_roster(out);
        }
        if self.members.number().or(self.offered) == Some(asked) {
            out.send(from, Message::Report { roster: asked, seen: self.seen, newcomer });
        }
    }

    fn on_report(&mut self, from: ProcessId, number: u64, seen: bool, newcomer: bool, out: &mut Outbox<Self>) {
        let Some(roster) = self.members.roster().filter(|roster| roster.number == number) else { return };
        if newcomer {
            out.send(from, Message::Admit(roster.clone()));
        }
        let Some(awaiting) = &mut self.awaiting else { return };
        awaiting.remove(from);
        if seen {
            self.awaiting = None;
            self.pass_wishes(out);
        } else if awaiting.is_empty() {
            self.make_token(out);
        }
    }

    fn on_admit(&mut self, roster: Roster, out: &mut Outbox<Self>) {
        let expected = self.members.number().is_none() && self.offered == Some(roster.number);
        if expected && self.members.adopt(roster) {
            self.on_new_roster(out);
        }
    }

    fn make_token(&mut self, out: &mut Outbox<Self>) {
        let Some(roster) = self.members.number() else { return };
        let served = vec![first_number(roster); self.moves.numbers(self.n)];
        self.take(Token { roster, fence: first_fence(roster), served, wishes: BTreeMap::new() }, out);
    }
}

/// Requests are numbered on from here in each roster. Whoever waits wishes again when there is a new one, so that all
/// lower numbers count as served: those of the dead, of earlier lives, and those that may have been on a lost token.
fn first_number(roster: u64) -> u64 {
    roster << 32
}

/// The fences of a token made anew go on from here: far above all that the lost one can have reached.
fn first_fence(roster: u64) -> u64 {
    roster << 40
}

impl Token {
    fn counters(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Fence, &mut self.fence);
        let served = self.served.iter_mut().enumerate();
        served.for_each(|(process, number)| visit(Counter::Number(process), number));
        self.wishes.iter_mut().for_each(|(&process, number)| visit(Counter::Number(process), number));
    }

    fn bring_into(&mut self, roster: u64) {
        self.roster = roster;
        self.wishes.retain(|_, wish| *wish > first_number(roster));
        for served in &mut self.served {
            *served = first_number(roster).max(*served);
        }
    }

    fn serve(&mut self, process: ProcessId, number: u64) {
        self.wishes.remove(&process);
        if let Some(served) = self.served.get_mut(process) {
            *served = number.max(*served);
        }
    }

    /// A wish that has been granted already, before it got here, is none.
    fn add_wishes(&mut self, wishes: BTreeMap<ProcessId, u64>) {
        for (process, number) in wishes {
            if self.served.get(process).is_some_and(|&served| number > served) {
                self.wishes.insert(process, number);
            }
        }
    }
}

impl Moves {
    /// How many numbers the token carries.
    fn numbers(self, n: usize) -> usize {
        match self {
            Moves::Always => 0,
            Moves::WhileWished => n,
        }
    }
}

/// What the registry knows of it.
pub const ABOUT: About = About {
    name: "token-ring",
    family: Family::Mutex,
    summary: "one token goes round and round; who has it may enter",
    assumes: Assumes { crashes: Crashes::Detected, overlap: Overlap::SameOrder, ..Assumes::LOSSLESS },
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[Variant {
        name: "parked",
        summary: "the token rests while nobody wants it, and is woken by a message",
    }],
    broken: None,
};

/// n processes in a ring, the token at P0.
pub fn group(params: &Params) -> Result<Group<TokenRing>, SetupError> {
    group_with(params, LateReports::Once)
}

/// The same, if the own detector's news are to be taken like this.
pub fn group_with(params: &Params, news: LateReports) -> Result<Group<TokenRing>, SetupError> {
    let n = params.n;
    let moves = if params.has("parked") { Moves::WhileWished } else { Moves::Always };
    // Nobody has a token, or is a member, before its start: who recovers without memory must not make a second one.
    Ok(Group::new(n, n, move |me| TokenRing::newcomer(me, n, moves, news)))
}
