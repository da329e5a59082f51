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

use crate::Property;
use crate::explore::{Found, Violation};
use crate::faults::{Faults, Occurrence, Recovery};
use crate::group::GroupModel;
use crate::network::{self, LinkOrder};
use crate::report::Reached;
use crate::story::Story;
use crate::system::{Action, Global, Local, Rules, State, Stimulus, System, User};

/// The user of a process: its detectors of the other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watcher<D: Detector> {
    /// By the id of the watched process. None for the process itself.
    watches: Vec<Option<Watch<D>>>,
    up: bool,
    /// Ticks since the process started, recovered or crashed. Does not count beyond the largest value that matters.
    since: Ticks,
    times: Times,
}

/// The detector of one other process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Watch<D> {
    detector: D,
    suspected: bool,
}

impl<D: Detector> Hash for Watcher<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.up, self.since).hash(state);
        self.watches.iter().flatten().for_each(|watch| (watch.detector.deadline(), watch.suspected).hash(state));
    }
}

/// The constant time on all clocks, and time limits, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    /// One tick after the deadline of a process that was last heard at 0. Anything that happened before 0 is overdue as
    /// well.
    now: Ticks,
    /// The time from a crash until every live process must suspect the process, if messages respect the bound on
    /// delays.
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
        // A process that is up from the start counts as up for long enough: its first wait begins at the start.
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

    /// Whether the detector must suspect this process now.
    fn is_due(&self, peer: ProcessId) -> bool {
        let due = |watch: &Watch<D>| !watch.suspected && watch.detector.suspects(self.times.now);
        self.watches[peer].as_ref().is_some_and(due)
    }

    fn suspects(&self, peer: ProcessId) -> bool {
        self.watches[peer].as_ref().is_some_and(|watch| watch.suspected)
    }
}

/// The user looks at its clock, and finds that this process is overdue.
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

/// The properties need nothing beyond the processes and the network.
type DetectorState = State<Global<()>>;

/// A group whose processes watch each other, with its properties.
pub struct DetectorModel<D: Detector> {
    system: System<Beater, Watcher<D>>,
    properties: Vec<Property>,
    times: Times,
    /// The longest real delay of a message.
    delay: Ticks,
}

type FoundHere<D> = Found<DetectorModel<D>>;

impl<D: Detector> DetectorModel<D> {
    /// `params` are those of `group`. A message takes up to `delay` ticks.
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
        // A recovered process needs no memory: it sends heartbeats, and its detectors start again.
        let recovery = Recovery { memory: &[false], after_reports: false };
        // Only the checked detectors report crashes.
        let rules = Rules { order, timed: true, crashed: None, faults, recovery, told: false, source: None };
        let system =
            System::new(&beaters, rules, |me, beater| Local::new(beater, None, None, Watcher::new(me, group, times)));
        DetectorModel { system, properties: properties.to_vec(), times, delay }
    }

    fn watcher(&self, state: &DetectorState, at: ProcessId) -> &Watcher<D> {
        &self.system.local(state.locals[at]).user
    }

    /// Each live process, paired with each other process.
    fn pairs(&self, state: &DetectorState) -> impl Iterator<Item = (ProcessId, ProcessId)> {
        let all = 0..self.system.processes();
        self.live(state.global.faults)
            .flat_map(move |at| all.clone().filter(move |&peer| peer != at).map(move |peer| (at, peer)))
    }

    fn looks(&self, state: &DetectorState, found: &mut FoundHere<D>) {
        for (at, peer) in self.pairs(state).filter(|&(at, peer)| self.watcher(state, at).is_due(peer)) {
            self.by_the_clock(state, Occurrence::new(at, Stimulus::Act(Look(peer))), found);
        }
    }

    /// The violation at the end of an instant, when everything that was due has happened.
    fn wrong_at_the_end_of(&self, state: &DetectorState) -> Option<Violation> {
        self.pairs(state).find_map(|(at, peer)| self.mistake(state, at, peer).or_else(|| self.missed(state, at, peer)))
    }

    /// SAFE: a process suspects a process that has been up for long enough to be heard.
    fn mistake(&self, state: &DetectorState, at: ProcessId, peer: ProcessId) -> Option<Violation> {
        let suspected = self.watcher(state, at).suspects(peer);
        let watched = self.watcher(state, peer);
        let wrong = suspected && watched.up && watched.since >= self.delay;
        let detail = || format!("P{at} suspects P{peer}, which is alive");
        (wrong && self.properties.contains(&Property::Safety))
            .then(|| Violation { property: Property::Safety, detail: detail() })
    }

    /// LIVE: a process does not suspect a process that has been down for too long, although it has itself been up for
    /// as long.
    fn missed(&self, state: &DetectorState, at: ProcessId, peer: ProcessId) -> Option<Violation> {
        let (watcher, watched) = (self.watcher(state, at), self.watcher(state, peer));
        let late = watched.since.min(watcher.since) > self.times.noticed_after;
        let wrong = !watched.up && late && !watcher.suspects(peer);
        let ticks = self.times.noticed_after;
        let detail = || format!("P{at} does not suspect P{peer}, which has been dead for more than {ticks} ticks");
        (wrong && self.properties.contains(&Property::Liveness))
            .then(|| Violation { property: Property::Liveness, detail: detail() })
    }
}

impl<D: Detector> GroupModel for DetectorModel<D> {
    type Protocol = Beater;
    type User = Watcher<D>;
    type Own = ();

    fn checks(&self, property: Property) -> bool {
        self.properties.contains(&property)
    }

    fn system(&self) -> &System<Beater, Watcher<D>> {
        &self.system
    }

    fn system_mut(&mut self) -> &mut System<Beater, Watcher<D>> {
        &mut self.system
    }

    fn own_at_start(&self) {}

    fn steps(&self, state: &DetectorState, found: &mut FoundHere<D>) {
        self.deliveries(state, found);
        if !network::is_overdue(&state.network, self.delay) {
            self.due_timers(state, found);
            self.looks(state, found);
            self.tick(state, found);
        }
    }

    fn judge_step(
        &self,
        _: &DetectorState,
        next: &mut DetectorState,
        event: &Occurrence<Look>,
        _: u32,
        reached: &mut Reached,
    ) -> Result<(), Violation> {
        match event.stimulus {
            Stimulus::Deliver { .. } => reached.entries += 1,
            Stimulus::Act(Look(peer)) => {
                reached.suspicions += u64::from(!next.global.faults.is_up(peer));
                return self.mistake(next, event.at, peer).map_or(Ok(()), Err);
            }
            _ => {}
        }
        Ok(())
    }

    fn is_due(&self, state: &DetectorState) -> bool {
        self.pairs(state).any(|(at, peer)| self.watcher(state, at).is_due(peer))
    }

    fn end_instant(&self, before: &DetectorState, _: &mut DetectorState) -> Result<(), Violation> {
        self.wrong_at_the_end_of(before).map_or(Ok(()), Err)
    }

    fn story(processes: usize) -> Story {
        Story::by_the_clock(processes)
    }

    fn tell(&self, story: &mut Story, state: Option<&DetectorState>, action: &Action<Look>) {
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

    /// A run in which heartbeats take as long as the network allows, which is much longer than the detectors expect.
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
