//! An election behind a guard, against split brain: when a partition lets both sides elect, at most one side gets a leader.
//!
//! Assumes: what the election inside assumes, but partitions may lose messages. Judges keep their memory.
//!
//! Whoever wins the election inside only asks to lead: ASK(term), with a term above all that it knows, to its judges,
//! which are all members, or one witness outside the group. A judge gives CONSENT to each term once, and never to a term
//! below one that it gave; otherwise it says REFUSE with the term it stands at, and the winner asks for a later one. With the
//! consent of a majority of ALL members, itself included, or of the witness, it leads, and tells all: LEADS(term).
//! A leader steps down as soon as it consents to a later term, hears of one, or its failure detector leaves it without
//! a majority, or without the witness.
//!
//! Invariant: at most one leads in each term, whatever the network and the detector do, since two majorities meet.
//! There is a window: a leader that is cut off leads on, in its old term, until its detector tells it. So whoever
//! serves a leader must refuse those of earlier terms, as with a fence.
//! Costs, beyond the election inside, with n live processes: 3(n-1) messages (majority) or n+1 (witness); 3T from winning
//! until all know, most of it while the election inside announces its own outcome.
//!
//! A judge that loses its memory abstains for ever: it might consent to the same term twice.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use super::{Command, Election, Event, Rule};
use crate::registry::{Group, Params, SetupError, Variant};
use crate::{Input, Outbox, Output, ProcessId, ProcessSet, Protocol, Start};

/// A process of a group that elects behind a guard, or without one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Guarded<E> {
    /// Its election stands as it is.
    Free(E),
    /// Its election needs consent.
    Member(Member<E>),
    /// Only consents, to one of so many members.
    Witness(Judge, usize),
}

/// Who must consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A majority of all members.
    Quorum,
    /// The process with the id after the last member.
    Witness,
}

/// One member of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member<E> {
    me: ProcessId,
    n: usize,
    guard: Guard,
    rule: Rule,
    election: E,
    /// Whom the election inside has made leader.
    winner: Option<ProcessId>,
    judge: Judge,
    suspected: ProcessSet,
    office: Office,
    /// The latest term that this process knows of.
    term: u64,
}

/// What a member is to the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Office {
    /// It knows of this leader in this term, or of none.
    Follows(Option<(ProcessId, u64)>),
    /// It has asked for the latest term, and has these consents; it follows nobody.
    Asks(ProcessSet),
    /// It leads in this term.
    Leads(u64),
}

/// Gives each term to one process only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Judge {
    /// The latest term that it gave consent to.
    given: u64,
    /// To whom.
    to: Option<ProcessId>,
    memory: Memory,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Memory {
    /// As made, before any start.
    #[default]
    Blank,
    Whole,
    Lost,
}

/// What processes tell each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message<M> {
    /// Of the election inside.
    Election(M),
    /// To a judge: may I lead in this term?
    Ask(u64),
    /// To the one who asked for this term: yes.
    Consent(u64),
    /// To the one who asked: no, I have consented to this term already.
    Refuse(u64),
    /// To all members: I lead in this term.
    Leads(u64),
    /// To a member that can be heard again: do you lead, or want to?
    Who,
}

/// The derived one would show that there is something inside something, which nobody wants to know.
impl<M: fmt::Debug> fmt::Debug for Message<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Election(message) => message.fmt(f),
            Message::Ask(term) => f.debug_struct("Ask").field("term", term).finish(),
            Message::Consent(term) => f.debug_struct("Consent").field("term", term).finish(),
            Message::Refuse(term) => f.debug_struct("Refuse").field("term", term).finish(),
            Message::Leads(term) => f.debug_struct("Leads").field("term", term).finish(),
            Message::Who => f.write_str("Who"),
        }
    }
}

impl<M: crate::Message> crate::Message for Message<M> {
    fn kind(&self) -> &'static str {
        match self {
            Message::Election(message) => message.kind(),
            Message::Ask(_) => "ASK",
            Message::Consent(_) => "CONSENT",
            Message::Refuse(_) => "REFUSE",
            Message::Leads(_) => "LEADS",
            Message::Who => "WHO",
        }
    }
}

