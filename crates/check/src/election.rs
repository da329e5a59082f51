//! The model of leader election, in discrete time. The leader has crashed before the start, and the other processes
//! notice it one by one, or not at all. If no process leads at the start, any process may call an election. If the
//! budget includes crashes, all processes are up at the start, and the detectors report every crash and correct every
//! mistake within a given time.
//!
//! A message takes 1 to D ticks. At each instant deliveries come first, then timers. Time goes on only when no message
//! is overdue and no timer is due. The remaining time of a timer and the age of a message are relative, so the states
//! are finitely many even if a leader repeats its announcement for ever.

use baton_protocol::clock::VectorClock;
use baton_protocol::election::{Command, Election, Event, Rule};
use baton_protocol::registry::Survivors;
use baton_protocol::{Choices, Group, Input, Outbox, Output, ProcessId, Start, Ticks};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::Property;
use crate::explore::{Found, Violation};
use crate::faults::{Faults, FaultsLeft, Occurrence, Recovery};
use crate::group::GroupModel;
use crate::network::{self, LinkOrder};
use crate::report::Reached;
use crate::story::Story;
use crate::system::{Global, Local, Rules, State, Stimulus, System, User};

/// The user of a process: knows the leader that the process has reported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Believer {
    leader: Option<ProcessId>,
    term: Option<u64>,
    /// Whether the user has already noticed that there is no leader.
    noticed: bool,
}

/// An event from outside that starts an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElectionAct {
    /// The detector reports that the leader has crashed.
    Suspect(ProcessId),
    /// No process leads, and the user calls an election.
    Elect,
}

impl<P: Election> User<P> for Believer {
    type Act = ElectionAct;

    fn act(&mut self, _: ProcessId, notice: ElectionAct, _: Option<&mut VectorClock>) -> Input<P> {
        self.noticed = true;
        match notice {
            ElectionAct::Suspect(peer) => Input::Suspect(peer),
            ElectionAct::Elect => Input::Command(Command::Elect),
        }
    }

    fn hear(&mut self, Event::Elected { leader, term }: &Event) {
        (self.leader, self.term) = (*leader, *term);
    }

    fn crash(&mut self) {
        (self.leader, self.term) = (None, None);
    }

    fn tell_act(story: &mut Story, at: ProcessId, notice: ElectionAct) {
        match notice {
            ElectionAct::Suspect(peer) => story.suspect(at, peer, false),
            ElectionAct::Elect => story.request(at),
        }
    }

    fn tell_event(story: &mut Story, at: ProcessId, Event::Elected { leader, term }: &Event) {
        story.elected(at, *leader, *term);
    }
}

/// What the properties need in addition to the processes and the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// Ticks since the latest crash, recovery, mistake or loss. Stops when all processes should agree.
    elapsed: Ticks,
    /// Whether a process has had a reason to hold an election.
    begun: bool,
    /// The first leader of each term, sorted by term. No other process may ever lead in that term.
    terms: SmallVec<[(u64, u8); 4]>,
}

type ElectionState = State<Global<Own>>;

impl Own {
    /// Records the leader of a term. Returns an earlier leader of the same term, if it is another process.
    fn leads(&mut self, leader: ProcessId, term: u64) -> Option<ProcessId> {
        match self.terms.binary_search_by_key(&term, |&(known, _)| known) {
            Ok(place) => Some(self.terms[place].1.into()).filter(|&first| first != leader),
            Err(place) => {
                self.terms.insert(place, (term, leader as u8));
                None
            }
        }
    }
}

/// Time limits, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// D: the longest delay of a message.
    pub delay_max: Ticks,
    /// The longest time from a crash until a failure detector reports it.
    pub notice_max: Ticks,
    /// The time after the last fault at which all processes must agree.
    pub settled_after: Ticks,
}

