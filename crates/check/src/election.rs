//! The model of leader election, in discrete time: the leader has crashed, and the others notice, one by one or not.
//!
//! A message takes 1 to D ticks. At each instant deliveries come first and timers second, and time goes on only
//! when no message is overdue and no timer is due. What remains of a timer and the age of a message are relative, so that
//! a leader may repeat its announcement for ever and the states are finite all the same.

use baton_protocol::clock::VectorClock;
use baton_protocol::election::{Election, Event};
use baton_protocol::{Group, Input, ProcessId, Ticks};

use crate::Property;
use crate::check::GroupModel;
use crate::explore::{Model, Successor, Violation};
use crate::network::{self, Order};
use crate::report::Reached;
use crate::story::Story;
use crate::system::{Action, Local, Rules, State, Stimulus, System, User};

/// The user of a process: whom it believes to lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Believer {
    leader: Option<ProcessId>,
    /// Whether its failure detector has already told it of the crash.
    told: bool,
}

/// What happens to it from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// It is told that a process has crashed.
    Suspect(ProcessId),
}

impl<P: Election> User<P> for Believer {
    type Act = Notice;

    fn act(&mut self, _: ProcessId, Notice::Suspect(peer): Notice, _: Option<&mut VectorClock>) -> Input<P> {
        self.told = true;
        Input::Suspect(peer)
    }

    fn hear(&mut self, Event::Elected { leader, .. }: &Event) {
        self.leader = *leader;
    }

    fn tell_act(story: &mut Story, at: ProcessId, Notice::Suspect(peer): Notice) {
        story.suspect(at, peer);
    }

    fn tell_event(story: &mut Story, at: ProcessId, Event::Elected { leader, term }: &Event) {
        story.elected(at, *leader, *term);
    }
}

/// What the properties need beyond the processes and the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Global {
    /// Ticks since the crash; stands still once all should be settled.
    elapsed: Ticks,
    /// A timer has fired at this instant, so what has not arrived by now arrives later.
    timers_turn: bool,
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

/// A group whose leader has crashed, with what is asked of it.
pub struct ElectionModel<P: Election> {
    system: System<P, Believer>,
    reached: Reached,
    properties: Vec<Property>,
    times: Times,
    /// The highest process that lives.
    heir: ProcessId,
}

type Successors<P> = Vec<Successor<ElectionModel<P>>>;

impl<P: Election> ElectionModel<P> {
    /// `group` with its highest process, the leader, crashed.
    pub fn new(group: &Group<P>, order: Order, times: Times, properties: &[Property]) -> Self {
        let crashed = group.processes - 1;
        let rules = Rules { order, timed: true, crashed: Some(crashed) };
        let system = System::new(group, rules, |_, process| {
            Local::new(process, None, None, Believer { leader: None, told: false })
        });
        let (reached, properties) = (Reached::default(), properties.to_vec());
        ElectionModel { system, reached, properties, times, heir: crashed - 1 }
    }

    fn start(&mut self, found: &mut Successors<P>) {
        for begun in self.system.starts() {
            let global = Global { elapsed: 0, timers_turn: false };
            let locals = begun.outcomes.iter().map(|&outcome| self.system.outcome(outcome).local).collect();
            let next = Ok(State { locals, network: begun.network, global });
            found.push(Successor { action: Action::Start(begun.outcomes.into()), next });
        }
    }

    fn notices(&mut self, state: &State<Global>, found: &mut Successors<P>) {
        for at in 0..=self.heir {
            if state.global.elapsed <= self.times.notice_max && !self.believer(state, at).told {
                let stimulus = Stimulus::Act(Notice::Suspect(self.heir + 1));
                self.step(state, at, stimulus, None, state.global, found);
            }
        }
    }

    fn deliveries(&mut self, state: &State<Global>, found: &mut Successors<P>) {
        for (index, flight) in network::deliverable(&state.network, self.system.rules.order) {
            if flight.age > 0 && !state.global.timers_turn {
                let stimulus = Stimulus::Deliver { from: flight.from, payload: flight.payload };
                self.step(state, flight.receiver(), stimulus, Some(index), state.global, found);
            }
        }
    }

