//! One run: from options to a report.

use std::io::{self, Write};

use baton_protocol::append::Append;
use baton_protocol::detector::Detector;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Params, Promises, SetupError, Survivors, Visitor};
use baton_protocol::{Group, PerProperty, Protocol, Ticks};
use baton_trace::{Event, Header, Unit};
use cpu_time::ThreadTime;

use crate::app::Application;
use crate::app::append::AppendUsers;
use crate::app::detector::{self, DetectorUsers};
use crate::app::election::{ElectionTrigger, ElectionUsers, Noticed};
use crate::app::mutex::{self, Load, MutexUsers, Patience, Workload};
use crate::assumptions;
use crate::clocks::Clocks;
use crate::faults::{Fault, FaultKind};
use crate::network::Network;
use crate::oracle::bypass::Bypasses;
use crate::oracle::causality::Causality;
use crate::oracle::file::Files;
use crate::oracle::{Finding, Verdict};
use crate::progress::Watch;
use crate::report::{AppendReport, DetectorReport, ElectionReport, MutexReport, Properties, Report, StoreReport};
use crate::swarm;
use crate::time::{in_t, ticks};
use crate::tracer::Tracer;
use crate::world::{Ended, Setup, Wire, World};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// As the registry calls it.
    pub algorithm: String,
    /// The group. Its `delay_max` is what the processes believe of the network.
    pub params: Params,
    /// The network.
    pub network: Network,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What the users do.
    pub workload: Workload,
    /// Of all randomness.
    pub seed: u64,
    /// By which part clocks may run fast or slow, and with them timers and failure detectors.
    pub drift: f64,
    /// Whether to run it on a network, or with faults, that it is not made for.
    pub ignore_assumptions: bool,
    /// How long a request may wait, in T, after the last fault is over; generously if none.
    pub patience: Option<f64>,
    /// Whether further faults, and how many, are drawn from the seed.
    pub swarm: bool,
    /// Stop after so many events, and call what has not happened by then a liveness violation.
    pub events_max: u64,
    /// Who is told how far it is.
    pub watch: Option<Watch>,
}

impl Options {
    /// Everybody wants to enter, on a synchronous network without faults; 20 entries each. Messages keep their order only
    /// if the algorithm needs that.
    pub fn new(algorithm: &str, n: usize) -> Self {
        let fifo = registry::find(algorithm).is_ok_and(|about| about.assumes.fifo);
        let network = Network { fifo, ..Network::SYNCHRONOUS };
        let entries = 20 * n as u64;
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
            swarm: false,
            events_max: events_max(entries, n),
            watch: None,
        }
    }

    /// If nobody says how long, it is so long that only who waits for ever is too late, or nearly: on a network without a
    /// bound on delays one message can take very long.
    fn patience(&self) -> Patience {
        let round = in_t(self.params.delay_max) + self.workload.hold;
        let bounded = 10_000.0 + 1_000.0 * self.params.n as f64 * round;
        let generous = if self.network.delay.bound().is_some() { bounded } else { 100.0 * bounded };
        let lasts = ticks(self.patience.unwrap_or(generous));
        Patience { faults_over: self.faults.iter().map(Fault::over).max().unwrap_or(0), lasts }
    }
}

/// A limit on events that no run of so many entries by so many processes comes near, unless it goes round in circles.
pub fn events_max(entries: u64, n: usize) -> u64 {
    entries.saturating_mul(n as u64).saturating_mul(200).max(5_000_000)
}

/// Why a run was refused or could not be told.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No such group.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Something that was written down cannot be read.
    #[error("{0}")]
    Spec(String),
    /// The algorithm is not made for this.
    #[error("`{algorithm}` assumes {assumes}, and {instead}; --ignore-assumptions runs it all the same")]
    Assumption {
        /// Which algorithm.
        algorithm: &'static str,
        /// What it needs.
        assumes: &'static str,
        /// What it would get.
        instead: String,
    },
    /// Nothing that the simulator knows how to use.
    #[error("`{algorithm}` cannot be simulated")]
    Unsupported {
        /// Which algorithm.
        algorithm: &'static str,
    },
    /// A fault that cannot strike.
    #[error("P{process} cannot {what} at {at} T, since {reason}")]
    ImpossibleFault {
        /// The process.
        process: usize,
        /// What would happen to it.
        what: &'static str,
        /// When, in T.
        at: f64,
        /// Why not, and what would be right.
        reason: String,
    },
    /// An option that the algorithm has no use for.
    #[error("`{option}` means nothing for `{algorithm}`: {reason}")]
    Meaningless {
        /// The option.
        option: &'static str,
        /// Which algorithm.
        algorithm: &'static str,
        /// Who has a use for it, or when.
        reason: String,
    },
    /// A fault at a process that does not exist.
    #[error("there is no P{process} for a fault to strike; the processes are P0 to P{last}")]
    NoSuchProcess {
        /// The process.
        process: usize,
        /// The last one that exists.
        last: usize,
    },
    /// A number out of its range.
    #[error("{what} cannot be {value}; {right}")]
    OutOfRange {
        /// Of what.
        what: &'static str,
        /// The number.
        value: f64,
        /// What would be right.
        right: &'static str,
    },
    /// The trace cannot be written.
    #[error("cannot write the trace: {0}")]
    Trace(io::Error),
}

