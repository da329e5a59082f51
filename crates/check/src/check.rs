//! Makes a report from the name of an algorithm and options.

use std::thread;
use std::time::{Duration, Instant};

use baton_protocol::detector::Detector;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Crashes, Params, SetupError, Visitor};
use baton_protocol::{Group, Ticks};
use baton_trace::{DatedBy, Header, Unit, Workload};
use serde_json::json;

use crate::after::{Followed, Staged, StartingAt, follow};
use crate::detector::DetectorModel;
use crate::election::{ElectionModel, Setting, Times};
use crate::explore::{Bounds, End, Explored, Progress, explore};
use crate::faults::Recovery;
use crate::group::GroupModel;
use crate::liveness::{WAITERS_MAX, starve};
use crate::memory::Memory;
use crate::mutex::{Budget, MutexModel};
use crate::network::PROCESSES_MAX;
use crate::options::{self, DELAY_MAX};
use crate::recount::{recount, recount_normal};
use crate::report::{CheckReport, Cyclic, Reached, Trace, Unchecked, Verdict};
use crate::story::Told;
use crate::{CheckError, Faults, Options, Property};

/// Elections: failure detectors report a crash within this many D. An election takes less than that, so reports arrive
/// at every stage of an election.
const NOTICE_MAX_D: Ticks = 10;

/// Elections: all processes must agree after this many D, unless the user says otherwise or the group is large. The
/// slowest sign of a crash is the silence of the leader, about 22 D. On a ring an election goes round up to three
/// times.
const SETTLED_AFTER_D: Ticks = 40;
const NOTICED_AFTER_D: Ticks = 22;
const ROUNDS: Ticks = 4;

/// The limit of states in the search for starvation, if the user did not request liveness by name. Often there are
/// infinitely many states.
const CYCLIC_STATES_UNASKED: usize = 300_000;

/// A hint how an algorithm without counters may get a verdict.
const NO_COUNTERS: &str = "the processes show no counters, so states may differ only by counters and never come to an end; \
     name them in `Protocol::counters` (see CONTRIBUTING.md)";

/// Checks the algorithm with this name.
pub fn check(algorithm: &str, params: &Params, options: &Options) -> Result<CheckReport, CheckError> {
    registry::visit(algorithm, params, Checker { params, options })?
}

/// Checks any group, even if its algorithm is not in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Checker<'a> {
    /// The parameters of the group.
    pub params: &'a Params,
    pub options: &'a Options,
}

