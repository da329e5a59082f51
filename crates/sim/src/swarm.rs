//! Random faults, drawn from the seed. Each seed draws the kinds of faults, how often they strike and how long they
//! last, so that many seeds together try many mixtures ("swarm testing").
//!
//! Unless assumptions are ignored, a drawn fault never breaks an assumption of the algorithm, each fault is over before
//! the next one strikes, at least one process never crashes, and all faults end. After the last fault every waiting
//! request must be granted.

use std::ops::Range;

use baton_protocol::append::Append;
use baton_protocol::detector::Detector;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Crashes, Family, SetupError, Survivors, Visitor};
use baton_protocol::{Group, ProcessId, Ticks};

use crate::assumptions;
use crate::faults::{Fault, FaultKind};
use crate::report::Drawn;
use crate::run::Options;
use crate::time::{in_t, ticks};

/// Returns the same options, plus the faults that the seed draws.
pub fn draw(options: &Options) -> Result<Options, SetupError> {
    let size = registry::visit(&options.algorithm, &options.params, Size)?;
    let about = size.about;
    let mut drawn = Options { swarm: false, ..options.clone() };
    // A generator of its own: the run is the same as if the user had written the drawn faults.
    let mut rng = fastrand::Rng::with_seed(options.seed.rotate_left(32));
    let network = &mut drawn.network;
    let free = options.ignore_assumptions;
    for (probability, never) in
        [(&mut network.loss, about.assumes.lossless), (&mut network.duplicate, about.assumes.no_duplicates)]
    {
        if *probability == 0.0 && (free || !never) && rng.bool() {
            *probability = rounded(0.2 * rng.f64());
        }
    }
    let helpers = if size.processes > size.clients { size.clients } else { 0 };
    let spared = (!free).then(|| rng.usize(helpers..size.processes));
    let mut swarm = Swarm { about, size, options, rng, spared, recoveries: 0, dead: Vec::new() };
    drawn.faults.extend(swarm.faults());
    // Drawn last, so that the other random numbers do not depend on drift.
    if drawn.drift == 0.0 && (free || !about.assumes.synchronous) && swarm.rng.bool() {
        drawn.drift = rounded(0.1 * swarm.rng.f64());
    }
    Ok(drawn)
}

/// So few digits that a user can type them.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

/// What `draw` has added to `options`.
pub fn added(options: &Options, drawn: &Options) -> Drawn {
    let added = |before: f64, after: f64| (before != after).then_some(after);
    let (before, after) = (&options.network, &drawn.network);
    Drawn {
        faults: drawn.faults[options.faults.len()..].iter().map(Fault::to_string).collect(),
        loss: added(before.loss, after.loss),
        duplicate: added(before.duplicate, after.duplicate),
        drift: added(options.drift, drawn.drift),
    }
}

/// The facts about a group that decide which faults may strike. `partitions`: links may be cut although the algorithm
/// assumes that no message is lost. `keeps_memory`: every process must recover with its memory. `survivors`: the
/// processes that must be up at the end.
struct Sizes {
    about: &'static About,
    clients: usize,
    processes: usize,
    partitions: bool,
    keeps_memory: bool,
    survivors: Option<Survivors>,
    observers: Range<ProcessId>,
}

struct Size;

impl Size {
    fn of<P>(about: &'static About, group: &Group<P>) -> Sizes {
        let &Group { clients, processes, partitions, keeps_memory, .. } = group;
        Sizes {
            about,
            clients,
            processes,
            partitions,
            keeps_memory,
            survivors: group.survivors.clone(),
            observers: assumptions::observers(processes, group.source),
        }
    }
}

impl Visitor for Size {
    type Output = Sizes;

