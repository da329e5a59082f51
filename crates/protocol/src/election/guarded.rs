//! An election behind a guard against split brain. In a partition both sides may elect, but at most one side can get
//! the consents that its winner needs to lead.
//!
//! The winner of the election inside is only a candidate. It sends ASK(term), with a term above all that it knows, to
//! its judges: all members (`quorum`), or one witness outside the group (`witness`). With the consent of a majority of
//! ALL members, itself included, or of the witness, the candidate leads, and sends LEADS(term) to all members.
//!
//! A judge gives CONSENT to each term once, and never to a lower term than before. If it has given this term to another
//! process, or has consented to a later term, it answers REFUSE with its latest term, and the candidate asks for a
//! later one. After a consent all other candidates wait, until the chosen process sends RESIGN or the judge suspects
//! it. If a waiting candidate is better by the rule of the election, the judge sends STEP-DOWN to the chosen process.
//!
//! A leader resigns when a judge sends it STEP-DOWN, when it hears of a later term, or when it suspects so many of the
//! judges that consented that the rest is no majority (or when it suspects the witness).
//!
//! - Assumes: what the election inside assumes; but partitions may lose messages. Judges keep their memory, and enough
//!   of them are alive in the end.
//! - Promises: SAFE: at most one leader in each term, whatever the network and the detectors do, since two majorities
//!   share a member. LIVE: as the election inside, if no suspicion is wrong.
//! - Invariants: at most one process leads at a time, unless a judge suspects a leader that does not (yet) suspect the
//!   judge. A leader that is cut off leads on in its old term until its detector reports the cut. So a process that
//!   serves leaders must refuse leaders of earlier terms: the term is a fence.
//! - Costs: on top of the election, with n live processes, 3(n-1) messages (`quorum`) or n+1 (`witness`); 3T from
//!   winning until all members know. Most of this time overlaps with the announcement of the election inside.
//!
//! Traps. LEADS and RESIGN may overtake each other: a member ignores LEADS of a term from which the sender has
//! resigned. A judge that has lost its memory never consents again, since it might consent to a term twice. When a
//! detector takes a suspicion back, the process sends WHO, since messages were lost meanwhile.

mod message;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

pub use self::message::Message;
use super::judge::{Judge, Ruling, Verdict};
use super::{Command, Election, Event, Rule};
use crate::registry::{Group, Params, SetupError, Survivors, Variant};
use crate::{Input, Outbox, Output, Picture, ProcessId, ProcessSet, Protocol, Start};

/// A process of a group that elects with or without a guard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Guarded<E> {
    /// No guard: the winner of the election leads.
    Free(E),
    /// With a guard: the winner needs consents.
    Member(Member<E>),
    /// The witness: only a judge. With the number of members.
    Witness(Judge, usize),
}

/// The judges whose consent a leader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A majority of all members.
    Quorum,
    /// The process with the id after the last member.
    Witness,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member<E> {
    me: ProcessId,
    n: usize,
    guard: Guard,
    rule: Rule,
    election: E,
    /// Winner of the election inside.
    winner: Option<ProcessId>,
    judge: Judge,
    office: Office,
    /// The latest term that this process knows.
    term: u64,
    /// The latest term from which each other member has resigned. That member does not lead in this term or an earlier
    /// one.
    resigned: BTreeMap<ProcessId, u64>,
    late: Late,
}

/// What a member does with a LEADS that arrives after the RESIGN of the same term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Late {
    /// Ignores it: the sender no longer leads in this term.
    Ignored,
    /// Follows the sender, for ever. Broken on purpose.
    Believed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Office {
    /// Follows this leader in this term, or no leader.
    Follows(Option<(ProcessId, u64)>),
    /// A candidate for this term, with the consents so far. It follows no leader.
    Asks { term: u64, consents: ProcessSet },
    /// Leads in this term, with these consents.
    Leads { term: u64, consents: ProcessSet },
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
                    if let Some(event) = out.map(output, Message::Election, |timer| timer) {
                        out.emit(event);
                    }
                }
            }
            Guarded::Member(member) => member.step(input, out),
            Guarded::Witness(judge, n) => {
                let rulings = match input {
                    Input::Start(start) => return judge.start(start),
                    Input::Trust(process) if process < *n => {
                        judge.on_trust(process);
                        return out.send(process, Message::Who);
                    }
                    Input::Message { from, message: Message::Ask(term) } => judge.on_ask(from, term),
                    Input::Message { from, message: Message::Resign(term) } => judge.on_resign(from, term),
                    Input::Suspect(process) if process < *n => judge.on_suspect(process),
                    _ => return,
                };
                for (to, verdict) in rulings {
                    out.send(to, verdict.into());
                }
            }
        }
    }

    fn view(&self) -> Picture {
        match self {
            Guarded::Free(election) => election.view(),
            Guarded::Member(member) => member.view(),
            Guarded::Witness(judge, _) => judge.view(),
        }
    }
}