/// Runs it; writes what happens to `trace`, if given.
pub fn run(options: &Options, trace: Option<Box<dyn Write>>) -> Result<Report, RunError> {
    registry::check(&options.algorithm, &options.params)?;
    if options.swarm {
        return run(&swarm::draw(options)?, trace);
    }
    assumptions::check_ranges(options)?;
    check_runs(options, 1)?;
    registry::visit(&options.algorithm, &options.params, Run { options, trace })?
}

/// The same run with so many seeds, from its own on; who watches it watches all of them.
pub fn seeds(options: &Options, runs: u64) -> impl Iterator<Item = Options> {
    (0..runs).map(move |index| Options {
        seed: options.seed.wrapping_add(index),
        watch: options.watch.as_ref().map(|watch| watch.of_piece(index, runs)),
        ..options.clone()
    })
}

/// The most requests in all runs of one command: minutes, where nobody stays for years.
pub const ENTRIES_MAX: u64 = 1_000_000_000;

/// Whether so many runs of it come to an end in this life.
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

/// What every run has in common, when it is over.
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
        detection: Option<Ticks>,
        causality: bool,
    ) -> Result<Outcome<P, A>, RunError> {
        let options = self.options;
        assumptions::check(about, options, &group, detection)?;
        let clocks = Clocks::drawn(group.processes, options.drift, options.seed);
        let header = header(about, options, &group, &clocks);
        let tracer = self.trace.map(|sink| Tracer::new(sink, &header)).transpose().map_err(RunError::Trace)?;
        let setup = Setup {
            network: options.network.clone(),
            faults: options.faults.clone(),
            detection,
            clocks,
            seed: options.seed,
            tracer,
            causality,
        };
        let mut world = World::new(group, users, setup);
        // The time of this thread, not that of the wall: other programs on the machine are not to blame the simulator for.
        let start = ThreadTime::now();
        let ended = world.run(options.events_max, options.watch.as_ref());
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
        let promises = promises(about, group.lease, options);
        let watch_order = clients <= Causality::CLIENTS_MAX;
        let users = MutexUsers::new(clients, options.workload.clone(), options.patience(), watch_order, !options.seed);
        let detection = Some(2 * options.params.delay_max);
        let topology = group.topology.clone();
        let Outcome { users, mut wire, ended, events_per_s, .. } =
            self.go(about, group, users, detection, watch_order)?;
        let liveness = mutex_liveness(&users, &mut wire, ended);
        let order = if watch_order {
            Finding::from_violation(users.violations.get("order"))
        } else {
            Finding::unchecked(format!("happened-before is kept for up to {} clients", Causality::CLIENTS_MAX))
        };
        let properties = Properties(PerProperty {
            safety: Finding::from_violation(users.violations.get("safety")),
            liveness,
            order,
            fence: Finding::from_violation(users.violations.get("fence")),
        });
        let store = store_report(&users);
        let entered = users.entered();
        finish_trace(&mut wire, ended, entered)?;
        let time = in_t(wire.now());
        let messages = wire.messages();
        let per_entry = |of: fn(&crate::metrics::Messages) -> u64| users.measured.per_entry(messages, entered, of);
        Ok(Report::Mutex(Box::new(MutexReport {
            algorithm: about.name,
            variant: options.params.variant.clone(),
            n: clients,
            load: options.workload.load,
            seed: options.seed,
            entries: entered,
            measured_entries: users.measured.entries(entered),
            messages: messages.sent,
            messages_per_entry: per_entry(|messages| messages.sent),
            messages_by_kind: messages.by_kind(),
            messages_per_entry_max: messages.most_for_one_request(),
            multicasts_per_entry: per_entry(|messages| messages.multicasts),
            bytes: messages.bytes,
            bytes_per_entry: per_entry(|messages| messages.bytes),
            entry_messages: per_entry(|messages| messages.sent - messages.on_exit),
            exit_messages: per_entry(|messages| messages.on_exit),
            client_delay: users.measured.client_delay.summary(),
            sync_delay: users.measured.sync_delay.summary(),
            bypass: users.bypasses.as_ref().and_then(Bypasses::summary),
            time,
            broken_promises: broken_promises(&properties, &promises, store.as_ref()),
            store,
            entries_by_client: users.measured.entries_by_client.clone(),
            topology,
            properties,
            events_per_s,
        })))
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        let (options, n) = (self.options, group.clients);
        let delay_max = options.params.delay_max;
        let detection = 2 * delay_max;
        let trigger = match (options.faults.iter().map(Fault::over).max(), options.workload.load) {
            (Some(over), _) => ElectionTrigger::Faults { over: over + detection },
            (None, Load::All | Load::Random) => ElectionTrigger::NoLeader(Noticed::ByAll),
            (None, Load::Solo) => ElectionTrigger::NoLeader(Noticed::ByTheLowest),
            (None, Load::SoloRandom) => ElectionTrigger::NoLeader(Noticed::ByOne),
        };
        // Where one crash is the trigger the others are told once an election without a guard is over: it is to be
        // held by those who notice, but a judge that is never told would never let anybody take the dead one's place.
        let told = if matches!(trigger, ElectionTrigger::Faults { .. }) { detection } else { 2 * detection };
        // Bully may take until the next announcement; whoever has no timers ends by being quiet.
        let patience = (100 + 10 * n as Ticks) * delay_max;
        let users = ElectionUsers::new(n, group.elects, trigger, patience, !options.seed);
        let survivors = group.survivors.clone();
        let Outcome { users, mut wire, ended, events_per_s, .. } = self.go(about, group, users, Some(told), false)?;
        let (leader, term) = users.leader();
        let liveness = match leader {
            Some(_) => Finding::held(),
            None if options.faults.iter().any(Fault::is_never_over) => {
                Finding::unchecked("a partition never heals, and those who live cannot all agree")
            }
            None => {
                match survivors.filter(|_| options.faults.is_empty()).and_then(|survivors| too_few(&survivors, &wire)) {
                    Some(why) => Finding::unchecked(why),
                    None => Finding::violated("those who live do not all agree on the one who should lead".into()),
                }
            }
        };
        let none = || Finding::unchecked("elections have none");
        let properties = Properties(PerProperty {
            safety: Finding::from_violation(users.violation.as_ref()),
            liveness,
            order: none(),
            fence: none(),
        });
        if let (Verdict::Violated, Some(detail)) = (properties.liveness.verdict, properties.liveness.detail.clone()) {
            wire.trace_all(|| Event::Violation { property: "liveness".into(), detail });
        }
        finish_trace(&mut wire, ended, 0)?;
        let last_arrival = wire.last_arrival();
        let dead = (0..n).filter(|&process| !wire.is_up(process)).collect();
        let messages = wire.messages();
        Ok(Report::Election(Box::new(ElectionReport {
            algorithm: about.name,
            variant: options.params.variant.clone(),
            n,
            seed: options.seed,
            leader,
            term,
            dead,
            noticed: users.noticed.clone(),
            messages: messages.sent - users.messages_before(),
            messages_by_kind: messages.by_kind(),
            time: users.time(last_arrival).map(in_t),
            rivals: in_t(users.rivals(wire.now())),
            broken_promises: properties.broken(&about.promises),
            properties,
            events_per_s,
        })))
    }

    fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> Self::Output {
        self.detectors(about, group)
    }

    fn append<P: Append>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.appends(about, group)
    }
}

