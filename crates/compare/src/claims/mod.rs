//! What lecture notes and papers say about each algorithm, and what a run of it shows.
//!
//! A claim is one sentence about one subject. It names the run or the check that decides it. [`of`] carries that out and
//! compares: nobody writes down a measured value or a verdict.

mod append;
mod broken;
mod detector;
mod election;
mod mutex;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_check::{CheckError, Options as CheckOptions, Property, Verdict as Checked, check};
use baton_protocol::registry::{Family, Params, find};
use baton_sim::metrics::DelaySummary;
use baton_sim::oracle::Verdict as Found;
use baton_sim::report::{DetectorReport, ElectionReport, MutexReport, Report};
use baton_sim::run::{RunError, run};
use baton_sim::spec::Spec;
use baton_theory::Expectation;
use serde::Serialize;
use serde_json::Value;

use crate::command;
use crate::election::{Starts, row as election_row};
use crate::theory::{in_words, number};

/// A claim, with what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Messages, client delay, crash, ...
    pub subject: &'static str,
    /// What the documents say, in our own words.
    pub documents: &'static str,
    pub measured: String,
    pub verdict: Verdict,
    /// The reason for the verdict, if the numbers do not show it. May be empty.
    pub why: &'static str,
    /// The command that shows it.
    pub command: String,
    /// The run as a scenario has it. None if the command is a check.
    pub spec: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    True,
    False,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::True => "true",
            Verdict::False => "false",
        }
    }
}

/// A claim that cannot be decided. That is a mistake in the list of claims.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("{command}: {reason}")]
    Run { command: String, reason: RunError },
    #[error("{command}: {reason}")]
    Check { command: String, reason: CheckError },
    #[error("{command} measures nothing, or gives no verdict")]
    Nothing { command: String },
    #[error("the claims were not decided, because they were stopped")]
    Stopped,
}

/// The subjects about which there must be claims, for an algorithm that is not broken on purpose.
pub fn required(family: Family) -> &'static [&'static str] {
    match family {
        Family::Mutex => &[MESSAGES, CLIENT_DELAY, SYNC_DELAY, CRASH, ORDER],
        Family::Election => &[MESSAGES, TIME, CRASH],
        Family::Detector | Family::Append => &[],
    }
}

/// Decides all claims about an algorithm. Without claims, the list is empty.
pub fn of(algorithm: &str) -> Result<Vec<Claim>, ClaimError> {
    of_until(algorithm, &Arc::default())
}

/// Like [`of`], but another thread can set `stop`. Then the work ends soon, with [`ClaimError::Stopped`].
pub fn of_until(algorithm: &str, stop: &Arc<AtomicBool>) -> Result<Vec<Claim>, ClaimError> {
    let decide = |said: Said| {
        let decided = said.decide(stop);
        // A run or a check that was stopped shows nothing.
        if stop.load(Ordering::Relaxed) { Err(ClaimError::Stopped) } else { decided }
    };
    said(algorithm).into_iter().map(decide).collect()
}

/// The commands of all claims about an algorithm, and their runs as in [`Claim::spec`]. Runs nothing.
pub fn commands(algorithm: &str) -> Vec<(String, Option<Value>)> {
    let all = said(algorithm);
    all.iter().map(|said| (said.shown.command(), said.shown.spec().map(command::to_json))).collect()
}

fn said(algorithm: &str) -> Vec<Said> {
    let Ok(about) = find(algorithm) else { return Vec::new() };
    match about.family {
        _ if about.broken.is_some() => broken::claims(about.name),
        Family::Mutex => mutex::claims(about.name),
        Family::Election => election::claims(about.name),
        Family::Detector => detector::claims(about.name),
        Family::Append => append::claims(about.name),
    }
}

const MESSAGES: &str = "messages";
const CLIENT_DELAY: &str = "client delay";
const SYNC_DELAY: &str = "sync delay";
const TIME: &str = "time";
const CRASH: &str = "crash";
const ORDER: &str = "order";
const PROMISE: &str = "promise";

/// A claim before it is decided.
struct Said {
    subject: &'static str,
    documents: &'static str,
    shown: Shown,
    why: &'static str,
}