/// Gives the election inside its input, unless it is a message of the guard. Returns its outputs.
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
        Input::AppSend => Input::AppSend,
        Input::AppReceive(stamp) => Input::AppReceive(stamp),
    };
    out.step_inside(election, input)
}

impl<E: Election> Member<E> {
    fn step(&mut self, input: Input<Guarded<E>>, out: &mut Outbox<Guarded<E>>) {
        match input {
            Input::Message { from, message: Message::Ask(term) } => return self.on_ask(from, term, out),
            Input::Message { from, message: Message::Consent(term) } => return self.on_consent(from, term, out),
            Input::Message { message: Message::Refuse(term), .. } => return self.on_refuse(term, out),
            Input::Message { message: Message::StepDown(term), .. } => return self.on_step_down(term, out),
            Input::Message { from, message: Message::Resign(term) } => return self.on_resign(from, term, out),
            Input::Message { from, message: Message::Leads(term) } => return self.on_leads(from, term, out),
            Input::Message { from, message: Message::Who } => return self.tell(from, out),
            Input::Start(start) => self.start(start, out),
            Input::Suspect(process) if process != self.me => self.on_suspect(process, out),
            Input::Trust(process) if process != self.me => self.on_trust(process, out),
            _ => {}
        }
        // The election inside does not know the witness.
        if !matches!(input, Input::Suspect(process) | Input::Trust(process) if process >= self.n) {
            for output in step_inside(&mut self.election, input, out) {
                if let Some(Event::Elected { leader, .. }) = out.map(output, Message::Election, |timer| timer) {
                    self.on_won_inside(leader, out);
                }
            }
        }
    }

    fn view(&self) -> Picture {
        let none = ProcessSet::none(0);
        let (leader, consents) = match &self.office {
            Office::Follows(leader) => (leader.map(|(leader, _)| leader), &none),
            Office::Asks { consents, .. } => (None, consents),
            Office::Leads { consents, .. } => (Some(self.me), consents),
        };
        Picture::new()
            .state(&self.office)
            .pointer("leader", leader)
            .field("term", self.term)
            .set("consents", consents.iter())
            .inside("judge", self.judge.view())
            .inside("election", self.election.view())
    }

    fn start(&mut self, start: Start, out: &mut Outbox<Guarded<E>>) {
        self.judge.start(start);
        if start == Start::Recovered {
            self.winner = None;
            self.follow(None, out);
        }
    }

    fn on_won_inside(&mut self, winner: Option<ProcessId>, out: &mut Outbox<Guarded<E>>) {
        self.winner = winner;
        if matches!(self.office, Office::Asks { .. }) && winner.is_some_and(|winner| winner != self.me) {
            self.follow(None, out);
        }
        self.ask_unless_led(out);
    }

    /// The winner asks its judges, unless it suspects too many of them or follows a better leader.
    fn ask_unless_led(&mut self, out: &mut Outbox<Guarded<E>>) {
        let led = match self.office {
            Office::Follows(leader) => leader.is_some_and(|(leader, _)| self.yields_to(leader)),
            Office::Asks { .. } | Office::Leads { .. } => true,
        };
        if self.winner == Some(self.me) && !led && self.in_touch() {
            self.follow(None, out);
            self.ask(out);
        }
    }

    fn yields_to(&self, other: ProcessId) -> bool {
        self.rule.prefers(other, self.me) && !self.judge.suspected.contains(other)
    }

    fn ask(&mut self, out: &mut Outbox<Guarded<E>>) {
        self.term = self.term.max(self.judge.given).saturating_add(1);
        self.office = Office::Asks { term: self.term, consents: ProcessSet::none(self.n + 1) };
        out.multicast(self.judges(), Message::Ask(self.term));
        if self.guard == Guard::Quorum {
            let rulings = self.judge.on_ask(self.me, self.term);
            self.announce(rulings, out);
        }
    }

    /// The judges, without this process.
    fn judges(&self) -> impl Iterator<Item = ProcessId> + use<E> {
        let judges = match self.guard {
            Guard::Quorum => 0..self.n,
            Guard::Witness => self.n..self.n + 1,
        };
        let me = self.me;
        judges.filter(move |&judge| judge != me)
    }

    fn members(&self) -> impl Iterator<Item = ProcessId> + use<E> {
        let me = self.me;
        (0..self.n).filter(move |&member| member != me)
    }

    /// Whether the judges that are not suspected are enough to lead.
    fn in_touch(&self) -> bool {
        match self.guard {
            Guard::Quorum => self.judge.suspected.iter().filter(|&member| member < self.n).count() * 2 < self.n,
            Guard::Witness => !self.judge.suspected.contains(self.n),
        }
    }