impl<E: Election> Protocol for Guarded<E> {
    type Message = Message<E::Message>;
    type Timer = E::Timer;
    type Command = Command;
    type Event = Event;

    fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
        match self {
            Guarded::Free(election) => {
                for output in step_inside(election, input, out) {
                    if let Some(event) = pass_on(output, out) {
                        out.emit(event);
                    }
                }
            }
            Guarded::Member(member) => member.step(input, out),
            Guarded::Witness(judge, n) => match input {
                Input::Start(start) => judge.start(start),
                Input::Message { from, message: Message::Ask(term) } => judge.on_ask(from, term, out),
                Input::Trust(process) if process < *n => out.send(process, Message::Who),
                _ => {}
            },
        }
    }
}

/// Lets the election inside have its input, if it is one; returns what it puts out.
fn step_inside<E: Election>(
    election: &mut E,
    input: Input<Guarded<E>>,
    out: &mut Outbox<Guarded<E>>,
) -> Vec<Output<E>> {
    let input = match input {
        Input::Start(start) => Input::Start(start),
        Input::Command(command) => Input::Command(command),
        Input::Message { from, message: Message::Election(message) } => Input::Message { from, message },
        Input::Message { .. } => return Vec::new(),
        Input::Timer(timer) => Input::Timer(timer),
        Input::Suspect(process) => Input::Suspect(process),
        Input::Trust(process) => Input::Trust(process),
        Input::View(view) => Input::View(view),
        Input::AppSend => Input::AppSend,
        Input::AppReceive(stamp) => Input::AppReceive(stamp),
    };
    out.step_inside(election, input)
}

/// Passes on what the election inside wants done, unless it is an event.
fn pass_on<E: Election>(output: Output<E>, out: &mut Outbox<Guarded<E>>) -> Option<Event> {
    match output {
        Output::Send { to, message } => out.send(to, Message::Election(message)),
        Output::SetTimer { timer, after } => out.set_timer_within(timer, after),
        Output::CancelTimer(timer) => out.cancel_timer(timer),
        Output::Event(event) => return Some(event),
        Output::Stamp(stamp) => out.stamp(stamp),
    }
    None
}

impl<E: Election> Member<E> {
    fn step(&mut self, input: Input<Guarded<E>>, out: &mut Outbox<Guarded<E>>) {
        match input {
            Input::Message { from, message: Message::Ask(term) } => return self.on_ask(from, term, out),
            Input::Message { from, message: Message::Consent(term) } => return self.on_consent(from, term, out),
            Input::Message { message: Message::Refuse(term), .. } => return self.on_refuse(term, out),
            Input::Message { from, message: Message::Leads(term) } => return self.on_leads(from, term, out),
            Input::Message { from, message: Message::Who } => return self.on_who(from, out),
            Input::Start(start) => self.start(start, out),
            Input::Suspect(process) if process != self.me => self.on_suspect(process, out),
            Input::Trust(process) if process != self.me => self.on_trust(process, out),
            _ => {}
        }
        // The election inside knows nothing of a witness.
        if !matches!(input, Input::Suspect(process) | Input::Trust(process) if process >= self.n) {
            for output in step_inside(&mut self.election, input, out) {
                if let Some(Event::Elected { leader, .. }) = pass_on(output, out) {
                    self.on_won_inside(leader, out);
                }
            }
        }
    }

    fn start(&mut self, start: Start, out: &mut Outbox<Guarded<E>>) {
        self.judge.start(start);
        if start == Start::Recovered {
            self.suspected.clear();
            self.winner = None;
            self.follow(None, out);
        }
    }

    fn on_won_inside(&mut self, winner: Option<ProcessId>, out: &mut Outbox<Guarded<E>>) {
        self.winner = winner;
        self.ask_unless_leading(out);
    }