/// The conditions under which a group must elect.
#[derive(Clone, Debug)]
pub struct Setting {
    pub times: Times,
    /// The budget of faults.
    pub faults: Faults,
    /// How processes recover.
    pub recovery: Recovery,
    /// The processes that must be up before any process may lead, if the group has a guard.
    pub survivors: Option<Survivors>,
}

/// An election group with its conditions and properties.
pub struct ElectionModel<P: Election> {
    pub system: System<P, Believer>,
    properties: Vec<Property>,
    setting: Setting,
    /// Which live process must lead.
    rule: Rule,
    /// Whether no process leads at the start. Then any process may call an election.
    leaderless: bool,
    /// Whether no process does anything at the start. Then there is no election until a process calls one or crashes.
    dormant: bool,
}

type FoundHere<P> = Found<ElectionModel<P>>;

impl<P: Election> ElectionModel<P> {
    /// If the budget has no crashes, the leader at the start has already crashed.
    pub fn new(group: &Group<P>, order: LinkOrder, setting: Setting, properties: &[Property]) -> Self {
        let leader = leader_at_start(group);
        // Members of views hear only of the source.
        let alive = setting.faults.crash > 0 || group.source.is_some();
        let Setting { faults, recovery, .. } = setting;
        let rules = Rules {
            order,
            timed: true,
            crashed: leader.filter(|_| !alive),
            faults,
            recovery,
            told: true,
            source: group.source,
        };
        let system = System::new(group, rules, |_, process| {
            Local::new(process, None, None, Believer { leader: None, term: None, noticed: false })
        });
        let (properties, rule, leaderless) = (properties.to_vec(), group.elects, leader.is_none());
        ElectionModel { system, properties, setting, rule, leaderless, dormant: leaderless && is_dormant(group) }
    }

    /// The live processes that may lead.
    fn candidates(&self, faults: FaultsLeft) -> impl Iterator<Item = ProcessId> {
        self.live(faults).filter(|&at| at < self.system.clients)
    }

    fn notices(&self, state: &ElectionState, found: &mut FoundHere<P>) {
        let late = state.global.own.begun && state.global.own.elapsed > self.setting.times.notice_max;
        if late || !(self.leaderless || self.system.rules.crashed.is_some()) {
            return;
        }
        for at in self.candidates(state.global.faults).filter(|&at| !self.believer(state, at).noticed) {
            let notice = self.system.rules.crashed.map_or(ElectionAct::Elect, ElectionAct::Suspect);
            let mut global = state.global.clone();
            global.own.begun = true;
            self.step(state, Occurrence::new(at, Stimulus::Act(notice)), global, found);
        }
    }

    /// A mistake: a deadline ends too early, and the process takes live processes for crashed.
    fn early_timers(&self, state: &ElectionState, found: &mut FoundHere<P>) {
        let faults = state.global.faults.after_a_mistake().filter(|_| !self.setting.faults.detectors_only);
        let Some(faults) = faults else { return };
        for at in self.live(state.global.faults) {
            for (place, (_, left)) in self.system.local(state.locals[at]).timers.iter().enumerate() {
                if *left > 0 {
                    let global = self.after_fault(&state.global, faults);
                    self.step(state, Occurrence::new(at, Stimulus::Timer(place as u8)), global, found);
                }
            }
        }
    }

    /// SAFE: each term has at most one leader, even if no other process knows of it. Without terms: at most one process
    /// leads at a time.
    fn rivals(&self, next: &mut ElectionState, at: ProcessId, outcome: u32) -> Option<Violation> {
        if !self.properties.contains(&Property::Safety) {
            return None;
        }
        let leads = |next: &ElectionState, at: ProcessId| self.believer(next, at).leader == Some(at);
        self.system.outcome(outcome).events.iter().find_map(|&(_, Event::Elected { leader, term })| {
            let leader = leader?;
            let rival = match term {
                Some(term) => next.global.own.leads(leader, term)?,
                None if leader == at => {
                    self.candidates(next.global.faults).find(|&other| other != at && leads(next, other))?
                }
                None => return None,
            };
            let when = term.map(|term| format!(" in term {term}")).unwrap_or_default();
            Some(Violation { property: Property::Safety, detail: format!("P{leader} and P{rival} both lead{when}") })
        })
    }