    fn on_ask(&mut self, from: ProcessId, term: u64, out: &mut Outbox<Guarded<E>>) {
        self.term = self.term.max(term);
        let rulings = self.judge.on_ask(from, term);
        self.announce(rulings, out);
        // A candidate that asks does not know that this process leads.
        if let Office::Leads { term, .. } = self.office {
            out.send(from, Message::Leads(term));
        }
    }

    /// Sends the rulings of the judge in this process to other processes, and handles its rulings about this process.
    fn announce(&mut self, rulings: Vec<Ruling>, out: &mut Outbox<Guarded<E>>) {
        for (to, ruling) in rulings {
            match ruling {
                _ if to != self.me => out.send(to, ruling.into()),
                Verdict::Consent(term) => self.on_consent(to, term, out),
                Verdict::Refuse(term) => self.on_refuse(term, out),
                Verdict::StepDown(term) => self.on_step_down(term, out),
            }
        }
    }

    fn on_consent(&mut self, from: ProcessId, term: u64, out: &mut Outbox<Guarded<E>>) {
        match &mut self.office {
            Office::Leads { term: own, consents } if *own == term => {
                consents.insert(from);
            }
            Office::Asks { term: asked, consents } if *asked == term => {
                consents.insert(from);
                let consents = consents.clone();
                if self.is_enough(&consents) {
                    self.office = Office::Leads { term, consents };
                    out.emit(Event::Elected { leader: Some(self.me), term: Some(term) });
                    out.multicast(self.members(), Message::Leads(term));
                }
            }
            // This process no longer asks for this term.
            _ => self.give_back(from, term, out),
        }
    }

    /// Whether the judges that consented, and are not suspected, are enough to lead.
    fn is_enough(&self, consents: &ProcessSet) -> bool {
        let counts = |judge: &ProcessId| !self.judge.suspected.contains(*judge);
        match self.guard {
            Guard::Quorum => consents.iter().filter(counts).count() * 2 > self.n,
            Guard::Witness => consents.iter().filter(counts).any(|judge| judge == self.n),
        }
    }

    fn give_back(&mut self, judge: ProcessId, term: u64, out: &mut Outbox<Guarded<E>>) {
        if judge == self.me {
            let rulings = self.judge.on_resign(self.me, term);
            self.announce(rulings, out);
        } else {
            out.send(judge, Message::Resign(term));
        }
    }

    /// The judge has consented to a later term than the own one.
    fn on_refuse(&mut self, term: u64, out: &mut Outbox<Guarded<E>>) {
        let own = match self.office {
            Office::Follows(_) => return,
            Office::Asks { term, .. } | Office::Leads { term, .. } => term,
        };
        self.term = self.term.max(term);
        match self.office {
            Office::Asks { .. } if term >= own => self.ask(out),
            // This process was the leader, so it asks again, whatever the election inside does by now.
            Office::Leads { .. } if term > own => {
                self.follow(None, out);
                self.ask(out);
            }
            _ => {}
        }
    }

    /// A better candidate asks. This process resigns, and asks again only if it is still the winner and follows no
    /// better leader.
    fn on_step_down(&mut self, term: u64, out: &mut Outbox<Guarded<E>>) {
        match self.office {
            Office::Asks { term: own, .. } | Office::Leads { term: own, .. } if own == term => {
                self.follow(None, out);
                self.ask_unless_led(out);
            }
            _ => {}
        }
    }

    fn on_resign(&mut self, from: ProcessId, term: u64, out: &mut Outbox<Guarded<E>>) {
        if self.late == Late::Ignored {
            let latest = self.resigned.entry(from).or_default();
            *latest = term.max(*latest);
        }
        let rulings = self.judge.on_resign(from, term);
        self.announce(rulings, out);
        if self.office == Office::Follows(Some((from, term))) {
            self.follow(None, out);
            self.ask_unless_led(out);
        }
    }

    fn on_leads(&mut self, from: ProcessId, term: u64, out: &mut Outbox<Guarded<E>>) {
        let over = self.resigned.get(&from).is_some_and(|&resigned| term <= resigned);
        let outdated = match self.office {
            _ if over => true,
            Office::Follows(known) => known.is_some_and(|(_, known)| term <= known),
            Office::Asks { term: asked, .. } => term < asked && !self.yields_to(from),
            Office::Leads { term: own, .. } => term <= own,
        };
        self.term = self.term.max(term);
        // A suspected process may have died since, so this process does not follow it. If it is alive, WHO asks it
        // again when the suspicion ends.
        let out_of_reach = self.judge.suspected.contains(from);
        match self.office {
            Office::Leads { .. } if outdated => self.tell(from, out),
            Office::Leads { .. } if out_of_reach => {
                self.follow(None, out);
                self.ask_unless_led(out);
            }
            _ if outdated || out_of_reach => {}
            _ => {
                self.follow(Some((from, term)), out);
                self.ask_unless_led(out);
            }
        }
    }

