//! The model of failure detection by heartbeats, in discrete time: all processes send heartbeats and watch each other,
//! for ever.
//!
//! Time works as in elections: a message takes 1 to D ticks, and at each instant deliveries come first, then heartbeats
//! and checks of deadlines. The clock itself stands still. Instead, the times that detectors remember move into the
//! past, as far as they matter. So the states are finitely many, although heartbeats never stop.
//!
//! SAFE is accuracy: no live process is suspected, except a process that has just recovered, until its first heartbeat
//! must have arrived. LIVE is completeness: a process that has been down for more than P + 2D ticks is suspected by
//! every process that has been up for as long. LIVE is checked at the end of every instant, so the suspicion must also
//! last.

use std::hash::{Hash, Hasher};

use baton_protocol::clock::VectorClock;
use baton_protocol::detector::{Beater, Detector, Heard, heartbeat};
use baton_protocol::registry::Params;
use baton_protocol::{Group, Input, ProcessId, Ticks};
use baton_trace::DropReason;
use serde::{Deserialize, Serialize};

use crate::Property;
use crate::explore::{Found, Model, Successor, Violation};
use crate::faults::{self, DetectorReports, Faults, FaultsLeft, Faulty, Occurrence, Recovery, Tally};
use crate::network::{self, Flight, LinkOrder};
use crate::recount::GroupModel;
use crate::story::Story;
use crate::system::{Action, Gap, Local, Rules, State, Stimulus, System, User};

/// The user of a process: what it thinks of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Watcher<D: Detector> {
    /// By the watched; of itself it thinks nothing.
    watches: Vec<Option<Watch<D>>>,
    up: bool,
    /// For how many ticks it has been up, or down; counts no further than it matters.
    since: Ticks,
    times: Times,
}

/// What it thinks of one of them.
#[derive(Clone, Debug, PartialEq)]
struct Watch<D> {
    detector: D,
    suspected: bool,
}

// A detector that can recede remembers moments alone, and moments are equal to themselves.
impl<D: Detector> Eq for Watcher<D> {}

impl<D: Detector> Hash for Watcher<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.up, self.since).hash(state);
        self.watches.iter().flatten().for_each(|watch| (watch.detector.deadline(), watch.suspected).hash(state));
    }
}

/// What everybody's clock shows, always, and how long things may take, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    /// One tick after the deadline of who was last heard of at 0: what is longer ago is overdue all the same.
    now: Ticks,
    /// How long after a crash everybody must have noticed it, if messages take no longer than the processes believe.
    noticed_after: Ticks,
}

impl Times {
    fn new<D: Detector>(group: &Group<D>, params: &Params) -> Self {
        let mut detector = (group.make)(0);
        detector.watch(0);
        let noticed_after = heartbeat::noticed_after(detector.period(), params);
        Times { now: detector.deadline().saturating_add(1), noticed_after }
    }
}

impl<D: Detector> Watcher<D> {
    fn new(me: ProcessId, group: &Group<D>, times: Times) -> Self {
        let watch = |peer| (peer != me).then(|| Watch { detector: (group.make)(peer), suspected: false });
        let watches = (0..group.processes).map(watch).collect();
        // Who is there from the start has no excuse: the first wait begins with it.
        let mut watcher = Watcher { watches, up: true, since: times.noticed_after + 1, times };
        watcher.watch_anew();
        watcher
    }

    fn watch_anew(&mut self) {
        for watch in self.watches.iter_mut().flatten() {
            watch.detector.watch(self.times.now);
            watch.suspected = false;
        }
    }

    /// Whether it is time to suspect this process.
    fn is_due(&self, peer: ProcessId) -> bool {
        let due = |watch: &Watch<D>| !watch.suspected && watch.detector.suspects(self.times.now);
        self.watches[peer].as_ref().is_some_and(due)
    }

    fn suspects(&self, peer: ProcessId) -> bool {
        self.watches[peer].as_ref().is_some_and(|watch| watch.suspected)
    }
}

/// It looks at its clock, and this process has been silent for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look(ProcessId);

impl<D: Detector> User<Beater> for Watcher<D> {
    type Act = Look;

