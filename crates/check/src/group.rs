//! The common part of all models: how a group starts, which messages arrive, how time passes, and how a step of a
//! process leads to the next state. Each family adds its own steps and properties.

use baton_protocol::{ProcessId, Property, Protocol};
use baton_trace::DropReason;
use serde::Serialize;
use serde::de::DeserializeOwned;
use smallvec::SmallVec;

use crate::explore::{Found, Model, Successor, Violation};
use crate::faults::{self, FaultsLeft, Occurrence};
use crate::network::{self, Flight};
use crate::report::Reached;
use crate::story::Story;
use crate::system::{Action, Gap, Global, State, Stimulus, System, User};

/// What the user of a process can do.
pub type ActOf<M> = <<M as GroupModel>::User as User<<M as GroupModel>::Protocol>>::Act;

pub type StateOf<M> = State<GlobalOf<M>>;

/// What a state holds in addition to the processes and the network.
pub type GlobalOf<M> = Global<<M as GroupModel>::Own>;

/// A model of a group. Each family implements the first part; the rest is the same for all families.
pub trait GroupModel: Sync + Sized {
    /// The protocol of the processes.
    type Protocol: Protocol;
    /// The users of the processes.
    type User: User<Self::Protocol>;
    /// What the properties of the family need in addition to the processes and the network.
    type Own: Clone + Serialize + DeserializeOwned + Send + Sync;

    fn system(&self) -> &System<Self::Protocol, Self::User>;

    fn system_mut(&mut self) -> &mut System<Self::Protocol, Self::User>;

    fn checks(&self, property: Property) -> bool;

    /// Whether the model lets a process crash.
    fn may_crash(&self, _: ProcessId) -> bool {
        true
    }

    /// The value of `Own` when the group starts.
    fn own_at_start(&self) -> Self::Own;

    /// The value of `Own` after a fault.
    fn own_after_fault(&self, own: &Self::Own) -> Self::Own {
        own.clone()
    }

    /// All possible steps in a state, except faults.
    fn steps(&self, state: &StateOf<Self>, found: &mut Found<Self>);

    /// Checks the outputs of a process at its start.
    fn judge_start(&self, _: &mut StateOf<Self>, _: ProcessId, _: u32) -> Result<(), Violation> {
        Ok(())
    }

    /// Checks the step from `before` to `next`, and counts what it has reached.
    fn judge_step(
        &self,
        before: &StateOf<Self>,
        next: &mut StateOf<Self>,
        event: &Occurrence<ActOf<Self>>,
        outcome: u32,
        reached: &mut Reached,
    ) -> Result<(), Violation>;

    /// Checks a state, whatever steps led to it.
    fn judge(&self, _: &StateOf<Self>) -> Result<(), Violation> {
        Ok(())
    }

    /// Models with time: whether a step other than a timer must happen before time goes on.
    fn is_due(&self, _: &StateOf<Self>) -> bool {
        false
    }

    /// Models with time: checks the end of an instant. A tick leads from `before` to `next`.
    fn end_instant(&self, _before: &StateOf<Self>, _next: &mut StateOf<Self>) -> Result<(), Violation> {
        Ok(())
    }

    /// Adds a successor.
    fn push(&self, action: Action<ActOf<Self>>, next: Result<StateOf<Self>, Violation>, found: &mut Found<Self>) {
        found.successors.push(Successor { action, next });
    }

    /// The beginning of the description of a run.
    fn story(processes: usize) -> Story {
        Story::new(processes)
    }

    /// Describes what `action` does in `state`.
    fn tell(&self, story: &mut Story, state: Option<&StateOf<Self>>, action: &Action<ActOf<Self>>) {
        story.tell(self.system(), state.map_or(&[], |state| &state.locals), action);
    }

    // The rest is the same for all families.

    /// Adds every possible start of the group.
    fn start(&self, found: &mut Found<Self>) {
        for begun in self.system().starts(&mut found.gaps) {
            let locals = begun.outcomes.iter().map(|&outcome| self.system().outcome(outcome).local).collect();
            let faults = self.system().rules.faults.into();
            let global = Global { faults, timers_turn: false, own: self.own_at_start() };
            let mut next = State { locals, network: begun.network, global };
            let mut each = (0..).zip(&begun.outcomes);
            let judged = each.try_for_each(|(at, &outcome)| self.judge_start(&mut next, at, outcome));
            self.push(Action::Start(begun.outcomes.into()), judged.map(|()| next), found);
        }
    }

    /// The live processes, helpers included.
    fn live(&self, faults: FaultsLeft) -> impl Iterator<Item = ProcessId> {
        let crashed = self.system().rules.crashed;
        (0..self.system().processes()).filter(move |&at| Some(at) != crashed && faults.is_up(at))
    }

    /// The messages that can arrive now, with their places in the network. In a model with time a message takes at
    /// least one tick, and messages arrive before timers fire.
    fn arrivals(&self, state: &StateOf<Self>) -> impl Iterator<Item = (usize, Flight)> {
        let rules = self.system().rules;
        let network: &[Flight] = if state.global.timers_turn { &[] } else { &state.network };
        network::deliverable(network, rules.order).filter(move |(_, flight)| flight.age > 0 || !rules.timed)
    }