    /// The process that must lead: the best live process, if enough processes are up.
    fn best(&self, faults: FaultsLeft) -> Option<ProcessId> {
        let enough = self.setting.survivors.as_ref().is_none_or(|Survivors { among, least, .. }| {
            self.live(faults).filter(|at| among.contains(at)).count() >= *least
        });
        self.rule.best(self.candidates(faults)).filter(|_| enough)
    }

    /// Whether a witness crashes or recovers, or a detector reports on a witness. That is no reason to hold an
    /// election.
    fn concerns_helper(&self, event: &Occurrence<ElectionAct>) -> bool {
        let helper = |process: ProcessId| process >= self.system.clients;
        match event.stimulus {
            Stimulus::Crash | Stimulus::Recover { .. } => helper(event.at),
            Stimulus::Suspect { peer, .. } | Stimulus::Trust { peer, .. } => helper(event.at) || helper(peer.into()),
            _ => false,
        }
    }

    fn believer(&self, state: &ElectionState, at: ProcessId) -> &Believer {
        &self.system.local(state.locals[at]).user
    }
}

/// The process that leads as soon as it starts.
fn leader_at_start<P: Election>(group: &Group<P>) -> Option<ProcessId> {
    let leads = |id| move |output| matches!(output, Output::Event(Event::Elected { leader, .. }) if leader == Some(id));
    (0..group.clients).find(|&id| start_of(group, id).into_iter().any(leads(id)))
}

/// Whether no process has any output at its start.
fn is_dormant<P: Election>(group: &Group<P>) -> bool {
    (0..group.processes).all(|id| start_of(group, id).is_empty())
}

/// The outputs of a process at its start.
fn start_of<P: Election>(group: &Group<P>, id: ProcessId) -> Vec<Output<P>> {
    let mut out = Outbox::new(Choices::scripted(Vec::new()));
    (group.make)(id).step(Input::Start(Start::Fresh), &mut out);
    out.drain().collect()
}

impl<P: Election> GroupModel for ElectionModel<P> {
    type Protocol = P;
    type User = Believer;
    type Own = Own;

    fn system(&self) -> &System<P, Believer> {
        &self.system
    }

    fn system_mut(&mut self) -> &mut System<P, Believer> {
        &mut self.system
    }

    fn checks(&self, property: Property) -> bool {
        self.properties.contains(&property)
    }

    fn own_at_start(&self) -> Own {
        // If a process has an output at its start, the election has begun.
        let begun = self.system.rules.crashed.is_some() || (self.leaderless && !self.dormant);
        Own { elapsed: 0, begun, terms: SmallVec::new() }
    }

    fn own_after_fault(&self, own: &Own) -> Own {
        Own { elapsed: 0, begun: true, terms: own.terms.clone() }
    }

    fn steps(&self, state: &ElectionState, found: &mut FoundHere<P>) {
        self.notices(state, found);
        self.deliveries(state, found);
        if !network::is_overdue(&state.network, self.setting.times.delay_max) {
            self.due_timers(state, found);
            self.tick(state, found);
        }
        self.early_timers(state, found);
    }

    fn judge_start(&self, next: &mut ElectionState, at: ProcessId, outcome: u32) -> Result<(), Violation> {
        self.rivals(next, at, outcome).map_or(Ok(()), Err)
    }

    fn judge_step(
        &self,
        before: &ElectionState,
        next: &mut ElectionState,
        event: &Occurrence<ElectionAct>,
        outcome: u32,
        reached: &mut Reached,
    ) -> Result<(), Violation> {
        let has_reason = next.global.own.begun && !(self.dormant && self.concerns_helper(event));
        next.global.own.begun = before.global.own.begun || has_reason;
        let leads = self.believer(next, event.at).leader == Some(event.at);
        reached.entries += u64::from(leads && !self.system.outcome(outcome).events.is_empty());
        self.rivals(next, event.at, outcome).map_or(Ok(()), Err)
    }