    /// The winner asks to lead, if it is in touch with enough judges.
    fn ask_unless_leading(&mut self, out: &mut Outbox<Guarded<E>>) {
        if self.winner != Some(self.me) || !matches!(self.office, Office::Follows(_)) || !self.in_touch() {
            return;
        }
        self.follow(None, out);
        self.ask(out);
    }

    fn ask(&mut self, out: &mut Outbox<Guarded<E>>) {
        self.term = self.term.max(self.judge.given).saturating_add(1);
        let mut consents = ProcessSet::none(self.n + 1);
        if self.judge.consents(self.me, self.term) {
            consents.insert(self.me);
        }
        self.office = Office::Asks(consents);
        out.multicast(self.judges(), Message::Ask(self.term));
    }

    /// Those to be asked.
    fn judges(&self) -> impl Iterator<Item = ProcessId> + use<E> {
        let judges = match self.guard {
            Guard::Quorum => 0..self.n,
            Guard::Witness => self.n..self.n + 1,
        };
        let me = self.me;
        judges.filter(move |&judge| judge != me)
    }

    /// Whether so many judges are not suspected that their consent is enough.
    fn in_touch(&self) -> bool {
        match self.guard {
            Guard::Quorum => self.suspected.iter().filter(|&member| member < self.n).count() * 2 < self.n,
            Guard::Witness => !self.suspected.contains(self.n),
        }
    }

    fn on_ask(&mut self, from: ProcessId, term: u64, out: &mut Outbox<Guarded<E>>) {
        // Of two that ask, one must give up, or they go on for ever: the one with the lower term, or the worse one.
        let yields = match self.office {
            Office::Asks(_) => self.term < term || (self.term == term && self.rule.prefers(from, self.me)),
            Office::Leads(own) => own < term,
            Office::Follows(_) => false,
        };
        if yields {
            self.follow(None, out);
        }
        self.term = self.term.max(term);
        self.judge.on_ask(from, term, out);
    }

    fn on_consent(&mut self, from: ProcessId, term: u64, out: &mut Outbox<Guarded<E>>) {
        let Office::Asks(consents) = &mut self.office else { return };
        if term != self.term {
            return;
        }
        consents.insert(from);
        let enough = match self.guard {
            Guard::Quorum => consents.len() * 2 > self.n,
            Guard::Witness => consents.contains(self.n),
        };
        if enough {
            self.office = Office::Leads(term);
            out.emit(Event::Elected { leader: Some(self.me), term: Some(term) });
            let others = (0..self.n).filter(|&other| other != self.me);
            out.multicast(others, Message::Leads(term));
        }
    }

    fn on_refuse(&mut self, term: u64, out: &mut Outbox<Guarded<E>>) {
        if matches!(self.office, Office::Asks(_)) && term >= self.term {
            self.term = term;
            self.ask(out);
        }
    }

    fn on_leads(&mut self, from: ProcessId, term: u64, out: &mut Outbox<Guarded<E>>) {
        // Who is out of reach may have died since; if not, it is asked again as soon as it is heard.
        let outdated = self.suspected.contains(from)
            || match self.office {
                Office::Follows(known) => known.is_some_and(|(_, known)| term <= known),
                Office::Asks(_) => term < self.term,
                Office::Leads(own) => term <= own,
            };
        self.term = self.term.max(term);
        if outdated && matches!(self.office, Office::Leads(_)) {
            self.on_who(from, out);
        } else if !outdated {
            self.follow(Some((from, term)), out);
            if self.rule.prefers(self.me, from) {
                self.ask_unless_leading(out);
            }
        }
    }

    /// Whoever has heard nothing of this process for a while, or nothing new, is told.
    fn on_who(&self, from: ProcessId, out: &mut Outbox<Guarded<E>>) {
        match self.office {
            Office::Leads(term) if from < self.n => out.send(from, Message::Leads(term)),
            Office::Asks(_) if self.judges().any(|judge| judge == from) => out.send(from, Message::Ask(self.term)),
            _ => {}
        }
    }

