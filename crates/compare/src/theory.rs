//! The expected costs of a run. Connects the simulator, which knows no theory, with the closed forms of `baton-theory`,
//! which know no simulator.

use baton_sim::app::mutex::{Load, entries_to_settle};
use baton_sim::network::Delay;
use baton_sim::report::{AppendReport, DetectorReport, Drawn, MutexReport, Report};
use baton_sim::run::Options;
use baton_sim::time::in_t;
use baton_theory::election::{self, ElectionCosts, NoticedBy};
use baton_theory::mutex::{self, Costs, Setting};
use baton_theory::{Expectation, Kind, append, detector};
use serde::Serialize;

use crate::mutex::{ENTRIES, entries};

/// A report with the expected values.
#[derive(Serialize)]
pub struct WithTheory<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    theory: Option<Theory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<Spread>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Theory {
    Mutex(Costs),
    Election(ElectionCosts),
    Detector(DetectorTheory),
    Append(AppendTheory),
}

/// The expected values of a failure detector. There are none if delays have no bound.
#[derive(Default, Serialize)]
pub struct DetectorTheory {
    /// The mean time from a crash to the suspicion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detection_time: Option<Expectation>,
    /// The number of suspicions of live processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mistakes: Option<Expectation>,
}

#[derive(Default, Serialize)]
pub struct AppendTheory {
    /// None if batches save messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_append: Option<Expectation>,
}

/// How far the means of a short run may be from theory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Number of values behind a mean: measured entries, or crashes.
    pub values: u64,
    /// As a share of the expected value. In 19 of 20 runs a mean is nearer.
    pub differs: f64,
    /// The `--entries` of a run that is long enough.
    pub entries_enough: u64,
}

impl Spread {
    /// What remains of `differs` in a run that is long enough.
    pub fn enough() -> f64 {
        Self::of(ENTRIES)
    }

    /// Two standard deviations of a mean, if the standard deviation of a single value is the mean. No figure has more:
    /// the hops of the token ring under random load have about that much.
    fn of(values: u64) -> f64 {
        2.0 / (values as f64).sqrt()
    }
}

impl<'a> WithTheory<'a> {
    pub fn new(options: &Options, report: &'a Report) -> Self {
        let spread = spread(options, report);
        let theory = match report {
            Report::Mutex(report) => Some(Theory::Mutex(of_mutex(options, report))),
            Report::Election(report) => Some(Theory::Election(of_election(options, report.drawn.as_ref()))),
            Report::Detector(report) => Some(Theory::Detector(of_detector(options, report))),
            Report::Append(report) => Some(Theory::Append(of_append(options, report))),
        };
        WithTheory { report, theory, spread }
    }
}

/// How far the means of this run may be from theory. None if the run is long enough, or if no expected value depends on
/// chance.
pub fn spread(options: &Options, report: &Report) -> Option<Spread> {
    let is_mean = |expected: &Option<Expectation>| expected.as_ref().is_some_and(|one| one.kind == Kind::Mean);
    let (values, entries_enough) = match report {
        Report::Mutex(report) if matches!(report.load, Load::SoloRandom | Load::Random) => {
            let costs = of_mutex(options, report);
            let means = [&costs.messages_per_entry, &costs.client_delay, &costs.sync_delay];
            means.into_iter().any(is_mean).then(|| (report.measured_entries, entries(report.n)))
        }
        Report::Detector(report) => {
            is_mean(&of_detector(options, report).detection_time).then_some((report.crashes, ENTRIES))
        }
        Report::Mutex(_) | Report::Election(_) | Report::Append(_) => None,
    }?;
    let is_short = values > 0 && values < ENTRIES;
    is_short.then(|| Spread { values, differs: Spread::of(values), entries_enough })
}

/// The expected costs of a run of mutual exclusion. None with faults, or if the run is too short.
pub fn of_mutex(options: &Options, report: &MutexReport) -> Costs {
    if fault(options, report.drawn.as_ref()).is_some() || too_short(options).is_some() {
        return Costs::default();
    }
    let workload = &options.workload;
    let load = match workload.load {
        _ if workload.app_messages => mutex::Load::Other,
        Load::Solo => mutex::Load::Solo,
        Load::SoloRandom => mutex::Load::SoloRandom,
        Load::All => mutex::Load::All,
        Load::Random => mutex::Load::Random,
    };
    let setting = Setting {
        algorithm: &options.algorithm,
        variant: options.params.variant.as_deref(),
        n: options.params.n,
        load,
        hold: workload.hold,
        think: workload.think,
        constant_delay: has_constant_delay(options),
        coordinators: options.params.coordinators,
        votes: options.params.votes,
        quorums: report.topology.quorums.as_deref(),
        tree: report.topology.tree.as_deref(),
    };
    mutex::costs(&setting).unwrap_or_default()
}

