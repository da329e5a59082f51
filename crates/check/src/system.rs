//! A whole group as one value, and the effect of a step of one process on it.
//!
//! Everything that is local to a process (protocol, timers, user) and every payload of a message is stored once and has
//! a number. A [`State`] is a short list of these numbers, stored inline unless it is long. So the queue is small, and
//! a state is quick to copy and to pack. Above all, a step is computed once for each local state and stimulus, and not
//! once for each global state.

use std::hash::Hash;
use std::mem::discriminant;
use std::ops::Range;

use baton_protocol::clock::VectorClock;
use baton_protocol::{Choice, Choices, Group, Input, Outbox, Output, ProcessId, Protocol, Start, Ticks};
use baton_trace::DropReason;
use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::faults::{DetectorReports, Faults, FaultsLeft, Recovery, Tally};
use crate::network::{self, Channel, Flight, LinkOrder, Network};
use crate::normal::{Missing, Normal};
use crate::story::Story;

/// The user of a process: its own acts, and its reaction to the protocol's events.
pub trait User<P: Protocol>: Clone + Eq + Hash + Send + Sync {
    /// What the user can do.
    type Act: Copy + Eq + Hash + Send + Sync;

    /// Does `act`, and returns the input for the protocol. `known` counts the requests that have happened before.
    fn act(&mut self, me: ProcessId, act: Self::Act, known: Option<&mut VectorClock>) -> Input<P>;

    /// Takes note of an event of the protocol.
    fn hear(&mut self, event: &P::Event);

    /// Called when the process crashes.
    fn crash(&mut self);

    /// Called when the process recovers.
    fn recover(&mut self) {}

    /// Called at each tick, whether the process is up or down.
    fn tick(&mut self) {}

    /// Describes an act.
    fn tell_act(story: &mut Story, at: ProcessId, act: Self::Act);

    /// Describes an event.
    fn tell_event(story: &mut Story, at: ProcessId, event: &P::Event);
}

/// Everything that is local to a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Local<P: Protocol, U> {
    pub process: P,
    /// The running timers, sorted by name, with the ticks that are left (0 in models without time).
    pub timers: Vec<(P::Timer, Ticks)>,
    /// Number of timers that may still fire. None: no limit.
    pub timers_left: Option<u32>,
    /// The requests that have happened before, where ORDER is checked.
    pub known: Option<VectorClock>,
    /// The reports of its failure detector.
    pub reports: DetectorReports,
    pub user: U,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Payload<M> {
    pub content: Content<M>,
    /// The requests that had happened before it was sent, where ORDER is checked.
    pub known: Option<VectorClock>,
}

/// A message of the protocol or of the application.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content<M> {
    /// A message of the algorithm.
    Protocol(M),
    /// A message of the application, with the value of the algorithm's clock if it has one.
    App(Option<u64>),
}

/// An event at a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stimulus<A> {
    Start,
    /// The user acts.
    Act(A),
    /// The user sends an application message.
    AppSend {
        to: u8,
    },
    Deliver {
        from: u8,
        payload: u32,
    },
    /// The timer at this place of the list fires.
    Timer(u8),
    Tick,
    Crash,
    /// The process recovers.
    Recover {
        /// The changes of each process that its new detector does not report any more.
        told: Tally,
        /// False: the process keeps only what is on its stable storage.
        memory: bool,
    },
    /// The failure detector reports that a process has crashed.
    Suspect {
        peer: u8,
        /// Whether the reported process is up.
        wrongly: bool,
    },
    /// The failure detector reports that a process is alive again.
    Trust {
        peer: u8,
        /// Whether the process was up all the time.
        wrongly: bool,
    },
}

/// The process, the number of its local state, and the stimulus.
pub type StepKey<A> = (u8, u32, Stimulus<A>);

/// A missing result that must be computed before a state can be expanded.
#[derive(Clone, Copy, Debug)]
pub enum Gap<A> {
    Step(StepKey<A>),
    Normal(Missing),
}

/// The result of a step of a process.
#[derive(Debug)]
pub struct Outcome<P: Protocol> {
    /// The number of the new local state.
    pub local: u32,
    /// The sent messages: receiver, channel and number of the payload.
    pub sends: Box<[(u8, Channel, u32)]>,
    /// The events for the user, each with the number of messages sent before it.
    pub events: Box<[(usize, P::Event)]>,
    /// The timers that the step set, or set again.
    pub timers_set: Box<[P::Timer]>,
    /// The choices of the step.
    pub choices: Box<[Choice]>,
}

/// The state of a whole group. `G` is what the properties need in addition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State<G> {
    /// The numbers of the local states of all processes.
    pub locals: SmallVec<[u32; 8]>,
    pub network: Network,
    pub global: G,
}

