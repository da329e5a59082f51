//! Processes that watch each other: they beat, crash, and are suspected, rightly or not.

use baton_protocol::detector::{Beater, Detector, Heard};
use baton_protocol::{Group, ProcessId, Ticks};
use baton_trace::Event as Traced;

use crate::app::Application;
use crate::metrics::Delays;
use crate::queue::Class;
use crate::time::in_t;
use crate::world::Wire;

/// What happens to those who are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPlan {
    /// Crashes of random processes at random times, one after the other, each followed by a recovery.
    Crashes {
        /// How many.
        count: u64,
        /// The least time for which all live in between.
        peace: Ticks,
    },
    /// The faults that were asked for.
    Faults {
        /// When the last of them strikes or ends.
        over: Ticks,
    },
}

/// Something planned.
#[derive(Clone, Copy, Debug)]
pub enum Plan {
    /// Look whether this process has been silent for too long.
    Look(ProcessId),
    /// Let somebody crash.
    Crash,
    /// Let this process recover, if everybody has noticed that it crashed.
    Recover(ProcessId),
}

/// What one process thinks of another.
#[derive(Clone, Debug)]
struct Watch<D> {
    detector: D,
    suspected_since: Option<Ticks>,
    /// Whether the suspicion was wrong when it began, and is still.
    mistaken: bool,
    /// The next beat is the first since the other process recovered.
    anew: bool,
}

/// All processes of a group and what they think of each other.
pub struct DetectorUsers<D> {
    make: Box<dyn Fn(ProcessId) -> D + Send + Sync>,
    crash_plan: CrashPlan,
    rng: fastrand::Rng,
    period: Ticks,
    /// By watcher, then by the watched.
    watches: Vec<Vec<Watch<D>>>,
    crashed_at: Vec<Option<Ticks>>,
    /// How many have crashed, and how many of these crashes everybody has noticed.
    crashes: u64,
    noticed: u64,
    /// All crashes that were to be have been, and were noticed.
    done: bool,
    /// When something last happened to a process.
    struck: Ticks,
    /// Everybody who lives suspects all who have crashed, and nobody else.
    agreed: bool,
    /// From a crash to the suspicion of each who lives.
    pub detection_time: Delays,
    /// How many times the living were suspected, and how long each time.
    pub mistakes: u64,
    /// How long each of them lasted.
    pub mistake_time: Delays,
    /// The first mistake.
    pub violation: Option<String>,
}

/// After so many periods without agreement there will be none.
const PATIENCE_PERIODS: Ticks = 1_000;

impl<D: Detector> DetectorUsers<D> {
    /// The users of a group, and its processes.
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

    /// How many crashes there were.
    pub fn crashes(&self) -> u64 {
        self.crashes
    }

    /// Who lives and does not suspect one who has crashed.
    pub fn incomplete(&self) -> Option<String> {
        let live = |process: &ProcessId| self.crashed_at[*process].is_none();
        let mut pairs = self.others().filter(|(watcher, peer)| live(watcher) && !live(peer));
        let unnoticed = pairs.find(|&(watcher, peer)| self.watches[watcher][peer].suspected_since.is_none());
        unnoticed.map(|(watcher, peer)| {
            let at = in_t(self.crashed_at[peer].unwrap_or_default());
            format!("P{watcher} does not suspect P{peer}, which crashed at {at} T")
        })
    }

    /// Takes down how long the crashes that last until the end of the run have taken to be noticed.
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

    /// Just after the deadline.
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
            // All have noticed: let it recover, unless this was the last.
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

    /// At any moment of a period, so that all phases of the beats are equally likely; after two in which all settles.
    fn plan_crash(&mut self, wire: &mut Wire<Beater, Plan>) {
        if let CrashPlan::Crashes { peace, .. } = self.crash_plan {
            let after = peace.max(2 * self.period) + self.rng.u64(0..self.period);
            wire.plan(after, Class::Fault, 0, Plan::Crash);
        }
    }

    fn recover(&mut self, process: ProcessId, wire: &mut Wire<Beater, Plan>) {
        if self.incomplete().is_some() {
            // A beat from before the crash has arrived meanwhile.
            return wire.plan(self.period, Class::Fault, self.somebody_but(process), Plan::Recover(process));
        }
        self.done = matches!(self.crash_plan, CrashPlan::Crashes { count, .. } if count == self.crashes);
        if !self.done {
            wire.plan_recovery(self.period, process);
        }
    }

    /// From the crash of `process` to the suspicion of each who lives; whoever had suspected it before took no time.
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
