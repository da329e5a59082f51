//! Compares the checker's model with a stage on random walks. Both must allow the same actions and reach the same
//! states, and a stage must be able to repeat the walk from its description.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Crashes, Family, Params, Visitor};
use baton_protocol::{Group, ProcessId, Protocol};
use baton_sim::replay::{ReplayError, replay};
use baton_sim::stage::{Action as StageAction, Effect, Envelope, Payload, Rules, Stage};
use baton_trace::{DropReason, Event, Header, Record, Unit};

use crate::after::{Staged, deed, follow};
use crate::election::{ElectionModel, Setting, Times};
use crate::explore::{Successor, Violation, expand};
use crate::faults::{Faults, FaultsLeft, Recovery};
use crate::group::{ActOf, StateOf};
use crate::mutex::{Budget, MutexModel};
use crate::network::{Flight, LinkOrder};
use crate::system::{Action, Content, Stimulus};
use crate::{Property, story};

const FAULTS: Faults = Faults { loss: 3, duplicate: 3, crash: 3, recover: Some(3), suspect: 3, detectors_only: false };
const APP_MESSAGES: u8 = 3;
const STEPS: usize = 80;

/// A model and a stage in the same state.
struct Pair<M: Staged> {
    model: M,
    stage: Stage<M::Protocol>,
    rules: Rules,
    /// Whether the stage allows only the actions of the model. In a model with time it allows more.
    exact: bool,
    random: fastrand::Rng,
    place: String,
    /// All that has been done on the stage.
    done: Vec<StageAction>,
}

impl<M: Staged> Pair<M> {
    /// Takes a random walk, and describes it.
    fn walk(&mut self) -> story::Told {
        let mut story = story::Story::new(self.stage.processes().len());
        let Successor { action, next } = expand(&mut self.model, None).successors.swap_remove(0);
        self.model.tell(&mut story, None, &action);
        self.stage.start();
        if let Some(process) = self.model.system().rules.crashed {
            self.stage.apply(&StageAction::Crash { process }).unwrap();
        }
        let mut violation = next.as_ref().err().cloned();
        let mut state = next.ok();
        for step in 0..STEPS {
            let Some(now) = state.take() else { break };
            let place = format!("{}, step {step}", self.place);
            self.assert_alike(&now, &place);
            let successors = expand(&mut self.model, Some(&now)).successors;
            self.assert_enabled(&now, &successors, &place);
            let possible = successors.into_iter().filter(|it| !self.is_ambiguous(&now, &it.action));
            let Some(Successor { action, next }) = self.random.choice(possible.collect::<Vec<_>>()) else { break };
            self.model.tell(&mut story, Some(&now), &action);
            self.follow(&now, &action, next.as_ref().err(), &place);
            violation = next.as_ref().err().cloned();
            state = next.ok();
        }
        let nothing = || Violation { property: Property::Reachability, detail: "nothing is wrong".into() };
        story.end(&violation.unwrap_or_else(nothing))
    }

    /// Checks that processes, timers and messages are equal. Messages to a crashed process are left out, because a
    /// stage loses them at once.
    fn assert_alike(&self, state: &StateOf<M>, place: &str) {
        let (system, faults) = (self.model.system(), state.global.faults);
        for (at, &local) in state.locals.iter().enumerate() {
            let local = system.local(local);
            assert_eq!(local.process, self.stage.processes()[at], "{place}: P{at}");
            let running = self.stage.timers().filter(|(owner, ..)| *owner == at).map(|(_, timer, _)| timer);
            let timers: Vec<_> = local.timers.iter().map(|(timer, _)| *timer).collect();
            // The model ignores a process that has crashed before the first step.
            if system.rules.crashed != Some(at) {
                assert_eq!(timers, running.collect::<Vec<_>>(), "{place}: the timers of P{at}");
            }
            assert_eq!(self.is_up(faults, at), self.stage.is_up(at), "{place}: whether P{at} is up");
        }
        let arrives = |flight: &&Flight| self.is_up(faults, flight.receiver());
        let mut expected: Vec<String> = state.network.iter().filter(arrives).map(|it| self.text(*it)).collect();
        let mut found: Vec<String> = self.stage.in_flight().iter().map(Envelope::to_string).collect();
        expected.sort();
        found.sort();
        assert_eq!(expected, found, "{place}: messages");
    }

