//! `/api/run`: a run of the simulator, with everything that is needed to draw it.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

use baton_compare::command;
use baton_compare::theory::WithTheory;
use baton_sim::run::run as simulate;
use baton_sim::spec::Spec;
use baton_trace::scene::Scene;
use baton_trace::{Header, Record};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Refusal;
use crate::jobs::Stop;
use crate::limits::{self, RECORDS_MAX};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub spec: Spec,
}

/// A run that is over.
#[derive(Debug)]
pub struct Ran {
    pub header: Header,
    /// The first records, at most [`RECORDS_MAX`].
    pub records: Vec<Record>,
    /// Number of all records.
    pub total: usize,
    pub report: Value,
    /// What theory expects of such a run.
    pub theory: Option<Value>,
    pub command: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Answer<'a> {
    report: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    theory: Option<&'a Value>,
    scene: Scene,
    /// Number of records in the scene.
    records: usize,
    /// None if the scene shows the whole run.
    truncated: Option<Truncated>,
    command: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Truncated {
    pub shown: usize,
    pub total: usize,
    pub why: String,
}

/// Runs the simulator.
pub fn run(spec: &Spec, stop: &Stop) -> Result<Ran, Refusal> {
    run_to(spec, stop, RECORDS_MAX)
}

fn run_to(spec: &Spec, stop: &Stop, records_max: usize) -> Result<Ran, Refusal> {
    limits::check_run(spec)?;
    let mut options = spec.options().map_err(Refusal::bad)?;
    options.stop = Some(Arc::clone(stop));
    let sink = Sink(Rc::new(RefCell::new(Lines { bytes: Vec::new(), ended: 0, most: records_max + 1 })));
    let report = simulate(&options, Some(Box::new(sink.clone()))).map_err(Refusal::bad)?;
    let lines = sink.0.take();
    let (header, records) = baton_trace::read(lines.bytes.as_slice()).map_err(Refusal::fault)?;
    let mut report = serde_json::to_value(WithTheory::new(&options, &report)).map_err(Refusal::fault)?;
    let theory = report.as_object_mut().and_then(|report| report.remove("theory"));
    let total = lines.ended.saturating_sub(1);
    Ok(Ran { header, records, total, report, theory, command: command::of_run(spec) })
}

impl Ran {
    pub fn answer(&self) -> Answer<'_> {
        let (shown, total) = (self.records.len(), self.total);
        let why = format!("the run has {total} records, and the lab shows the first {shown}");
        Answer {
            report: &self.report,
            theory: self.theory.as_ref(),
            scene: Scene::new(&self.header, &self.records),
            records: shown,
            truncated: (shown < total).then_some(Truncated { shown, total, why }),
            command: &self.command,
        }
    }
}

/// The first lines of a trace.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Number of complete lines, also of those that are not kept.
    ended: usize,
    /// Number of lines to keep.
    most: usize,
}

#[derive(Clone)]
struct Sink(Rc<RefCell<Lines>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.borrow_mut();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if lines.ended < lines.most {
                lines.bytes.extend_from_slice(line);
            }
            lines.ended += usize::from(line.ends_with(b"\n"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn spec(json: &str) -> Spec {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_run_has_a_report_a_scene_and_its_command() {
        let ran = run(&spec(r#"{"algorithm":"maekawa","n":3,"entries":5}"#), &Stop::default()).unwrap();
        let answer = serde_json::to_value(ran.answer()).unwrap();
        assert_eq!(answer["report"]["entries"], 5);
        assert!(answer["report"].get("theory").is_none() && answer["theory"].is_object());
        assert_eq!(answer["scene"]["processes"].as_array().unwrap().len(), 3);
        assert_eq!(answer["command"], "baton sim maekawa -n 3 --entries 5");
        assert_eq!((&answer["truncated"], &answer["records"]), (&Value::Null, &ran.total.into()));
    }

    #[test]
    fn a_long_run_is_judged_as_a_whole_and_shown_in_part() {
        let spec = spec(r#"{"algorithm":"central","n":3,"entries":50}"#);
        let whole = run(&spec, &Stop::default()).unwrap();
        let cut = run_to(&spec, &Stop::default(), 20).unwrap();
        assert_eq!((cut.records.as_slice(), cut.total), (&whole.records[..20], whole.total));
        assert_eq!(cut.report["entries"], 50);
        let answer = serde_json::to_value(cut.answer()).unwrap();
        let why = format!("the run has {} records, and the lab shows the first 20", whole.total);
        assert_eq!(answer["truncated"]["why"], why);
    }

    #[test]
    fn bad_specs_are_refused_in_the_words_of_the_simulator() {
        let refusal = |json: &str| run(&spec(json), &Stop::default()).unwrap_err().why;
        assert!(refusal(r#"{"algorithm":"<b>x</b>"}"#).starts_with("there is no algorithm `<b>x</b>`"));
        for delay in ["const:NaN", "const:-1", "const:inf", "uniform:NaN,1", "exp:NaN", "pareto:1,NaN", "const:1e300"] {
            refusal(&format!(r#"{{"algorithm":"central","delay":"{delay}"}}"#));
        }
        refusal(r#"{"algorithm":"central","hold":1e300}"#);
        refusal(r#"{"algorithm":"central","n":0}"#);
        refusal(r#"{"algorithm":"central","loss":-1}"#);
        refusal(r#"{"algorithm":"central","faults":["crash 99 @ 5"],"ignore-assumptions":true}"#);
    }

    #[test]
    fn a_run_can_be_stopped() {
        let stop = Arc::new(AtomicBool::new(true));
        assert_eq!(run(&spec(r#"{"algorithm":"central"}"#), &stop).unwrap_err().why, "the run was stopped");
    }
}
