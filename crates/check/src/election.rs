//! The model of leader election, in discrete time: the leader has crashed, and the others notice, one by one or not.
//! Where nobody leads at the start any process may ask for an election. With crashes still to come everybody lives
//! at the start; all who live are told of every crash, and of every mistake, within a given time.
//!
//! A message takes 1 to D ticks. At each instant deliveries come first and timers second, and time goes on only
//! when no message is overdue and no timer is due. What remains of a timer and the age of a message are relative, so that
//! a leader may repeat its announcement for ever and the states are finite all the same.

use baton_protocol::clock::VectorClock;
use baton_protocol::election::{Command, Election, Event, Rule};
use baton_protocol::registry::Survivors;
use baton_protocol::{Choices, Group, Input, Outbox, Output, ProcessId, Start, Ticks};
use baton_trace::DropReason;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::Property;
use crate::explore::{Found, Model, Successor, Violation};
use crate::faults::{self, DetectorReports, Faults, FaultsLeft, Faulty, Occurrence, Recovery};
use crate::network::{self, Flight, LinkOrder};
use crate::recount::GroupModel;
use crate::story::Story;
use crate::system::{Action, Gap, Local, Rules, State, Stimulus, System, User};

/// The user of a process: whom it believes to lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Believer {
    leader: Option<ProcessId>,
    term: Option<u64>,
    /// Whether it has already noticed that there is no leader.
    noticed: bool,
}

/// What happens to it from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElectionAct {
    /// It is told that the leader has crashed.
    Suspect(ProcessId),
    /// Nobody leads, and it wants somebody to.
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

/// What the properties need beyond the processes and the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Global {
    /// Ticks since the latest crash, recovery, mistake or loss; stands still once all should be settled.
    elapsed: Ticks,
    /// A timer has fired at this instant, so what has not arrived by now arrives later.
    timers_turn: bool,
    /// Somebody has had a reason to hold an election.
    begun: bool,
    /// Who was the first to lead in each term, where there are terms: nobody else may, later neither.
    terms: SmallVec<[(u64, u8); 4]>,
    faults: FaultsLeft,
}

impl Global {
    /// Takes note of who leads in a term; returns who has led in it before, if that was another.
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

/// How long things may take, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// D: how long a message may be on its way.
    pub delay_max: Ticks,
    /// How long after the crash failure detectors may tell of it.
    pub notice_max: Ticks,
    /// How long after the crash all must agree.
    pub settled_after: Ticks,
}

/// What a group has to cope with.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How long things may take.
    pub times: Times,
    /// How many faults there may be.
    pub faults: Faults,
    /// How processes come back.
    pub recovery: Recovery,
    /// Who must live if anybody is to lead, where the group has a guard.
    pub survivors: Option<Survivors>,
}

/// A group that elects, with what is asked of it.
pub struct ElectionModel<P: Election> {
    /// The group.
    pub system: System<P, Believer>,
    properties: Vec<Property>,
    setting: Setting,
    /// Which of the living is to lead.
    rule: Rule,
    /// Nobody leads, and any process may ask for an election.
    leaderless: bool,
    /// And unless one does, or somebody crashes, there is none.
    dormant: bool,
}

type FoundHere<P> = Found<ElectionModel<P>>;

impl<P: Election> ElectionModel<P> {
    /// `group` with its leader crashed, if it has one and nothing else is to happen to it.
    pub fn new(group: &Group<P>, order: LinkOrder, setting: Setting, properties: &[Property]) -> Self {
        let leader = leader_at_start(group);
        let alive = setting.faults.crash > 0;
        let rules = Rules { order, timed: true, crashed: leader.filter(|_| !alive) };
        let system = System::new(group, rules, |_, process| {
            Local::new(process, None, None, Believer { leader: None, term: None, noticed: false })
        });
        let (properties, rule, leaderless) = (properties.to_vec(), group.elects, leader.is_none());
        ElectionModel { system, properties, setting, rule, leaderless, dormant: leaderless && is_dormant(group) }
    }

