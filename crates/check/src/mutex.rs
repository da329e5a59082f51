//! The model of mutual exclusion: each client asks a number of times, anything that can happen may happen next.

use baton_protocol::clock::VectorClock;
use baton_protocol::mutex::{Command, Event, Mutex};
use baton_protocol::{Group, Input, ProcessId};

use crate::Property;
use crate::check::GroupModel;
use crate::explore::{Model, Successor, Violation};
use crate::network::{self, Order};
use crate::report::Reached;
use crate::story::Story;
use crate::system::{Action, Local, Rules, State, Stimulus, System, User};

/// The user of a process that may ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    phase: Phase,
    /// How many more times it asks.
    left: u32,
    /// What had happened before its request, itself included, until it has left; where ORDER is asked for.
    asked: Option<VectorClock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Waiting,
    Inside,
    /// Inside, and never asked: no state that is kept has one of these.
    Uninvited,
}

impl<P: Mutex> User<P> for Client {
    type Act = Command;

    fn act(&mut self, me: ProcessId, act: Command, known: Option<&mut VectorClock>) -> Input<P> {
        match act {
            Command::Acquire => {
                self.phase = Phase::Waiting;
                self.left -= 1;
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

    fn hear(&mut self, Event::Granted { .. }: &Event) {
        self.phase = if self.phase == Phase::Waiting { Phase::Inside } else { Phase::Uninvited };
    }

    fn tell_act(story: &mut Story, at: ProcessId, act: Command) {
        match act {
            Command::Acquire => story.request(at),
            Command::Release => story.exit(at),
        }
    }

    fn tell_event(story: &mut Story, at: ProcessId, Event::Granted { fence }: &Event) {
        story.enter(at, *fence);
    }
}

/// What the properties need beyond the processes and the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Global {
    /// Of the latest grant, where growing fences are asked for.
    fence: Option<u64>,
    app_messages_left: u32,
}

/// How much of everything there is.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// How often each client asks.
    pub entries: u32,
    /// How many application messages there may be in all.
    pub app_messages: u32,
    /// How many timers may fire at each process.
    pub timers: u32,
}

/// A group, with what is asked of it.
pub struct MutexModel<P: Mutex> {
    system: System<P, Client>,
    reached: Reached,
    properties: Vec<Property>,
    app_messages: u32,
}

type Successors<P> = Vec<Successor<MutexModel<P>>>;

impl<P: Mutex> MutexModel<P> {
    /// `group` on a network with this order.
    pub fn new(group: &Group<P>, order: Order, budget: Budget, properties: &[Property]) -> Self {
        let clients = group.clients;
        let known = properties.contains(&Property::Order).then(|| VectorClock::new(clients));
        let rules = Rules { order, timed: false, crashed: None };
        let system = System::new(group, rules, |id, process| {
            let left = if id < clients { budget.entries } else { 0 };
            let user = Client { phase: Phase::Idle, left, asked: None };
            Local::new(process, Some(budget.timers), known.clone(), user)
        });
        let (reached, properties) = (Reached::default(), properties.to_vec());
        MutexModel { system, reached, properties, app_messages: budget.app_messages }
    }

    fn start(&mut self, found: &mut Successors<P>) {
        for begun in self.system.starts() {
            let global = Global { fence: None, app_messages_left: self.app_messages };
            let locals = begun.outcomes.iter().map(|&outcome| self.system.outcome(outcome).local).collect();
            let state = State { locals, network: begun.network, global };
            let uninvited = (0..state.locals.len()).find(|&at| self.phase(&state, at) == Phase::Uninvited);
            let next = uninvited.map_or(Ok(state), |at| Err(uninvited_guest(at)));
            found.push(Successor { action: Action::Start(begun.outcomes.into()), next });
        }
    }

    /// What clients can do by themselves.
    fn acts(&mut self, state: &State<Global>, found: &mut Successors<P>) {
        let mut waiting = 0;
        for at in 0..self.system.clients {
            let user = &self.system.local(state.locals[at]).user;
            match user.phase {
                Phase::Idle if user.left > 0 => self.step(state, at, Stimulus::Act(Command::Acquire), None, found),
                Phase::Inside => self.step(state, at, Stimulus::Act(Command::Release), None, found),
                Phase::Waiting => {
                    waiting += 1;
                    self.app_sends(state, at, found);
                }
                _ => {}
            }
        }
        self.reached.waiting_together += u64::from(waiting >= 2);
    }

    /// One that waits may tell any other client that it has asked.
    fn app_sends(&mut self, state: &State<Global>, at: usize, found: &mut Successors<P>) {
        if state.global.app_messages_left > 0 {
            for to in (0..self.system.clients).filter(|&to| to != at) {
                self.step(state, at, Stimulus::AppSend { to: to as u8 }, None, found);
            }
        }
    }

    /// Without time, any timer that runs may fire.
    fn timers(&mut self, state: &State<Global>, found: &mut Successors<P>) {
        for at in 0..state.locals.len() {
            let local = self.system.local(state.locals[at]);
            if local.timers_left != Some(0) {
                for place in 0..local.timers.len() {
                    self.step(state, at, Stimulus::Timer(place as u8), None, found);
                }
            }
        }
    }

