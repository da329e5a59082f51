//! One run: from [`Options`] to a [`Report`].

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use baton_protocol::append::Append;
use baton_protocol::detector::Detector;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Params, Promises, SetupError, Visitor};
use baton_protocol::{Group, PerProperty, ProcessId, Protocol, Ticks};
use baton_trace::{Event, Header, Recorder, Trace, Unit};
use cpu_time::ThreadTime;

use crate::app::Application;
use crate::app::append::AppendUsers;
use crate::app::detector::{self, DetectorUsers};
use crate::app::mutex::{self, Load, MutexUsers, Patience, StoreKind, Workload};
use crate::assumptions;
use crate::clocks::Clocks;
use crate::detector::Delays;
use crate::faults::{self, Fault, FaultKind};
use crate::metrics::ProcessLoad;
use crate::network::Network;
use crate::oracle::bypass::Bypasses;
use crate::oracle::causality::Causality;
use crate::oracle::file::Files;
use crate::oracle::{Finding, Verdict};
use crate::progress::Watch;
use crate::report::{AppendReport, DetectorReport, MutexReport, Properties, Report, StoreReport};
use crate::swarm;
use crate::time::{in_t, ticks};
use crate::world::{Ended, Setup, Wire, World};

mod election;
mod findings;

#[derive(Clone, Debug)]
pub struct Options {
    /// The name in the registry.
    pub algorithm: String,
    /// The group. Its `delay_max` is the longest message delay that the processes believe in.
    pub params: Params,
    pub network: Network,
    pub faults: Vec<Fault>,
    pub workload: Workload,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The largest error of a clock, as a part of its speed. Timers and failure detectors run by these clocks.
    pub drift: f64,
    /// Whether to run on networks and with faults that break an assumption of the algorithm.
    pub ignore_assumptions: bool,
    /// How long a request may wait after the last fault, in T. None: very long.
    pub patience: Option<f64>,
    /// Elections without faults: the process that notices that there is no leader. None: as the load says.
    pub noticed_by: Option<usize>,
    /// Whether to add faults that the seed draws.
    pub swarm: bool,
    /// Whether no failure detector reports crashes and cuts to the processes.
    pub no_detector: bool,
    /// The time in which the failure detectors of all processes report an event, in T. 0: all report at once.
    pub detector_spread: f64,
    /// The run stops after this many events. Requests that still wait then violate liveness.
    pub events_max: u64,
    /// Receives the progress of the run.
    pub watch: Option<Watch>,
    /// Another thread sets it to stop the run, which then ends with [`RunError::Stopped`].
    pub stop: Option<Arc<AtomicBool>>,
}

impl Options {
    /// Every client always wants to enter, 20 times, on a synchronous network without faults. Messages keep their order
    /// only if the algorithm needs it.
    pub fn new(algorithm: &str, n: usize) -> Self {
        let fifo = registry::find(algorithm).is_ok_and(|about| about.assumes.fifo);
        let network = Network { fifo, ..Network::SYNCHRONOUS };
        let entries = (n as u64).saturating_mul(20);
        Options {
            algorithm: algorithm.into(),
            params: Params::new(n, network.delay.guess()),
            network,
            faults: Vec::new(),
            workload: Workload { load: Load::All, entries, hold: 1.0, think: 0.0, app_messages: false, store: None },
            seed: 1,
            drift: 0.0,
            ignore_assumptions: false,
            patience: None,
            noticed_by: None,
            swarm: false,
            no_detector: false,
            detector_spread: 0.0,
            events_max: events_max(entries, n),
            watch: None,
            stop: None,
        }
    }

    /// How long after a crash, a recovery or a cut the detector reports it. None: there is no detector.
    fn detection(&self) -> Option<Delays> {
        self.reports_after(2 * self.params.delay_max)
    }

    /// The delays of detectors that report after `least` at the earliest.
    fn reports_after(&self, least: Ticks) -> Option<Delays> {
        (!self.no_detector).then(|| Delays { least, spread: ticks(self.detector_spread) })
    }