    fn timers(&mut self, state: &State<Global>, found: &mut Successors<P>) {
        for at in 0..=self.heir {
            let global = Global { timers_turn: true, ..state.global };
            for place in 0..self.system.local(state.locals[at]).timers.len() {
                if self.system.local(state.locals[at]).timers[place].1 == 0 {
                    self.step(state, at, Stimulus::Timer(place as u8), None, global, found);
                }
            }
        }
    }

    fn tick(&mut self, state: &State<Global>, found: &mut Successors<P>) {
        if (0..=self.heir).any(|at| self.system.local(state.locals[at]).timers.iter().any(|(_, left)| *left == 0)) {
            return;
        }
        let mut next = state.clone();
        network::age(&mut next.network);
        for at in 0..=self.heir {
            let outcome = self.system.react(at as u8, state.locals[at], Stimulus::Tick).start;
            next.locals[at] = self.system.outcome(outcome).local;
        }
        let elapsed = (state.global.elapsed + 1).min(self.times.settled_after);
        next.global = Global { elapsed, timers_turn: false };
        found.push(Successor { action: Action::Tick, next: self.settled(next) });
    }

    /// Everything that can come of one stimulus.
    fn step(
        &mut self,
        state: &State<Global>,
        at: ProcessId,
        stimulus: Stimulus<Notice>,
        arrived: Option<usize>,
        global: Global,
        found: &mut Successors<P>,
    ) {
        for outcome in self.system.react(at as u8, state.locals[at], stimulus) {
            let next = state.after(&self.system, at as u8, outcome, arrived, global);
            let leads = |at: ProcessId| self.believer(&next, at).leader == Some(at);
            let rival = (0..=self.heir).find(|&other| other != at && leads(at) && leads(other));
            self.reached.entries += u64::from(leads(at) && !self.system.outcome(outcome).events.is_empty());
            let next = match rival {
                Some(rival) if self.properties.contains(&Property::Safety) => {
                    let detail = format!("P{at} and P{rival} both lead");
                    Err(Violation { property: Property::Safety, detail })
                }
                _ => self.settled(next),
            };
            found.push(Successor { action: Action::Step { at: at as u8, stimulus, outcome }, next });
        }
    }

    /// After a given time all that live agree, for ever.
    fn settled(&self, next: State<Global>) -> Result<State<Global>, Violation> {
        if next.global.elapsed < self.times.settled_after || !self.properties.contains(&Property::Liveness) {
            return Ok(next);
        }
        let Some(at) = (0..=self.heir).find(|&at| self.believer(&next, at).leader != Some(self.heir)) else {
            return Ok(next);
        };
        let believes = match self.believer(&next, at).leader {
            Some(leader) => format!("believes that P{leader} leads"),
            None => "knows of no leader".into(),
        };
        let detail = format!("{} ticks after the crash P{at} {believes}, not P{}", next.global.elapsed, self.heir);
        Err(Violation { property: Property::Liveness, detail })
    }

    fn believer(&self, state: &State<Global>, at: ProcessId) -> &Believer {
        &self.system.local(state.locals[at]).user
    }
}

impl<P: Election> Model for ElectionModel<P> {
    type State = State<Global>;
    type Action = Action<Notice>;

    fn expand(&mut self, state: Option<&State<Global>>, found: &mut Successors<P>) {
        let Some(state) = state else { return self.start(found) };
        self.notices(state, found);
        self.deliveries(state, found);
        if state.network.iter().all(|flight| Ticks::from(flight.age) < self.times.delay_max) {
            self.timers(state, found);
            self.tick(state, found);
        }
    }
}

impl<P: Election> GroupModel for ElectionModel<P> {
    fn reached(&self) -> Reached {
        self.reached
    }

    fn tell(&self, story: &mut Story, state: Option<&State<Global>>, action: &Action<Notice>) {
        story.tell(&self.system, state.map_or(&[], |state| &state.locals), action);
    }
}