    /// Tells `to` whether this process leads. A judge also gets ASK again, since it may have suspected this process and
    /// dropped its claim.
    fn tell(&self, to: ProcessId, out: &mut Outbox<Guarded<E>>) {
        let is_judge = self.judges().any(|judge| judge == to);
        match self.office {
            Office::Follows(_) => {}
            Office::Asks { term, .. } if is_judge => out.send(to, Message::Ask(term)),
            Office::Asks { .. } => {}
            Office::Leads { term, .. } => {
                if to < self.n {
                    out.send(to, Message::Leads(term));
                }
                if is_judge {
                    out.send(to, Message::Ask(term));
                }
            }
        }
    }

    fn on_suspect(&mut self, process: ProcessId, out: &mut Outbox<Guarded<E>>) {
        let rulings = self.judge.on_suspect(process);
        self.announce(rulings, out);
        let lost = match &self.office {
            Office::Follows(leader) => leader.is_some_and(|(leader, _)| leader == process),
            Office::Asks { .. } => !self.in_touch(),
            // Judges that are not suspected are not enough: a judge that did not consent to this leader may consent to
            // another candidate.
            Office::Leads { consents, .. } => !self.is_enough(consents),
        };
        if lost {
            self.follow(None, out);
        }
        self.ask_unless_led(out);
    }

    fn on_trust(&mut self, process: ProcessId, out: &mut Outbox<Guarded<E>>) {
        self.judge.on_trust(process);
        // Messages to `process` during the suspicion may be lost.
        self.tell(process, out);
        self.ask_unless_led(out);
        // If only one direction was cut, the other process has noticed nothing. It may lead, or wait for answers to its
        // ASK.
        if process < self.n {
            out.send(process, Message::Who);
        }
    }

    /// Follows this leader, or none. A leader or candidate resigns first.
    fn follow(&mut self, leader: Option<(ProcessId, u64)>, out: &mut Outbox<Guarded<E>>) {
        let before = core::mem::replace(&mut self.office, Office::Follows(leader));
        let (known, resigned) = match before {
            Office::Follows(known) => (known, None),
            Office::Asks { term, .. } => (None, Some(term)),
            Office::Leads { term, .. } => (Some((self.me, term)), Some(term)),
        };
        if known != leader {
            let (leader, term) = leader.unzip();
            out.emit(Event::Elected { leader, term });
        }
        let Some(term) = resigned else { return };
        out.multicast(self.judges(), Message::Resign(term));
        if self.guard == Guard::Witness && known.is_some() {
            out.multicast(self.members(), Message::Resign(term));
        }
        let rulings = self.judge.on_resign(self.me, term);
        self.announce(rulings, out);
    }
}

/// A variant of every election: judges are all members.
pub const QUORUM: Variant =
    Variant { name: "quorum", summary: "the winner leads with the consent of a majority of all members" };

/// A variant of every election: the judge is a witness, process n.
pub const WITNESS: Variant =
    Variant { name: "witness", summary: "the winner leads with the consent of a witness, one process more" };

/// A group for the elections of `make`, behind the guard that the variant names, if any.
pub fn group<E: Election>(
    params: &Params,
    rule: Rule,
    make: impl Fn(ProcessId) -> E + Send + Sync + 'static,
) -> Result<Group<Guarded<E>>, SetupError> {
    group_with(params, rule, Late::Ignored, make)
}

/// Also used by the broken variant, which believes a late LEADS.
pub fn group_with<E: Election>(
    params: &Params,
    rule: Rule,
    late: Late,
    make: impl Fn(ProcessId) -> E + Send + Sync + 'static,
) -> Result<Group<Guarded<E>>, SetupError> {
    let n = params.n;
    params.at_most_quadratic()?;
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
            return Guarded::Witness(Judge::new(n, rule), n);
        }
        Guarded::Member(Member {
            me,
            n,
            guard,
            rule,
            election: make(me),
            winner: None,
            judge: Judge::new(n, rule),
            office: Office::Follows(None),
            term: 0,
            resigned: BTreeMap::new(),
            late,
        })
    });
    group.elects = rule;
    group.partitions = true;
    group.keeps_memory = true;
    group.survivors = Some(match guard {
        Guard::Quorum => {
            Survivors { assumes: "that a majority of all members lives in the end", among: 0..n, least: n / 2 + 1 }
        }
        Guard::Witness => Survivors { assumes: "that the witness lives in the end", among: n..n + 1, least: 1 },
    });
    Ok(group)
}