impl Run<'_> {
    /// Reports on watchers and watched, when the run is over.
    fn detectors<D: Detector>(self, about: &'static About, group: Group<D>) -> Result<Report, RunError> {
        let (options, n) = (self.options, group.clients);
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
        let liveness = users.incomplete().map_or_else(Finding::held, Finding::violated);
        if let Some(detail) = liveness.detail.clone() {
            wire.trace_all(|| Event::Violation { property: "liveness".into(), detail });
        }
        let none = || Finding::unchecked("failure detectors have none");
        let safety = Finding::from_violation(users.violation.as_ref());
        let properties = Properties(PerProperty { safety, liveness, order: none(), fence: none() });
        finish_trace(&mut wire, ended, 0)?;
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
            messages: messages.sent,
            messages_by_kind: messages.by_kind(),
            broken_promises: properties.broken(&about.promises),
            properties,
            events_per_s,
        })))
    }
}

impl Run<'_> {
    /// Reports on appends, when all is quiet.
    fn appends<P: Append>(self, about: &'static About, group: Group<P>) -> Result<Report, RunError> {
        let (options, n, replicas) = (self.options, group.clients, group.processes - group.clients);
        let detection = 2 * options.params.delay_max;
        let patience = 1_000 * options.params.delay_max + ticks(options.workload.think);
        let users = AppendUsers::new(n, options.workload.clone(), patience, !options.seed);
        let Outcome { users, mut wire, processes, ended, events_per_s } =
            self.go(about, group, users, Some(detection), false)?;
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
        let none = || Finding::unchecked("appends have none");
        let properties = Properties(PerProperty { safety, liveness, order: none(), fence: none() });
        finish_trace(&mut wire, ended, 0)?;
        let messages = wire.messages();
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
            messages_per_append: users.measured.per_entry(messages, users.answered(), |messages| messages.sent),
            messages_by_kind: messages.by_kind(),
            bytes: messages.bytes,
            client_delay: users.measured.client_delay.summary(),
            throughput: users.answered() as f64 / in_t(users.progress()).max(1e-9),
            broken_promises: properties.broken(&about.promises),
            properties,
            events_per_s,
        })))
    }
}