    fn act(&mut self, _: ProcessId, Look(peer): Look, _: Option<&mut VectorClock>) -> Input<Beater> {
        self.watches[peer].iter_mut().for_each(|watch| watch.suspected = true);
        Input::Suspect(peer)
    }

    fn hear(&mut self, Heard(peer): &Heard) {
        if let Some(watch) = &mut self.watches[*peer] {
            watch.detector.beat(self.times.now);
            watch.suspected = false;
        }
    }

    fn crash(&mut self) {
        (self.up, self.since) = (false, 0);
        self.watch_anew();
    }

    fn recover(&mut self) {
        (self.up, self.since) = (true, 0);
    }

    fn tick(&mut self) {
        self.since = (self.since + 1).min(self.times.noticed_after + 1);
        if self.up {
            self.watches.iter_mut().flatten().for_each(|watch| _ = watch.detector.recede(1));
        }
    }

    fn tell_act(story: &mut Story, at: ProcessId, Look(peer): Look) {
        story.suspect(at, peer, false);
    }

    fn tell_event(_: &mut Story, _: ProcessId, _: &Heard) {}
}

/// What the properties need beyond the processes and the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Global {
    /// Somebody has beaten or looked at this instant, so what has not arrived by now arrives later.
    timers_turn: bool,
    faults: FaultsLeft,
}

/// A group that watches each other, with what is asked of it.
pub struct DetectorModel<D: Detector> {
    system: System<Beater, Watcher<D>>,
    properties: Vec<Property>,
    times: Times,
    /// How many ticks a message may really take.
    delay: Ticks,
    faults: Faults,
}

type FoundHere<D> = Found<DetectorModel<D>>;

impl<D: Detector> DetectorModel<D> {
    /// `group`, made with `params`, on a network that takes up to `delay` ticks.
    pub fn new(
        group: &Group<D>,
        order: LinkOrder,
        params: &Params,
        delay: Ticks,
        faults: Faults,
        properties: &[Property],
    ) -> Self {
        let (n, period, times) = (group.processes, (group.make)(0).period(), Times::new(group, params));
        let beaters = Group::new(n, n, move |me| Beater::new(me, n, period));
        let rules = Rules { order, timed: true, crashed: None };
        let system =
            System::new(&beaters, rules, |me, beater| Local::new(beater, None, None, Watcher::new(me, group, times)));
        DetectorModel { system, properties: properties.to_vec(), times, delay, faults }
    }

    fn start(&self, found: &mut FoundHere<D>) {
        for begun in self.system.starts(&mut found.gaps) {
            let global = Global { timers_turn: false, faults: self.faults.into() };
            let locals = begun.outcomes.iter().map(|&outcome| self.system.outcome(outcome).local).collect();
            let next = Ok(State { locals, network: begun.network, global });
            found.successors.push(Successor { action: Action::Start(begun.outcomes.into()), next });
        }
    }

    fn watcher(&self, state: &State<Global>, at: ProcessId) -> &Watcher<D> {
        &self.system.local(state.locals[at]).user
    }

    fn live(&self, state: &State<Global>) -> impl Iterator<Item = ProcessId> {
        let faults = state.global.faults;
        (0..self.system.processes()).filter(move |&at| faults.is_up(at))
    }

    /// Everybody who lives, with everybody else.
    fn pairs(&self, state: &State<Global>) -> impl Iterator<Item = (ProcessId, ProcessId)> {
        let all = 0..self.system.processes();
        self.live(state).flat_map(move |at| all.clone().filter(move |&peer| peer != at).map(move |peer| (at, peer)))
    }

    fn deliveries(&self, state: &State<Global>, found: &mut FoundHere<D>) {
        for (place, flight) in self.arrivals(state) {
            if state.global.faults.is_up(flight.receiver()) {
                self.step(state, Occurrence::arrival(place, flight, false), state.global, found);
            }
        }
    }

    fn is_beat_due(&self, state: &State<Global>, at: ProcessId) -> bool {
        self.system.local(state.locals[at]).timers.iter().any(|(_, left)| *left == 0)
    }