    fn assert_enabled(&self, state: &StateOf<M>, successors: &[Successor<M>], place: &str) {
        let of_model = successors.iter().filter_map(|it| self.name(state, &it.action));
        let of_model: BTreeSet<String> = of_model.collect();
        let enabled = self.stage.enabled(&self.rules).into_iter();
        let of_stage: BTreeSet<String> = enabled.map(|deed| self.name_of(&deed)).collect();
        if self.exact {
            assert_eq!(of_model, of_stage, "{place}: what can happen");
        } else {
            let missing: Vec<_> = of_model.difference(&of_stage).collect();
            assert!(missing.is_empty(), "{place}: only the model can {missing:?}");
        }
    }

    /// Repeats a step of the model on the stage.
    fn follow(&mut self, state: &StateOf<M>, action: &Action<ActOf<M>>, wrong: Option<&Violation>, place: &str) {
        let choices = match action {
            Action::Step { outcome, .. } => &*self.model.system().outcome(*outcome).choices,
            _ => &[],
        };
        let script = choices.iter().map(|choice| choice.chosen).collect();
        let mut found = BTreeSet::new();
        for deed in [StageAction::Choose { script }].into_iter().chain(self.deeds(state, action)) {
            let effects = self.stage.apply(&deed).unwrap_or_else(|why| panic!("{place}: {deed}: {why}"));
            found.extend(effects.into_iter().filter_map(|effect| match effect {
                Effect::Violated { property, .. } => Some(property),
                _ => None,
            }));
            self.done.push(deed);
        }
        let judged = [Property::Safety, Property::Fence, Property::Order];
        match wrong.filter(|wrong| judged.contains(&wrong.property)) {
            Some(wrong) => assert!(found.contains(wrong.property.name()), "{place}: {wrong:?}, and {found:?}"),
            None => assert!(found.is_empty(), "{place}: the model finds nothing, the oracles {found:?}"),
        }
    }

    /// The actions on a stage for a step of the model. None for a tick, because a stage has no time.
    fn deeds(&self, state: &StateOf<M>, action: &Action<ActOf<M>>) -> Vec<StageAction> {
        match *action {
            Action::Lost { reason: DropReason::Crashed, .. } => Vec::new(),
            Action::Lost { flight, .. } => vec![StageAction::Drop { message: self.find(flight) }],
            Action::Step { at, stimulus: Stimulus::Deliver { from, payload }, copied, .. } => {
                let arrives = |flight: &&Flight| (flight.from, flight.to, flight.payload) == (from, at, payload);
                let message = self.find(*state.network.iter().find(arrives).unwrap());
                let copies = copied.then_some(StageAction::Duplicate { message });
                copies.into_iter().chain([StageAction::Deliver { message }]).collect()
            }
            _ => deed(&self.model, state, action).into_iter().collect(),
        }
    }

    /// Whether a step is a wrong suspicion that the stage would take for the report of a real crash that is not
    /// reported yet.
    fn is_ambiguous(&self, state: &StateOf<M>, action: &Action<ActOf<M>>) -> bool {
        let Action::Step { at, stimulus: Stimulus::Suspect { wrongly: true, .. }, .. } = action else { return false };
        let at = usize::from(*at);
        let system = self.model.system();
        state.global.faults.has_reports_for(&system.rules, at, system.local(state.locals[at]).reports)
    }

    /// One name for all actions with the same effect, such as the deliveries of two equal messages.
    fn name(&self, state: &StateOf<M>, action: &Action<ActOf<M>>) -> Option<String> {
        let deeds = self.deeds(state, action);
        deeds.first().map(|deed| self.name_of(deed))
    }