    fn start(&self, found: &mut FoundHere<P>) {
        for begun in self.system.starts(&mut found.gaps) {
            let global = Global {
                elapsed: 0,
                timers_turn: false,
                // Who does something at its start has begun by itself.
                begun: self.system.rules.crashed.is_some() || (self.leaderless && !self.dormant),
                terms: SmallVec::new(),
                faults: self.setting.faults.into(),
            };
            let locals = begun.outcomes.iter().map(|&outcome| self.system.outcome(outcome).local).collect();
            let mut next = State { locals, network: begun.network, global };
            let rivals = (0..).zip(&begun.outcomes).find_map(|(at, &outcome)| self.rivals(&mut next, at, outcome));
            let next = rivals.map_or(Ok(next), Err);
            found.successors.push(Successor { action: Action::Start(begun.outcomes.into()), next });
        }
    }

    /// Whoever lives, helpers included.
    fn live(&self, faults: FaultsLeft) -> impl Iterator<Item = ProcessId> {
        let crashed = self.system.rules.crashed;
        (0..self.system.processes()).filter(move |&at| Some(at) != crashed && faults.is_up(at))
    }

    /// Those of them that may lead.
    fn candidates(&self, faults: FaultsLeft) -> impl Iterator<Item = ProcessId> {
        self.live(faults).filter(|&at| at < self.system.clients)
    }

    fn notices(&self, state: &State<Global>, found: &mut FoundHere<P>) {
        let late = state.global.begun && state.global.elapsed > self.setting.times.notice_max;
        if late || !(self.leaderless || self.system.rules.crashed.is_some()) {
            return;
        }
        for at in self.candidates(state.global.faults).filter(|&at| !self.believer(state, at).noticed) {
            let notice = self.system.rules.crashed.map_or(ElectionAct::Elect, ElectionAct::Suspect);
            let global = Global { begun: true, ..state.global.clone() };
            self.step(state, Occurrence::new(at, Stimulus::Act(notice)), global, found);
        }
    }

    fn deliveries(&self, state: &State<Global>, found: &mut FoundHere<P>) {
        for (place, flight) in self.arrivals(state) {
            if state.global.faults.is_up(flight.receiver()) {
                self.step(state, Occurrence::arrival(place, flight, false), state.global.clone(), found);
            }
        }
    }

    fn timers(&self, state: &State<Global>, found: &mut FoundHere<P>) {
        for at in self.live(state.global.faults) {
            for (place, (_, left)) in self.system.local(state.locals[at]).timers.iter().enumerate() {
                if *left == 0 {
                    let global = Global { timers_turn: true, ..state.global.clone() };
                    self.step(state, Occurrence::new(at, Stimulus::Timer(place as u8)), global, found);
                }
            }
        }
    }

    /// A mistake: a process takes the living for dead, since it waits no longer for their answer.
    fn early_timers(&self, state: &State<Global>, found: &mut FoundHere<P>) {
        let faults = state.global.faults.after_a_mistake().filter(|_| !self.setting.faults.detectors_only);
        let Some(faults) = faults else { return };
        for at in self.live(state.global.faults) {
            for (place, (_, left)) in self.system.local(state.locals[at]).timers.iter().enumerate() {
                if *left > 0 {
                    let global = Self::after(&state.global, faults);
                    self.step(state, Occurrence::new(at, Stimulus::Timer(place as u8)), global, found);
                }
            }
        }
    }

    /// Whether a detector has something to tell that cannot wait any longer.
    fn is_news_due(&self, state: &State<Global>) -> bool {
        let untold = |at: ProcessId| {
            let news = self.news(state, at);
            news.mistaken != 0 || state.global.faults.has_news_for(at, news)
        };
        state.global.elapsed >= self.setting.times.notice_max && self.live(state.global.faults).any(untold)
    }

    fn tick(&self, state: &State<Global>, found: &mut FoundHere<P>) {
        let due = |at: ProcessId| self.system.local(state.locals[at]).timers.iter().any(|(_, left)| *left == 0);
        if self.live(state.global.faults).any(due) || self.is_news_due(state) {
            return;
        }
        let mut next = state.clone();
        network::age(&mut next.network);
        for at in self.live(state.global.faults) {
            let outcomes = self.system.react(at as u8, state.locals[at], Stimulus::Tick, &mut found.gaps);
            outcomes.into_iter().for_each(|outcome| next.locals[at] = self.system.outcome(outcome).local);
        }
        let passed = Ticks::from(state.global.begun);
        let elapsed = (state.global.elapsed + passed).min(self.setting.times.settled_after);
        (next.global.elapsed, next.global.timers_turn) = (elapsed, false);
        found.successors.push(Successor { action: Action::Tick, next: self.settled(next) });
    }

