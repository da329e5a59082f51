//! Faults within a budget: messages are lost or arrive twice, processes crash and recover, detectors make mistakes.

use baton_protocol::ProcessId;
use baton_protocol::registry::Crashes;
use baton_trace::DropReason;
use serde::{Deserialize, Serialize};

use crate::explore::Found;
use crate::group::{GroupModel, StateOf};
use crate::network::Flight;
use crate::system::{Rules, Stimulus};

/// The budget of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Number of messages that may be lost.
    pub loss: u8,
    /// Number of messages that may arrive twice.
    pub duplicate: u8,
    pub crash: u8,
    /// The most recoveries. None: one after each crash. Processes never recover if the algorithm does not tolerate it.
    pub recover: Option<u8>,
    /// Mistakes of failure detectors: live processes that are reported as crashed. In elections also timers that end
    /// too early, because processes detect crashes by their own deadlines.
    pub suspect: u8,
    /// Only detectors make mistakes: no timer ends too early.
    pub detectors_only: bool,
}

impl Faults {
    pub const NONE: Faults =
        Faults { loss: 0, duplicate: 0, crash: 0, recover: None, suspect: 0, detectors_only: false };

    pub fn any(self) -> bool {
        let Faults { loss, duplicate, crash, suspect, .. } = self;
        [loss, duplicate, crash, suspect] != [0; 4]
    }

    /// Whether a process may crash, or may be suspected wrongly.
    pub fn of_processes(self) -> bool {
        self.crash > 0 || self.suspect > 0
    }

    /// The largest budget of crashes.
    pub const CRASHES_MAX: u8 = Tally::MAX / 2;
}

/// What the failure detector of a process has reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DetectorReports {
    /// Number of reported crashes and recoveries of each process.
    pub told: Tally,
    /// One bit for each process that was wrongly reported as crashed, and not yet corrected.
    pub mistaken: u16,
}

/// A small number for each process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tally(u64);

impl Tally {
    const BITS: usize = 4;

    /// The most processes that a `Tally` has room for.
    pub const PROCESSES_MAX: usize = 64 / Self::BITS;

    pub const MAX: u8 = (1 << Self::BITS) - 1;

    pub fn of(self, process: ProcessId) -> u8 {
        (self.0 >> (process * Self::BITS)) as u8 & Self::MAX
    }

    /// Adds 1 for `process`.
    pub fn add(&mut self, process: ProcessId) {
        self.0 += 1 << (process * Self::BITS);
    }

    /// Subtracts 1 for `process`.
    pub fn remove(&mut self, process: ProcessId) {
        self.0 -= 1 << (process * Self::BITS);
    }
}

/// How processes recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Whether a process may recover with its memory (`true`) and without it (`false`). Empty: no process recovers.
    pub memory: &'static [bool],
    /// A process recovers only after the detectors of all live processes have reported its crash. A later report would
    /// be a mistake.
    pub after_reports: bool,
}

impl Recovery {
    /// The recoveries that an algorithm tolerates. Everything if the user ignores assumptions. If `keeps_memory`, the
    /// group needs its memory.
    pub fn of(crashes: Crashes, keeps_memory: bool, ignore_assumptions: bool) -> Self {
        let either: &[bool] = if keeps_memory { &[true] } else { &[true, false] };
        match crashes {
            _ if ignore_assumptions => {
                let after_reports = !matches!(crashes, Crashes::Any | Crashes::Coordinators);
                Recovery { memory: &[true, false], after_reports }
            }
            Crashes::Never | Crashes::Final => Recovery { memory: &[], after_reports: true },
            Crashes::Detected | Crashes::ButOne | Crashes::ButSource => {
                Recovery { memory: either, after_reports: true }
            }
            Crashes::Coordinators => Recovery { memory: &[true], after_reports: false },
            Crashes::Any => Recovery { memory: either, after_reports: false },
        }
    }
}

/// The remaining budget of faults, and which processes are down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultsLeft {
    loss: u8,
    duplicate: u8,
    crash: u8,
    recover: u8,
    suspect: u8,
    /// Crashes and recoveries of each process so far. A process with an odd number is down.
    changes: Tally,
}