/// A step from one state to the next.
#[derive(Clone, Debug)]
pub enum Action<A> {
    /// All processes start. Has the outcome of each process.
    Start(Box<[u32]>),
    Step {
        at: u8,
        stimulus: Stimulus<A>,
        /// The number of the outcome.
        outcome: u32,
        /// Whether the delivered message stays in flight, and will arrive again.
        copied: bool,
    },
    Tick,
    /// A message is lost.
    Lost {
        flight: Flight,
        reason: DropReason,
    },
}

impl<A> Action<A> {
    /// Whether both are the same kind of event at the same process.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Action::Step { at, stimulus, .. }, Action::Step { at: a, stimulus: s, .. }) => {
                at == a && discriminant(stimulus) == discriminant(s)
            }
            _ => discriminant(self) == discriminant(other),
        }
    }
}

/// What a state holds in addition to the processes and the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Global<G> {
    /// The remaining budget of faults, and the processes that are down.
    pub faults: FaultsLeft,
    /// Models with time: a timer has fired at this instant. So the messages that are still in flight arrive later.
    pub timers_turn: bool,
    /// What the properties of the family need.
    pub own: G,
}

/// The rules of the network, the timers and the faults.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub order: LinkOrder,
    /// Whether the model has time. Without time any running timer may fire at any moment.
    pub timed: bool,
    /// A process that has crashed before the start. It gets no messages.
    pub crashed: Option<ProcessId>,
    /// The budget of faults.
    pub faults: Faults,
    /// How processes recover.
    pub recovery: Recovery,
    /// Whether perfect failure detectors outside the model report crashes to the processes.
    pub told: bool,
    /// With views: the process that hears of crashes, and never crashes. A mistake is that a client suspects it.
    pub source: Option<ProcessId>,
}

impl Rules {
    /// Whether the failure detector of this process reports crashes.
    pub fn hears_of_crashes(&self, process: ProcessId) -> bool {
        self.source.is_none_or(|source| source == process)
    }
}

/// One possible start of a group.
pub struct Begun {
    /// The messages in flight after the start.
    pub network: Network,
    /// The outcome of each process.
    pub outcomes: Vec<u32>,
}

/// A group, with all steps of its processes that are known so far.
pub struct System<P: Protocol, U: User<P>> {
    pub rules: Rules,
    /// Processes `0..clients` get commands.
    pub clients: usize,
    before_start: Vec<u32>,
    locals: IndexSet<Local<P, U>, FxBuildHasher>,
    payloads: IndexSet<Payload<P::Message>, FxBuildHasher>,
    outcomes: Vec<Outcome<P>>,
    known_steps: FxHashMap<StepKey<U::Act>, Range<u32>>,
    /// The normal forms that are known so far.
    pub normal: Normal,
    /// Whether any process has made a choice or set a timer of random duration.
    pub random: bool,
    /// Whether any process has set a timer.
    pub timers: bool,
    /// Whether a step had more than [`BRANCHES_MAX`] branches.
    pub too_wide: bool,
}

/// The most branches of one step.
pub const BRANCHES_MAX: usize = 20_000;

impl<P: Protocol, U: User<P>> System<P, U> {
    /// A group before its start. `local` makes the local state of each process.
    pub fn new(group: &Group<P>, rules: Rules, local: impl Fn(ProcessId, P) -> Local<P, U>) -> Self {
        let mut system = System {
            rules,
            clients: group.clients,
            before_start: Vec::new(),
            locals: IndexSet::default(),
            payloads: IndexSet::default(),
            outcomes: Vec::new(),
            known_steps: FxHashMap::default(),
            normal: Normal::default(),
            random: false,
            timers: false,
            too_wide: false,
        };
        for id in 0..group.processes {
            let number = system.locals.insert_full(local(id, (group.make)(id))).0;
            system.before_start.push(number as u32);
        }
        system
    }

    pub fn processes(&self) -> usize {
        self.before_start.len()
    }

    pub fn local(&self, number: u32) -> &Local<P, U> {
        &self.locals[number as usize]
    }

    pub fn outcome(&self, number: u32) -> &Outcome<P> {
        &self.outcomes[number as usize]
    }

    pub fn payload(&self, number: u32) -> &Payload<P::Message> {
        &self.payloads[number as usize]
    }

    /// Every possible start of the group. There is one, unless a process makes a choice at its start.
    pub fn starts(&self, gaps: &mut Vec<Gap<U::Act>>) -> Vec<Begun> {
        let mut starts = vec![Begun { network: Network::new(), outcomes: Vec::new() }];
        for at in 0..self.before_start.len() {
            let outcomes = self.react(at as u8, self.before_start[at], Stimulus::Start, gaps);
            let mut continued = Vec::new();
            for (start, outcome) in
                starts.iter().flat_map(|start| outcomes.clone().map(move |outcome| (start, outcome)))
            {
                let mut network = start.network.clone();
                self.send_all(&mut network, at as u8, outcome);
                continued.push(Begun { network, outcomes: [start.outcomes.as_slice(), &[outcome]].concat() });
            }
            starts = continued;
        }
        starts
    }

