//! The simulated world: processes, a network and virtual time. It works for any protocol and any [users](Application).

mod wire;

use std::sync::atomic::{AtomicBool, Ordering};

use baton_protocol::{Choices, Group, Input, Message, Outbox, Output, ProcessId, Protocol, Start, Ticks};
use baton_trace::{Event, Recorder, Writer};
use rustc_hash::FxHashMap;

use crate::app::Application;
use crate::clocks::Clocks;
use crate::detector::{Delays, Detector};
use crate::faults::{Cut, Fault, FaultKind};
use crate::metrics::Messages;
use crate::network::{Links, Network};
use crate::oracle::causality::{Causality, Past};
use crate::progress::{Done, Watch};
use crate::queue::{Class, Queue};

/// A group of processes, their users, the network, and the virtual time.
pub struct World<P: Protocol, A: Application<P>> {
    processes: Vec<P>,
    make: Box<dyn Fn(ProcessId) -> P + Send + Sync>,
    out: Outbox<P>,
    app: A,
    wire: Wire<P, A::Plan>,
    /// Events for paused processes, in the order in which they were due.
    held_back: Vec<(ProcessId, Scheduled<P, A::Plan>)>,
}

/// Writes the trace of a run.
pub type TraceRecorder = Recorder<Writer<Box<dyn std::io::Write>>>;

pub struct Setup {
    pub network: Network,
    pub faults: Vec<Fault>,
    /// How long after a crash, a recovery, a partition or its healing the other processes learn of it. None: never.
    pub detection: Option<Delays>,
    /// The local clock of each process.
    pub clocks: Clocks,
    /// The seed of all random numbers.
    pub seed: u64,
    pub recorder: Option<TraceRecorder>,
    /// Whether to track happened-before, which the ORDER oracle needs.
    pub causality: bool,
}

/// Everything in a world except its processes and users: time, network, counters, planned events.
pub struct Wire<P: Protocol, X> {
    now: Ticks,
    queue: Queue<Scheduled<P, X>>,
    links: Links,
    rng: fastrand::Rng,
    status: Vec<Status>,
    /// For each process, the number of the first message sent since its last recovery. Messages to or from the process
    /// with a lower number belong to its earlier incarnation and are dropped.
    born: Vec<u64>,
    /// Processes that have recovered and are not [ready](Protocol::is_ready) yet.
    catching_up: Vec<ProcessId>,
    /// The number of the current setting of each running timer. When an older setting is due, it does nothing.
    timers: FxHashMap<(ProcessId, P::Timer), u64>,
    settings: u64,
    cut: Vec<Cut>,
    detector: Detector,
    clocks: Clocks,
    sent: u64,
    deliveries: u64,
    in_flight: u64,
    last_arrival: Ticks,
    messages: Messages,
    causality: Option<Causality>,
    recorder: Option<TraceRecorder>,
    demands: Vec<Demand<P>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Up,
    Paused,
    Down,
}

enum Scheduled<P: Protocol, X> {
    Deliver(Envelope<P::Message>),
    AppDeliver(Envelope<Option<u64>>),
    Timer { process: ProcessId, timer: P::Timer, setting: u64 },
    Plan { process: ProcessId, plan: X },
    Suspect { process: ProcessId, peer: ProcessId },
    Trust { process: ProcessId, peer: ProcessId },
    Fault(FaultKind),
    Resume(ProcessId),
    Heal(Cut),
}

struct Envelope<M> {
    id: u64,
    from: u32,
    to: u32,
    past: Option<Past>,
    content: M,
}

/// An action that a user wants at once. The world carries it out after the step that caused it.
enum Demand<P: Protocol> {
    Command { process: ProcessId, command: P::Command, class: Class },
    AppSend { from: ProcessId, to: ProcessId },
    Suspect { process: ProcessId, peer: ProcessId },
}

/// Number of events between two reports to the watcher: a fraction of a second.
const WATCH_EVERY: u64 = 1 << 16;

/// Number of events between two looks at the caller's wish to stop.
const STOP_EVERY: u64 = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The users have finished.
    Finished,
    /// No event is left in the queue.
    Quiet,
    /// The run reached `events_max`.
    Limit,
}

impl<P: Protocol, A: Application<P>> World<P, A> {
    pub fn new(group: Group<P>, app: A, setup: Setup) -> Self {
        let processes: Vec<P> = (0..group.processes).map(&group.make).collect();
        let mut seeds = fastrand::Rng::with_seed(setup.seed);
        let mut wire = Wire {
            now: 0,
            queue: Queue::default(),
            links: Links::new(setup.network, seeds.u64(..)),
            rng: seeds.fork(),
            status: vec![Status::Up; processes.len()],
            born: vec![0; processes.len()],
            catching_up: Vec::new(),
            timers: FxHashMap::default(),
            settings: 0,
            cut: Vec::new(),
            detector: Detector::new(setup.detection, setup.seed, group.source),
            clocks: setup.clocks,
            sent: 0,
            deliveries: 0,
            in_flight: 0,
            last_arrival: 0,
            messages: Messages::default(),
            causality: setup.causality.then(|| Causality::new(group.processes, group.clients)),
            recorder: setup.recorder,
            demands: Vec::new(),
        };
        for fault in setup.faults {
            wire.queue.insert(fault.at, Class::Fault, Scheduled::Fault(fault.kind));
        }
        World {
            processes,
            make: group.make,
            out: Outbox::new(Choices::seeded(seeds.u64(..))),
            app,
            wire,
            held_back: Vec::new(),
        }
    }

