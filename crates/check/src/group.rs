//! What the models of all families have in common: how a group starts, what arrives, how time passes, and how anything that
//! happens to a process leads to the next state. A family says what else can happen, and what must not.

use baton_protocol::{ProcessId, Protocol};
use baton_trace::DropReason;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::explore::{Found, Model, Successor, Violation};
use crate::faults::{self, FaultsLeft, Occurrence};
use crate::network::{self, Flight};
use crate::report::Reached;
use crate::story::Story;
use crate::system::{Action, Gap, Global, State, Stimulus, System, User};

/// What the user of a process may do.
pub type ActOf<M> = <<M as GroupModel>::User as User<<M as GroupModel>::Protocol>>::Act;

/// A state of the model.
pub type StateOf<M> = State<GlobalOf<M>>;

/// What it keeps beyond the processes and the network.
pub type GlobalOf<M> = Global<<M as GroupModel>::Own>;

/// A model of a group: a family says what is its own, and has the rest from here.
pub trait GroupModel: Sync + Sized {
    /// What the processes run.
    type Protocol: Protocol;
    /// Who uses them.
    type User: User<Self::Protocol>;
    /// What its properties need beyond the processes and the network.
    type Own: Clone + Serialize + DeserializeOwned + Send + Sync;

    /// The group.
    fn system(&self) -> &System<Self::Protocol, Self::User>;

    /// The group, to learn more of it.
    fn system_mut(&mut self) -> &mut System<Self::Protocol, Self::User>;

    /// Whether a process may crash.
    fn may_crash(&self, _: ProcessId) -> bool {
        true
    }

    /// What it keeps as the group starts.
    fn own_at_start(&self) -> Self::Own;

    /// What it keeps of that after a fault.
    fn own_after_fault(&self, own: &Self::Own) -> Self::Own {
        own.clone()
    }

    /// All that can happen in a state, but for faults.
    fn steps(&self, state: &StateOf<Self>, found: &mut Found<Self>);

    /// Whether what a process does as it starts is in order.
    fn judge_start(&self, _: &mut StateOf<Self>, _: ProcessId, _: u32) -> Result<(), Violation> {
        Ok(())
    }

    /// Whether the step from `before` to `next` is in order, and what has come about by it.
    fn judge_step(
        &self,
        before: &StateOf<Self>,
        next: &mut StateOf<Self>,
        event: &Occurrence<ActOf<Self>>,
        outcome: u32,
        reached: &mut Reached,
    ) -> Result<(), Violation>;

    /// Whether a state may be, however it has come about.
    fn judge(&self, _: &StateOf<Self>) -> Result<(), Violation> {
        Ok(())
    }

    /// Where there is time: whether anything but a timer has to happen before time goes on.
    fn is_due(&self, _: &StateOf<Self>) -> bool {
        false
    }

    /// Where there is time: a tick leads from `before` to `next`. Whether everything was in order when it came.
    fn end_instant(&self, _before: &StateOf<Self>, _next: &mut StateOf<Self>) -> Result<(), Violation> {
        Ok(())
    }

    /// One more thing that can happen.
    fn push(&self, action: Action<ActOf<Self>>, next: Result<StateOf<Self>, Violation>, found: &mut Found<Self>) {
        found.successors.push(Successor { action, next });
    }

    /// How a run begins to be told.
    fn story(processes: usize) -> Story {
        Story::new(processes)
    }

    /// Tells what `action` does in `state`.
    fn tell(&self, story: &mut Story, state: Option<&StateOf<Self>>, action: &Action<ActOf<Self>>) {
        story.tell(self.system(), state.map_or(&[], |state| &state.locals), action);
    }

    // What follows is the same in all families.

    /// Every way in which the group can start.
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

    /// The processes that live, helpers included.
    fn live(&self, faults: FaultsLeft) -> impl Iterator<Item = ProcessId> {
        let crashed = self.system().rules.crashed;
        (0..self.system().processes()).filter(move |&at| Some(at) != crashed && faults.is_up(at))
    }

    /// Which messages can arrive now, and where they are. Where there is time, a message takes a tick at least, and those
    /// that arrive do so before any timer fires.
    fn arrivals(&self, state: &StateOf<Self>) -> impl Iterator<Item = (usize, Flight)> {
        let rules = self.system().rules;
        let network: &[Flight] = if state.global.timers_turn { &[] } else { &state.network };
        network::deliverable(network, rules.order).filter(move |(_, flight)| flight.age > 0 || !rules.timed)
    }

    /// Messages arrive.
    fn deliveries(&self, state: &StateOf<Self>, found: &mut Found<Self>) {
        for (place, flight) in self.arrivals(state) {
            if state.global.faults.is_up(flight.receiver()) {
                self.step(state, Occurrence::arrival(place, flight, false), state.global.clone(), found);
            }
        }
    }

    /// Where there is time: timers that have run out fire.
    fn due_timers(&self, state: &StateOf<Self>, found: &mut Found<Self>) {
        for at in self.live(state.global.faults) {
            for (place, (_, left)) in self.system().local(state.locals[at]).timers.iter().enumerate() {
                if *left == 0 {
                    self.by_the_clock(state, Occurrence::new(at, Stimulus::Timer(place as u8)), found);
                }
            }
        }
    }

    /// Where there is time: something happens whose time has come. Nothing else arrives at this instant.
    fn by_the_clock(&self, state: &StateOf<Self>, event: Occurrence<ActOf<Self>>, found: &mut Found<Self>) {
        self.step(state, event, Global { timers_turn: true, ..state.global.clone() }, found);
    }

    /// Time goes on, for all at once, unless something has to happen first.
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

    /// Something happens to a process.
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
            let judged = judged.and_then(|()| self.judge(&next));
            self.push(Action::Step { at, stimulus, outcome, copied }, judged.map(|()| next), found);
        }
    }

    /// What is kept after a fault.
    fn after_fault(&self, global: &GlobalOf<Self>, faults: FaultsLeft) -> GlobalOf<Self> {
        Global { faults, timers_turn: global.timers_turn, own: self.own_after_fault(&global.own) }
    }

    /// The message at this place does not arrive.
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