impl From<Faults> for FaultsLeft {
    fn from(Faults { loss, duplicate, crash, recover, suspect, .. }: Faults) -> Self {
        FaultsLeft { loss, duplicate, crash, recover: recover.unwrap_or(crash), suspect, changes: Tally::default() }
    }
}

impl FaultsLeft {
    pub fn is_up(self, process: ProcessId) -> bool {
        // Without crashes a model may have more processes than a `Tally` has room for.
        self.changes == Tally::default() || self.changes.of(process).is_multiple_of(2)
    }

    /// The budget after one mistake. None if no mistake is left.
    pub fn after_a_mistake(self) -> Option<Self> {
        self.suspect.checked_sub(1).map(|suspect| FaultsLeft { suspect, ..self })
    }

    /// Whether no message in flight will arrive.
    pub fn nothing_arrives(self, network: &[Flight]) -> bool {
        network.iter().all(|flight| !self.is_up(flight.receiver()))
    }

    /// Whether the failure detector of `observer` must report a crash or a recovery.
    pub fn has_reports_for(self, rules: &Rules, observer: ProcessId, reports: DetectorReports) -> bool {
        self.changes != Tally::default()
            && rules.hears_of_crashes(observer)
            && self.reports_for(observer, reports).next().is_some()
    }

    /// The processes on which the failure detector of `observer` must report.
    fn reports_for(self, observer: ProcessId, reports: DetectorReports) -> impl Iterator<Item = ProcessId> {
        let untold = move |peer: &ProcessId| *peer != observer && reports.told.of(*peer) < self.changes.of(*peer);
        (0..Tally::PROCESSES_MAX).filter(untold)
    }

    /// The reports that a recovered process starts with: all changes, except the crashes of processes that are down.
    fn told_anew(self, processes: usize) -> Tally {
        let mut told = self.changes;
        (0..processes).filter(|&peer| !self.is_up(peer)).for_each(|peer| told.remove(peer));
        told
    }
}

/// An event at a process.
pub struct Occurrence<A> {
    pub at: ProcessId,
    pub stimulus: Stimulus<A>,
    /// The place of the message that arrives. None if a copy stays in flight, or if the event is not a delivery.
    pub arrived: Option<usize>,
}

impl<A> Occurrence<A> {
    /// An event that is not a delivery.
    pub fn new(at: ProcessId, stimulus: Stimulus<A>) -> Self {
        Occurrence { at, stimulus, arrived: None }
    }

    /// The delivery of a message. If `copied`, a copy stays in flight.
    pub fn arrival(place: usize, flight: Flight, copied: bool) -> Self {
        let stimulus = Stimulus::Deliver { from: flight.from, payload: flight.payload };
        Occurrence { at: flight.receiver(), stimulus, arrived: (!copied).then_some(place) }
    }

    /// Whether this is a delivery that leaves a copy in flight.
    pub fn copied(&self) -> bool {
        matches!(self.stimulus, Stimulus::Deliver { .. }) && self.arrived.is_none()
    }
}

/// Adds all faults, and the reports of failure detectors.
pub fn faults<M: GroupModel>(model: &M, state: &StateOf<M>, found: &mut Found<M>) {
    if model.system().rules.faults.any() {
        losses(model, state, found);
        crashes(model, state, found);
        recoveries(model, state, found);
        if model.system().rules.told {
            reports(model, state, found);
            mistakes(model, state, found);
        }
    }
}

fn losses<M: GroupModel>(model: &M, state: &StateOf<M>, found: &mut Found<M>) {
    let left = state.global.faults;
    for (place, flight) in model.arrivals(state) {
        if !left.is_up(flight.receiver()) {
            model.lose(state, place, DropReason::Crashed, state.global.clone(), found);
            continue;
        }
        if left.loss > 0 {
            let global = model.after_fault(&state.global, FaultsLeft { loss: left.loss - 1, ..left });
            model.lose(state, place, DropReason::Loss, global, found);
        }
        if left.duplicate > 0 {
            let global = model.after_fault(&state.global, FaultsLeft { duplicate: left.duplicate - 1, ..left });
            model.step(state, Occurrence::arrival(place, flight, true), global, found);
        }
    }
}

