//! Checks before a run starts. They refuse numbers out of range, faults that cannot happen, and networks or faults that
//! break an assumption of the algorithm.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use baton_protocol::registry::{About, Assumes, Crashes, Family, Overlap, Survivors};
use baton_protocol::{Group, ProcessId, Ticks};

use crate::app::mutex::StoreKind;
use crate::faults::{Fault, FaultKind};
use crate::run::{Options, RunError};
use crate::time::in_t;

pub fn check_ranges(options: &Options) -> Result<(), RunError> {
    let network = &options.network;
    for (what, value) in
        [("the probability of loss", network.loss), ("the probability of duplication", network.duplicate)]
    {
        if !(0.0..=1.0).contains(&value) {
            return Err(RunError::OutOfRange { what, value, right: "a probability is between 0 and 1" });
        }
    }
    let right = "a time is between 0 and 1,000,000,000 T";
    let times = [
        ("the hold time", options.workload.hold),
        ("the think time", options.workload.think),
        ("patience", options.patience.unwrap_or_default()),
    ];
    for (what, value) in times {
        if !(0.0..=1e9).contains(&value) {
            return Err(RunError::OutOfRange { what, value, right });
        }
    }
    if !(0.0..=0.5).contains(&options.drift) {
        let right = "a clock is off by at most one half, which is 0.5";
        return Err(RunError::OutOfRange { what: "the drift of clocks", value: options.drift, right });
    }
    if !(0.0..=1e6).contains(&options.detector_spread) {
        let right = "it must be from 0 to 1,000,000 T";
        return Err(RunError::OutOfRange { what: "--detector-spread", value: options.detector_spread, right });
    }
    if options.workload.entries == 0 {
        return Err(RunError::OutOfRange { what: "the number of entries", value: 0.0, right: "ask for at least 1" });
    }
    Ok(())
}

