//! The cost of a change of views, measured and compared with theory.

use baton_protocol::Fence;
use baton_sim::app::mutex::Load;
use baton_sim::faults::{Fault, FaultKind};
use baton_sim::run::run_traced;
use baton_sim::time::ticks;
use baton_theory::{Expectation, views};
use baton_trace::{Event, Trace};
use serde::Serialize;

use crate::mutex::{Contestant, contestants};
use crate::parallel::{self, Caller, Cancelled};
use crate::theory::{in_words, number};

/// The cost of the change after one crash.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub algorithm: &'static str,
    /// Processes before the crash.
    pub n: usize,
    /// VIEW, READY and START.
    pub messages: Option<f64>,
    /// From the decision of the source until all members have started, in T.
    pub started: Option<f64>,
    /// From the decision of the source until the first entry in the new view, in T.
    pub first_entry: Option<f64>,
    pub differences: Vec<String>,
    /// Why there is no measurement.
    pub refused: Option<String>,
}

/// The process that crashes, and when. All members want to enter.
const CRASHED: usize = 1;
const CRASH_AT: f64 = 10.5;

pub fn compare(sizes: &[usize], caller: Caller) -> Result<Vec<Row>, Cancelled> {
    let carried: Vec<Contestant> = contestants().into_iter().filter_map(in_views).collect();
    let tasks: Vec<(Contestant, usize)> =
        carried.iter().flat_map(|&contestant| sizes.iter().map(move |&n| (contestant, n))).collect();
    parallel::map(&tasks, caller, |&(contestant, n)| measure(contestant, n))
}

/// The default variant of an algorithm, in views. A token ring must rest.
fn in_views(contestant: Contestant) -> Option<Contestant> {
    let has = |name: &str| contestant.about.variants.iter().any(|variant| variant.name == name);
    let variant = if has("parked") { "parked+views" } else { "views" };
    (contestant.variant.is_none() && has("views")).then_some(Contestant { variant: Some(variant), ..contestant })
}

fn measure(contestant: Contestant, n: usize) -> Row {
    let mut options = contestant.options(n, Load::All);
    options.workload.entries = 12 + 3 * n as u64;
    options.faults = vec![Fault { at: ticks(CRASH_AT), kind: FaultKind::Crash(CRASHED) }];
    let row = Row {
        algorithm: contestant.about.name,
        n,
        messages: None,
        started: None,
        first_entry: None,
        differences: Vec::new(),
        refused: None,
    };
    match run_traced(&options) {
        Ok((_, trace)) => row.with(&trace),
        Err(error) => Row { refused: Some(error.to_string()), ..row },
    }
}

impl Row {
    fn with(self, trace: &Trace) -> Row {
        let is_view = |kind: &str| matches!(kind, "VIEW" | "READY" | "START");
        let decided = trace.records.iter().find(|record| matches!(record.event, Event::Suspect { peer: CRASHED }));
        let Some(decided) = decided.map(|record| record.t) else {
            return Row { refused: Some("the run ended before the crash".into()), ..self };
        };
        let records = || trace.records.iter();
        let messages = records().filter(|record| matches!(&record.event, Event::Send { kind, .. } if is_view(kind)));
        let started = records().rfind(|record| match &record.event {
            Event::Deliver { kind, .. } => is_view(kind),
            _ => false,
        });
        let in_new_view = Fence { epoch: 2, count: 0 }.number();
        let entered =
            records().find(|record| matches!(record.event, Event::Enter { fence, .. } if fence > in_new_view));
        let since = |record: &baton_trace::Record| record.t - decided;
        let row = Row {
            messages: Some(messages.count() as f64),
            started: started.map(since),
            first_entry: entered.map(since),
            ..self
        };
        let m = row.n - 1;
        let checks = [
            ("messages", views::messages(m), row.messages),
            ("time until all have started", views::started(m), row.started.map(rounded)),
            ("time until the first entry", views::first_entry(m), row.first_entry),
        ];
        let differs = |(what, expected, measured): (&str, Expectation, Option<f64>)| match measured {
            Some(measured) if expected.agrees(measured) => None,
            Some(measured) => Some(format!("{what} {}, not {}", number(measured), in_words(&expected))),
            None => Some(format!("{what} unknown")),
        };
        Row { differences: checks.into_iter().filter_map(differs).collect(), ..row }
    }

    pub fn is_fine(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Times in a trace are decimal, so a difference has a rounding error.
fn rounded(time: f64) -> f64 {
    (time * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn every_change_of_views_costs_what_theory_says() {
        let caller = Caller { progress: &|_| {}, cancel: &AtomicBool::new(false) };
        let rows = compare(&[2, 3, 4, 9], caller).unwrap();
        assert!(rows.len() >= 4 * 13, "{} rows", rows.len());
        for row in &rows {
            assert!(row.refused.is_none() && row.is_fine(), "{row:?}");
        }
    }

    /// An entry costs the same in a view. Only helpers need fewer messages, because members carry them.
    #[test]
    fn entries_in_views_cost_what_theory_says() {
        let caller = Caller { progress: &|_| {}, cancel: &AtomicBool::new(false) };
        let carried: Vec<Contestant> = contestants().into_iter().filter_map(in_views).collect();
        let rows = crate::mutex::compare(&carried, &[4, 9], &[Load::Solo, Load::All], caller).unwrap();
        for row in &rows {
            let name = format!("{}, n = {}, {}", row.name(), row.n, row.load.name());
            assert!(row.refused.is_none() && row.is_fine(), "{name}: {:?} {:?}", row.differences, row.broken_promises);
        }
    }
}
