//! The token ring: Le Lann, "Distributed systems: towards a formal approach" (1977).
//!
//! The process with the TOKEN may enter, and keeps the token while it is inside. A process that does not want to enter,
//! or leaves, sends the token to the next process on the ring: process i to process i + 1 mod n. P0 makes the first
//! token.
//!
//! In the variant `parked` the token rests while no process wants to enter. A process that wants to enter and does not
//! have the token sends its wish round the ring: WAKE(id, request number). The holder adds the wish to the token. A
//! process that waits keeps the WAKE until the token comes. All other processes forward it. The token carries, for each
//! process, the number of the last request served. It moves on while it carries a wish that is not served.
//!
//! - Assumes: no message is repeated, and only messages from or to a crashed process are lost; messages may arrive in
//!   any order. The failure detector makes no mistakes and reports crashes and recoveries to all processes in the same
//!   order. A crashed process recovers only after all live processes know of the crash. At any time some live process
//!   has a [`roster`](crate::roster), the numbered list of members.
//! - Promises: SAFE, LIVE and growing fences. Not ORDER: the process that the token reaches first enters first.
//! - Invariants: for each roster there is at most one token; a holder and its token have the same roster number.
//! - Costs (T is the delay of a message): plain: 1 message an entry if all processes want to enter, unbounded if none
//!   does; 0 to nT from request to grant, n/2 T on average; T to (n-1)T from exit to next entry. Parked: n messages and
//!   nT for a single request, 2 messages and T if all processes want to enter. A new roster of m members costs 2(m-1)
//!   messages, and 1 more if it has a newcomer.
//! - Fences: a counter on the token. A new token starts far above all fences of the lost one.
//!
//! Crashes. Each crash or recovery makes a new roster, with the next number. A token counts only in the roster whose
//! number it carries. The holder gives its token the new number. A token that is in a message keeps the old number, and
//! the receiver destroys it. So in each new roster the senior member ([`Roster::senior`]) sends INQUIRE with the roster
//! to all members. Each member answers with REPORT: whether it has ever had a token of this roster. If no member has,
//! the senior makes a new token. No other process makes tokens, so there are never two.
//!
//! Traps. A recovered process is a newcomer: it has no roster. It answers INQUIRE with REPORT, but becomes a member
//! only by the ADMIT that answers this REPORT. The INQUIRE is not enough, because it may be from before the crash. A
//! process must not count a change twice: once from a message, and again when its own detector reports the change late
//! ([`token_ring_last_word`](crate::broken::token_ring_last_word)). A process keeps a WAKE of a later roster until it
//! knows that roster.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Command, Event};
use crate::registry::{About, Assumes, Crashes, Family, Group, Overlap, Params, Promises, SetupError, Variant, Way};
use crate::roster::{LateReports, Membership, Roster};
use crate::views::VIEWS;
use crate::{Counter, Input, Outbox, Picture, ProcessId, ProcessSet, Protocol, Start};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRing {
    me: ProcessId,
    n: usize,
    moves: Moves,
    members: Membership,
    state: State,
    token: Option<Token>,
    /// Whether this process has ever had a token of the current roster.
    seen: bool,
    /// A token of a roster that this process does not know yet.
    early: Option<Token>,
    /// At a newcomer: the highest roster number that it has sent a REPORT for. Only the ADMIT of this roster counts.
    offered: Option<u64>,
    /// At the member that may have to make a new token: the members whose REPORT is missing.
    awaiting: Option<ProcessSet>,
    /// Request number of the latest WAKE of this process; only in the parked variant.
    number: u64,
    /// Wishes of other processes: process and request number. This process adds them to the token when the token comes,
    /// or forwards them to its successor.
    kept: BTreeMap<ProcessId, u64>,
}

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
    /// Number of the roster in which the token counts.
    roster: u64,
    /// Fence of the latest entry.
    fence: u64,
    /// Number of the last request served, per process. Empty in the plain ring.
    served: Vec<u64>,
    /// Processes that wait for the token, with their request numbers.
    wishes: BTreeMap<ProcessId, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    Token(Token),
    /// `process` wants to enter, with its request `number`; parked variant only.
    Wake {
        process: ProcessId,
        number: u64,
    },
    /// From the senior member to all other members: this is the new roster; have you ever had a token of it?
    Inquire(Roster),
    /// Answers [`Message::Inquire`].
    Report {
        roster: u64,
        /// Whether the sender has ever had a token of this roster.
        seen: bool,
        /// Whether the sender is a newcomer, and needs [`Message::Admit`].
        newcomer: bool,
    },
    /// To a newcomer: you are a member from now on.
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
                *self = TokenRing::newcomer(self.me, self.n, self.moves, self.members.late_reports())
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
    fn newcomer(me: ProcessId, n: usize, moves: Moves, late_reports: LateReports) -> Self {
        TokenRing {
            me,
            n,
            moves,
            members: Membership::newcomer(me, n, late_reports),
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
        self.members = Membership::founder(self.me, self.n, self.members.late_reports());
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

    /// Sends the token to the successor. Keeps it while this process uses it, and in the parked variant while no other
    /// member wants it.
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

    /// Sends the wish of this process round the ring; only in the parked variant.
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
        // If `process` is this process, its own WAKE has gone round the whole ring: drop it. The WAKE met neither the
        // holder nor a waiting process. If the token moved towards another process, that process would be waiting, and
        // would have kept the WAKE. So either this process was granted its request meanwhile, or the token is lost. In
        // the second case this process repeats its wish in the next roster.
        if process != self.me {
            let kept = self.kept.entry(process).or_default();
            *kept = number.max(*kept);
            self.pass_wishes(out);
        }
    }

    /// Adds the wishes of others to the token if this process has it. Keeps the wishes if the token will come here:
    /// this process waits for the token, or may have to make a new one. Otherwise forwards them.
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

    /// Takes the wishes of the current roster out of `kept`. Wishes of a later roster stay until this process knows
    /// that roster. If such a wish made the token move now, a member of the later roster would destroy the token as
    /// outdated, and the process with the wish would not repeat it.
    fn take_wishes(&mut self) -> BTreeMap<ProcessId, u64> {
        let Some(roster) = self.members.number() else { return BTreeMap::new() };
        let (now, later) = core::mem::take(&mut self.kept)
            .into_iter()
            .partition(|(_, number)| *number <= first_number(roster.saturating_add(1)));
        self.kept = later;
        now
    }

    /// A member has crashed or recovered, or this newcomer has been admitted.
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

/// Request numbers of a roster start above this one, with room for 2^32 requests. A waiting process repeats its wish
/// in each new roster. So all lower numbers count as served: wishes of crashed processes, from before a recovery, or on
/// a lost token.
fn first_number(roster: u64) -> u64 {
    roster << 32
}

/// The fences of a new token start above this one: far above all fences that the lost token can have reached.
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

    /// Adds these wishes, except those that are already served.
    fn add_wishes(&mut self, wishes: BTreeMap<ProcessId, u64>) {
        for (process, number) in wishes {
            if self.served.get(process).is_some_and(|&served| number > served) {
                self.wishes.insert(process, number);
            }
        }
    }
}