    /// The default is so long that practically only a request that waits for ever is too late. It is even longer
    /// without a bound on delays, because then one message can take very long.
    fn patience(&self) -> Patience {
        let round = in_t(self.params.delay_max) + self.workload.hold;
        let bounded = 10_000.0 + 1_000.0 * self.params.n as f64 * round;
        let generous = if self.network.delay.bound().is_some() { bounded } else { 100.0 * bounded };
        let lasts = ticks(self.patience.unwrap_or(generous));
        Patience { faults_over: self.faults.iter().map(Fault::over).max().unwrap_or(0), lasts }
    }
}

/// A limit that no run with this many entries and processes comes near, unless it loops.
pub fn events_max(entries: u64, n: usize) -> u64 {
    entries.saturating_mul(n as u64).saturating_mul(200).max(5_000_000)
}

/// Why a run was refused, or why its trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The registry cannot make such a group.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A text of the user, such as a delay or a fault, has a mistake.
    #[error("{0}")]
    Spec(String),
    /// The network or a fault breaks an assumption of the algorithm.
    #[error("`{algorithm}` assumes {assumes}, and {instead}; --ignore-assumptions runs it all the same")]
    Assumption {
        algorithm: &'static str,
        /// What the algorithm assumes, as the end of a sentence.
        assumes: &'static str,
        /// What the run would do, as the end of a sentence.
        instead: String,
    },
    /// The simulator has no users for this family of algorithms.
    #[error("`{algorithm}` cannot be simulated")]
    Unsupported { algorithm: &'static str },
    /// A fault that cannot happen.
    #[error("P{process} cannot {what} at {at} T, since {reason}")]
    ImpossibleFault {
        process: usize,
        /// The fault, as a verb.
        what: &'static str,
        /// In T.
        at: f64,
        /// Why the fault cannot happen, and what would be right.
        reason: String,
    },
    /// An option that has no meaning for the algorithm.
    #[error("--{option} means nothing for `{algorithm}`: {reason}; leave it out")]
    Meaningless {
        option: &'static str,
        algorithm: &'static str,
        /// Which algorithms use the option, or why it is ignored here.
        reason: String,
    },
    #[error("P{process} cannot notice that there is no leader: {why}")]
    CannotNotice {
        process: usize,
        /// It is the leader itself, or does not exist.
        why: String,
    },
    #[error("there is no P{process} for a fault to strike; the processes are P0 to P{last}")]
    NoSuchProcess {
        process: usize,
        /// The last process that exists.
        last: usize,
    },
    #[error("{what} cannot be {value}; {right}")]
    OutOfRange {
        what: &'static str,
        value: f64,
        /// The right range.
        right: &'static str,
    },
    #[error("cannot write the trace: {0}")]
    Trace(io::Error),
    /// The caller has set [`Options::stop`].
    #[error("the run was stopped")]
    Stopped,
}

/// Runs the options. Writes the events to `trace`, if given.
pub fn run(options: &Options, trace: Option<Box<dyn Write>>) -> Result<Report, RunError> {
    registry::check(&options.algorithm, &options.params)?;
    if options.swarm {
        let drawn = swarm::draw(options)?;
        let mut report = run(&drawn, trace)?;
        report.set_drawn(swarm::added(options, &drawn));
        return Ok(report);
    }
    assumptions::check_ranges(options)?;
    check_runs(options, 1)?;
    registry::visit(&options.algorithm, &options.params, Run { options, trace })?
}

/// Runs the options, and keeps the trace.
pub fn run_traced(options: &Options) -> Result<(Report, Trace), RunError> {
    let sink = Shared::default();
    let report = run(options, Some(Box::new(sink.clone())))?;
    let trace = Trace::read(sink.0.take().as_slice()).map_err(|error| RunError::Trace(io::Error::other(error)))?;
    Ok((report, trace))
}

/// Collects what a run writes.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same options with `runs` seeds, starting with their own seed. The watcher sees the progress of all runs
/// together.
pub fn seeds(options: &Options, runs: u64) -> impl Iterator<Item = Options> {
    (0..runs).map(move |index| Options {
        seed: options.seed.wrapping_add(index),
        watch: options.watch.as_ref().map(|watch| watch.of_piece(index, runs)),
        ..options.clone()
    })
}