    /// At most one ever leads in each term, whoever believes in it; where there are no terms, at a time.
    fn rivals(&self, next: &mut State<Global>, at: ProcessId, outcome: u32) -> Option<Violation> {
        if !self.properties.contains(&Property::Safety) {
            return None;
        }
        let leads = |next: &State<Global>, at: ProcessId| self.believer(next, at).leader == Some(at);
        self.system.outcome(outcome).events.iter().find_map(|&(_, Event::Elected { leader, term })| {
            let leader = leader?;
            let rival = match term {
                Some(term) => next.global.leads(leader, term)?,
                None if leader == at => {
                    self.candidates(next.global.faults).find(|&other| other != at && leads(next, other))?
                }
                None => return None,
            };
            let when = term.map(|term| format!(" in term {term}")).unwrap_or_default();
            Some(Violation { property: Property::Safety, detail: format!("P{leader} and P{rival} both lead{when}") })
        })
    }

    /// After a given time all that live agree on the best of them, for ever.
    fn settled(&self, next: State<Global>) -> Result<State<Global>, Violation> {
        if next.global.elapsed < self.setting.times.settled_after || !self.properties.contains(&Property::Liveness) {
            return Ok(next);
        }
        let best = self.best(next.global.faults);
        let Some(at) = self.candidates(next.global.faults).find(|&at| self.believer(&next, at).leader != best) else {
            return Ok(next);
        };
        let believes = match self.believer(&next, at).leader {
            Some(leader) => format!("believes that P{leader} leads"),
            None => "knows of no leader".into(),
        };
        let best = best.map_or(", though too few live for that".into(), |best| format!(", not P{best}"));
        let detail = format!("{} ticks after the last change P{at} {believes}{best}", next.global.elapsed);
        Err(Violation { property: Property::Liveness, detail })
    }

    /// Who is to lead: the best of those who live, if that is allowed.
    fn best(&self, faults: FaultsLeft) -> Option<ProcessId> {
        let enough = self.setting.survivors.as_ref().is_none_or(|Survivors { among, least, .. }| {
            self.live(faults).filter(|at| among.contains(at)).count() >= *least
        });
        self.rule.best(self.candidates(faults)).filter(|_| enough)
    }

    /// Whether something happens to a witness, or is said of one: no reason to hold an election where there was none yet.
    fn concerns_helper(&self, event: &Occurrence<ElectionAct>) -> bool {
        let helper = |process: ProcessId| process >= self.system.clients;
        match event.stimulus {
            Stimulus::Crash | Stimulus::Recover { .. } => helper(event.at),
            Stimulus::Suspect { peer, .. } | Stimulus::Trust { peer, .. } => helper(event.at) || helper(peer.into()),
            _ => false,
        }
    }

    fn believer(&self, state: &State<Global>, at: ProcessId) -> &Believer {
        &self.system.local(state.locals[at]).user
    }
}

/// Who takes itself for the leader as soon as it starts.
fn leader_at_start<P: Election>(group: &Group<P>) -> Option<ProcessId> {
    let leads = |id| move |output| matches!(output, Output::Event(Event::Elected { leader, .. }) if leader == Some(id));
    (0..group.clients).find(|&id| start_of(group, id).into_iter().any(leads(id)))
}

/// Whether nobody does anything as it starts.
fn is_dormant<P: Election>(group: &Group<P>) -> bool {
    (0..group.processes).all(|id| start_of(group, id).is_empty())
}

/// What a process does as it starts.
fn start_of<P: Election>(group: &Group<P>, id: ProcessId) -> Vec<Output<P>> {
    let mut out = Outbox::new(Choices::scripted(Vec::new()));
    (group.make)(id).step(Input::Start(Start::Fresh), &mut out);
    out.drain().collect()
}

impl<P: Election> Model for ElectionModel<P> {
    type State = State<Global>;
    type Action = Action<ElectionAct>;
    type Gap = Gap<ElectionAct>;