impl Visitor for Checker<'_> {
    type Output = Result<CheckReport, CheckError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        Err(CheckError::Uncheckable { algorithm: about.name })
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
        let mut report = self.prepare(about, &group)?;
        if self.options.entries == 0 {
            return Err(CheckError::NoEntries);
        }
        let header = Header::new(about, self.params, group.processes, &group.topology, Unit::T);
        let ordered = report.properties.contains(&Property::Order);
        let app_messages = self.options.app_messages.unwrap_or(u8::from(ordered));
        let budget = Budget {
            entries: Some(self.options.entries),
            app_messages,
            timers: Some(self.options.timers),
            faults: report.faults,
            crashes: if self.options.ignore_assumptions { Crashes::Any } else { about.assumes.crashes },
            recovery: self.recovery(about, &group),
        };
        (report.entries, report.app_messages) = (self.options.entries, app_messages);
        let liveness = report.properties.contains(&Property::Liveness);
        let asked = self.options.properties.is_some();
        if liveness && asked && group.clients > WAITERS_MAX {
            return Err(CheckError::TooManyToStarve { clients: group.clients });
        }
        if liveness && asked && !self.options.after.is_empty() {
            return Err(CheckError::FromTheStart { property: Property::Liveness, algorithm: about.name });
        }
        report.properties.retain(|property| *property != Property::Liveness);

        let mut random = false;
        if !report.properties.is_empty() {
            let mut model = MutexModel::new(&group, report.order, budget, &report.properties);
            self.run_after(&header, &mut report, &mut model)?;
            let doubt = report.reached.doubt().filter(|_| self.options.after.is_empty());
            doubt.into_iter().for_each(|why| report.doubt(why));
            (report.timers, random) = (model.system.timers.then_some(self.options.timers), model.system.random);
        }
        let undecided = report.properties.is_empty() || report.result == Verdict::Holds;
        let senseless = if !self.options.after.is_empty() {
            Some("starvation can be checked only from the start, not after a list of actions")
        } else if random {
            Some("processes make random choices, and with bad luck a process starves")
        } else if group.clients > WAITERS_MAX {
            Some("there are too many processes")
        } else {
            None
        };
        if let Some(why) = senseless.filter(|_| liveness && !asked) {
            report.unchecked.push(Unchecked { property: Property::Liveness, why });
        } else if liveness && undecided {
            // Normal forms are exact only if no process is suspected. If processes may be, the requests are limited.
            let entries = budget.entries.filter(|_| report.faults.of_processes());
            let budget = Budget { entries, app_messages: 0, timers: None, ..budget };
            let model = MutexModel::new(&group, report.order, budget, &[Property::Liveness, Property::Deadlock]);
            self.run_to_the_end(&header, &mut report, model, asked);
        } else if liveness && report.result == Verdict::Limit {
            report.unsettled.push(Property::Liveness);
        }
        Ok(report)
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        let mut report = self.prepare(about, &group)?;
        let header = Header::new(about, self.params, group.processes, &group.topology, Unit::T);
        let setting = Setting {
            times: self.times(about)?,
            faults: report.faults,
            recovery: self.recovery(about, &group),
            survivors: group.survivors.clone(),
        };
        report.delays = Some((setting.times.delay_max, self.params.delay_max));
        let mut model = ElectionModel::new(&group, report.order, setting, &report.properties);
        self.run_after(&header, &mut report, &mut model)?;
        if report.reached.entries == 0 && self.options.after.is_empty() {
            report.doubt("no process ever leads, so nothing has been shown");
        }
        Ok(report)
    }

    fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> Self::Output {
        let mut report = self.prepare(about, &group)?;
        if let (false, Some(&property)) = (self.options.after.is_empty(), report.properties.first()) {
            return Err(CheckError::FromTheStart { property, algorithm: about.name });
        }
        options::clocked(about, self.params, &group, report.faults)?;
        let header = Header::new(about, self.params, group.processes, &group.topology, Unit::T);
        let delay = self.times(about)?.delay_max;
        report.delays = Some((delay, self.params.delay_max));
        let mut model = DetectorModel::new(&group, report.order, self.params, delay, report.faults, &report.properties);
        self.run(&header, &mut report, &mut model);
        if report.faults.crash > 0 && report.reached.suspicions == 0 {
            report.doubt("no crashed process is ever suspected, so nothing has been shown");
        }
        Ok(report)
    }
}

