//! Runs the fast world of the simulator under faults, and repeats its trace on a stage. Both must end in the same
//! state.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

use baton_protocol::append::Append;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Family, Visitor};
use baton_protocol::{Group, Protocol, Ticks};
use baton_trace::{DropReason, Event, Header, Record, Recorder, Unit};

use super::repeat::{Aim, Elects, Repeat};
use crate::app::Application;
use crate::app::append::AppendUsers;
use crate::app::election::{ElectionTrigger, ElectionUsers};
use crate::app::mutex::{MutexUsers, Patience};
use crate::clocks::Clocks;
use crate::detector::Delays;
use crate::faults::Fault;
use crate::network::Delay;
use crate::run::Options;
use crate::stage::Stage;
use crate::swarm;
use crate::world::{Setup, World};

/// A trace in memory. The test reads it while its writer still exists.
#[derive(Clone, Default)]
struct Buffer(Rc<RefCell<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One run in the world and on a stage.
struct Beside<'o> {
    options: &'o Options,
}

impl Beside<'_> {
    fn go<P: Protocol, A: Application<P>>(
        &self,
        about: &'static About,
        group: Group<P>,
        users: A,
        aim: Aim,
        stage: Stage<P>,
    ) -> Vec<Record> {
        let (options, buffer) = (self.options, Buffer::default());
        let header = Header::new(about, &options.params, group.processes, &group.topology, Unit::T);
        let setup = Setup {
            network: options.network.clone(),
            faults: options.faults.clone(),
            detection: Some(Delays { least: 2 * options.params.delay_max, spread: 0 }),
            clocks: Clocks::drawn(group.processes, options.drift, options.seed),
            seed: options.seed,
            recorder: Some(Recorder::begin(Box::new(buffer.clone()) as _, &header, group.processes).unwrap()),
            causality: false,
        };
        let mut world = World::new(group, users, setup);
        // Some runs end in the middle of the faults.
        world.run(60 + 60 * options.seed, None, None);
        let (_, wire, processes) = world.into_parts();
        let (_, records) = baton_trace::read(buffer.0.borrow().as_slice()).unwrap();

        let place = format!("{}, seed {}", about.name, options.seed);
        // The stage itself must lose the messages that a crash loses.
        let with_a_crash = |record: &&Record| matches!(record.event, Event::Drop { reason: DropReason::Crashed, .. });
        let untold: Vec<Record> = records.iter().filter(|record| !with_a_crash(record)).cloned().collect();
        let with_data = matches!(aim, Aim::Append);
        let mut repeat = Repeat::new(stage, options.network.fifo, &untold, aim);
        repeat.play(None).unwrap_or_else(|error| panic!("{place}: {error}"));
        for record in records.iter().filter(with_a_crash) {
            let Event::Drop { msg, .. } = record.event else { continue };
            assert!(!repeat.is_on_its_way(msg), "{place}: message {msg} should be lost by record {}", record.seq);
        }
        let stage = repeat.stage();
        let views = |processes: &[P]| processes.iter().map(P::view).collect::<Vec<_>>();
        assert_eq!(views(stage.processes()), views(&processes), "{place}");
        // A trace does not have the data of a record.
        assert!(with_data || stage.processes() == processes, "{place}");
        let timers: BTreeSet<_> = stage.timers().map(|(process, timer, _)| (process, timer)).collect();
        assert_eq!(timers, wire.running_timers().collect(), "{place}: timers");
        for process in 0..processes.len() {
            assert_eq!(stage.is_up(process), wire.is_up(process), "{place}: whether P{process} is up");
            assert_eq!(stage.is_catching_up(process), !wire.is_ready(process), "{place}: whether P{process} is ready");
        }
        records
    }
}

impl Visitor for Beside<'_> {
    type Output = Vec<Record>;

    fn unsupported(self, about: &'static About) -> Vec<Record> {
        panic!("no trace of {} can be repeated", about.name)
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Vec<Record> {
        let patience = Patience { faults_over: Ticks::MAX, lasts: Ticks::MAX };
        let users = MutexUsers::new(group.clients, self.options.workload.clone(), patience, false, self.options.seed);
        let (group, same) = twice(group);
        self.go(about, group, users, Aim::Lock, Stage::mutex(same))
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Vec<Record> {
        let over = self.options.faults.iter().map(Fault::over).max().unwrap_or_default();
        let trigger = ElectionTrigger::Faults { over };
        let patience = 1_000 * self.options.params.delay_max;
        let users = ElectionUsers::new(group.clients, group.elects, trigger, patience, self.options.seed);
        let aim = Aim::Lead(Elects { rule: group.elects, survivors: group.survivors.clone() });
        let (group, same) = twice(group);
        self.go(about, group, users, aim, Stage::election(same))
    }

    fn append<P: Append>(self, about: &'static About, group: Group<P>) -> Vec<Record> {
        let users = AppendUsers::new(group.clients, self.options.workload.clone(), Ticks::MAX, self.options.seed);
        let (group, same) = twice(group);
        self.go(about, group, users, Aim::Append, Stage::append(same))
    }
}

/// The same group for the world and for the stage.
fn twice<P: Protocol>(group: Group<P>) -> (Group<P>, Group<P>) {
    let Group { clients, processes, make, .. } = group;
    let make = Arc::from(make);
    let share = |make: Arc<dyn Fn(usize) -> P + Send + Sync>| Group::new(clients, processes, move |id| make(id));
    (share(Arc::clone(&make)), share(make))
}

/// A short run, with the faults that the seed draws.
fn rough(about: &About, seed: u64) -> Options {
    let mut options = Options::new(about.name, 3 + seed as usize % 3);
    options.seed = seed;
    options.ignore_assumptions = true;
    options.network.delay = if seed.is_multiple_of(2) { Delay::Uniform(0.1, 2.0) } else { Delay::Exponential(1.0) };
    options.network.fifo = seed % 4 < 2;
    options.workload.entries = 40;
    options.workload.app_messages = about.family == Family::Mutex;
    swarm::draw(&options).unwrap()
}

/// Counts the events of each kind.
fn count(records: &[Record], counts: &mut BTreeMap<&'static str, usize>) {
    let mut arrived = BTreeSet::new();
    for record in records {
        let what = match record.event {
            Event::Deliver { msg, .. } if !arrived.insert(msg) => "arrives again",
            Event::AppDeliver { .. } => "application",
            Event::Timer { .. } => "timer",
            Event::Crash => "crash",
            Event::Recover { memory: true } => "recovery",
            Event::Recover { memory: false } => "recovery without memory",
            Event::Drop { reason: DropReason::Crashed, .. } => "lost with a crash",
            Event::Drop { reason: DropReason::Loss, .. } => "lost",
            Event::Drop { reason: DropReason::Partition, .. } => "cut off",
            Event::Suspect { .. } => "suspicion",
            Event::Trust { .. } => "trust",
            Event::Choice { .. } => "choice",
            Event::Appended { .. } => "append",
            _ => continue,
        };
        *counts.entry(what).or_default() += 1;
    }
}

#[test]
fn what_the_fast_world_does_a_stage_does_as_well() {
    let mut counts = BTreeMap::new();
    for about in registry::ALGORITHMS.iter().filter(|about| about.family != Family::Detector) {
        for seed in 0..24 {
            let options = rough(about, seed);
            let records = registry::visit(about.name, &options.params, Beside { options: &options }).unwrap();
            count(&records, &mut counts);
        }
    }
    assert_eq!(counts.len(), 13, "something never happens: {counts:?}");
    assert!(counts.values().all(|&count| count >= 50), "something hardly ever happens: {counts:?}");
}