    fn beats_and_looks(&self, state: &State<Global>, found: &mut FoundHere<D>) {
        let global = Global { timers_turn: true, ..state.global };
        for at in self.live(state).filter(|&at| self.is_beat_due(state, at)) {
            self.step(state, Occurrence::new(at, Stimulus::Timer(0)), global, found);
        }
        for (at, peer) in self.pairs(state).filter(|&(at, peer)| self.watcher(state, at).is_due(peer)) {
            self.step(state, Occurrence::new(at, Stimulus::Act(Look(peer))), global, found);
        }
    }

    fn tick(&self, state: &State<Global>, found: &mut FoundHere<D>) {
        let look_is_due = |(at, peer)| self.watcher(state, at).is_due(peer);
        if self.live(state).any(|at| self.is_beat_due(state, at)) || self.pairs(state).any(look_is_due) {
            return;
        }
        let mut next = state.clone();
        network::age(&mut next.network);
        for at in 0..self.system.processes() {
            let outcomes = self.system.react(at as u8, state.locals[at], Stimulus::Tick, &mut found.gaps);
            outcomes.into_iter().for_each(|outcome| next.locals[at] = self.system.outcome(outcome).local);
        }
        next.global.timers_turn = false;
        let next = self.wrong_at_the_end_of(state).map_or(Ok(next), Err);
        found.successors.push(Successor { action: Action::Tick, next });
    }

    /// What is wrong when everything has been done that was to be done at an instant.
    fn wrong_at_the_end_of(&self, state: &State<Global>) -> Option<Violation> {
        self.pairs(state).find_map(|(at, peer)| self.mistake(state, at, peer).or_else(|| self.missed(state, at, peer)))
    }

    /// A process suspects one who lives, and has lived for long enough to be heard.
    fn mistake(&self, state: &State<Global>, at: ProcessId, peer: ProcessId) -> Option<Violation> {
        let suspected = self.watcher(state, at).suspects(peer);
        let watched = self.watcher(state, peer);
        let wrong = suspected && watched.up && watched.since >= self.delay;
        let detail = || format!("P{at} suspects P{peer}, which is alive");
        (wrong && self.properties.contains(&Property::Safety))
            .then(|| Violation { property: Property::Safety, detail: detail() })
    }

    /// A process does not suspect one who has been dead for too long; it has itself been up for as long.
    fn missed(&self, state: &State<Global>, at: ProcessId, peer: ProcessId) -> Option<Violation> {
        let (watcher, watched) = (self.watcher(state, at), self.watcher(state, peer));
        let late = watched.since.min(watcher.since) > self.times.noticed_after;
        let wrong = !watched.up && late && !watcher.suspects(peer);
        let ticks = self.times.noticed_after;
        let detail = || format!("P{at} does not suspect P{peer}, which has been dead for more than {ticks} ticks");
        (wrong && self.properties.contains(&Property::Liveness))
            .then(|| Violation { property: Property::Liveness, detail: detail() })
    }
}

impl<D: Detector> Model for DetectorModel<D> {
    type State = State<Global>;
    type Action = Action<Look>;
    type Gap = Gap<Look>;

    fn expand(&self, state: Option<&State<Global>>, found: &mut FoundHere<D>) {
        let Some(state) = state else { return self.start(found) };
        self.deliveries(state, found);
        if !network::is_overdue(&state.network, self.delay) {
            self.beats_and_looks(state, found);
            self.tick(state, found);
        }
        faults::faults(self, state, found);
    }

    fn learn(&mut self, gap: Gap<Look>) {
        self.system.learn(gap);
    }

    fn is_too_wide(&self) -> bool {
        self.system.too_wide
    }
}

impl<D: Detector> Faulty for DetectorModel<D> {
    type Global = Global;
    type Act = Look;

    fn budget(&self) -> Faults {
        self.faults
    }

    /// There is nothing worth remembering: who comes back beats, and watches anew.
    fn recovery(&self) -> Recovery {
        Recovery { memory: &[false], after_news: false }
    }

    fn left(global: &Global) -> FaultsLeft {
        global.faults
    }

    fn after(global: &Global, faults: FaultsLeft) -> Global {
        Global { faults, ..*global }
    }

    fn may_crash(&self, _: ProcessId) -> bool {
        true
    }

    fn may_err(&self, _: ProcessId) -> bool {
        false
    }