/// The most requests in all runs of one command, so that a command takes minutes and not years.
pub const ENTRIES_MAX: u64 = 1_000_000_000;

/// Refuses more than [`ENTRIES_MAX`] requests in all runs together.
pub fn check_runs(options: &Options, runs: u64) -> Result<(), RunError> {
    let entries = options.workload.entries;
    if runs.saturating_mul(entries) <= ENTRIES_MAX {
        return Ok(());
    }
    let asked = if runs == 1 { String::new() } else { format!("{runs} runs of ") };
    Err(RunError::Spec(format!("{asked}{entries} entries are too many; at most 1,000,000,000 entries in all")))
}

struct Run<'o> {
    options: &'o Options,
    trace: Option<Box<dyn Write>>,
}

/// What every kind of run yields.
struct Outcome<P: Protocol, A: Application<P>> {
    users: A,
    wire: Wire<P, A::Plan>,
    processes: Vec<P>,
    ended: Ended,
    events_per_s: f64,
}

impl Run<'_> {
    fn go<P: Protocol, A: Application<P>>(
        self,
        about: &'static About,
        group: Group<P>,
        users: A,
        detection: Option<Delays>,
        causality: bool,
    ) -> Result<Outcome<P, A>, RunError> {
        let options = self.options;
        // The source of views learns of a crash after all clients could have learned that their leases are over.
        let source_waits = group.source.map_or(0, |_| ticks(options.detector_spread) + 1);
        assumptions::check(about, options, &group, detection.map(|delays| delays.longest() + source_waits))?;
        let clocks = Clocks::drawn(group.processes, options.drift, options.seed);
        let header = header(about, options, &group, &clocks);
        let begin = |sink| Recorder::begin(sink, &header, group.processes);
        let recorder = self.trace.map(begin).transpose().map_err(RunError::Trace)?;
        let setup = Setup {
            network: options.network.clone(),
            faults: options.faults.clone(),
            detection,
            clocks,
            seed: options.seed,
            recorder,
            causality,
        };
        let mut world = World::new(group, users, setup);
        // CPU time of this thread, and not wall-clock time, so that other programs on the machine do not
        // change the result.
        let start = ThreadTime::now();
        let ended = world.run(options.events_max, options.watch.as_ref(), options.stop.as_deref());
        let ended = ended.ok_or(RunError::Stopped)?;
        let seconds = start.elapsed().as_secs_f64();
        let (users, wire, processes) = world.into_parts();
        let events_per_s = wire.deliveries() as f64 / seconds.max(1e-9);
        Ok(Outcome { users, wire, processes, ended, events_per_s })
    }
}