    /// The numbers of all outcomes, one for each branch, of a stimulus `at` a process with this local state. If they
    /// are not known yet, the range is empty, and `gaps` gets one more gap.
    pub fn react(&self, at: u8, local: u32, stimulus: Stimulus<U::Act>, gaps: &mut Vec<Gap<U::Act>>) -> Range<u32> {
        let known = self.known_steps.get(&(at, local, stimulus)).cloned();
        known.unwrap_or_else(|| {
            gaps.push(Gap::Step((at, local, stimulus)));
            0..0
        })
    }

    /// Computes the missing result.
    pub fn learn(&mut self, gap: Gap<U::Act>) {
        match gap {
            Gap::Step(occasion) if !self.known_steps.contains_key(&occasion) => self.learn_step(occasion),
            Gap::Step(_) => {}
            Gap::Normal(missing) => self.learn_normal(missing),
        }
    }

    fn learn_step(&mut self, (at, local, stimulus): StepKey<U::Act>) {
        let first = self.outcomes.len() as u32;
        let mut script = Some(Vec::new());
        while let Some(branch) = script {
            if self.outcomes.len() - first as usize == BRANCHES_MAX {
                self.too_wide = true;
                break;
            }
            let outcome = self.step(at, local, stimulus, branch);
            script = Choices::next_branch(&outcome.choices);
            self.outcomes.push(outcome);
        }
        self.known_steps.insert((at, local, stimulus), first..self.outcomes.len() as u32);
    }

    /// Adds the messages of an outcome to the network.
    pub fn send_all(&self, network: &mut Network, at: u8, outcome: u32) {
        for &(to, channel, payload) in &self.outcome(outcome).sends {
            if self.rules.crashed != Some(to.into()) {
                network::send(network, self.rules.order, Flight { channel, from: at, to, age: 0, payload });
            }
        }
    }

    /// Computes one branch of a step.
    fn step(&mut self, at: u8, local: u32, stimulus: Stimulus<U::Act>, branch: Vec<usize>) -> Outcome<P> {
        let mut local = self.local(local).clone();
        let mut out = Outbox::new(Choices::scripted(branch));
        if let Some(input) = self.begin(&mut local, at, stimulus) {
            local.process.step(input, &mut out);
        }
        let outputs: Vec<Output<P>> = out.drain().collect();
        let (mut sends, mut events, mut timers_set, mut stamp) = (Vec::new(), Vec::new(), Vec::new(), None);
        for output in outputs {
            match output {
                Output::Send { to, message } => {
                    assert!(to != usize::from(at) && to < self.before_start.len(), "P{at} sends {message:?} to P{to}");
                    let payload = Payload { content: Content::Protocol(message), known: local.known.clone() };
                    sends.push((to as u8, Channel::Protocol, self.number_payload(payload)));
                }
                Output::SetTimer { timer, after } => {
                    self.random |= after.start() != after.end();
                    self.timers = true;
                    let after = if self.rules.timed { pick(after, &mut out) } else { 0 };
                    local.set_timer(timer, after);
                    timers_set.push(timer);
                }
                Output::CancelTimer(timer) => local.timers.retain(|(running, _)| *running != timer),
                Output::Event(event) => {
                    local.user.hear(&event);
                    events.push((sends.len(), event));
                }
                Output::Stamp(clock) => stamp = Some(clock),
            }
        }
        if let Stimulus::AppSend { to } = stimulus {
            let payload = Payload { content: Content::App(stamp), known: local.known.clone() };
            sends.push((to, Channel::App, self.number_payload(payload)));
        }
        let choices: Box<[Choice]> = out.choices().take_made().into();
        self.random |= !choices.is_empty();
        let (sends, events, timers_set) = (sends.into(), events.into(), timers_set.into());
        Outcome { local: self.number_local(local), sends, events, timers_set, choices }
    }