impl Checker<'_> {
    /// Returns a report without results, or an error if the check is refused.
    fn prepare<P>(&self, about: &'static About, group: &Group<P>) -> Result<CheckReport, CheckError> {
        if group.clients < 2 {
            return Err(SetupError::TooFew { n: group.clients }.into());
        }
        if group.processes > PROCESSES_MAX {
            return Err(CheckError::TooManyProcesses { processes: group.processes });
        }
        if self.options.limit == 0 {
            return Err(CheckError::NoStates);
        }
        let faults = options::faults(about, self.options, group.processes)?;
        options::leases(about, self.options, group.lease.is_some())?;
        let unchecked = self.unchecked(about, group.lease.is_some(), faults);
        let left_out = |property| unchecked.iter().any(|unchecked| unchecked.property == property);
        Ok(CheckReport {
            algorithm: about.name,
            n: group.clients,
            processes: group.processes,
            entries: 0,
            variant: self.params.variant.clone(),
            order: options::order(about, self.options)?,
            delays: None,
            timers: None,
            faults,
            ignored_assumptions: self.options.ignore_assumptions,
            app_messages: 0,
            properties: options::properties(about, self.options.properties.as_deref(), left_out)?,
            unsettled: Vec::new(),
            unchecked,
            states: 0,
            transitions: 0,
            depth: 0,
            seconds: 0.0,
            complete: false,
            reached: Reached::default(),
            cyclic: None,
            result: Verdict::Limit,
            property: None,
            detail: None,
            steps: None,
            counterexample: None,
            trace: None,
        })
    }

    /// The promised properties that are checked only if the user requests them by name.
    fn unchecked(&self, about: &'static About, leases: bool, faults: Faults) -> Vec<Unchecked> {
        if self.options.properties.is_some() {
            return Vec::new();
        }
        let promises = about.promises;
        let mut unchecked = Vec::new();
        if leases {
            let why = "a holder is alone only until its lease ends, and here steps have no duration";
            let of_leases = [Property::Safety, Property::Fence].into_iter().filter(|it| promises.include(*it));
            unchecked.extend(of_leases.map(|property| Unchecked { property, why }));
        }
        if promises.order && faults.crash > 0 {
            let why = "with crashes it takes very many states, so it must be requested by name";
            unchecked.push(Unchecked { property: Property::Order, why });
        }
        unchecked
    }

    fn recovery<P>(&self, about: &About, group: &Group<P>) -> Recovery {
        Recovery::of(about.assumes.crashes, group.keeps_memory, self.options.ignore_assumptions)
    }

    fn times(&self, about: &'static About) -> Result<Times, CheckError> {
        let assumed = self.params.delay_max;
        let delay_max = self.options.delay.unwrap_or(assumed);
        for (option, delay) in [("--delay-max", assumed), ("--delay", delay_max)] {
            if !(1..=DELAY_MAX).contains(&delay) {
                return Err(CheckError::Delay { option, delay });
            }
        }
        if about.assumes.synchronous && delay_max > assumed && !self.options.ignore_assumptions {
            return Err(CheckError::WeakerNetwork {
                algorithm: about.name,
                assumed: "that no message takes longer than its bound on delays",
                given: format!("here one may take {delay_max} ticks instead of {assumed}"),
            });
        }
        let settled_after_d = SETTLED_AFTER_D.max(NOTICED_AFTER_D + ROUNDS * self.params.n as Ticks);
        let notice_max = self.options.detector_spread.unwrap_or(NOTICE_MAX_D * assumed);
        if notice_max > DELAY_MAX {
            return Err(CheckError::Spread { spread: notice_max });
        }
        // The usual time leaves room for the usual spread.
        let late = notice_max.saturating_sub(NOTICE_MAX_D * assumed);
        let settled_after = self.options.settled_after.unwrap_or(settled_after_d * assumed.max(delay_max) + late);
        Ok(Times { delay_max, notice_max, settled_after })
    }

    fn bounds(&self) -> Bounds {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        Bounds {
            limit: self.options.limit,
            memory: self.options.memory.map_or_else(Memory::most_of_what_is_free, Memory::at_most),
            time: self.options.time,
            threads: self.options.threads.unwrap_or_else(cores),
            stop: self.options.stop.clone(),
        }
    }

    fn watch(&self, progress: &Progress) {
        if let Some(watch) = &self.options.watch {
            (watch.0)(progress);
        }
    }

    /// Explores a model, and puts the result into the report.
    fn run<M: GroupModel>(&self, header: &Header, report: &mut CheckReport, model: &mut M) {
        let (started, bounds) = (Instant::now(), self.bounds());
        let explored = explore(model, &bounds, &|progress| self.watch(progress));
        report.seconds = started.elapsed().as_secs_f64();
        report.conclude(&explored.end, &bounds);
        self.tell(header, report, model, &explored, &[]);
    }

    /// Like `run`, after a list of actions if there is one. Steps count from the end of the list, but a counterexample
    /// also shows the actions of the list.
    fn run_after<M: Staged>(&self, header: &Header, report: &mut CheckReport, model: &mut M) -> Result<(), CheckError> {
        if self.options.after.is_empty() {
            self.run(header, report, model);
            return Ok(());
        }
        let (started, bounds) = (Instant::now(), self.bounds());
        let Followed { next, path } = follow(model, &self.options.after, self.options.stop.as_deref())?;
        let explored = match next {
            Ok(start) => explore(&mut StartingAt { model, start }, &bounds, &|progress| self.watch(progress)),
            Err(violation) => {
                let end = End::Violated { violation, path: vec![0] };
                Explored { states: 0, transitions: 0, depth: 0, reached: Reached::default(), end }
            }
        };
        report.seconds = started.elapsed().as_secs_f64();
        report.conclude(&explored.end, &bounds);
        self.tell(header, report, model, &explored, &path);
        Ok(())
    }

    /// Puts the numbers of an exploration and its counterexample into the report. `before` is the path to the state where
    /// the exploration began.
    fn tell<M: GroupModel>(
        &self,
        header: &Header,
        report: &mut CheckReport,
        model: &mut M,
        explored: &Explored,
        before: &[usize],
    ) {
        report.reached = explored.reached;
        (report.states, report.transitions, report.depth) = (explored.states, explored.transitions, explored.depth);
        if let End::Violated { violation, path } = &explored.end {
            // If there is a path before, the first step of the exploration only leads to its end.
            let path = [before, &path[usize::from(!before.is_empty())..]].concat();
            let told = recount(model, report.processes, violation, &path, None);
            report.show(header.clone(), explored.end.steps(), told);
        }
    }

    /// Looks for a client that starves, in a model whose runs may go on for ever.
    fn run_to_the_end<P: Mutex>(
        &self,
        header: &Header,
        report: &mut CheckReport,
        mut model: MutexModel<P>,
        asked: bool,
    ) {
        let started = Instant::now();
        let mut bounds = self.bounds();
        if !asked {
            bounds.limit = bounds.limit.min(CYCLIC_STATES_UNASKED);
        }
        bounds.time = bounds.time.map(|time| time.saturating_sub(Duration::from_secs_f64(report.seconds)));
        let found = starve(&mut model, &bounds, &|progress| self.watch(progress));
        // Messages to the user name the whole time limit, not the rest of it.
        let told = Bounds { time: self.options.time, ..bounds };
        report.seconds += started.elapsed().as_secs_f64();
        let (states, transitions, components) = (found.states, found.transitions, found.components);
        let alone = report.properties.is_empty();
        if alone {
            (report.states, report.transitions, report.depth) = (states, transitions, found.depth);
            report.reached = found.reached;
        }
        let mut result = found.end.verdict();
        // The user did not request liveness, and the limit is ours. So the verdict on the rest stays.
        let is_ours = !asked && matches!(found.end, End::Limit) && bounds.limit < self.options.limit;
        if !is_ours {
            report.properties.push(Property::Liveness);
            report.conclude(&found.end, &told);
            found.reached.doubt().into_iter().for_each(|why| report.doubt(why));
            if components == 0 && model.normal {
                report.doubt("no run goes on for ever, so nothing has been shown about starvation");
            }
            result = report.result;
        } else {
            report.unsettled.push(Property::Liveness);
        }
        let detail = told.why(&found.end);
        let endless = detail.is_some() && model.normal && !matches!(found.end, End::TooWide);
        let hint = (endless && !model.system.normal.has_counters()).then_some(NO_COUNTERS);
        report.cyclic = Some(Cyclic { states, transitions, components, reached: found.reached, result, detail, hint });
        if let End::Violated { violation, path } = &found.end {
            let told = match model.normal {
                true => recount_normal(&mut model, report.processes, violation, path, found.prefix),
                false => recount(&mut model, report.processes, violation, path, found.prefix),
            };
            report.show(header.clone(), found.end.steps(), told);
        }
    }
}

