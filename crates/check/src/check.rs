//! From a name and options to a report.

use std::time::Instant;

use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Params, SetupError, Visitor};
use baton_protocol::{Group, Protocol, Ticks};
use baton_trace::{Header, Record, Unit};
use serde_json::json;

use crate::election::{ElectionModel, Times};
use crate::explore::{End, Model, Violation, explore};
use crate::mutex::{Budget, MutexModel};
use crate::network::PROCESSES_MAX;
use crate::options::{self, DELAY_MAX};
use crate::report::{Reached, Report, Trace, Verdict};
use crate::story::Story;
use crate::{CheckError, Options, Property};

/// Elections: failure detectors tell of the crash within so many D, which is longer than an election takes, so that
/// notices meet elections at every stage.
const NOTICE_MAX_D: Ticks = 10;

/// Elections: all agree after so many D, unless told otherwise. The slowest way to notice a crash is the silence of the
/// leader, some 22 D, and an election takes a few D more.
const SETTLED_AFTER_D: Ticks = 40;

/// Checks the algorithm of this name.
pub fn check(algorithm: &str, params: &Params, options: &Options) -> Result<Report, CheckError> {
    registry::visit(algorithm, params, Checker { params, options })?
}

/// Checks any group, also one whose algorithm is not in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Checker<'a> {
    /// How the group was made.
    pub params: &'a Params,
    /// What to check.
    pub options: &'a Options,
}

impl Visitor for Checker<'_> {
    type Output = Result<Report, CheckError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        Err(CheckError::Uncheckable { algorithm: about.name })
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
        let mut report = self.prepare(about, &group)?;
        if self.options.entries == 0 {
            return Err(CheckError::NoEntries);
        }
        let ordered = report.properties.contains(&Property::Order);
        let app_messages = self.options.app_messages.unwrap_or(u32::from(ordered));
        let budget = Budget { entries: self.options.entries, app_messages, timers: self.options.timers };
        (report.entries, report.app_messages, report.timers) = (budget.entries, app_messages, Some(budget.timers));

        let model = MutexModel::new(&group, report.order, budget, &report.properties);
        Ok(self.run(Header::new(about, self.params, group.processes, &group.topology, Unit::T), report, model))
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        let report = self.prepare(about, &group)?;
        let model = ElectionModel::new(&group, report.order, self.times(about)?, &report.properties);
        Ok(self.run(Header::new(about, self.params, group.processes, &group.topology, Unit::T), report, model))
    }
}

impl Checker<'_> {
    /// A report on nothing yet, if what is asked for can be checked.
    fn prepare<P: Protocol>(&self, about: &'static About, group: &Group<P>) -> Result<Report, CheckError> {
        if group.clients < 2 {
            return Err(SetupError::TooFew { n: group.clients }.into());
        }
        if group.processes > PROCESSES_MAX {
            return Err(CheckError::TooManyProcesses { processes: group.processes });
        }
        if self.options.limit == 0 {
            return Err(CheckError::NoStates);
        }
        Ok(Report {
            algorithm: about.name,
            n: group.clients,
            processes: group.processes,
            entries: 0,
            order: options::order(about, self.options)?,
            timers: None,
            app_messages: 0,
            properties: options::properties(about, self.options.properties.as_deref())?,
            states: 0,
            transitions: 0,
            depth: 0,
            seconds: 0.0,
            complete: false,
            reached: Reached::default(),
            result: Verdict::Limit,
            property: None,
            detail: None,
            steps: None,
            counterexample: None,
            trace: None,
        })
    }

    fn times(&self, about: &'static About) -> Result<Times, CheckError> {
        let assumed = self.params.delay_max;
        let delay_max = self.options.delay.unwrap_or(assumed);
        if let Some(delay) = [assumed, delay_max].into_iter().find(|delay| !(1..=DELAY_MAX).contains(delay)) {
            return Err(CheckError::Delay { delay });
        }
        if about.assumes.synchronous && delay_max > assumed && !self.options.ignore_assumptions {
            return Err(CheckError::WeakerNetwork {
                algorithm: about.name,
                assumed: "that no message takes longer than it is told",
                given: format!("here one may take {delay_max} ticks in place of {assumed}"),
            });
        }
        let settled_after = self.options.settled_after.unwrap_or(SETTLED_AFTER_D * assumed);
        Ok(Times { delay_max, notice_max: NOTICE_MAX_D * assumed, settled_after })
    }

    /// Explores a model, and says what came of it.
    fn run(&self, header: Header, mut report: Report, mut model: impl GroupModel) -> Report {
        let started = Instant::now();
        let explored = explore(&mut model, self.options.limit);
        report.seconds = started.elapsed().as_secs_f64();
        report.reached = model.reached();
        (report.states, report.transitions, report.depth) = (explored.states, explored.transitions, explored.depth);
        match explored.end {
            End::Limit => report.result = Verdict::Limit,
            End::Complete if report.reached.entries == 0 => {
                report.complete = true;
                report.result = Verdict::Violated;
                report.property = Some(Property::Reachability);
                report.detail = Some("nobody ever gets what the algorithm is for, so nothing has been shown".into());
            }
            End::Complete => {
                report.complete = true;
                report.result = Verdict::Holds;
            }
            End::Violated { violation, path } => Self::convict(header, &mut report, &mut model, &violation, &path),
        }
        report
    }

    /// Puts the counterexample into the report.
    fn convict(
        mut header: Header,
        report: &mut Report,
        model: &mut impl GroupModel,
        violation: &Violation,
        path: &[usize],
    ) {
        let (lines, records) = recount(model, report.processes, violation, path);
        header.network = json!({"order": report.order});
        header.workload = json!({"entries": report.entries, "app_messages": report.app_messages});
        report.result = Verdict::Violated;
        report.property = Some(violation.property);
        report.detail = Some(violation.detail.clone());
        // The first successor on the path is the start, which is no step.
        report.steps = Some(path.len() - 1);
        report.counterexample = Some(lines);
        report.trace = Some(Trace { header, records });
    }
}

/// A model of a group.
pub trait GroupModel: Model {
    /// What has come about so far.
    fn reached(&self) -> Reached;

    /// Tells what `action` does in `state`.
    fn tell(&self, story: &mut Story, state: Option<&Self::State>, action: &Self::Action);
}

/// Goes the path to a violation again, and tells of it.
fn recount<M: GroupModel>(
    model: &mut M,
    processes: usize,
    violation: &Violation,
    path: &[usize],
) -> (Vec<String>, Vec<Record>) {
    let mut story = Story::new(processes);
    let mut state = None;
    for &nth in path {
        let mut found = Vec::new();
        model.expand(state.as_ref(), &mut found);
        let successor = found.swap_remove(nth);
        model.tell(&mut story, state.as_ref(), &successor.action);
        state = successor.next.ok();
    }
    story.end(violation)
}