    fn deliveries(&mut self, state: &State<Global>, found: &mut Successors<P>) {
        for (index, flight) in network::deliverable(&state.network, self.system.rules.order) {
            let stimulus = Stimulus::Deliver { from: flight.from, payload: flight.payload };
            self.step(state, flight.receiver(), stimulus, Some(index), found);
        }
    }

    /// Everything that can come of one stimulus.
    fn step(
        &mut self,
        state: &State<Global>,
        at: ProcessId,
        stimulus: Stimulus<Command>,
        arrived: Option<usize>,
        found: &mut Successors<P>,
    ) {
        for outcome in self.system.react(at as u8, state.locals[at], stimulus) {
            let mut global = state.global;
            global.app_messages_left -= u32::from(matches!(stimulus, Stimulus::AppSend { .. }));
            let next = state.after(&self.system, at as u8, outcome, arrived, global);
            let next = self.judge(next, at, outcome);
            found.push(Successor { action: Action::Step { at: at as u8, stimulus, outcome }, next });
        }
    }

    /// Whether the step at `at` that led to `next` was in order. Only a grant can break anything but liveness.
    fn judge(&mut self, mut next: State<Global>, at: ProcessId, outcome: u32) -> Result<State<Global>, Violation> {
        for &(_, Event::Granted { fence }) in &self.system.outcome(outcome).events {
            self.reached.entries += 1;
            if self.phase(&next, at) == Phase::Uninvited {
                return Err(uninvited_guest(at));
            }
            let broken = self.properties.iter().find_map(|property| match property {
                Property::Safety => self.unsafe_entry(&next, at),
                Property::Fence => falling_fence(next.global.fence, fence, at),
                Property::Order => self.overtaking_entry(&next, at),
                Property::Deadlock | Property::Liveness | Property::Reachability => None,
            });
            if let Some(violation) = broken {
                return Err(violation);
            }
            if self.properties.contains(&Property::Fence) {
                next.global.fence = Some(fence);
            }
        }
        if next.network.is_empty() && self.properties.contains(&Property::Deadlock) {
            return self.dead(&next).map_or(Ok(next), Err);
        }
        Ok(next)
    }

    fn unsafe_entry(&self, next: &State<Global>, at: ProcessId) -> Option<Violation> {
        let other = (0..self.system.clients).find(|&other| other != at && self.phase(next, other) == Phase::Inside)?;
        let detail = format!("P{at} and P{other} are in the critical section at once");
        Some(Violation { property: Property::Safety, detail })
    }

    /// ORDER: nobody enters while a request that happened before its own still waits.
    fn overtaking_entry(&self, next: &State<Global>, at: ProcessId) -> Option<Violation> {
        let asked = self.system.local(next.locals[at]).user.asked.as_ref()?;
        let overtaken = (0..self.system.clients).find(|&other| {
            let local = self.system.local(next.locals[other]);
            let request = local.known.as_ref().map(|known| known.of(other));
            other != at && local.user.phase == Phase::Waiting && Some(asked.of(other)) == request
        })?;
        let detail = format!("P{at} enters, and the request of P{overtaken}, which happened before, still waits");
        Some(Violation { property: Property::Order, detail })
    }

    /// Nothing is on its way, no timer runs, nobody is inside, and yet somebody waits. That others could still ask
    /// does not help: they need not.
    fn dead(&self, next: &State<Global>) -> Option<Violation> {
        let mut waiting = Vec::new();
        for at in 0..next.locals.len() {
            let local = self.system.local(next.locals[at]);
            if !local.timers.is_empty() || local.user.phase == Phase::Inside {
                return None;
            }
            if local.user.phase == Phase::Waiting {
                waiting.push(format!("P{at}"));
            }
        }
        let verb = if waiting.len() == 1 { "waits" } else { "wait" };
        let detail = format!("{} {verb}, and nothing can happen", waiting.join(" and "));
        (!waiting.is_empty()).then_some(Violation { property: Property::Deadlock, detail })
    }

    fn phase(&self, state: &State<Global>, at: ProcessId) -> Phase {
        self.system.local(state.locals[at]).user.phase
    }
}

fn falling_fence(latest: Option<u64>, fence: u64, at: ProcessId) -> Option<Violation> {
    let latest = latest.filter(|&latest| fence <= latest)?;
    let detail = format!("P{at} enters with fence {fence}, after an entry with fence {latest}");
    Some(Violation { property: Property::Fence, detail })
}

fn uninvited_guest(at: ProcessId) -> Violation {
    let detail = format!("P{at} is let into the critical section without having asked");
    Violation { property: Property::Safety, detail }
}

impl<P: Mutex> Model for MutexModel<P> {
    type State = State<Global>;
    type Action = Action<Command>;

    fn expand(&mut self, state: Option<&State<Global>>, found: &mut Successors<P>) {
        let Some(state) = state else { return self.start(found) };
        self.acts(state, found);
        self.timers(state, found);
        self.deliveries(state, found);
    }
}

impl<P: Mutex> GroupModel for MutexModel<P> {
    fn reached(&self) -> Reached {
        self.reached
    }

    fn tell(&self, story: &mut Story, state: Option<&State<Global>>, action: &Action<Command>) {
        story.tell(&self.system, state.map_or(&[], |state| &state.locals), action);
    }
}