    /// Applies a stimulus to the local state outside the protocol. Returns the input for the protocol, if any.
    fn begin(&self, local: &mut Local<P, U>, at: u8, stimulus: Stimulus<U::Act>) -> Option<Input<P>> {
        match stimulus {
            Stimulus::Start => Some(Input::Start(Start::Fresh)),
            Stimulus::Act(act) => Some(local.user.act(at.into(), act, local.known.as_mut())),
            Stimulus::AppSend { .. } => Some(Input::AppSend),
            Stimulus::Deliver { from, payload } => {
                let payload = self.payload(payload);
                if let (Some(known), Some(others)) = (&mut local.known, &payload.known) {
                    known.merge(others);
                }
                match &payload.content {
                    Content::Protocol(message) => Some(Input::Message { from: from.into(), message: message.clone() }),
                    Content::App(stamp) => stamp.map(Input::AppReceive),
                }
            }
            Stimulus::Timer(place) => {
                local.timers_left = local.timers_left.map(|left| left.saturating_sub(1));
                Some(Input::Timer(local.timers.remove(place.into()).0))
            }
            Stimulus::Tick => {
                local.timers.iter_mut().for_each(|(_, left)| *left -= 1);
                local.user.tick();
                None
            }
            Stimulus::Crash => {
                local.timers.clear();
                local.user.crash();
                None
            }
            Stimulus::Recover { told, memory } => {
                if !memory {
                    local.process.forget(self.local(self.before_start[usize::from(at)]).process.clone());
                }
                local.reports = DetectorReports { told, mistaken: 0 };
                local.user.recover();
                Some(Input::Start(Start::Recovered))
            }
            Stimulus::Suspect { peer, wrongly: false } => {
                local.reports.told.add(peer.into());
                local.reports.mistaken &= !(1 << peer);
                Some(Input::Suspect(peer.into()))
            }
            Stimulus::Trust { peer, wrongly: false } => {
                local.reports.told.add(peer.into());
                Some(Input::Trust(peer.into()))
            }
            Stimulus::Suspect { peer, wrongly: true } => {
                local.reports.mistaken |= 1 << peer;
                Some(Input::Suspect(peer.into()))
            }
            Stimulus::Trust { peer, wrongly: true } => {
                local.reports.mistaken &= !(1 << peer);
                Some(Input::Trust(peer.into()))
            }
        }
    }

    /// Stores a message, if it is new, and returns its number.
    pub fn number_payload(&mut self, payload: Payload<P::Message>) -> u32 {
        self.payloads.insert_full(payload).0 as u32
    }

    /// Stores a local state, if it is new, and returns its number.
    pub fn number_local(&mut self, local: Local<P, U>) -> u32 {
        self.locals.insert_full(local).0 as u32
    }
}

/// One of the durations in `range`. Each duration is a branch of its own.
fn pick<P: Protocol>(range: std::ops::RangeInclusive<Ticks>, out: &mut Outbox<P>) -> Ticks {
    let (shortest, longest) = range.into_inner();
    match usize::try_from(longest.saturating_sub(shortest)) {
        Ok(more) if more > 0 => shortest + out.choose(more + 1) as Ticks,
        _ => shortest,
    }
}

impl<P: Protocol, U> Local<P, U> {
    /// A process before its start.
    pub fn new(process: P, timers_left: Option<u32>, known: Option<VectorClock>, user: U) -> Self {
        Local { process, timers: Vec::new(), timers_left, known, reports: DetectorReports::default(), user }
    }

    fn set_timer(&mut self, timer: P::Timer, after: Ticks) {
        self.timers.retain(|(running, _)| *running != timer);
        let place = self.timers.partition_point(|(running, _)| *running < timer);
        self.timers.insert(place, (timer, after));
    }
}

impl<G> State<G> {
    /// The state after an outcome at a process. `without` is the place of the message that has just arrived.
    pub fn after<P: Protocol, U: User<P>>(
        &self,
        system: &System<P, U>,
        at: u8,
        outcome: u32,
        without: Option<usize>,
        global: G,
    ) -> Self {
        let mut locals = SmallVec::from_slice(&self.locals);
        locals[usize::from(at)] = system.outcome(outcome).local;
        let mut network = Network::from_slice(&self.network);
        if let Some(index) = without {
            network.remove(index);
        }
        system.send_all(&mut network, at, outcome);
        State { locals, network, global }
    }

    /// The state after the loss of a message.
    pub fn without(&self, lost: usize, global: G) -> Self {
        let mut network = self.network.clone();
        network.remove(lost);
        State { locals: self.locals.clone(), network, global }
    }

    /// The state without all messages to and from a process. They belong to the earlier incarnation of a process that
    /// recovers.
    pub fn without_those_of(&self, process: ProcessId) -> Self
    where
        G: Clone,
    {
        let concerns = |flight: &&Flight| usize::from(flight.from) != process && usize::from(flight.to) != process;
        let network = self.network.iter().filter(concerns).copied().collect();
        State { locals: self.locals.clone(), network, global: self.global.clone() }
    }

    /// Sorts the messages after their numbers have changed. A FIFO link keeps the order of its messages.
    pub fn sort_messages(&mut self, order: LinkOrder) {
        match order {
            LinkOrder::Fifo => {
                let app = self.network.partition_point(|flight| flight.channel == Channel::Protocol);
                self.network[app..].sort_unstable();
            }
            LinkOrder::Unordered => self.network.sort_unstable(),
        }
    }
}