/// What is promised in this run. Where grants are leases, being alone ends with the lease, by the clock of who gave it:
/// who sleeps through its end, or stays inside for longer, may have company, and may even enter after those who were
/// granted later.
fn promises(about: &About, lease: Option<Ticks>, options: &Options) -> Promises {
    let pauses = options.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Pause { .. }));
    let stay = options.network.delay.bound().map(|bound| in_t(bound) + options.workload.hold);
    let fastest = 1.0 + options.drift;
    let kept = lease.is_none_or(|lease| !pauses && stay.is_some_and(|stay| stay * fastest <= in_t(lease)));
    let Promises { safety, fence, .. } = about.promises;
    Promises { safety: safety && kept, fence: fence && kept, ..about.promises }
}

/// Data that holders write is always promised to survive: fences exist for the runs in which being alone is not.
fn broken_promises(properties: &Properties, promises: &Promises, store: Option<&StoreReport>) -> Vec<&'static str> {
    let mut broken = properties.broken(promises);
    broken.extend(store.filter(|store| store.data.verdict == Verdict::Violated).map(|_| "store"));
    broken
}

fn why_in_vain(users: &MutexUsers, now: Ticks, ended: Ended) -> String {
    match ended {
        Ended::Limit => "the limit of events is reached".into(),
        Ended::Finished if users.is_stuck(now) => format!("nobody has entered since {} T", in_t(users.progress())),
        Ended::Quiet | Ended::Finished => "nothing can happen any more".into(),
    }
}

/// Why nobody can lead though nobody wrote down a fault, if the crash that is the trigger has left too few.
fn too_few<P: Protocol, X>(survivors: &Survivors, wire: &Wire<P, X>) -> Option<String> {
    let Survivors { assumes, among, least } = survivors;
    let living = among.clone().filter(|&process| wire.is_up(process)).count();
    (living < *least)
        .then(|| format!("it assumes {assumes}, and the crash of the leader leaves {living} of {}", among.len()))
}

/// Whether everybody was granted, and in time.
fn mutex_liveness<P: Mutex>(users: &MutexUsers, wire: &mut Wire<P, mutex::Plan>, ended: Ended) -> Finding {
    let waiting = users.waiting().next();
    let detail = match (waiting, ended) {
        (None, Ended::Limit) => "the limit of events is reached before all have asked".into(),
        (None, _) => return Finding::from_violation(users.violations.get("liveness")),
        (Some((process, since)), _) => {
            format!("P{process} has waited since {} T, and {}", in_t(since), why_in_vain(users, wire.now(), ended))
        }
    };
    wire.trace_all(|| Event::Violation { property: "liveness".into(), detail: detail.clone() });
    Finding::violated(detail)
}

fn store_report(users: &MutexUsers) -> Option<StoreReport> {
    let store = users.store.as_ref()?;
    let (writes, refused, lost) = store.counts();
    let data = Finding::from_violation(users.violations.get("store"));
    Some(StoreReport { fencing: store.fencing(), writes, refused, lost, data })
}

fn header<P>(about: &'static About, options: &Options, group: &Group<P>, clocks: &Clocks) -> Header {
    let workload = &options.workload;
    let mut network = options.network.to_json();
    if let Some(rates) = clocks.rates() {
        network["drift"] = options.drift.into();
        network["clock_rates"] = rates.into();
    }
    Header {
        seed: options.seed,
        network,
        workload: serde_json::json!({
            "load": workload.load,
            "entries": workload.entries,
            "hold": workload.hold,
            "think": workload.think,
            "app_messages": workload.app_messages,
            "store": workload.store,
        }),
        ..Header::new(about, &options.params, group.processes, &group.topology, Unit::T)
    }
}

fn finish_trace<P: Protocol, X>(wire: &mut Wire<P, X>, ended: Ended, entries: u64) -> Result<(), RunError> {
    let reason = match ended {
        Ended::Finished => "finished",
        Ended::Quiet => "quiet",
        Ended::Limit => "limit",
    };
    let messages = wire.messages().sent;
    wire.trace_all(|| Event::End { reason: reason.into(), entries, messages });
    wire.take_tracer().map_or(Ok(()), |tracer| tracer.finish().map_err(RunError::Trace))
}