impl Visitor for Run<'_> {
    type Output = Result<Report, RunError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        Err(RunError::Unsupported { algorithm: about.name })
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
        let (options, clients) = (self.options, group.clients);
        let notes = faults::notes(&options.faults, group.processes);
        let promises = promises(about, group.lease, options);
        let watch_order = clients <= Causality::CLIENTS_MAX;
        let users = MutexUsers::new(clients, options.workload.clone(), options.patience(), watch_order, !options.seed)
            .with_lease(group.lease, options.params.delay_max);
        let detection = options.detection();
        let (topology, processes) = (group.topology.clone(), group.processes);
        let Outcome { users, mut wire, ended, events_per_s, .. } =
            self.go(about, group, users, detection, watch_order)?;
        let liveness = mutex_liveness(&users, &mut wire, ended);
        let properties = findings::of_mutex(about, &promises, options, &users, liveness, watch_order);
        let store = store_report(&users, options.workload.store);
        let entered = users.entered();
        finish_trace(&mut wire, ended)?;
        let time = in_t(wire.now());
        let messages = wire.messages();
        let measured_entries = users.measured.entries(entered);
        // A run that got stuck has no costs per entry: its messages also belong to requests that never entered.
        let is_stuck = users.waiting().next().is_some();
        let per_entry = |of: fn(&crate::metrics::Messages) -> u64| {
            users.measured.per_entry(messages, entered, of).filter(|_| !is_stuck)
        };
        let workload = &options.workload;
        let is_alone = matches!(workload.load, Load::Solo | Load::SoloRandom) && !workload.app_messages;
        let most_alone = (is_alone && entered > 0).then(|| users.measured.most_between_entries());
        let by_process = users.measured.by_process(messages, processes);
        let (client_delay_max, sync_delay_max) = users.measured.longest_delays();
        Ok(Report::Mutex(Box::new(MutexReport {
            algorithm: about.name,
            variant: options.params.variant.clone(),
            n: clients,
            load: options.workload.load,
            seed: options.seed,
            entries: entered,
            measured_entries,
            messages: messages.sent,
            messages_per_entry: per_entry(|messages| messages.sent),
            messages_by_kind: messages.by_kind(),
            messages_per_entry_max: messages.most_for_one_request().or(most_alone).filter(|_| !is_stuck),
            messages_per_process: ProcessLoad::new(&by_process, measured_entries).filter(|_| !is_stuck),
            multicasts_per_entry: per_entry(|messages| messages.multicasts),
            bytes: messages.bytes,
            bytes_per_entry: per_entry(|messages| messages.bytes),
            entry_messages: per_entry(|messages| messages.sent - messages.on_exit),
            exit_messages: per_entry(|messages| messages.on_exit),
            client_delay: users.measured.client_delay(),
            sync_delay: users.measured.sync_delay(),
            client_delay_max,
            sync_delay_max,
            drawn: None,
            notes,
            bypass: users.bypasses.as_ref().and_then(Bypasses::summary).filter(|_| entered > 0),
            time,
            broken_promises: broken_promises(&properties, &promises, store.as_ref()),
            store,
            entries_by_client: users.measured.entries_by_client(),
            topology,
            properties,
            events_per_s,
        })))
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.elections(about, group)
    }

    fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> Self::Output {
        self.detectors(about, group)
    }

    fn append<P: Append>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.appends(about, group)
    }
}

impl Run<'_> {
    fn detectors<D: Detector>(self, about: &'static About, group: Group<D>) -> Result<Report, RunError> {
        let (options, n) = (self.options, group.clients);
        let notes = faults::notes(&options.faults, group.processes);
        let lasts = |fault: &Fault| match fault.kind {
            FaultKind::Pause { lasts, .. } => lasts,
            FaultKind::Partition { lasts, .. } | FaultKind::OneWay { lasts, .. } => lasts.unwrap_or_default(),
            FaultKind::Crash(_) | FaultKind::Recover { .. } => 0,
        };
        let crash_plan = match options.faults.iter().map(|fault| fault.at + lasts(fault)).max() {
            Some(over) => detector::CrashPlan::Faults { over },
            None => {
                detector::CrashPlan::Crashes { count: options.workload.entries, peace: ticks(options.workload.think) }
            }
        };
        let period = (group.make)(0).period();
        let (users, beaters) = DetectorUsers::new(group, crash_plan, !options.seed);
        let Outcome { mut users, mut wire, ended, events_per_s, .. } = self.go(about, beaters, users, None, false)?;
        users.close();
        let incomplete = users.incomplete();
        if let Some(detail) = incomplete.clone() {
            wire.trace_all(|| Event::Violation { property: "liveness".into(), detail });
        }
        let liveness = Finding::from_violation(incomplete.as_ref()).given(about.promises.liveness);
        let none = || Finding::unchecked("does not apply to failure detectors");
        let safety = Finding::from_violation(users.violation.as_ref()).given(about.promises.safety);
        let properties = Properties(PerProperty { safety, liveness, order: none(), fence: none() });
        finish_trace(&mut wire, ended)?;
        let time = in_t(wire.now());
        let pairs = (n * (n - 1)) as f64;
        let messages = wire.messages();
        Ok(Report::Detector(Box::new(DetectorReport {
            algorithm: about.name,
            variant: options.params.variant.clone(),
            n,
            seed: options.seed,
            crashes: users.crashes(),
            detection_time: users.detection_time.summary(),
            mistakes: users.mistakes,
            mistake_rate: users.mistakes as f64 / (time * pairs).max(1e-9),
            mistake_time: users.mistake_time.summary(),
            period: in_t(period),
            time,
            drawn: None,
            notes,
            messages: messages.sent,
            messages_by_kind: messages.by_kind(),
            broken_promises: properties.broken(&about.promises),
            properties,
            events_per_s,
        })))
    }
}