    /// Nobody tells anybody of crashes but the detectors that are checked here.
    fn news(&self, state: &State<Global>, _: ProcessId) -> DetectorReports {
        state.global.faults.all_told()
    }

    /// What has been on its way for a tick, unless beats and looks have had their turn at this instant.
    fn arrivals(&self, state: &State<Global>) -> Vec<(usize, Flight)> {
        if state.global.timers_turn {
            Vec::new()
        } else {
            network::arriving(&state.network, self.system.rules.order).collect()
        }
    }

    fn step(&self, state: &State<Global>, event: Occurrence<Look>, global: Global, found: &mut FoundHere<D>) {
        let (at, copied) = (event.at, event.copied());
        let stimulus = match event.stimulus {
            // Nobody tells it anything, so nobody has to remember what it has been told.
            Stimulus::Recover { memory, .. } => Stimulus::Recover { told: Tally::default(), memory },
            stimulus => stimulus,
        };
        for outcome in self.system.react(at as u8, state.locals[at], stimulus, &mut found.gaps) {
            let next = state.after(&self.system, at as u8, outcome, event.arrived, global);
            let mut wrong = None;
            match stimulus {
                Stimulus::Deliver { .. } => found.reached.entries += 1,
                Stimulus::Act(Look(peer)) => {
                    found.reached.suspicions += u64::from(!global.faults.is_up(peer));
                    wrong = self.mistake(&next, at, peer);
                }
                _ => {}
            }
            let action = Action::Step { at: at as u8, stimulus, outcome, copied };
            found.successors.push(Successor { action, next: wrong.map_or(Ok(next), Err) });
        }
    }

    fn lose(&self, state: &State<Global>, place: usize, reason: DropReason, global: Global, found: &mut FoundHere<D>) {
        let action = Action::Lost { flight: state.network[place], reason };
        found.successors.push(Successor { action, next: Ok(state.without(place, global)) });
    }
}

impl<D: Detector> GroupModel for DetectorModel<D> {
    fn story(processes: usize) -> Story {
        Story::by_the_clock(processes)
    }

    fn tell(&self, story: &mut Story, state: Option<&State<Global>>, action: &Action<Look>) {
        story.tell(&self.system, state.map_or(&[], |state| &state.locals), action);
        if let (Some(state), &Action::Step { at, stimulus: Stimulus::Deliver { from, .. }, .. }) = (state, action) {
            let (at, from) = (usize::from(at), usize::from(from));
            if self.watcher(state, at).suspects(from) {
                story.trusts_again(at, from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_trace::Event;

    use super::*;
    use crate::explore::expand;

    /// A run in which beats take as long as they may, which is much longer than anybody expects.
    #[test]
    fn who_was_suspected_is_trusted_again_with_its_next_beat() {
        let params = Params { variant: Some("period:1".into()), ..Params::new(2, 1) };
        let group = heartbeat::group(&params).unwrap();
        let mut model =
            DetectorModel::new(&group, LinkOrder::Unordered, &params, 9, Faults::NONE, &[Property::Liveness]);
        let is_delivery =
            |action: &Action<Look>| matches!(action, Action::Step { stimulus: Stimulus::Deliver { .. }, .. });
        let (mut story, mut state) = (Story::new(2), None);
        for _ in 0..60 {
            let successors = expand(&mut model, state.as_ref()).successors;
            let next = successors.into_iter().min_by_key(|next| is_delivery(&next.action)).unwrap();
            model.tell(&mut story, state.as_ref(), &next.action);
            state = next.next.ok();
        }
        let told = story.end(&Violation { property: Property::Liveness, detail: String::new() });
        let lines = told.lines.join("\n");
        assert!(lines.contains("P0 suspects P1") && lines.contains("P1 -> P0 BEAT; P0 trusts P1 again"), "{lines}");
        let traced = |event: fn(&Event) -> bool| told.records.iter().filter(|record| event(&record.event)).count();
        let suspicions = traced(|event| matches!(event, Event::Suspect { .. }));
        let trusts = traced(|event| matches!(event, Event::Trust { .. }));
        assert!(trusts > 0 && suspicions >= trusts, "{lines}");
        assert_eq!(trusts, lines.matches("trusts").count(), "{lines}");
    }
}
