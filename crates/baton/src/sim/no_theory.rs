//! Why a report has no expected value beside a measured one.

use baton_compare::theory::{
    WithTheory, fault, knows_the_delay, of_append, of_detector, of_election, of_mutex, too_short,
};
use baton_sim::app::mutex::Load;
use baton_sim::network::Delay;
use baton_sim::report::Report;
use baton_sim::run::Options;
use serde::Serialize;

/// A report with the expected values, and the reason if some are missing.
#[derive(Serialize)]
pub struct Explained<'a> {
    #[serde(flatten)]
    report: WithTheory<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_theory: Option<String>,
}

impl<'a> Explained<'a> {
    pub fn new(options: &Options, report: &'a Report) -> Self {
        Explained { report: WithTheory::new(options, report), no_theory: reason(options, report) }
    }
}

/// Which measured values have no expected value, and why. None if all of them have one.
pub fn reason(options: &Options, report: &Report) -> Option<String> {
    let figures = match report {
        Report::Mutex(report) => {
            let costs = of_mutex(options, report);
            let (client, sync) = (report.client_delay.is_some(), report.sync_delay.is_some());
            vec![
                ("messages", report.messages_per_entry.is_some(), costs.messages_per_entry.is_some()),
                ("client delay", client, costs.client_delay.is_some()),
                ("sync delay", sync, costs.sync_delay.is_some()),
            ]
        }
        Report::Election(report) => {
            let costs = of_election(options, report.drawn.as_ref());
            vec![("messages", true, costs.messages.is_some()), ("time", report.time.is_some(), costs.time.is_some())]
        }
        Report::Detector(report) => {
            let theory = of_detector(options, report);
            vec![
                ("detection time", report.detection_time.is_some(), theory.detection_time.is_some()),
                ("mistakes", true, theory.mistakes.is_some()),
            ]
        }
        Report::Append(report) => {
            let theory = of_append(options, report);
            vec![("messages", report.messages_per_append.is_some(), theory.messages_per_append.is_some())]
        }
    };
    let measured = || figures.iter().filter(|(_, measured, _)| *measured);
    let missing: Vec<&str> = measured().filter(|(.., expected)| !expected).map(|(name, ..)| *name).collect();
    let why = || why(options, report);
    match missing.len() {
        0 => None,
        all if all == measured().count() => Some(format!("none, because {}", why())),
        _ => Some(format!("none for {}, because {}", missing.join(" and "), why())),
    }
}

fn why(options: &Options, report: &Report) -> String {
    let is_constant = options.network.delay == Delay::Constant(1.0);
    if let Some(fault) = fault(options, report.drawn()) {
        return fault.to_owned();
    }
    let variant = options.params.variant.as_ref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    let no_formula = format!("there is no formula for {}{variant}", options.algorithm);
    match report {
        Report::Mutex(_) => match too_short(options) {
            Some(short) => short,
            None if !is_constant => "message delays are not constant".to_owned(),
            None => format!("{no_formula} with these requests"),
        },
        Report::Election(_) if !is_constant => "message delays are not constant".to_owned(),
        Report::Election(_) if !knows_the_delay(options) => {
            "the processes believe in another message delay than the network has".to_owned()
        }
        Report::Election(_) if options.workload.load == Load::SoloRandom => {
            "the costs depend on which process notices that there is no leader".to_owned()
        }
        Report::Election(_) => no_formula,
        Report::Detector(_) if options.algorithm == "heartbeat" => {
            "a message may take longer than the processes expect, or than the time between two beats".to_owned()
        }
        Report::Detector(_) => no_formula,
        Report::Append(_) if options.params.has("batch") => no_formula,
        Report::Append(_) => "a message may take longer than the processes expect".to_owned(),
    }
}