    fn expand(&self, state: Option<&State<Global>>, found: &mut FoundHere<P>) {
        let Some(state) = state else { return self.start(found) };
        self.notices(state, found);
        self.deliveries(state, found);
        if !network::is_overdue(&state.network, self.setting.times.delay_max) {
            self.timers(state, found);
            self.tick(state, found);
        }
        self.early_timers(state, found);
        faults::faults(self, state, found);
    }

    fn learn(&mut self, gap: Gap<ElectionAct>) {
        self.system.learn(gap);
    }

    fn is_too_wide(&self) -> bool {
        self.system.too_wide
    }
}

impl<P: Election> Faulty for ElectionModel<P> {
    type Global = Global;
    type Act = ElectionAct;

    fn budget(&self) -> Faults {
        self.setting.faults
    }

    fn recovery(&self) -> Recovery {
        self.setting.recovery
    }

    fn left(global: &Global) -> FaultsLeft {
        global.faults
    }

    fn after(global: &Global, faults: FaultsLeft) -> Global {
        Global { faults, elapsed: 0, begun: true, ..global.clone() }
    }

    fn may_crash(&self, process: ProcessId) -> bool {
        self.may_err(process)
    }

    fn may_err(&self, about: ProcessId) -> bool {
        Some(about) != self.system.rules.crashed
    }

    fn news(&self, state: &State<Global>, at: ProcessId) -> DetectorReports {
        self.system.local(state.locals[at]).news
    }

    /// What has been on its way for a tick, unless timers have had their turn at this instant.
    fn arrivals(&self, state: &State<Global>) -> Vec<(usize, Flight)> {
        if state.global.timers_turn {
            Vec::new()
        } else {
            network::arriving(&state.network, self.system.rules.order).collect()
        }
    }

    fn step(&self, state: &State<Global>, event: Occurrence<ElectionAct>, global: Global, found: &mut FoundHere<P>) {
        let (at, copied) = (event.at, event.copied());
        let begun = state.global.begun || global.begun && !(self.dormant && self.concerns_helper(&event));
        let global = Global { begun, ..global };
        for outcome in self.system.react(at as u8, state.locals[at], event.stimulus, &mut found.gaps) {
            let mut next = state.after(&self.system, at as u8, outcome, event.arrived, global.clone());
            let leads = self.believer(&next, at).leader == Some(at);
            found.reached.entries += u64::from(leads && !self.system.outcome(outcome).events.is_empty());
            let next = self.rivals(&mut next, at, outcome).map_or_else(|| self.settled(next), Err);
            let action = Action::Step { at: at as u8, stimulus: event.stimulus, outcome, copied };
            found.successors.push(Successor { action, next });
        }
    }

    fn lose(&self, state: &State<Global>, place: usize, reason: DropReason, global: Global, found: &mut FoundHere<P>) {
        let action = Action::Lost { flight: state.network[place], reason };
        found.successors.push(Successor { action, next: self.settled(state.without(place, global)) });
    }
}

impl<P: Election> GroupModel for ElectionModel<P> {
    fn tell(&self, story: &mut Story, state: Option<&State<Global>>, action: &Action<ElectionAct>) {
        story.tell(&self.system, state.map_or(&[], |state| &state.locals), action);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use baton_protocol::Protocol;

    use super::*;
    use crate::explore::{Bounds, End, explore};
    use crate::memory::Memory;

    /// Whoever is asked to leads, in the term that it is given, and resigns at once.
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
    }

    /// What is wrong with two of them.
    fn wrong(terms: [Option<u64>; 2]) -> Option<String> {
        let group = Group::new(2, 2, move |me| ForAMoment { me, term: terms[me] });
        let times = Times { delay_max: 1, notice_max: 4, settled_after: 9 };
        let recovery = Recovery { memory: &[], after_news: true };
        let setting = Setting { times, faults: Faults::NONE, recovery, survivors: None };
        let mut model = ElectionModel::new(&group, LinkOrder::Unordered, setting, &[Property::Safety]);
        let bounds = Bounds { limit: 1_000, memory: Memory::UNBOUNDED, time: None, threads: 1 };
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