    /// Runs until the users have finished, no event is left, or `events_max` events have happened. Reports its progress
    /// to `watch` from time to time. Soon after `stop` is set, it ends and returns None.
    pub fn run(&mut self, events_max: u64, watch: Option<&Watch>, stop: Option<&AtomicBool>) -> Option<Ended> {
        for process in 0..self.processes.len() {
            self.step(process, Input::Start(Start::Fresh));
        }
        self.app.start(&mut self.wire);
        for events in 0..events_max {
            if events % WATCH_EVERY == 0
                && let Some(Watch(watch)) = watch
            {
                watch(self.app.progress().map_or(Done::Events(events), Done::Part));
            }
            if events % STOP_EVERY == 0 && stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return None;
            }
            self.meet_demands();
            if self.app.finished(&self.wire) {
                return Some(Ended::Finished);
            }
            let Some((now, event)) = self.wire.queue.pop() else { return Some(Ended::Quiet) };
            self.wire.now = now;
            self.happen(event);
        }
        // What the last event made users ask for is in the trace already, so it has to happen, too.
        self.meet_demands();
        Some(Ended::Limit)
    }

    pub fn into_parts(self) -> (A, Wire<P, A::Plan>, Vec<P>) {
        (self.app, self.wire, self.processes)
    }

    fn happen(&mut self, event: Scheduled<P, A::Plan>) {
        let Some(process) = event.process() else { return self.strike(event) };
        match self.wire.status[process] {
            Status::Up => self.happen_at(process, event),
            Status::Paused => self.held_back.push((process, event)),
            Status::Down => self.wire.miss(process, &event),
        }
    }

    fn happen_at(&mut self, process: ProcessId, event: Scheduled<P, A::Plan>) {
        match event {
            Scheduled::Deliver(envelope) => {
                if self.wire.arrive(&envelope, |envelope| Event::Deliver {
                    msg: envelope.id,
                    from: envelope.from as usize,
                    kind: envelope.content.kind().into(),
                }) {
                    self.wire.deliveries += 1;
                    self.wire.messages.count_at(process);
                    let from = envelope.from as ProcessId;
                    self.step(process, Input::Message { from, message: envelope.content });
                }
            }
            Scheduled::AppDeliver(envelope) => {
                if self
                    .wire
                    .arrive(&envelope, |envelope| Event::AppDeliver { msg: envelope.id, from: envelope.from as usize })
                {
                    if let Some(stamp) = envelope.content {
                        self.step(process, Input::AppReceive(stamp));
                    }
                    self.app.app_message(process, &mut self.wire);
                }
            }
            Scheduled::Timer { timer, setting, .. } => {
                if self.wire.timers.get(&(process, timer)) == Some(&setting) {
                    self.wire.timers.remove(&(process, timer));
                    self.wire.trace(process, || Event::Timer { name: format!("{timer:?}") });
                    self.step(process, Input::Timer(timer));
                }
            }
            Scheduled::Plan { plan, .. } => self.app.carry_out(process, plan, &mut self.wire),
            Scheduled::Suspect { peer, .. } => {
                self.wire.trace(process, || Event::Suspect { peer });
                self.step(process, Input::Suspect(peer));
            }
            Scheduled::Trust { peer, .. } => {
                self.wire.trace(process, || Event::Trust { peer });
                self.step(process, Input::Trust(peer));
            }
            Scheduled::Fault(_) | Scheduled::Resume(_) | Scheduled::Heal(_) => {}
        }
    }

    /// Begins or ends a fault.
    fn strike(&mut self, event: Scheduled<P, A::Plan>) {
        if let Scheduled::Fault(_) = event {
            self.app.struck(&mut self.wire);
        }
        match event {
            Scheduled::Fault(FaultKind::Crash(process)) => self.crash(process),
            Scheduled::Fault(FaultKind::Recover { process, memory }) => self.recover(process, memory),
            Scheduled::Fault(FaultKind::Pause { process, lasts }) => self.wire.pause(process, lasts),
            Scheduled::Fault(FaultKind::Partition { groups, lasts }) => self.wire.cut(Cut::Groups(groups), lasts),
            Scheduled::Fault(FaultKind::OneWay { from, to, lasts }) => self.wire.cut(Cut::OneWay(from, to), lasts),
            Scheduled::Resume(process) => self.resume(process),
            Scheduled::Heal(cut) => self.wire.heal(&cut),
            _ => {}
        }
    }

    fn crash(&mut self, process: ProcessId) {
        if self.wire.status[process] == Status::Down {
            return;
        }
        self.wire.status[process] = Status::Down;
        self.wire.timers.retain(|(owner, _), _| *owner != process);
        self.wire.catching_up.retain(|other| *other != process);
        self.wire.trace(process, || Event::Crash);
        for (_, event) in self.held_back.extract_if(.., |(paused, _)| *paused == process) {
            self.wire.miss(process, &event);
        }
        self.wire.look(0..self.processes.len(), process..process + 1);
        self.app.crashed(process, &mut self.wire);
    }

    fn recover(&mut self, process: ProcessId, memory: bool) {
        if self.wire.status[process] != Status::Down {
            return;
        }
        if !memory {
            self.processes[process].forget((self.make)(process));
        }
        self.wire.born[process] = self.wire.sent;
        self.wire.status[process] = Status::Up;
        self.wire.trace(process, || Event::Recover { memory });
        self.wire.detector.forget(process);
        self.wire.look(0..self.processes.len(), process..process + 1);
        self.wire.look(process..process + 1, 0..self.processes.len());
        self.step(process, Input::Start(Start::Recovered));
        if !self.processes[process].is_ready() {
            self.wire.catching_up.push(process);
        }
        self.app.recovered(process, &mut self.wire);
    }

    fn resume(&mut self, process: ProcessId) {
        if self.wire.status[process] != Status::Paused {
            return;
        }
        self.wire.status[process] = Status::Up;
        self.wire.trace(process, || Event::Resume);
        let missed: Vec<_> = self.held_back.extract_if(.., |(paused, _)| *paused == process).collect();
        for (_, event) in missed {
            self.happen(event);
            self.meet_demands();
        }
    }

    fn meet_demands(&mut self) {
        while !self.wire.demands.is_empty() {
            for demand in std::mem::take(&mut self.wire.demands) {
                match demand {
                    Demand::Command { process, command, class } => {
                        let before = self.wire.messages.sent;
                        self.step(process, Input::Command(command));
                        if class == Class::Exit {
                            self.wire.messages.on_exit += self.wire.messages.sent - before;
                        }
                    }
                    Demand::AppSend { from, to } => self.app_send(from, to),
                    Demand::Suspect { process, peer } => {
                        self.happen(Scheduled::Suspect { process, peer });
                    }
                }
            }
        }
    }

    fn app_send(&mut self, from: ProcessId, to: ProcessId) {
        self.processes[from].step(Input::AppSend, &mut self.out);
        let stamp = self.out.drain().find_map(|output| match output {
            Output::Stamp(stamp) => Some(stamp),
            _ => None,
        });
        self.wire.send_app(from, to, stamp);
    }

    fn step(&mut self, process: ProcessId, input: Input<P>) {
        self.processes[process].step(input, &mut self.out);
        for choice in self.out.choices().take_made() {
            self.wire.trace(process, || Event::Choice { of: choice.of, chosen: choice.chosen });
        }
        let mut kind = "";
        for output in self.out.drain() {
            match output {
                Output::Send { to, message } => {
                    if message.kind() != kind {
                        kind = message.kind();
                        self.wire.messages.multicasts += 1;
                    }
                    self.wire.send(process, to, message);
                }
                Output::SetTimer { timer, after } => {
                    let after = self.wire.rng.u64(after);
                    self.wire.set_timer(process, timer, after);
                }
                Output::CancelTimer(timer) => {
                    self.wire.timers.remove(&(process, timer));
                }
                Output::Event(event) => self.app.event(process, event, &mut self.wire),
                Output::Stamp(_) => {}
            }
        }
        self.judge_invariant(process);
        if !self.wire.is_ready(process) && self.processes[process].is_ready() {
            self.wire.catching_up.retain(|other| *other != process);
            self.app.ready(process, &mut self.wire);
        }
    }
}

impl<P: Protocol, A: Application<P>> World<P, A> {
    /// Checks the algorithm's own invariant after a step of `process`, if it has one.
    fn judge_invariant(&mut self, process: ProcessId) {
        if !P::HAS_INVARIANT {
            return;
        }
        let live = self.processes.iter().enumerate().filter(|(process, _)| self.wire.is_up(*process));
        if let Some(detail) = P::broken_invariant(&live.collect::<Vec<_>>()) {
            self.app.broken_invariant(process, detail, &mut self.wire);
        }
    }
}

impl<P: Protocol, X> Scheduled<P, X> {
    /// The process that the event happens at. None for faults.
    fn process(&self) -> Option<ProcessId> {
        match self {
            Scheduled::Deliver(envelope) => Some(envelope.to as ProcessId),
            Scheduled::AppDeliver(envelope) => Some(envelope.to as ProcessId),
            Scheduled::Timer { process, .. }
            | Scheduled::Plan { process, .. }
            | Scheduled::Suspect { process, .. }
            | Scheduled::Trust { process, .. } => Some(*process),
            Scheduled::Fault(_) | Scheduled::Resume(_) | Scheduled::Heal(_) => None,
        }
    }
}