impl CheckReport {
    /// Translates the end of an exploration into a verdict.
    fn conclude(&mut self, end: &End, bounds: &Bounds) {
        self.complete = matches!(end, End::Complete);
        self.result = end.verdict();
        (self.property, self.detail) = match end {
            End::Violated { violation, .. } => (Some(violation.property), Some(violation.detail.clone())),
            _ => (None, bounds.why(end)),
        };
    }

    /// Reports a violation if the model proves nothing because too little happens in it.
    fn doubt(&mut self, why: &str) {
        if self.result == Verdict::Holds {
            let detail = Some(why.to_owned());
            (self.result, self.property, self.detail) = (Verdict::Violated, Some(Property::Reachability), detail);
        }
    }

    /// Adds a counterexample.
    fn show(&mut self, mut header: Header, steps: Option<usize>, told: Told) {
        header.network.order = Some(self.order.into());
        header.workload = Workload {
            notes: baton_trace::notes(json!({"entries": self.entries, "app_messages": self.app_messages})),
            cycle_from: told.cycle_from,
            dated_by: told.by_the_clock.then_some(DatedBy::Ticks),
            not_promised: Vec::new(),
        };
        self.steps = steps;
        self.counterexample = Some(told.lines);
        self.trace = Some(Trace { header, records: told.records });
    }
}