    /// Adds the deliveries of messages.
    fn deliveries(&self, state: &StateOf<Self>, found: &mut Found<Self>) {
        for (place, flight) in self.arrivals(state) {
            if state.global.faults.is_up(flight.receiver()) {
                self.step(state, Occurrence::arrival(place, flight, false), state.global.clone(), found);
            }
        }
    }

    /// Models with time: adds the timers that are due.
    fn due_timers(&self, state: &StateOf<Self>, found: &mut Found<Self>) {
        for at in self.live(state.global.faults) {
            for (place, (_, left)) in self.system().local(state.locals[at]).timers.iter().enumerate() {
                if *left == 0 {
                    self.by_the_clock(state, Occurrence::new(at, Stimulus::Timer(place as u8)), found);
                }
            }
        }
    }

    /// Models with time: adds a step that is due. After it, no more messages arrive at this instant.
    fn by_the_clock(&self, state: &StateOf<Self>, event: Occurrence<ActOf<Self>>, found: &mut Found<Self>) {
        self.step(state, event, Global { timers_turn: true, ..state.global.clone() }, found);
    }

    /// Adds a tick for all processes, unless another step must happen first.
    fn tick(&self, state: &StateOf<Self>, found: &mut Found<Self>) {
        let system = self.system();
        let is_timer_due = |at: ProcessId| system.local(state.locals[at]).timers.iter().any(|(_, left)| *left == 0);
        if self.live(state.global.faults).any(is_timer_due) || self.is_due(state) {
            return;
        }
        let mut next = state.clone();
        network::age(&mut next.network);
        next.global.timers_turn = false;
        for at in (0..state.locals.len()).filter(|&at| Some(at) != system.rules.crashed) {
            let outcomes = system.react(at as u8, state.locals[at], Stimulus::Tick, &mut found.gaps);
            outcomes.into_iter().for_each(|outcome| next.locals[at] = system.outcome(outcome).local);
        }
        let judged = self.end_instant(state, &mut next).and_then(|()| self.judge(&next));
        self.push(Action::Tick, judged.map(|()| next), found);
    }

    /// Checks the algorithm's own invariant, if it has one.
    fn judge_invariant(&self, next: &StateOf<Self>) -> Result<(), Violation> {
        if !Self::Protocol::HAS_INVARIANT || !self.checks(Property::Safety) {
            return Ok(());
        }
        let process = |at: ProcessId| (at, &self.system().local(next.locals[at]).process);
        let live: SmallVec<[_; 8]> = self.live(next.global.faults).map(process).collect();
        match Self::Protocol::broken_invariant(&live) {
            Some(detail) => Err(Violation { property: Property::Safety, detail }),
            None => Ok(()),
        }
    }

    /// Adds the steps of one process, one for each outcome.
    fn step(
        &self,
        state: &StateOf<Self>,
        event: Occurrence<ActOf<Self>>,
        global: GlobalOf<Self>,
        found: &mut Found<Self>,
    ) {
        let (at, stimulus, copied) = (event.at as u8, event.stimulus, event.copied());
        for outcome in self.system().react(at, state.locals[event.at], stimulus, &mut found.gaps) {
            let mut next = state.after(self.system(), at, outcome, event.arrived, global.clone());
            let judged = self.judge_step(state, &mut next, &event, outcome, &mut found.reached);
            let judged = judged.and_then(|()| self.judge_invariant(&next)).and_then(|()| self.judge(&next));
            self.push(Action::Step { at, stimulus, outcome, copied }, judged.map(|()| next), found);
        }
    }

    /// The global part of a state after a fault.
    fn after_fault(&self, global: &GlobalOf<Self>, faults: FaultsLeft) -> GlobalOf<Self> {
        Global { faults, timers_turn: global.timers_turn, own: self.own_after_fault(&global.own) }
    }

    /// Adds the loss of the message at this place.
    fn lose(
        &self,
        state: &StateOf<Self>,
        place: usize,
        reason: DropReason,
        global: GlobalOf<Self>,
        found: &mut Found<Self>,
    ) {
        let next = state.without(place, global);
        let judged = self.judge(&next);
        self.push(Action::Lost { flight: state.network[place], reason }, judged.map(|()| next), found);
    }
}

impl<M: GroupModel> Model for M {
    type State = StateOf<M>;
    type Action = Action<ActOf<M>>;
    type Gap = Gap<ActOf<M>>;

    fn expand(&self, state: Option<&StateOf<M>>, found: &mut Found<M>) {
        let Some(state) = state else { return self.start(found) };
        self.steps(state, found);
        faults::faults(self, state, found);
    }

    fn learn(&mut self, gap: Gap<ActOf<M>>) {
        self.system_mut().learn(gap);
    }

    fn is_too_wide(&self) -> bool {
        self.system().too_wide
    }
}