    fn on_suspect(&mut self, process: ProcessId, out: &mut Outbox<Guarded<E>>) {
        self.suspected.insert(process);
        let lost = match self.office {
            Office::Follows(leader) => leader.is_some_and(|(leader, _)| leader == process),
            Office::Asks(_) | Office::Leads(_) => !self.in_touch(),
        };
        if lost {
            self.follow(None, out);
        }
        self.ask_unless_leading(out);
    }

    fn on_trust(&mut self, process: ProcessId, out: &mut Outbox<Guarded<E>>) {
        self.suspected.remove(process);
        // What was sent while it was out of reach is lost.
        match self.office {
            Office::Asks(_) if self.judges().any(|judge| judge == process) => {
                out.send(process, Message::Ask(self.term));
            }
            Office::Leads(term) if process < self.n => out.send(process, Message::Leads(term)),
            _ => self.ask_unless_leading(out),
        }
        // A link that was cut one way only is no news to the other end, which may lead, or ask in vain.
        if process < self.n {
            out.send(process, Message::Who);
        }
    }

    fn follow(&mut self, leader: Option<(ProcessId, u64)>, out: &mut Outbox<Guarded<E>>) {
        let before = match self.office {
            Office::Follows(known) => known,
            Office::Asks(_) => None,
            Office::Leads(term) => Some((self.me, term)),
        };
        self.office = Office::Follows(leader);
        if before != leader {
            let (leader, term) = leader.unzip();
            out.emit(Event::Elected { leader, term });
        }
    }
}

impl Judge {
    fn start(&mut self, start: Start) {
        self.memory = match (start, self.memory) {
            (Start::Fresh, _) | (Start::Recovered, Memory::Whole) => Memory::Whole,
            (Start::Recovered, Memory::Blank | Memory::Lost) => Memory::Lost,
        };
    }

    fn consents(&mut self, from: ProcessId, term: u64) -> bool {
        if self.memory == Memory::Whole && term > self.given {
            (self.given, self.to) = (term, Some(from));
        }
        self.memory == Memory::Whole && (term, Some(from)) == (self.given, self.to)
    }

    fn on_ask<E: Election>(&mut self, from: ProcessId, term: u64, out: &mut Outbox<Guarded<E>>) {
        if self.memory == Memory::Whole {
            let consents = self.consents(from, term);
            out.send(from, if consents { Message::Consent(term) } else { Message::Refuse(self.given) });
        }
    }
}

/// The variant of an election that needs a majority.
pub const QUORUM: Variant =
    Variant { name: "quorum", summary: "the winner leads with the consent of a majority of all members" };

/// The variant of an election that needs a witness.
pub const WITNESS: Variant =
    Variant { name: "witness", summary: "the winner leads with the consent of a witness, one process more" };

/// A group for the election that `make` makes, behind the guard that the variant asks for, if any.
pub fn group<E: Election>(
    params: &Params,
    rule: Rule,
    make: impl Fn(ProcessId) -> E + Send + Sync + 'static,
) -> Result<Group<Guarded<E>>, SetupError> {
    let n = params.n;
    let guard = match params.one_of(&[QUORUM.name, WITNESS.name])? {
        Some("quorum") => Guard::Quorum,
        Some(_) => Guard::Witness,
        None => {
            let mut group = Group::new(n, n, move |me| Guarded::Free(make(me)));
            group.elects = rule;
            return Ok(group);
        }
    };
    let processes = if guard == Guard::Witness { n + 1 } else { n };
    let mut group = Group::new(n, processes, move |me| {
        if me == n {
            return Guarded::Witness(Judge::default(), n);
        }
        Guarded::Member(Member {
            me,
            n,
            guard,
            rule,
            election: make(me),
            winner: None,
            judge: Judge::default(),
            suspected: ProcessSet::none(n + 1),
            office: Office::Follows(None),
            term: 0,
        })
    });
    group.elects = rule;
    group.partitions = true;
    Ok(group)
}