/// Refuses faults that cannot happen: a process crashes only if it is up, recovers only if it is down, and pauses only
/// if it is up and not paused. Called for the faults that the user wrote. (A fault that the seed draws may do nothing.)
pub fn check_faults(faults: &[Fault]) -> Result<(), RunError> {
    let mut in_time: Vec<&Fault> = faults.iter().collect();
    in_time.sort_by_key(|fault| fault.at);
    let (mut dead, mut asleep) = (BTreeSet::new(), BTreeMap::new());
    for fault in in_time {
        let refuse = |process, what, reason: String| {
            Err(RunError::ImpossibleFault { process, what, at: in_t(fault.at), reason })
        };
        match fault.kind {
            FaultKind::Crash(process) if !dead.insert(process) => {
                return refuse(process, "crash", "it is dead by then; let it recover in between".into());
            }
            FaultKind::Recover { process, .. } if !dead.remove(&process) => {
                return refuse(process, "recover", "it is not dead then; let it crash before".into());
            }
            FaultKind::Pause { process, .. } if dead.contains(&process) => {
                return refuse(process, "pause", "it is dead then; let it recover before".into());
            }
            FaultKind::Pause { process, .. } => {
                if let Some(until) = asleep.insert(process, fault.over()).filter(|&until| until >= fault.at) {
                    let reason = format!("an earlier pause lasts until {} T; let that end before", in_t(until));
                    return refuse(process, "pause", reason);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses faults at processes that do not exist, a store that checks leases where there are none and, unless the user ignores assumptions, everything that breaks an
/// assumption of the algorithm. The live processes learn of a crash after `detection`.
pub fn check<P>(
    about: &'static About,
    options: &Options,
    group: &Group<P>,
    detection: Option<Ticks>,
) -> Result<(), RunError> {
    let last = group.processes - 1;
    let mut named = options.faults.iter().flat_map(|fault| fault.kind.processes());
    if let Some(process) = named.find(|&process| process > last) {
        return Err(RunError::NoSuchProcess { process, last });
    }
    if options.workload.store == Some(StoreKind::LeaseChecked) && group.lease.is_none() {
        let name = about.name;
        let wrong = format!("the store `lease-checked` checks leases, and this run of `{name}` has none");
        return Err(RunError::Spec(format!("{wrong}; `central` with --variant lease:5 has them")));
    }
    if options.ignore_assumptions {
        return Ok(());
    }
    check_options(about, options)?;
    if about.assumes.synchronous && options.drift > group.drift {
        let instead = format!("these drift by up to {} where it allows for {}", options.drift, group.drift);
        return Err(refusal(about, "clocks that keep time", instead));
    }
    check_partitions(about, &options.faults, group.partitions)?;
    if group.keeps_memory {
        check_memory(about, &options.faults)?;
    }
    if let Some(source) = group.source {
        let crashes = |fault: &Fault| fault.kind == FaultKind::Crash(source);
        if options.faults.iter().any(crashes) {
            let assumes = "that the source of views never crashes";
            return Err(refusal(about, assumes, format!("P{source} is the source and would")));
        }
    }
    if about.assumes.crashes == Crashes::ButOne {
        check_survivors(about, &options.faults, group.clients..group.processes)?;
    }
    if let Some(survivors) = &group.survivors {
        check_living(about, &options.faults, survivors)?;
    }
    if options.no_detector {
        check_detector(about, &options.faults)?;
    }
    check_spread(about, &options.faults, options.detector_spread)?;
    if let Some(detection) = detection {
        check_reports(about, &options.faults, observers(group.processes, group.source), detection)?;
    }
    Ok(())
}

/// Refuses crashes and cuts that no detector reports, for algorithms that rely on a detector. An election without
/// written faults begins with a crash of the leader.
fn check_detector(about: &'static About, faults: &[Fault]) -> Result<(), RunError> {
    let is_reported = |fault: &Fault| !matches!(fault.kind, FaultKind::Pause { .. } | FaultKind::Recover { .. });
    let begins_with_a_crash = about.family == Family::Election && faults.is_empty();
    if about.assumes.crashes.must_be_reported() && (begins_with_a_crash || faults.iter().any(is_reported)) {
        return Err(refusal(about, "that a failure detector reports every crash", "there is none".into()));
    }
    Ok(())
}

/// Refuses detectors that report at different times, where a recovered process must learn of each change no later than
/// the others.
pub fn check_spread(about: &'static About, faults: &[Fault], spread: f64) -> Result<(), RunError> {
    let recovers = |fault: &Fault| matches!(fault.kind, FaultKind::Recover { .. });
    if spread > 0.0 && about.assumes.overlap == Overlap::SameOrder && faults.iter().any(recovers) {
        let assumes = "that a recovered process learns of each change no later than the others";
        return Err(refusal(about, assumes, format!("its detector may report up to {spread} T later")));
    }
    Ok(())
}

/// Refuses faults that leave too few of the processes that the algorithm needs, once all faults are over.
pub fn check_living(about: &'static About, faults: &[Fault], survivors: &Survivors) -> Result<(), RunError> {
    let Survivors { assumes, among, least } = survivors;
    let mut in_time: Vec<&Fault> = faults.iter().collect();
    in_time.sort_by_key(|fault| fault.at);
    let mut living: BTreeSet<ProcessId> = among.clone().collect();
    for fault in in_time {
        match fault.kind {
            FaultKind::Crash(process) => {
                living.remove(&process);
            }
            FaultKind::Recover { process, .. } if among.contains(&process) => {
                living.insert(process);
            }
            _ => {}
        }
    }
    if living.len() >= *least {
        return Ok(());
    }
    let instead = format!("{} of {} would where {least} must", living.len(), among.len());
    Err(refusal(about, assumes, instead))
}

/// The processes that learn of crashes.
pub fn observers(processes: usize, source: Option<ProcessId>) -> Range<ProcessId> {
    source.map_or(0..processes, |source| source..source + 1)
}

/// Refuses a recovery before every live process has learnt of the crash, for algorithms that rely on a detector. The
/// detector reports a crash after `detection`; a report after the recovery would be a mistake.
pub fn check_reports(
    about: &'static About,
    faults: &[Fault],
    observers: Range<ProcessId>,
    detection: Ticks,
) -> Result<(), RunError> {
    if !matches!(about.assumes.crashes, Crashes::Detected | Crashes::ButOne | Crashes::ButSource) {
        return Ok(());
    }
    let mut in_time: Vec<&Fault> = faults.iter().collect();
    in_time.sort_by_key(|fault| fault.at);
    let (mut down, mut up_since) = (BTreeMap::new(), vec![0; observers.end]);
    for fault in in_time {
        match fault.kind {
            FaultKind::Crash(process) => {
                down.entry(process).or_insert(fault.at);
            }
            FaultKind::Recover { process, .. } => {
                let Some(crashed) = down.remove(&process) else { continue };
                let told = observers.clone().filter(|&peer| peer != process && !down.contains_key(&peer)).map(|peer| {
                    let reported = up_since[peer].max(crashed) + detection;
                    (awake(faults, peer, up_since[peer], reported), peer)
                });
                if let Some((last, peer)) = told.max().filter(|&(last, _)| last >= fault.at) {
                    let (at, last) = (in_t(fault.at), in_t(last));
                    let instead = format!(
                        "P{process} would recover at {at} T while P{peer} learns of the crash at {last} T \
                         (recover P{process} after that)"
                    );
                    let assumes = "that no process recovers before every live process knows of its crash";
                    return Err(refusal(about, assumes, instead));
                }
                up_since[process] = fault.at;
            }
            _ => {}
        }
    }
    Ok(())
}

/// When a process that is up since `up_since` learns of a report of its detector at `at`: at once, or when its pause
/// ends.
fn awake(faults: &[Fault], process: ProcessId, up_since: Ticks, at: Ticks) -> Ticks {
    let asleep = |fault: &&Fault| {
        matches!(fault.kind, FaultKind::Pause { process: sleeper, .. } if sleeper == process)
            && (up_since..=at).contains(&fault.at)
    };
    faults.iter().filter(asleep).map(Fault::over).max().unwrap_or(at).max(at)
}

/// Checks everything that depends on the options alone, and not on the group.
fn check_options(about: &'static About, options: &Options) -> Result<(), RunError> {
    let (network, assumes) = (&options.network, about.assumes);
    let refuse = |assumes, instead: String| Err(refusal(about, assumes, instead));
    if assumes.fifo && !network.fifo {
        return refuse("links that keep the order of messages", "these do not".into());
    }
    if assumes.lossless && network.loss > 0.0 {
        return refuse("that no message is lost", format!("{} of them would be", network.loss));
    }
    if assumes.no_duplicates && network.duplicate > 0.0 {
        return refuse("that no message arrives twice", format!("{} of them would", network.duplicate));
    }
    if assumes.synchronous {
        check_synchrony(about, options)?;
    }
    options.faults.iter().try_for_each(|fault| match (&fault.kind, assumes.crashes) {
        (FaultKind::Pause { process, .. }, _) if assumes.synchronous => {
            refuse("a bound on delays", format!("P{process} would keep its messages waiting"))
        }
        (FaultKind::Crash(process), Crashes::Never) => refuse("that no process crashes", format!("P{process} would")),
        (FaultKind::Crash(process), Crashes::Coordinators) if *process < options.params.n => {
            refuse("that no client crashes", format!("P{process} is one and would"))
        }
        (FaultKind::Recover { process, memory: false }, _)
            if about.family == Family::Append && *process < options.params.n =>
        {
            refuse("that no client forgets its numbers", format!("P{process} would"))
        }
        (FaultKind::Recover { process, memory: false }, Crashes::Coordinators) => {
            refuse("that no coordinator forgets", format!("P{process} would"))
        }
        (FaultKind::Recover { process, .. }, Crashes::Final) => {
            refuse("that no id is used again after a crash", format!("P{process} would come back under its own"))
        }
        _ => Ok(()),
    })
}

/// Refuses delays without a bound, or with a higher bound than the processes believe in (`delay_max`).
fn check_synchrony(about: &'static About, options: &Options) -> Result<(), RunError> {
    let (delay, believed) = (options.network.delay, options.params.delay_max);
    match delay.bound() {
        None => Err(refusal(about, "a bound on delays", format!("{delay} has none"))),
        Some(bound) if bound > believed => {
            let instead = format!("a message may take {} T where it expects {} T at most", in_t(bound), in_t(believed));
            Err(refusal(about, "a known bound on delays", instead))
        }
        Some(_) => Ok(()),
    }
}

fn check_partitions(about: &'static About, faults: &[Fault], allowed: bool) -> Result<(), RunError> {
    let one_way = faults.iter().any(|fault| matches!(fault.kind, FaultKind::OneWay { .. }));
    let partition = faults.iter().any(|fault| matches!(fault.kind, FaultKind::Partition { .. }));
    if !(one_way || partition) {
        return Ok(());
    }
    let refuse = |assumes, instead: &str| Err(refusal(about, assumes, instead.into()));
    match about.assumes {
        // The sender of a lost message learns of the loss only by suspecting the receiver. It does not suspect the
        // receiver when only the link to the receiver is cut.
        _ if allowed && one_way => refuse("that links are cut both ways or not at all", "one would be cut one way"),
        _ if allowed => Ok(()),
        Assumes { lossless: true, .. } => refuse("that no message is lost", "a partition would lose some"),
        Assumes { crashes: Crashes::Detected | Crashes::Final | Crashes::ButOne | Crashes::ButSource, .. } => {
            refuse("that only crashed processes are suspected", "processes behind a partition would be, too")
        }
        _ => Ok(()),
    }
}

/// A guard needs judges that remember the terms they gave, so every process must recover with its memory.
fn check_memory(about: &'static About, faults: &[Fault]) -> Result<(), RunError> {
    faults.iter().try_for_each(|fault| match fault.kind {
        FaultKind::Recover { process, memory: false } => {
            let assumes = "behind a guard that no judge forgets which terms it gave";
            Err(refusal(about, assumes, format!("P{process} would")))
        }
        _ => Ok(()),
    })
}

/// At least one of the processes that are not clients must never crash.
fn check_survivors(about: &'static About, faults: &[Fault], helpers: Range<usize>) -> Result<(), RunError> {
    let crashes = |helper| faults.iter().any(|fault| fault.kind == FaultKind::Crash(helper));
    if !helpers.clone().all(crashes) {
        return Ok(());
    }
    let instead = format!("all of them, P{} to P{}, would", helpers.start, helpers.end - 1);
    Err(refusal(about, "that one replica never crashes", instead))
}

fn refusal(about: &'static About, assumes: &'static str, instead: String) -> RunError {
    RunError::Assumption { algorithm: about.name, assumes, instead }
}
