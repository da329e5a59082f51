//! Processes that watch each other: they send heartbeats, crash, and suspect each other, rightly or by mistake.

use baton_protocol::detector::{Beater, Detector, Heard};
use baton_protocol::{Group, ProcessId, Ticks};
use baton_trace::Event as Traced;

use crate::app::Application;
use crate::metrics::Delays;
use crate::queue::Class;
use crate::time::in_t;
use crate::world::Wire;

/// The crashes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPlan {
    /// Random processes crash at random times, one after the other, and recover.
    Crashes {
        count: u64,
        /// The least time without a crash between a recovery and the next crash.
        peace: Ticks,
    },
    /// The faults of the options.
    Faults {
        /// When the last fault strikes or ends.
        over: Ticks,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Plan {
    /// Check whether this process has been silent for too long.
    Look(ProcessId),
    /// Crash a random process.
    Crash,
    /// Recover this process, if all live processes suspect it.
    Recover(ProcessId),
}

/// The detector of one process for another process.
#[derive(Clone, Debug)]
struct Watch<D> {
    detector: D,
    suspected_since: Option<Ticks>,
    /// Whether the suspicion was wrong when it began, and still is.
    mistaken: bool,
    /// Whether the next heartbeat is the first since the other process recovered.
    anew: bool,
}

pub struct DetectorUsers<D> {
    make: Box<dyn Fn(ProcessId) -> D + Send + Sync>,
    crash_plan: CrashPlan,
    rng: fastrand::Rng,
    period: Ticks,
    /// By watcher, then by watched process.
    watches: Vec<Vec<Watch<D>>>,
    crashed_at: Vec<Option<Ticks>>,
    /// Number of crashes, and how many of them all live processes have noticed.
    crashes: u64,
    noticed: u64,
    /// Whether all planned crashes have happened and were noticed.
    done: bool,
    /// When a process last crashed or recovered.
    struck: Ticks,
    /// Whether every live process suspects exactly the crashed processes.
    agreed: bool,
    /// From a crash to the suspicion by each live process.
    pub detection_time: Delays,
    /// Number of suspicions of a live process.
    pub mistakes: u64,
    /// From a mistake to the heartbeat that ended it.
    pub mistake_time: Delays,
    pub violation: Option<String>,
}

/// If the live processes do not suspect the right processes after this many periods, the run ends.
const PATIENCE_PERIODS: Ticks = 1_000;

impl<D: Detector> DetectorUsers<D> {
    /// The users of a group, and the processes that send the heartbeats.
    pub fn new(group: Group<D>, crash_plan: CrashPlan, seed: u64) -> (Self, Group<Beater>) {
        let n = group.processes;
        let period = (group.make)(0).period();
        let beaters = Group { drift: group.drift, ..Group::new(n, n, move |me| Beater::new(me, n, period)) };
        let users = DetectorUsers {
            watches: (0..n).map(|_| (0..n).map(|peer| Watch::new((group.make)(peer))).collect()).collect(),
            make: group.make,
            crash_plan,
            rng: fastrand::Rng::with_seed(seed),
            period,
            crashed_at: vec![None; n],
            crashes: 0,
            noticed: 0,
            done: false,
            struck: 0,
            agreed: false,
            detection_time: Delays::default(),
            mistakes: 0,
            mistake_time: Delays::default(),
            violation: None,
        };
        (users, beaters)
    }

    pub fn crashes(&self) -> u64 {
        self.crashes
    }

    /// A live process that does not suspect a crashed process, in words.
    pub fn incomplete(&self) -> Option<String> {
        let live = |process: &ProcessId| self.crashed_at[*process].is_none();
        let mut pairs = self.others().filter(|(watcher, peer)| live(watcher) && !live(peer));
        let unnoticed = pairs.find(|&(watcher, peer)| self.watches[watcher][peer].suspected_since.is_none());
        unnoticed.map(|(watcher, peer)| {
            let at = in_t(self.crashed_at[peer].unwrap_or_default());
            format!("P{watcher} does not suspect P{peer}, which crashed at {at} T")
        })
    }

    /// Records the detection times of the processes that are still down at the end of the run.
    pub fn close(&mut self) {
        for process in 0..self.crashed_at.len() {
            self.take_down(process);
        }
    }

    fn others(&self) -> impl Iterator<Item = (ProcessId, ProcessId)> + use<D> {
        let n = self.watches.len();
        (0..n)
            .flat_map(move |watcher| (0..n).map(move |peer| (watcher, peer)))
            .filter(|(watcher, peer)| watcher != peer)
    }

    fn watch(&mut self, process: ProcessId, wire: &mut Wire<Beater, Plan>) {
        let now = wire.clocks().shows(process, wire.now());
        for peer in (0..self.watches.len()).filter(|&peer| peer != process) {
            let mut watch = Watch::new((self.make)(peer));
            watch.detector.watch(now);
            self.watches[process][peer] = watch;
            self.look_later(process, peer, wire);
        }
    }

    /// Plans the check for just after the deadline.
    fn look_later(&self, process: ProcessId, peer: ProcessId, wire: &mut Wire<Beater, Plan>) {
        let deadline = self.watches[process][peer].detector.deadline();
        let after = wire.clocks().takes(process, deadline + 1).saturating_sub(wire.now());
        wire.plan(after, Class::Timer, process, Plan::Look(peer));
    }

    fn look(&mut self, process: ProcessId, peer: ProcessId, wire: &mut Wire<Beater, Plan>) {
        let now = wire.now();
        let local = wire.clocks().shows(process, now);
        let alive = self.crashed_at[peer].is_none();
        let watch = &mut self.watches[process][peer];
        if watch.suspected_since.is_some() || !watch.detector.suspects(local) {
            return;
        }
        watch.suspected_since = Some(now);
        watch.mistaken = alive && !watch.anew;
        wire.trace(process, || Traced::Suspect { peer });
        if watch.mistaken {
            self.mistakes += 1;
            let detail = format!("P{process} suspected P{peer}, which was alive, at {} T", in_t(now));
            if self.violation.is_none() {
                wire.trace(process, || Traced::Violation { property: "safety".into(), detail: detail.clone() });
                self.violation = Some(detail);
            }
        }
        self.judge(wire);
    }

    fn heard(&mut self, process: ProcessId, peer: ProcessId, wire: &mut Wire<Beater, Plan>) {
        let now = wire.now();
        let local = wire.clocks().shows(process, now);
        let watch = &mut self.watches[process][peer];
        if std::mem::take(&mut watch.anew) {
            watch.detector.watch(local);
        }
        watch.detector.beat(local);
        if let Some(since) = watch.suspected_since.take() {
            wire.trace(process, || Traced::Trust { peer });
            if std::mem::take(&mut watch.mistaken) {
                self.mistake_time.add(now - since);
            }
            self.judge(wire);
        }
        self.look_later(process, peer, wire);
    }

    fn judge(&mut self, wire: &mut Wire<Beater, Plan>) {
        let live = |process: ProcessId| self.crashed_at[process].is_none();
        let right = |(watcher, peer): (ProcessId, ProcessId)| {
            !live(watcher) || self.watches[watcher][peer].suspected_since.is_some() != live(peer)
        };
        self.agreed = self.others().all(right);
        let CrashPlan::Crashes { .. } = self.crash_plan else { return };
        let crashed = (0..self.watches.len()).find(|&process| !live(process));
        match crashed {
            // All live processes have noticed the crash: let the process recover, unless this was the last crash.
            Some(process) if self.incomplete().is_none() && self.noticed < self.crashes => {
                self.noticed = self.crashes;
                wire.plan(self.period, Class::Fault, self.somebody_but(process), Plan::Recover(process));
            }
            _ => {}
        }
    }

    fn somebody_but(&self, process: ProcessId) -> ProcessId {
        usize::from(process == 0)
    }

    /// The time is random within a period, so that all phases of the heartbeats are equally likely. The detectors get
    /// two periods to settle first.
    fn plan_crash(&mut self, wire: &mut Wire<Beater, Plan>) {
        if let CrashPlan::Crashes { peace, .. } = self.crash_plan {
            let after = peace.max(2 * self.period) + self.rng.u64(0..self.period);
            wire.plan(after, Class::Fault, 0, Plan::Crash);
        }
    }

    fn recover(&mut self, process: ProcessId, wire: &mut Wire<Beater, Plan>) {
        if self.incomplete().is_some() {
            // A heartbeat from before the crash has arrived in the meantime, and ended a suspicion.
            return wire.plan(self.period, Class::Fault, self.somebody_but(process), Plan::Recover(process));
        }
        self.done = matches!(self.crash_plan, CrashPlan::Crashes { count, .. } if count == self.crashes);
        if !self.done {
            wire.plan_recovery(self.period, process);
        }
    }

    /// Records the time from the crash of `process` to the suspicion by each live process. An earlier suspicion counts
    /// as 0.
    fn take_down(&mut self, process: ProcessId) {
        let Some(crashed_at) = self.crashed_at[process] else { return };
        for watcher in (0..self.watches.len()).filter(|&watcher| watcher != process) {
            if let (None, Some(since)) = (self.crashed_at[watcher], self.watches[watcher][process].suspected_since) {
                self.detection_time.add(since.saturating_sub(crashed_at));
            }
        }
    }
}

impl<D> Watch<D> {
    fn new(detector: D) -> Self {
        Watch { detector, suspected_since: None, mistaken: false, anew: false }
    }
}

impl<D: Detector> Application<Beater> for DetectorUsers<D> {
    type Plan = Plan;

    fn start(&mut self, wire: &mut Wire<Beater, Plan>) {
        for process in 0..self.watches.len() {
            self.watch(process, wire);
        }
        self.plan_crash(wire);
        self.judge(wire);
    }

    fn carry_out(&mut self, process: ProcessId, plan: Plan, wire: &mut Wire<Beater, Plan>) {
        match plan {
            Plan::Look(peer) => self.look(process, peer, wire),
            Plan::Crash => wire.plan_crash(0, self.rng.usize(..self.watches.len())),
            Plan::Recover(peer) => self.recover(peer, wire),
        }
    }

    fn event(&mut self, process: ProcessId, Heard(peer): Heard, wire: &mut Wire<Beater, Plan>) {
        self.heard(process, peer, wire);
    }

    fn app_message(&mut self, _: ProcessId, _: &mut Wire<Beater, Plan>) {}

    fn crashed(&mut self, process: ProcessId, wire: &mut Wire<Beater, Plan>) {
        self.crashed_at[process] = Some(wire.now());
        self.crashes += 1;
        self.struck = wire.now();
        for watches in &mut self.watches {
            watches[process].mistaken = false;
        }
        self.judge(wire);
    }

    fn recovered(&mut self, process: ProcessId, wire: &mut Wire<Beater, Plan>) {
        self.take_down(process);
        self.crashed_at[process] = None;
        self.struck = wire.now();
        for watches in &mut self.watches {
            watches[process].anew = true;
        }
        self.watch(process, wire);
        self.plan_crash(wire);
        self.judge(wire);
    }

    fn progress(&self) -> Option<f64> {
        match self.crash_plan {
            CrashPlan::Crashes { count, .. } => Some(self.noticed as f64 / count as f64),
            CrashPlan::Faults { .. } => None,
        }
    }

    fn finished(&self, wire: &Wire<Beater, Plan>) -> bool {
        let now = wire.now();
        let patience = PATIENCE_PERIODS * self.period;
        match self.crash_plan {
            CrashPlan::Crashes { peace, .. } => self.done || now >= self.struck + peace + patience,
            CrashPlan::Faults { over } => now > over && (self.agreed || now >= over + patience),
        }
    }
}