/// What decides a claim.
enum Shown {
    /// A measured value of a run.
    Figure { spec: Box<Spec>, figure: Figure, claimed: Expectation },
    /// Whether a property held in a run.
    Finding { spec: Box<Spec>, property: Property, claimed: Claimed },
    /// Whether a property holds in every run of a small group.
    Check { algorithm: &'static str, params: Params, options: Box<CheckOptions>, claimed: Claimed },
    /// The mean number of messages of many elections.
    Elections { algorithm: &'static str, n: usize, starts: Starts, claimed: Expectation },
}

/// What the documents say about a property.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claimed {
    Holds,
    Fails,
}

#[derive(Clone, Copy)]
enum Figure {
    MessagesPerEntry,
    /// The most messages for one request.
    MessagesMax,
    ExitMessages,
    Busiest,
    BypassMax,
    ClientDelay,
    ClientDelayMax,
    SyncDelay,
    SyncDelayMax,
    ElectionMessages,
    /// The messages of this kind.
    ElectionMessagesOf(&'static str),
    ElectionTime,
    DetectionTime,
    DetectionTimeMax,
    Mistakes,
    MessagesPerAppend,
}

fn figure(subject: &'static str, documents: &'static str, spec: Spec, figure: Figure, claimed: Expectation) -> Said {
    Said { subject, documents, shown: Shown::Figure { spec: Box::new(spec), figure, claimed }, why: "" }
}

fn finding(subject: &'static str, documents: &'static str, spec: Spec, property: Property, claimed: Claimed) -> Said {
    Said { subject, documents, shown: Shown::Finding { spec: Box::new(spec), property, claimed }, why: "" }
}

fn checked(
    subject: &'static str,
    documents: &'static str,
    (algorithm, n): (&'static str, usize),
    options: CheckOptions,
    claimed: Claimed,
) -> Said {
    let (params, options) = (Params::new(n, 1), Box::new(options));
    Said { subject, documents, shown: Shown::Check { algorithm, params, options, claimed }, why: "" }
}

/// Whether ORDER holds, in every run of `n` processes.
fn order(documents: &'static str, model: (&'static str, usize), claimed: Claimed) -> Said {
    checked(ORDER, documents, model, command::check_of(Property::Order), claimed)
}

/// A run with all defaults.
fn sim(algorithm: &str, n: usize) -> Spec {
    Spec { algorithm: algorithm.into(), n: Some(n), ..Spec::default() }
}

/// The same run with these faults, which the algorithm may not tolerate.
fn with_faults(spec: Spec, faults: &[&str]) -> Spec {
    let faults = faults.iter().map(|fault| fault.to_string()).collect();
    Spec { faults, ignore_assumptions: true, ..spec }
}

impl Said {
    fn because(self, why: &'static str) -> Said {
        Said { why, ..self }
    }

    fn decide(self, stop: &Arc<AtomicBool>) -> Result<Claim, ClaimError> {
        let command = self.shown.command();
        let spec = self.shown.spec().map(command::to_json);
        let (measured, verdict) = self.shown.decide(&command, stop)?;
        let verdict = if verdict { Verdict::True } else { Verdict::False };
        let Said { subject, documents, why, .. } = self;
        Ok(Claim { subject, documents, measured, verdict, why, command, spec })
    }
}

impl Shown {
    fn spec(&self) -> Option<&Spec> {
        match self {
            Shown::Figure { spec, .. } | Shown::Finding { spec, .. } => Some(spec),
            Shown::Check { .. } | Shown::Elections { .. } => None,
        }
    }

    fn command(&self) -> String {
        match self {
            Shown::Figure { spec, .. } | Shown::Finding { spec, .. } => command::of_run(spec),
            Shown::Check { algorithm, params, options, .. } => command::of_check(algorithm, params, options),
            // It prints the elections, too. One load keeps the rest short.
            Shown::Elections { n, .. } => format!("baton compare -n {n} --loads solo"),
        }
    }