    fn unsupported(self, about: &'static About) -> Sizes {
        Sizes {
            about,
            clients: 0,
            processes: 0,
            partitions: false,
            keeps_memory: false,
            survivors: None,
            observers: 0..0,
        }
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Sizes {
        Size::of(about, &group)
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Sizes {
        Size::of(about, &group)
    }

    fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> Sizes {
        Size::of(about, &group)
    }

    fn append<P: Append>(self, about: &'static About, group: Group<P>) -> Sizes {
        Size::of(about, &group)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Crash,
    Pause,
    Partition,
    OneWay,
}

struct Swarm<'o> {
    about: &'static About,
    size: Sizes,
    options: &'o Options,
    rng: fastrand::Rng,
    /// A process that never crashes, because at least one process must remember the state. Not a client, if there are
    /// others.
    spared: Option<ProcessId>,
    recoveries: u32,
    /// The processes that crash for ever: fewer than half, so that the others are a majority.
    dead: Vec<ProcessId>,
}

impl Swarm<'_> {
    fn faults(&mut self) -> Vec<Fault> {
        let mut kinds = self.kinds();
        // Each seed uses only some kinds of faults. A kind that is rare among all kinds is then frequent in some runs.
        kinds.retain(|_| self.rng.bool());
        let mut faults = Vec::new();
        if kinds.is_empty() {
            return faults;
        }
        let horizon = self.horizon();
        let between = horizon / self.rng.u64(1..=16);
        let mut at = self.rng.u64(0..=between);
        while at < horizon {
            let kind = kinds[self.rng.usize(..kinds.len())];
            let mut struck = Vec::new();
            let lasts = self.strike(kind, at, &mut struck);
            if self.fits(&faults, &struck) {
                faults.extend(struck);
            }
            at += lasts + self.peace() + self.rng.u64(0..=between);
        }
        faults
    }

    fn free(&self) -> bool {
        self.options.ignore_assumptions
    }

    fn kinds(&self) -> Vec<Kind> {
        let assumes = self.about.assumes;
        // A detector suspects a live process that a partition cuts off.
        let needs_reports = assumes.crashes.must_be_reported();
        let cut = !(assumes.lossless || needs_reports);
        let told = !(needs_reports && self.options.no_detector);
        let kinds = [
            (Kind::Crash, assumes.crashes != Crashes::Never && told),
            (Kind::Pause, !assumes.synchronous),
            (Kind::Partition, cut || (self.size.partitions && told)),
            (Kind::OneWay, cut),
        ];
        kinds.into_iter().filter(|&(_, allowed)| allowed || self.free()).map(|(kind, _)| kind).collect()
    }

    /// The time until which faults strike: about the length of the run, or down to a quarter of it.
    fn horizon(&mut self) -> Ticks {
        let round = self.options.workload.hold + 2.0 * in_t(self.options.params.delay_max);
        ticks(self.options.workload.entries as f64 * round).max(1) / self.rng.u64(1..=4)
    }

    /// The pause between two faults: long enough for a recovered process to join again and for all others to learn of
    /// it.
    fn peace(&self) -> Ticks {
        if self.free() { 0 } else { 20 * self.options.params.delay_max }
    }

    /// A duration from less than a message delay to 100 times the longest delay.
    fn while_it_lasts(&mut self) -> Ticks {
        let delay = self.options.params.delay_max;
        let scale = [1, 10, 100][self.rng.usize(..3)];
        self.rng.u64(1..=delay * scale)
    }

    /// Adds a fault of this kind, and returns how long it lasts.
    fn strike(&mut self, kind: Kind, at: Ticks, faults: &mut Vec<Fault>) -> Ticks {
        let lasts = self.while_it_lasts();
        let all = self.size.processes;
        match kind {
            Kind::Crash => return self.crash(at, lasts, faults),
            Kind::Pause => {
                for process in (0..all).filter(|_| self.rng.u8(..3) == 0) {
                    faults.push(Fault { at, kind: FaultKind::Pause { process, lasts } });
                }
            }
            Kind::Partition => {
                let (left, right): (Vec<_>, Vec<_>) = (0..all).partition(|_| self.rng.bool());
                if !left.is_empty() && !right.is_empty() {
                    let groups = vec![left, right];
                    faults.push(Fault { at, kind: FaultKind::Partition { groups, lasts: Some(lasts) } });
                }
            }
            Kind::OneWay => {
                let (from, step) = (self.rng.usize(..all), self.rng.usize(1..all));
                let to = (from + step) % all;
                faults.push(Fault { at, kind: FaultKind::OneWay { from, to, lasts: Some(lasts) } });
            }
        }
        lasts
    }

    /// Adds the crash of a random process and, unless crashes are final, its recovery. The recovery comes after all
    /// others know of the crash, and with memory where the algorithm assumes it. Without a bound on delays the end of a
    /// recovery is unknown, so such a run has at most one.
    fn crash(&mut self, at: Ticks, lasts: Ticks, faults: &mut Vec<Fault>) -> Ticks {
        let Sizes { clients, processes, .. } = self.size;
        let crashes = self.about.assumes.crashes;
        let first = if crashes == Crashes::Coordinators && !self.free() { clients } else { 0 };
        let bounded = self.options.network.delay.bound().is_some();
        if !self.free() && !bounded && self.recoveries > 0 {
            return 0;
        }
        let alive = |process: &ProcessId| Some(*process) != self.spared && !self.dead.contains(process);
        let candidates = (first..processes).filter(alive);
        let Some(process) = self.rng.choice(candidates.collect::<Vec<_>>()) else { return 0 };
        if crashes == Crashes::Final && !self.free() {
            if 2 * (self.dead.len() + 1) < clients {
                self.dead.push(process);
                faults.push(Fault { at, kind: FaultKind::Crash(process) });
            }
            return 0;
        }
        let known = if self.free() { 0 } else { 2 * self.options.params.delay_max + 1 };
        let keeps = self.size.keeps_memory
            || crashes == Crashes::Coordinators
            || (self.about.family == Family::Append && process < clients);
        let memory = self.rng.bool() || (keeps && !self.free());
        self.recoveries += 1;
        faults.push(Fault { at, kind: FaultKind::Crash(process) });
        faults.push(Fault { at: at + known + lasts, kind: FaultKind::Recover { process, memory } });
        known + lasts
    }

    /// Whether `more` faults may strike after the faults that the user wrote and the faults that were `drawn` before.
    fn fits(&self, drawn: &[Fault], more: &[Fault]) -> bool {
        let all = [&self.options.faults, drawn, more].concat();
        // The source of views learns of a crash after twice the spread.
        let detection = 2 * self.options.params.delay_max + 2 * ticks(self.options.detector_spread) + 1;
        let enough_live =
            self.size.survivors.as_ref().is_none_or(|survivors| {
                all.is_empty() || assumptions::check_living(self.about, &all, survivors).is_ok()
            });
        let told = assumptions::check_reports(self.about, &all, self.size.observers.clone(), detection).is_ok();
        let in_order = assumptions::check_spread(self.about, &all, self.options.detector_spread).is_ok();
        self.free() || (enough_live && told && in_order)
    }
}