impl Run<'_> {
    fn appends<P: Append>(self, about: &'static About, group: Group<P>) -> Result<Report, RunError> {
        let (options, n, replicas) = (self.options, group.clients, group.processes - group.clients);
        let notes = faults::notes(&options.faults, group.processes);
        let patience = 1_000 * options.params.delay_max + ticks(options.workload.think);
        let users = AppendUsers::new(n, options.workload.clone(), patience, !options.seed);
        let Outcome { users, mut wire, processes, ended, events_per_s } =
            self.go(about, group, users, options.detection(), false)?;
        let live = processes.iter().enumerate().filter(|(process, _)| wire.is_up(*process));
        let files: Vec<_> = live.filter_map(|(id, process)| process.file().map(|file| (id, file))).collect();
        let contents = files.first().map(|(_, file)| Files::contents(file)).unwrap_or_default();
        let wrong = users.files.judge(&files, ended == Ended::Quiet);
        let safety = wrong.map_or_else(Finding::held, Finding::violated);
        let liveness = users.waiting().map_or_else(Finding::held, |(process, since)| {
            Finding::violated(format!("P{process} has waited since {} T", in_t(since)))
        });
        for (property, finding) in [("safety", &safety), ("liveness", &liveness)] {
            if let (Verdict::Violated, Some(detail)) = (finding.verdict, finding.detail.clone()) {
                wire.trace_all(|| Event::Violation { property: property.into(), detail });
            }
        }
        let none = || Finding::unchecked("does not apply to record append");
        let (safety, liveness) = (safety.given(about.promises.safety), liveness.given(about.promises.liveness));
        let properties = Properties(PerProperty { safety, liveness, order: none(), fence: none() });
        finish_trace(&mut wire, ended)?;
        let time = in_t(wire.now());
        let is_stuck = users.waiting().is_some();
        let messages = wire.messages();
        let per_append = users.measured.per_entry(messages, users.answered(), |messages| messages.sent);
        Ok(Report::Append(Box::new(AppendReport {
            algorithm: about.name,
            variant: options.params.variant.clone(),
            n,
            replicas,
            load: options.workload.load,
            seed: options.seed,
            appends: users.answered(),
            copies: files.len(),
            records: contents.records,
            padding: contents.padding,
            repeats: contents.repeats,
            messages: messages.sent,
            messages_per_append: per_append.filter(|_| !is_stuck),
            messages_by_kind: messages.by_kind(),
            bytes: messages.bytes,
            client_delay: users.measured.client_delay(),
            client_delay_max: users.measured.longest_delays().0,
            time,
            drawn: None,
            notes,
            throughput: users.answered() as f64 / in_t(users.progress()).max(1e-9),
            broken_promises: properties.broken(&about.promises),
            properties,
            events_per_s,
        })))
    }
}

/// What the algorithm promises in this run. If grants are leases, a holder is alone only until its lease ends, by the
/// clock of the process that gave the lease. A holder that is paused past the end, or stays longer, may share the
/// critical section with the next holder. It may even enter after a process with a later grant. Then neither safety nor
/// fences are promised.
fn promises(about: &About, lease: Option<Ticks>, options: &Options) -> Promises {
    let pauses = options.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Pause { .. }));
    let stay = options.network.delay.bound().map(|bound| in_t(bound) + options.workload.hold);
    let fastest = 1.0 + options.drift;
    let kept = lease.is_none_or(|lease| !pauses && stay.is_some_and(|stay| stay * fastest <= in_t(lease)));
    let Promises { safety, fence, .. } = about.promises;
    Promises { safety: safety && kept, fence: fence && kept, ..about.promises }
}

