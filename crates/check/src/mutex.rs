//! The model of mutual exclusion: each client requests a number of times, and every possible step may be the next.

use baton_protocol::clock::VectorClock;
use baton_protocol::mutex::{Command, Event, Mutex};
use baton_protocol::registry::Crashes;
use baton_protocol::{Group, Input, ProcessId, property};
use serde::{Deserialize, Serialize};

use crate::Property;
use crate::explore::{Found, Successor, Violation};
use crate::faults::{Faults, Occurrence, Recovery};
use crate::group::GroupModel;
use crate::network::LinkOrder;
use crate::report::Reached;
use crate::story::Story;
use crate::system::{Action, Gap, Global, Local, Rules, State, Stimulus, System, User};

/// The user of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckedUser {
    phase: Phase,
    /// Number of requests that are still to come.
    left: u32,
    /// Where ORDER is checked: the requests that happened before its request, itself included. Kept until the client
    /// leaves.
    asked: Option<VectorClock>,
}

/// The client requests without limit.
const FOR_EVER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Waiting,
    Inside,
    /// In the critical section without a request. No state of the search contains this phase.
    Uninvited,
}

impl<P: Mutex> User<P> for CheckedUser {
    type Act = Command;

    fn act(&mut self, me: ProcessId, act: Command, known: Option<&mut VectorClock>) -> Input<P> {
        match act {
            Command::Acquire => {
                self.phase = Phase::Waiting;
                self.left -= u32::from(self.left != FOR_EVER);
                self.asked = known.map(|known| {
                    known.tick(me);
                    known.clone()
                });
            }
            Command::Release => {
                self.phase = Phase::Idle;
                self.asked = None;
            }
        }
        Input::Command(act)
    }

    fn hear(&mut self, event: &Event) {
        self.phase = match (event, self.phase) {
            (Event::Granted { .. }, Phase::Waiting) => Phase::Inside,
            (Event::Granted { .. }, _) => Phase::Uninvited,
            (Event::Lost, _) => {
                self.asked = None;
                Phase::Idle
            }
        };
    }

    fn crash(&mut self) {
        (self.phase, self.asked) = (Phase::Idle, None);
    }

    fn tell_act(story: &mut Story, at: ProcessId, act: Command) {
        match act {
            Command::Acquire => story.request(at),
            Command::Release => story.exit(at),
        }
    }

    fn tell_event(story: &mut Story, at: ProcessId, event: &Event) {
        match event {
            Event::Granted { fence } => story.enter(at, *fence),
            Event::Lost => story.lost(at),
        }
    }
}

/// What the properties need in addition to the processes and the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// The latest fence, where fences are checked.
    fence: Option<u64>,
    app_messages_left: u8,
}

pub type MutexState = State<Global<Own>>;

/// The limits of a model.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Number of requests of each client. None: no limit.
    pub entries: Option<u32>,
    /// Number of application messages in the whole group.
    pub app_messages: u8,
    /// Number of timers that may fire at each process. None: no limit.
    pub timers: Option<u32>,
    /// The budget of faults.
    pub faults: Faults,
    /// Which processes may crash.
    pub crashes: Crashes,
    /// How processes recover.
    pub recovery: Recovery,
}

/// A mutual exclusion group with its limits and properties.
pub struct MutexModel<P: Mutex> {
    pub system: System<P, CheckedUser>,
    properties: Vec<Property>,
    pub budget: Budget,
    /// Whether each state is replaced by its normal form.
    pub normal: bool,
}

type FoundHere<P> = Found<MutexModel<P>>;

impl<P: Mutex> MutexModel<P> {
    pub fn new(group: &Group<P>, order: LinkOrder, budget: Budget, properties: &[Property]) -> Self {
        // With crashes, some protocols compare counters with constants.
        let is_exact = !budget.faults.of_processes();
        assert!(budget.entries.is_some() || is_exact, "normal forms are exact only if no process is suspected");
        let clients = group.clients;
        let known = properties.contains(&Property::Order).then(|| VectorClock::new(clients));
        let Budget { faults, recovery, .. } = budget;
        let rules = Rules { order, timed: false, crashed: None, faults, recovery, told: true, source: group.source };
        let system = System::new(group, rules, |id, process| {
            let left = if id < clients { budget.entries.unwrap_or(FOR_EVER) } else { 0 };
            let user = CheckedUser { phase: Phase::Idle, left, asked: None };
            Local::new(process, budget.timers, known.clone(), user)
        });
        MutexModel { system, properties: properties.to_vec(), budget, normal: budget.entries.is_none() }
    }