    /// What was measured, and whether it agrees with the claim.
    fn decide(&self, command: &str, stop: &Arc<AtomicBool>) -> Result<(String, bool), ClaimError> {
        let nothing = || ClaimError::Nothing { command: command.into() };
        match self {
            Shown::Figure { spec, figure, claimed } => {
                let value = figure.of(&report(spec, command, stop)?).ok_or_else(nothing)?;
                let (value_text, unit) = (number(value), figure.unit());
                Ok((format!("{value_text} {unit}; claimed {}", in_words(claimed)), claimed.agrees(value)))
            }
            Shown::Finding { spec, property, claimed } => {
                let report = report(spec, command, stop)?;
                let each = report.properties().each();
                let (_, finding) = each.into_iter().find(|(one, _)| one == property).ok_or_else(nothing)?;
                match finding.verdict {
                    Found::Held => Ok((format!("{property} held"), *claimed == Claimed::Holds)),
                    Found::Violated => Ok((format!("{property} violated"), *claimed == Claimed::Fails)),
                    Found::Unchecked | Found::Untested => Err(nothing()),
                }
            }
            Shown::Elections { algorithm, n, starts, claimed } => {
                let row = election_row(algorithm, *n, *starts).ok_or_else(nothing)?;
                let mean = row.messages.ok_or_else(nothing)?.mean;
                let (mean_text, runs) = (number(mean), row.runs);
                Ok((
                    format!("{mean_text} messages on average of {runs}; claimed {}", in_words(claimed)),
                    claimed.agrees(mean),
                ))
            }
            Shown::Check { algorithm, params, options, claimed } => {
                let options = CheckOptions { stop: Some(Arc::clone(stop)), ..(**options).clone() };
                let report = check(algorithm, params, &options)
                    .map_err(|reason| ClaimError::Check { command: command.into(), reason })?;
                let all: Vec<&str> = report.properties.iter().map(|property| property.name()).collect();
                match (report.result, report.property, report.steps) {
                    (Checked::Holds, ..) => Ok((
                        format!("{}: holds in all {} states", all.join(", "), report.states),
                        *claimed == Claimed::Holds,
                    )),
                    (Checked::Violated, Some(property), Some(steps)) => {
                        Ok((format!("{property} violated in {steps} steps"), *claimed == Claimed::Fails))
                    }
                    _ => Err(nothing()),
                }
            }
        }
    }
}

fn report(spec: &Spec, command: &str, stop: &Arc<AtomicBool>) -> Result<Report, ClaimError> {
    let report = spec.options().and_then(|mut options| {
        options.stop = Some(Arc::clone(stop));
        run(&options, None)
    });
    report.map_err(|reason| ClaimError::Run { command: command.into(), reason })
}

impl Figure {
    fn of(self, report: &Report) -> Option<f64> {
        match report {
            Report::Mutex(report) => self.of_mutex(report),
            Report::Election(report) => self.of_election(report),
            Report::Detector(report) => self.of_detector(report),
            Report::Append(report) => match self {
                Figure::MessagesPerAppend => report.messages_per_append,
                Figure::ClientDelay => report.client_delay.map(|delay| delay.mean),
                _ => None,
            },
        }
    }

    fn of_mutex(self, report: &MutexReport) -> Option<f64> {
        let mean = |delay: Option<DelaySummary>| delay.map(|delay| delay.mean);
        match self {
            Figure::MessagesPerEntry => report.messages_per_entry,
            Figure::MessagesMax => report.messages_per_entry_max.map(|most| most as f64),
            Figure::ExitMessages => report.exit_messages,
            Figure::Busiest => report.messages_per_process.map(|load| load.max),
            Figure::BypassMax => report.bypass.map(|bypass| bypass.max as f64),
            Figure::ClientDelay => mean(report.client_delay),
            Figure::ClientDelayMax => report.client_delay_max,
            Figure::SyncDelay => mean(report.sync_delay),
            Figure::SyncDelayMax => report.sync_delay_max,
            _ => None,
        }
    }

    fn of_election(self, report: &ElectionReport) -> Option<f64> {
        match self {
            Figure::ElectionMessages => Some(report.messages as f64),
            Figure::ElectionMessagesOf(kind) => report.messages_by_kind.get(kind).map(|count| *count as f64),
            Figure::ElectionTime => report.time,
            _ => None,
        }
    }

    fn of_detector(self, report: &DetectorReport) -> Option<f64> {
        match self {
            Figure::DetectionTime => report.detection_time.map(|time| time.mean),
            Figure::DetectionTimeMax => report.detection_time.map(|time| time.max),
            Figure::Mistakes => Some(report.mistakes as f64),
            _ => None,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Figure::MessagesPerEntry => "per entry",
            Figure::MessagesMax => "for one entry",
            Figure::ExitMessages => "on leaving",
            Figure::Busiest => "at the busiest process",
            Figure::BypassMax => "later requests first",
            Figure::ClientDelay | Figure::SyncDelay | Figure::DetectionTime => "T on average",
            Figure::ClientDelayMax | Figure::SyncDelayMax | Figure::DetectionTimeMax => "T at most",
            Figure::ElectionTime => "T",
            Figure::ElectionMessages => "messages",
            Figure::ElectionMessagesOf(kind) => kind,
            Figure::Mistakes => "mistakes",
            Figure::MessagesPerAppend => "per append",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_claim_is_decided_after_a_stop() {
        let stop = Arc::new(AtomicBool::new(true));
        let all = said("maekawa").into_iter().chain(said("heartbeat"));
        for said in all {
            let command = said.shown.command();
            let decided = said.decide(&stop).map(|claim| claim.measured);
            assert!(decided.is_err(), "{command}: {decided:?}");
        }
        assert!(matches!(of_until("maekawa", &stop), Err(ClaimError::Stopped)));
    }
}