/// A lost write always counts as a broken promise: fences must protect the data even in runs that do not promise
/// safety.
fn broken_promises(properties: &Properties, promises: &Promises, store: Option<&StoreReport>) -> Vec<&'static str> {
    let mut broken = properties.broken(promises);
    broken.extend(store.filter(|store| store.data.verdict == Verdict::Violated).map(|_| "store"));
    broken
}

fn why_in_vain(users: &MutexUsers, now: Ticks, ended: Ended) -> String {
    match ended {
        Ended::Limit => "the limit of events is reached".into(),
        Ended::Finished if users.is_stuck(now) => format!("no process has entered since {} T", in_t(users.progress())),
        Ended::Quiet | Ended::Finished => "nothing can happen any more".into(),
    }
}

/// Names the other processes that wait, a few of them at most.
fn also_waiting(others: impl Iterator<Item = (ProcessId, Ticks)>) -> String {
    const NAMED: usize = 8;
    let others: Vec<ProcessId> = others.map(|(process, _)| process).collect();
    let named: Vec<String> = others.iter().take(NAMED).map(|process| format!("P{process}")).collect();
    match (others.len(), others.len().saturating_sub(NAMED)) {
        (0, _) => String::new(),
        (1, _) => format!("; {} waits, too", named[0]),
        (_, 0) => format!("; {} wait, too", named.join(", ")),
        (_, more) => format!("; {} and {more} more wait, too", named.join(", ")),
    }
}

/// Whether every request was granted in time.
fn mutex_liveness<P: Mutex>(users: &MutexUsers, wire: &mut Wire<P, mutex::Plan>, ended: Ended) -> Finding {
    let mut waiting = users.waiting();
    let detail = match (waiting.next(), ended) {
        (None, Ended::Limit) => "the limit of events is reached before all requests were made".into(),
        (None, _) => return Finding::from_violation(users.violations.get("liveness")),
        (Some((process, since)), _) => {
            let why = why_in_vain(users, wire.now(), ended);
            format!("P{process} has waited since {} T, and {why}{}", in_t(since), also_waiting(waiting))
        }
    };
    wire.trace_all(|| Event::Violation { property: "liveness".into(), detail: detail.clone() });
    Finding::violated(detail)
}

fn store_report(users: &MutexUsers, kind: Option<StoreKind>) -> Option<StoreReport> {
    let (store, kind) = (users.store.as_ref()?, kind?);
    let (writes, refused, lost) = store.counts();
    let data = Finding::from_violation(users.violations.get("store"));
    Some(StoreReport { kind, fencing: store.fencing(), writes, refused, lost, data })
}

fn header<P>(about: &'static About, options: &Options, group: &Group<P>, clocks: &Clocks) -> Header {
    let workload = &options.workload;
    let mut network = options.network.traced();
    if options.no_detector {
        network.notes.insert("detector".into(), false.into());
    }
    if options.detector_spread > 0.0 {
        network.notes.insert("detector_spread".into(), options.detector_spread.into());
    }
    if let Some(rates) = clocks.rates() {
        network.notes.insert("drift".into(), options.drift.into());
        network.clock_rates = Some(rates);
    }
    let notes = baton_trace::notes(serde_json::json!({
        "load": workload.load,
        "entries": workload.entries,
        "hold": workload.hold,
        "think": workload.think,
        "app_messages": workload.app_messages,
        "store": workload.store,
    }));
    let promised = promises(about, group.lease, options);
    let broken_off = about.promises.each().into_iter().filter(|(property, is)| **is && !promised.include(*property));
    let not_promised = broken_off.map(|(property, _)| property.name().to_owned()).collect();
    Header {
        seed: options.seed,
        network,
        workload: baton_trace::Workload { notes, not_promised, ..Default::default() },
        ..Header::new(about, &options.params, group.processes, &group.topology, Unit::T)
    }
}

fn finish_trace<P: Protocol, X>(wire: &mut Wire<P, X>, ended: Ended) -> Result<(), RunError> {
    let reason = match ended {
        Ended::Finished => "finished",
        Ended::Quiet => "quiet",
        Ended::Limit => "limit",
    };
    wire.finish_trace(reason).map_err(RunError::Trace)
}