    /// Adds the steps of clients: request, release and application messages.
    fn acts(&self, state: &MutexState, found: &mut FoundHere<P>) {
        let mut waiting = 0;
        for at in (0..self.system.clients).filter(|&at| state.global.faults.is_up(at)) {
            let Local { user, process, .. } = self.system.local(state.locals[at]);
            match user.phase {
                Phase::Idle if user.left > 0 && process.is_ready() => {
                    self.act(state, at, Stimulus::Act(Command::Acquire), found)
                }
                Phase::Inside => self.act(state, at, Stimulus::Act(Command::Release), found),
                Phase::Waiting => waiting += 1,
                _ => {}
            }
            self.app_sends(state, at, found);
        }
        found.reached.waiting_together += u64::from(waiting >= 2);
    }

    /// Any live client may send a message to any other client. So the receiver learns of all requests that the sender
    /// knows of.
    fn app_sends(&self, state: &MutexState, at: usize, found: &mut FoundHere<P>) {
        if state.global.own.app_messages_left > 0 {
            for to in (0..self.system.clients).filter(|&to| to != at) {
                self.act(state, at, Stimulus::AppSend { to: to as u8 }, found);
            }
        }
    }

    /// Timers have no duration here: any running timer may fire.
    fn timers(&self, state: &MutexState, found: &mut FoundHere<P>) {
        for at in 0..state.locals.len() {
            let local = self.system.local(state.locals[at]);
            if local.timers_left != Some(0) {
                for place in 0..local.timers.len() {
                    self.act(state, at, Stimulus::Timer(place as u8), found);
                }
            }
        }
    }

    fn act(&self, state: &MutexState, at: ProcessId, stimulus: Stimulus<Command>, found: &mut FoundHere<P>) {
        let mut global = state.global;
        global.own.app_messages_left -= u8::from(matches!(stimulus, Stimulus::AppSend { .. }));
        self.step(state, Occurrence::new(at, stimulus), global, found);
    }

    /// Checks the grants at `at` that led to `next`.
    fn judge_grants(&self, next: &mut MutexState, at: ProcessId, outcome: u32) -> Result<(), Violation> {
        for &(_, event) in &self.system.outcome(outcome).events {
            let Event::Granted { fence } = event else { continue };
            if self.phase(next, at) == Phase::Uninvited {
                return Err(uninvited_guest(at));
            }
            let broken = self.properties.iter().find_map(|property| match property {
                Property::Safety => self.unsafe_entry(next, at),
                Property::Fence => falling_fence(next.global.own.fence, fence, at),
                Property::Order => self.overtaking_entry(next, at),
                Property::Deadlock | Property::Liveness | Property::Reachability => None,
            });
            if let Some(violation) = broken {
                return Err(violation);
            }
            if self.properties.contains(&Property::Fence) {
                next.global.own.fence = Some(fence);
            }
        }
        Ok(())
    }

    fn unsafe_entry(&self, next: &MutexState, at: ProcessId) -> Option<Violation> {
        let other = (0..self.system.clients).find(|&other| other != at && self.phase(next, other) == Phase::Inside)?;
        let detail = property::two_inside(at, other);
        Some(Violation { property: Property::Safety, detail })
    }

    /// ORDER: a process must not enter while a request that happened before its own still waits.
    fn overtaking_entry(&self, next: &MutexState, at: ProcessId) -> Option<Violation> {
        let asked = self.system.local(next.locals[at]).user.asked.as_ref()?;
        let overtaken = (0..self.system.clients).find(|&other| {
            let local = self.system.local(next.locals[other]);
            let request = local.known.as_ref().map(|known| known.of(other));
            other != at && local.user.phase == Phase::Waiting && Some(asked.of(other)) == request
        })?;
        let detail = property::overtaking(at, overtaken);
        Some(Violation { property: Property::Order, detail })
    }