    /// LIVE: after a given time all live processes agree on the best of them, and never change again.
    fn judge(&self, next: &ElectionState) -> Result<(), Violation> {
        if next.global.own.elapsed < self.setting.times.settled_after || !self.properties.contains(&Property::Liveness)
        {
            return Ok(());
        }
        let best = self.best(next.global.faults);
        let Some(at) = self.candidates(next.global.faults).find(|&at| self.believer(next, at).leader != best) else {
            return Ok(());
        };
        let believes = match self.believer(next, at).leader {
            Some(leader) => format!("believes that P{leader} leads"),
            None => "knows of no leader".into(),
        };
        let best = best.map_or(", although too few processes are up".into(), |best| format!(", not P{best}"));
        let detail = format!("{} ticks after the last change P{at} {believes}{best}", next.global.own.elapsed);
        Err(Violation { property: Property::Liveness, detail })
    }

    /// Whether a detector must report before time goes on.
    fn is_due(&self, state: &ElectionState) -> bool {
        let untold = |at: ProcessId| {
            let reports = self.system.local(state.locals[at]).reports;
            reports.mistaken != 0 || state.global.faults.has_reports_for(&self.system.rules, at, reports)
        };
        state.global.own.elapsed >= self.setting.times.notice_max && self.live(state.global.faults).any(untold)
    }

    fn end_instant(&self, _: &ElectionState, next: &mut ElectionState) -> Result<(), Violation> {
        let passed = Ticks::from(next.global.own.begun);
        next.global.own.elapsed = (next.global.own.elapsed + passed).min(self.setting.times.settled_after);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use baton_protocol::{Picture, Protocol};

    use super::*;
    use crate::explore::{Bounds, End, explore};
    use crate::memory::Memory;

    /// A test protocol: a process leads in the given term when it is asked to, and resigns at once.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct ForAMoment {
        me: ProcessId,
        term: Option<u64>,
    }

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    enum Nothing {}

    impl baton_protocol::Message for Nothing {
        fn kind(&self) -> &'static str {
            match *self {}
        }
    }

    impl Protocol for ForAMoment {
        type Message = Nothing;
        type Timer = Infallible;
        type Command = Command;
        type Event = Event;

        fn step(&mut self, input: Input<Self>, out: &mut Outbox<Self>) {
            if let Input::Command(Command::Elect) = input {
                out.emit(Event::Elected { leader: Some(self.me), term: self.term });
                out.emit(Event::Elected { leader: None, term: None });
            }
        }

        fn view(&self) -> Picture {
            Picture::new().field("term", self.term)
        }
    }

    /// The violation by two leaders with these terms, if any.
    fn wrong(terms: [Option<u64>; 2]) -> Option<String> {
        let group = Group::new(2, 2, move |me| ForAMoment { me, term: terms[me] });
        let times = Times { delay_max: 1, notice_max: 4, settled_after: 9 };
        let recovery = Recovery { memory: &[], after_reports: true };
        let setting = Setting { times, faults: Faults::NONE, recovery, survivors: None };
        let mut model = ElectionModel::new(&group, LinkOrder::Unordered, setting, &[Property::Safety]);
        let bounds = Bounds { limit: 1_000, memory: Memory::UNBOUNDED, time: None, threads: 1, stop: None };
        match explore(&mut model, &bounds, &|_| {}).end {
            End::Violated { violation, .. } => Some(violation.detail),
            End::Complete => None,
            end => panic!("{end:?}"),
        }
    }

    #[test]
    fn a_term_has_one_leader_for_ever_and_without_terms_there_is_one_at_a_time() {
        assert_eq!(wrong([Some(1), Some(2)]), None);
        assert_eq!(wrong([Some(7), Some(7)]).as_deref(), Some("P1 and P0 both lead in term 7"));
        assert_eq!(wrong([None, None]), None);
    }
}