/// If the run is too short for a comparison with theory: a text that says so, as the end of a sentence.
pub fn too_short(options: &Options) -> Option<String> {
    let least = entries_to_settle(options.params.n as u64);
    let short = options.workload.entries < least;
    short.then(|| format!("the run is too short; ask for at least {least} entries (5 rounds)"))
}

/// The expected costs of an election. None with faults or varying delays, or if the processes wait for other delays.
pub fn of_election(options: &Options, drawn: Option<&Drawn>) -> ElectionCosts {
    if fault(options, drawn).is_some() || !has_constant_delay(options) || !knows_the_delay(options) {
        return ElectionCosts::default();
    }
    let variant = options.params.variant.as_deref();
    if let Some(starter) = options.noticed_by {
        return election::started_by(&options.algorithm, variant, options.params.n, starter).unwrap_or_default();
    }
    // Which processes notice that there is no leader, as in the simulator.
    let notice = match options.workload.load {
        Load::Solo => NoticedBy::Lowest,
        // The costs depend on which process notices.
        Load::SoloRandom => return ElectionCosts::default(),
        Load::All | Load::Random => NoticedBy::All,
    };
    election::costs(&options.algorithm, variant, options.params.n, notice).unwrap_or_default()
}

/// The expected values of a heartbeat detector whose crashes come at random moments. None if delays have no bound, the
/// processes believe in a shorter bound, or beats may overtake each other.
pub fn of_detector(options: &Options, report: &DetectorReport) -> DetectorTheory {
    let (mean, bound) = match options.network.delay {
        Delay::Constant(delay) => (delay, delay),
        Delay::Uniform(min, max) => ((min + max) / 2.0, max),
        Delay::Exponential(_) | Delay::Pareto(..) => return DetectorTheory::default(),
    };
    // The value in the variant, or the default.
    let said =
        |name: &str, unless: f64| options.params.value(name).and_then(|text| text.parse().ok()).unwrap_or(unless);
    let (allowed, drift) = (said("timeout", 1.0) * in_t(options.params.delay_max), said("drift", 0.0) / 100.0);
    let has_fault = fault(options, report.drawn.as_ref()).is_some();
    if options.algorithm != "heartbeat" || has_fault || bound > allowed || bound > report.period {
        return DetectorTheory::default();
    }
    DetectorTheory {
        detection_time: Some(detector::detection_time_mean(report.period, allowed, drift, mean)),
        mistakes: Some(detector::mistakes()),
    }
}

/// The expected messages of one append, without batches.
pub fn of_append(options: &Options, report: &AppendReport) -> AppendTheory {
    let batches = options.params.value("batch").is_some_and(|batch| batch != "1");
    // If delays vary, or are longer than the processes believe, a process may send a message again.
    let steady = matches!(options.network.delay, Delay::Constant(delay) if delay <= in_t(options.params.delay_max));
    let exact = fault(options, report.drawn.as_ref()).is_none() && steady && !batches;
    AppendTheory { messages_per_append: exact.then(|| append::messages_per_append(report.replicas)) }
}

/// The fault of the run for which there is no theory, as the end of a sentence. `drawn`: what `--fault random` drew.
pub fn fault(options: &Options, drawn: Option<&Drawn>) -> Option<&'static str> {
    let network = &options.network;
    let has_drawn = |which: fn(&Drawn) -> bool| drawn.is_some_and(which);
    let reasons = [
        (!options.faults.is_empty() || has_drawn(|drawn| !drawn.faults.is_empty()), "the run has faults"),
        (network.loss > 0.0 || has_drawn(|drawn| drawn.loss.is_some()), "messages are lost"),
        (network.duplicate > 0.0 || has_drawn(|drawn| drawn.duplicate.is_some()), "messages arrive twice"),
        (options.drift > 0.0 || has_drawn(|drawn| drawn.drift.is_some()), "clocks drift"),
    ];
    reasons.into_iter().find_map(|(applies, reason)| applies.then_some(reason))
}

fn has_constant_delay(options: &Options) -> bool {
    options.network.delay == Delay::Constant(1.0)
}

/// Whether the processes believe in the constant delay of the network. An election sets its timers by what they believe.
pub fn knows_the_delay(options: &Options) -> bool {
    in_t(options.params.delay_max) == 1.0
}

/// The text after a measured value.
pub fn beside(expectation: &Option<Expectation>) -> String {
    expectation.as_ref().map(|expectation| format!(" (in theory {})", in_words(expectation))).unwrap_or_default()
}

pub fn in_words(expectation: &Expectation) -> String {
    let value = number(expectation.value);
    match expectation.kind {
        Kind::Bound | Kind::Exact if expectation.formula == value => value,
        Kind::Exact => format!("{value} = {}", expectation.formula),
        Kind::Mean if expectation.formula == value => format!("about {value}"),
        Kind::Mean => format!("about {value} = {}", expectation.formula),
        Kind::Bound => expectation.formula.clone(),
    }
}

/// A number with at most three digits after the point, without zeros at the end.
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