    /// A deadlock: a process waits, but no message will arrive, no timer will fire, no detector must report or correct
    /// a mistake, and no process is inside. Further requests and recoveries are possible, but they need not happen.
    fn dead(&self, next: &MutexState) -> Option<Violation> {
        let mut waiting = Vec::new();
        for at in 0..next.locals.len() {
            let local = self.system.local(next.locals[at]);
            let timer = !local.timers.is_empty();
            let reports = local.reports.mistaken != 0
                || next.global.faults.has_reports_for(&self.system.rules, at, local.reports);
            let reports = reports && next.global.faults.is_up(at);
            if timer || reports || local.user.phase == Phase::Inside {
                return None;
            }
            if local.user.phase == Phase::Waiting || self.is_held_back(next, at) {
                waiting.push(format!("P{at}"));
            }
        }
        let verb = if waiting.len() == 1 { "waits" } else { "wait" };
        let detail = format!("{} {verb}, and nothing can happen", waiting.join(" and "));
        (!waiting.is_empty()).then_some(Violation { property: Property::Deadlock, detail })
    }

    /// Whether a client wants to request but has recovered and is not ready. Drivers hold its request back.
    fn is_held_back(&self, state: &MutexState, at: ProcessId) -> bool {
        let Local { user, process, .. } = self.system.local(state.locals[at]);
        user.phase == Phase::Idle && user.left > 0 && !process.is_ready() && state.global.faults.is_up(at)
    }

    fn phase(&self, state: &MutexState, at: ProcessId) -> Phase {
        self.system.local(state.locals[at]).user.phase
    }

    pub fn normal_form(&mut self, state: &MutexState) -> MutexState {
        loop {
            let mut attempt = state.clone();
            let missing = self.system.normalize(&mut attempt);
            if missing.is_empty() {
                return attempt;
            }
            missing.into_iter().for_each(|missing| self.system.learn_normal(missing));
        }
    }

    /// One bit for each client that waits, or whose request is held back.
    pub fn waiting(&self, state: &MutexState) -> u64 {
        let waits = |&at: &usize| self.phase(state, at) == Phase::Waiting || self.is_held_back(state, at);
        (0..self.system.clients).filter(waits).fold(0, |set, at| set | 1 << at)
    }
}

fn falling_fence(latest: Option<u64>, fence: u64, at: ProcessId) -> Option<Violation> {
    let latest = latest.filter(|&latest| fence <= latest)?;
    let detail = property::falling_fence(at, fence, latest);
    Some(Violation { property: Property::Fence, detail })
}

fn uninvited_guest(at: ProcessId) -> Violation {
    let detail = property::uninvited(at);
    Violation { property: Property::Safety, detail }
}

impl<P: Mutex> GroupModel for MutexModel<P> {
    type Protocol = P;
    type User = CheckedUser;
    type Own = Own;

    fn system(&self) -> &System<P, CheckedUser> {
        &self.system
    }

    fn system_mut(&mut self) -> &mut System<P, CheckedUser> {
        &mut self.system
    }

    fn checks(&self, property: Property) -> bool {
        self.properties.contains(&property)
    }

    fn may_crash(&self, process: ProcessId) -> bool {
        process >= self.system.clients || self.budget.crashes != Crashes::Coordinators
    }

    fn own_at_start(&self) -> Own {
        Own { fence: None, app_messages_left: self.budget.app_messages }
    }

    fn steps(&self, state: &MutexState, found: &mut FoundHere<P>) {
        self.acts(state, found);
        self.timers(state, found);
        self.deliveries(state, found);
    }

    fn judge_start(&self, next: &mut MutexState, at: ProcessId, outcome: u32) -> Result<(), Violation> {
        self.judge_grants(next, at, outcome)
    }

    /// Only a grant can violate a property other than liveness.
    fn judge_step(
        &self,
        _: &MutexState,
        next: &mut MutexState,
        event: &Occurrence<Command>,
        outcome: u32,
        reached: &mut Reached,
    ) -> Result<(), Violation> {
        let events = &self.system.outcome(outcome).events;
        reached.entries += events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. })).count() as u64;
        self.judge_grants(next, event.at, outcome)
    }

    /// Finds deadlocks.
    fn judge(&self, next: &MutexState) -> Result<(), Violation> {
        if self.properties.contains(&Property::Deadlock) && next.global.faults.nothing_arrives(&next.network) {
            return self.dead(next).map_or(Ok(()), Err);
        }
        Ok(())
    }

    fn push(&self, action: Action<Command>, mut next: Result<MutexState, Violation>, found: &mut FoundHere<P>) {
        if let (true, Ok(state)) = (self.normal, &mut next) {
            let missing = self.system.normalize(state);
            found.gaps.extend(missing.into_iter().map(Gap::Normal));
        }
        found.successors.push(Successor { action, next });
    }
}
