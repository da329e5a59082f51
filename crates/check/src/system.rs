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

/// The user of a process: what it does by itself, and what it makes of the protocol's events.
pub trait User<P: Protocol>: Clone + Eq + Hash + Send + Sync {
    /// What it may do.
    type Act: Copy + Eq + Hash + Send + Sync;

    /// Does it; returns what that is to the protocol. `known` counts the requests that have happened before.
    fn act(&mut self, me: ProcessId, act: Self::Act, known: Option<&mut VectorClock>) -> Input<P>;

    /// Takes note of an event.
    fn hear(&mut self, event: &P::Event);

    /// Goes down with its process.
    fn crash(&mut self);

    /// Comes back with its process.
    fn recover(&mut self) {}

    /// A tick passes, whether its process is up or down.
    fn tick(&mut self) {}

    /// Tells of an act.
    fn tell_act(story: &mut Story, at: ProcessId, act: Self::Act);

    /// Tells of an event.
    fn tell_event(story: &mut Story, at: ProcessId, event: &P::Event);
}

/// All that is local to a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Local<P: Protocol, U> {
    /// The protocol.
    pub process: P,
    /// Timers that run, by name, with the ticks they have left (0 where there is no time).
    pub timers: Vec<(P::Timer, Ticks)>,
    /// How many more timers may fire; none: no limit.
    pub timers_left: Option<u32>,
    /// Requests that have happened before, where ORDER is asked for.
    pub known: Option<VectorClock>,
    /// What its failure detector has told it.
    pub news: DetectorReports,
    /// The user.
    pub user: U,
}

/// What a message carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Payload<M> {
    /// The message.
    pub content: Content<M>,
    /// Requests that have happened before it was sent, where ORDER is asked for.
    pub known: Option<VectorClock>,
}

/// A message of either channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content<M> {
    /// The algorithm's.
    Protocol(M),
    /// The application's, with the algorithm's clock if it has one.
    App(Option<u64>),
}

/// What can happen to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stimulus<A> {
    /// It begins.
    Start,
    /// Its user does something.
    Act(A),
    /// Its user sends an application message.
    AppSend {
        /// To whom.
        to: u8,
    },
    /// A message arrives.
    Deliver {
        /// From whom.
        from: u8,
        /// What it carries.
        payload: u32,
    },
    /// The timer at this place of the list fires.
    Timer(u8),
    /// Time passes.
    Tick,
    /// It crashes.
    Crash,
    /// It comes back, and knows nothing of later crashes than these.
    Recover {
        /// Of how many changes, per process.
        told: Tally,
        /// Whether it has kept its memory; if not, there is left what it does not forget.
        memory: bool,
    },
    /// Its failure detector says that a process has crashed.
    Suspect {
        /// Which one.
        peer: u8,
        /// That process has not.
        wrongly: bool,
    },
    /// Its failure detector says that a process is alive again.
    Trust {
        /// Which one.
        peer: u8,
        /// It was so all the time.
        wrongly: bool,
    },
}

/// What happens where: the process, its local state, the stimulus.
pub type StepKey<A> = (u8, u32, Stimulus<A>);

/// What must be computed before a state can be expanded.
#[derive(Clone, Copy, Debug)]
pub enum Gap<A> {
    /// A step.
    Step(StepKey<A>),
    /// A part of a normal form.
    Normal(Missing),
}

/// What a step of a process comes to.
#[derive(Debug)]
pub struct Outcome<P: Protocol> {
    /// The number of its new local state.
    pub local: u32,
    /// What it sent: to whom, on which channel, which payload.
    pub sends: Box<[(u8, Channel, u32)]>,
    /// What it told its user, each time after so many sends.
    pub events: Box<[(usize, P::Event)]>,
    /// Timers that it set, or set again.
    pub timers_set: Box<[P::Timer]>,
    /// How its choices were resolved.
    pub choices: Box<[Choice]>,
}

/// The state of a whole group; `G` is what the properties need beyond that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State<G> {
    /// The number of each process's local state.
    pub locals: SmallVec<[u32; 8]>,
    /// What is on its way.
    pub network: Network,
    /// The rest.
    pub global: G,
}

/// A step that leads from one state to another.
#[derive(Clone, Debug)]
pub enum Action<A> {
    /// All processes begin, each with this outcome.
    Start(Box<[u32]>),
    /// Something happens at a process.
    Step {
        /// Where.
        at: u8,
        /// What.
        stimulus: Stimulus<A>,
        /// What comes of it.
        outcome: u32,
        /// A message that arrives stays on its way, and will arrive again.
        copied: bool,
    },
    /// Time passes for all.
    Tick,
    /// A message does not arrive.
    Lost {
        /// Which one.
        flight: Flight,
        /// Why not.
        reason: DropReason,
    },
}

impl<A> Action<A> {
    /// Whether the same kind of thing happens at the same process.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Action::Step { at, stimulus, .. }, Action::Step { at: a, stimulus: s, .. }) => {
                at == a && discriminant(stimulus) == discriminant(s)
            }
            _ => discriminant(self) == discriminant(other),
        }
    }
}

/// What a model keeps beyond the processes and the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Global<G> {
    /// Which faults there have been, and which may still be.
    pub faults: FaultsLeft,
    /// Where there is time: a timer has fired at this instant, so what has not arrived by now arrives later.
    pub timers_turn: bool,
    /// What the properties of the family need.
    pub own: G,
}

/// What the network, the timers and the faults are like.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How messages are ordered.
    pub order: LinkOrder,
    /// Whether there is time; if not, any timer may fire at any moment.
    pub timed: bool,
    /// Who has crashed before the start: nothing is delivered to it.
    pub crashed: Option<ProcessId>,
    /// How many faults there may be in all.
    pub faults: Faults,
    /// How processes come back.
    pub recovery: Recovery,
    /// Whether failure detectors tell processes of crashes, without being part of the model.
    pub told: bool,
}