fn crashes<M: GroupModel>(model: &M, state: &StateOf<M>, found: &mut Found<M>) {
    let left = state.global.faults;
    if left.crash == 0 {
        return;
    }
    let source = model.system().rules.source;
    for at in (0..state.locals.len()).filter(|&at| left.is_up(at) && model.may_crash(at) && Some(at) != source) {
        let mut changed = FaultsLeft { crash: left.crash - 1, ..left };
        changed.changes.add(at);
        let global = model.after_fault(&state.global, changed);
        model.step(state, Occurrence::new(at, Stimulus::Crash), global, found);
    }
}

fn recoveries<M: GroupModel>(model: &M, state: &StateOf<M>, found: &mut Found<M>) {
    let (left, processes) = (state.global.faults, state.locals.len());
    if left.recover == 0 {
        return;
    }
    let Recovery { memory, after_reports } = model.system().rules.recovery;
    for at in (0..processes).filter(|&at| !left.is_up(at)) {
        let untold =
            |peer: ProcessId| left.is_up(peer) && reports_to(model, state, peer).told.of(at) < left.changes.of(at);
        let rules = &model.system().rules;
        if after_reports && (0..processes).any(|peer| peer != at && rules.hears_of_crashes(peer) && untold(peer)) {
            continue;
        }
        let mut changed = FaultsLeft { recover: left.recover - 1, ..left };
        changed.changes.add(at);
        // If detectors do not report crashes, their reports need not be remembered.
        let hears = rules.told && rules.hears_of_crashes(at);
        let told = if hears { changed.told_anew(processes) } else { Tally::default() };
        let global = model.after_fault(&state.global, changed);
        let anew = state.without_those_of(at);
        for &memory in memory {
            model.step(&anew, Occurrence::new(at, Stimulus::Recover { told, memory }), global.clone(), found);
        }
    }
}

/// What the failure detector of `at` has reported to it.
fn reports_to<M: GroupModel>(model: &M, state: &StateOf<M>, at: ProcessId) -> DetectorReports {
    model.system().local(state.locals[at]).reports
}

/// Adds the reports of crashes and recoveries. Each live process gets all of them.
fn reports<M: GroupModel>(model: &M, state: &StateOf<M>, found: &mut Found<M>) {
    let left = state.global.faults;
    let rules = &model.system().rules;
    for at in (0..state.locals.len()).filter(|&at| left.is_up(at) && rules.hears_of_crashes(at)) {
        let reports = reports_to(model, state, at);
        for peer in left.reports_for(at, reports) {
            let stimulus = match reports.told.of(peer).is_multiple_of(2) {
                true => Stimulus::Suspect { peer: peer as u8, wrongly: false },
                false => Stimulus::Trust { peer: peer as u8, wrongly: false },
            };
            model.step(state, Occurrence::new(at, stimulus), state.global.clone(), found);
        }
    }
}

/// Adds wrong reports that a live process has crashed, and the corrections of such reports. With views only the clients
/// err, about the source: their leases end.
fn mistakes<M: GroupModel>(model: &M, state: &StateOf<M>, found: &mut Found<M>) {
    let left = state.global.faults;
    if model.system().rules.faults.suspect == 0 {
        return;
    }
    for at in model.live(left) {
        let mistaken = reports_to(model, state, at).mistaken;
        let source = model.system().rules.source;
        let may_err_about = |peer: ProcessId| source.is_none_or(|source| peer == source);
        for peer in model.live(left).filter(|&peer| peer != at && may_err_about(peer)) {
            if mistaken >> peer & 1 == 1 {
                let stimulus = Stimulus::Trust { peer: peer as u8, wrongly: true };
                model.step(state, Occurrence::new(at, stimulus), state.global.clone(), found);
            } else if left.suspect > 0 {
                let global = model.after_fault(&state.global, FaultsLeft { suspect: left.suspect - 1, ..left });
                let stimulus = Stimulus::Suspect { peer: peer as u8, wrongly: true };
                model.step(state, Occurrence::new(at, stimulus), global, found);
            }
        }
    }
}