    fn name_of(&self, deed: &StageAction) -> String {
        let named = |word: &str, message: &u64| format!("{word} {}", self.stage.message(*message).unwrap());
        match deed {
            StageAction::Deliver { message } => named("deliver", message),
            StageAction::Drop { message } => named("drop", message),
            StageAction::Duplicate { message } => named("duplicate", message),
            deed => deed.to_string(),
        }
    }

    /// The number of the oldest equal message on the stage.
    fn find(&self, flight: Flight) -> u64 {
        let wanted = self.text(flight);
        let found = self.stage.in_flight().iter().find(|envelope| envelope.to_string() == wanted);
        found.unwrap_or_else(|| panic!("{}: {wanted} is not in flight on the stage", self.place)).id
    }

    fn text(&self, flight: Flight) -> String {
        let payload = match &self.model.system().payload(flight.payload).content {
            Content::Protocol(message) => Payload::Protocol(message.clone()),
            Content::App(stamp) => Payload::App(*stamp),
        };
        Envelope { id: 0, original: 0, from: flight.from.into(), to: flight.to.into(), payload }.to_string()
    }

    fn is_up(&self, faults: FaultsLeft, at: ProcessId) -> bool {
        self.model.system().rules.crashed != Some(at) && faults.is_up(at)
    }
}

/// Random walks of one algorithm.
struct Walks<'a> {
    params: &'a Params,
    seed: u64,
}

impl Walks<'_> {
    fn order(&self) -> LinkOrder {
        if self.seed.is_multiple_of(2) { LinkOrder::Fifo } else { LinkOrder::Unordered }
    }

    fn rules(&self, recovery: Recovery) -> Rules {
        Rules {
            fifo: self.order() == LinkOrder::Fifo,
            losses: FAULTS.loss.into(),
            duplicates: FAULTS.duplicate.into(),
            crashes: FAULTS.crash.into(),
            recoveries: FAULTS.crash.into(),
            memory: recovery.memory.to_vec(),
            recover_when_told: recovery.after_reports,
            mistakes: FAULTS.suspect.into(),
            app_messages: APP_MESSAGES.into(),
        }
    }

    fn recovery(&self) -> Recovery {
        Recovery { memory: &[true, false], after_reports: self.seed.is_multiple_of(3) }
    }

    /// Takes a random walk, and checks that a stage can repeat it from its records.
    fn go<M: Staged>(
        self,
        about: &'static About,
        group: &Group<M::Protocol>,
        model: M,
        stage: Stage<M::Protocol>,
    ) -> Vec<Record> {
        let mut header = Header::new(about, self.params, group.processes, &group.topology, Unit::T);
        header.network.order = Some(self.order().into());
        let place = format!("{}, seed {}", about.name, self.seed);
        let (rules, random) = (self.rules(self.recovery()), fastrand::Rng::with_seed(self.seed));
        let exact = about.family == Family::Mutex;
        let mut pair = Pair { model, stage, rules, exact, random, place: place.clone(), done: Vec::new() };
        let told = pair.walk();
        let in_flight = pair.stage.in_flight().iter().filter(|message| message.id == message.original);
        assert_eq!(on_their_way(&told.records, &pair.stage), in_flight.count(), "{place}: messages in the story");
        if exact {
            // The model can be led to where the walk has ended.
            let followed = follow(&mut pair.model, &pair.done, None).unwrap_or_else(|why| panic!("{place}: {why}"));
            followed.next.into_iter().for_each(|state| pair.assert_alike(&state, &format!("{place}, at the end")));
        }
        match replay(&header, &told.records) {
            // A random walk need not lead to a violation, so the replay may miss one.
            Ok(_) | Err(ReplayError::Outcome { .. }) => {}
            Err(wrong) => panic!("{place}: {wrong}\n{}", told.lines.join("\n")),
        }
        told.records
    }
}