/// One way in which a group can start.
pub struct Begun {
    /// What is on its way after that.
    pub network: Network,
    /// Of each process in turn.
    pub outcomes: Vec<u32>,
}

/// A group, and all steps of its processes as far as they are known.
pub struct System<P: Protocol, U: User<P>> {
    /// What the network and the timers are like.
    pub rules: Rules,
    /// Processes `0..clients` may be given commands.
    pub clients: usize,
    before_start: Vec<u32>,
    locals: IndexSet<Local<P, U>, FxBuildHasher>,
    payloads: IndexSet<Payload<P::Message>, FxBuildHasher>,
    outcomes: Vec<Outcome<P>>,
    known_steps: FxHashMap<StepKey<U::Act>, Range<u32>>,
    /// Normal forms, as far as they are known.
    pub normal: Normal,
    /// Whether a process has ever had a choice or a timer of random length.
    pub random: bool,
    /// Whether a process has ever set a timer.
    pub timers: bool,
    /// Whether a step has more branches than can be looked at.
    pub too_wide: bool,
}

/// How many branches a step may have.
pub const BRANCHES_MAX: usize = 20_000;

impl<P: Protocol, U: User<P>> System<P, U> {
    /// A group before its start, each process with its `user`.
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

    /// How many processes there are.
    pub fn processes(&self) -> usize {
        self.before_start.len()
    }

    /// The local state with this number.
    pub fn local(&self, number: u32) -> &Local<P, U> {
        &self.locals[number as usize]
    }

    /// The outcome with this number.
    pub fn outcome(&self, number: u32) -> &Outcome<P> {
        &self.outcomes[number as usize]
    }

    /// The message with this number.
    pub fn payload(&self, number: u32) -> &Payload<P::Message> {
        &self.payloads[number as usize]
    }

    /// Every way in which the group can start: one, unless a process has a choice at its start.
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

    /// Closes a gap.
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

    /// Puts what a process has sent on its way.
    pub fn send_all(&self, network: &mut Network, at: u8, outcome: u32) {
        for &(to, channel, payload) in &self.outcome(outcome).sends {
            if self.rules.crashed != Some(to.into()) {
                network::send(network, self.rules.order, Flight { channel, from: at, to, age: 0, payload });
            }
        }
    }

    /// Takes one branch of a step.
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

    /// What `stimulus` does outside the protocol, and what it is to the protocol.
    fn begin(&self, local: &mut Local<P, U>, at: u8, stimulus: Stimulus<U::Act>) -> Option<Input<P>> {
        match stimulus {
            Stimulus::Start => Some(Input::Start(Start::Fresh)),
            Stimulus::Act(act) => Some(local.user.act(at.into(), act, local.known.as_mut())),
            Stimulus::AppSend { .. } => Some(Input::AppSend),
            Stimulus::Deliver { from, payload } => {
                let payload = self.payload(payload);
                if let (Some(known), Some(news)) = (&mut local.known, &payload.known) {
                    known.merge(news);
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
                local.news = DetectorReports { told, mistaken: 0 };
                local.user.recover();
                Some(Input::Start(Start::Recovered))
            }
            Stimulus::Suspect { peer, wrongly: false } => {
                local.news.told.add(peer.into());
                local.news.mistaken &= !(1 << peer);
                Some(Input::Suspect(peer.into()))
            }
            Stimulus::Trust { peer, wrongly: false } => {
                local.news.told.add(peer.into());
                Some(Input::Trust(peer.into()))
            }
            Stimulus::Suspect { peer, wrongly: true } => {
                local.news.mistaken |= 1 << peer;
                Some(Input::Suspect(peer.into()))
            }
            Stimulus::Trust { peer, wrongly: true } => {
                local.news.mistaken &= !(1 << peer);
                Some(Input::Trust(peer.into()))
            }
        }
    }

    /// The number of a message.
    pub fn number_payload(&mut self, payload: Payload<P::Message>) -> u32 {
        self.payloads.insert_full(payload).0 as u32
    }

    /// The number of a local state.
    pub fn number_local(&mut self, local: Local<P, U>) -> u32 {
        self.locals.insert_full(local).0 as u32
    }
}

/// One of the durations in `range`, each a branch of its own.
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
        Local { process, timers: Vec::new(), timers_left, known, news: DetectorReports::default(), user }
    }

    fn set_timer(&mut self, timer: P::Timer, after: Ticks) {
        self.timers.retain(|(running, _)| *running != timer);
        let place = self.timers.partition_point(|(running, _)| *running < timer);
        self.timers.insert(place, (timer, after));
    }
}

impl<G> State<G> {
    /// What becomes of this state, `without` a message that has just arrived, by an outcome at a process.
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

    /// What becomes of this state when a message is lost.
    pub fn without(&self, lost: usize, global: G) -> Self {
        let mut network = self.network.clone();
        network.remove(lost);
        State { locals: self.locals.clone(), network, global }
    }

    /// What becomes of this state when nothing that is on its way to or from a process will arrive: as a process comes back,
    /// all of it is of an earlier life.
    pub fn without_those_of(&self, process: ProcessId) -> Self
    where
        G: Clone,
    {
        let concerns = |flight: &&Flight| usize::from(flight.from) != process && usize::from(flight.to) != process;
        let network = self.network.iter().filter(concerns).copied().collect();
        State { locals: self.locals.clone(), network, global: self.global.clone() }
    }

    /// Puts messages back in order after their numbers have changed. On a link that keeps their order they are.
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