impl Moves {
    /// Length of [`Token::served`].
    fn numbers(self, n: usize) -> usize {
        match self {
            Moves::Always => 0,
            Moves::WhileWished => n,
        }
    }
}

pub const ABOUT: About = About {
    name: "token-ring",
    family: Family::Mutex,
    way: Some(Way::PassesToken),
    summary: "one token goes round the ring; the process with the token may enter",
    assumes: Assumes { crashes: Crashes::Detected, overlap: Overlap::SameOrder, ..Assumes::LOSSLESS },
    promises: Promises { order: false, ..Promises::ALL },
    variants: &[
        Variant { name: "parked", summary: "the token rests while no process wants it; a message wakes it" },
        VIEWS,
    ],
    broken: None,
};

/// n processes in a ring; P0 makes the token when it starts.
pub fn group(params: &Params) -> Result<Group<TokenRing>, SetupError> {
    group_with(params, LateReports::Once)
}

/// Also used by the broken variant, which treats late reports differently.
pub fn group_with(params: &Params, late_reports: LateReports) -> Result<Group<TokenRing>, SetupError> {
    let n = params.n;
    let moves = if params.has("parked") { Moves::WhileWished } else { Moves::Always };
    // Every process is made as a newcomer without a token, and becomes a founder at its fresh start. So a process that
    // recovers without memory does not make a second token.
    let group = Group::new(n, n, move |me| TokenRing::newcomer(me, n, moves, late_reports)).on_ring(0..n);
    Ok(Group { rests: moves == Moves::WhileWished, ..group })
}