impl Visitor for Walks<'_> {
    type Output = Vec<Record>;

    fn unsupported(self, _: &'static About) -> Vec<Record> {
        Vec::new()
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Vec<Record> {
        let budget = Budget {
            entries: Some(1_000),
            app_messages: APP_MESSAGES,
            timers: Some(1_000),
            faults: FAULTS,
            crashes: Crashes::Any,
            recovery: self.recovery(),
        };
        let properties = [Property::Safety, Property::Fence, Property::Order];
        let model = MutexModel::new(&group, self.order(), budget, &properties);
        let (group, same) = twice(group);
        self.go(about, &group, model, Stage::mutex(same))
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Vec<Record> {
        let times = Times { delay_max: 2, notice_max: 20, settled_after: 1_000 };
        let faults = if self.seed.is_multiple_of(4) { Faults { crash: 0, recover: Some(0), ..FAULTS } } else { FAULTS };
        let setting = Setting { times, faults, recovery: self.recovery(), survivors: group.survivors.clone() };
        let model = ElectionModel::new(&group, self.order(), setting, &[Property::Safety]);
        let (group, same) = twice(group);
        self.go(about, &group, model, Stage::election(same))
    }
}

/// The same group for the model and for the stage.
fn twice<P: Protocol>(group: Group<P>) -> (Group<P>, Group<P>) {
    let Group { clients, processes, make, source, .. } = group;
    let make = Arc::from(make);
    let share = |make: Arc<dyn Fn(usize) -> P + Send + Sync>| Group {
        source,
        ..Group::new(clients, processes, move |id| make(id))
    };
    (share(Arc::clone(&make)), share(make))
}

/// Number of messages that the records send and neither deliver nor lose. Messages to crashed processes are left out.
fn on_their_way<P: Protocol>(records: &[Record], stage: &Stage<P>) -> usize {
    let mut receivers = BTreeMap::new();
    for record in records {
        match record.event {
            Event::Send { msg, to, .. } | Event::AppSend { msg, to } => {
                receivers.insert(msg, to);
            }
            Event::Deliver { msg, .. } | Event::AppDeliver { msg, .. } | Event::Drop { msg, .. } => {
                receivers.remove(&msg);
            }
            _ => {}
        }
    }
    receivers.values().filter(|to| stage.is_up(**to)).count()
}

/// Takes random walks of all algorithms of a family. Returns how often each kind of event has happened.
fn walk_all(family: Family) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let in_views = |name: &str| Params { variant: Some(name.to_owned()), ..Params::new(3, 1) };
    for about in registry::ALGORITHMS.iter().filter(|about| about.family == family) {
        let has = |name: &str| about.broken.is_none() && about.variants.iter().any(|variant| variant.name == name);
        let views = has("views").then(|| in_views(if has("parked") { "parked+views" } else { "views" }));
        let seeds = (0..12).map(|seed| (seed, Params::new(3, 1)));
        for (seed, params) in
            seeds.chain(views.into_iter().flat_map(|params| (0..6).map(move |seed| (seed, params.clone()))))
        {
            let records = registry::visit(about.name, &params, Walks { params: &params, seed }).unwrap();
            records.iter().filter_map(|record| kind(&record.event)).for_each(|it| *counts.entry(it).or_default() += 1);
        }
    }
    counts
}

fn kind(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::Request { .. } => "request",
        Event::Deliver { .. } => "delivery",
        Event::Timer { .. } => "timer",
        Event::Crash => "crash",
        Event::Recover { memory: true } => "recovery",
        Event::Recover { memory: false } => "recovery without memory",
        Event::Drop { reason: DropReason::Crashed, .. } => "lost with a crash",
        Event::Drop { .. } => "lost",
        Event::Suspect { .. } => "suspicion",
        Event::Trust { .. } => "trust",
        _ => return None,
    })
}

fn assert_all_happens(counts: &BTreeMap<&'static str, usize>) {
    assert_eq!(counts.len(), 10, "something never happens: {counts:?}");
    assert!(counts.values().all(|&count| count >= 20), "something hardly ever happens: {counts:?}");
}

#[test]
fn a_model_of_mutual_exclusion_and_a_stage_can_do_the_same() {
    assert_all_happens(&walk_all(Family::Mutex));
}

#[test]
fn what_a_model_of_elections_does_a_stage_does_as_well() {
    assert_all_happens(&walk_all(Family::Election));
}
