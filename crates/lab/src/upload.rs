//! `/api/trace`: a trace that the user has, from any driver. It may be wrong in any way.

use std::fmt::Write;

use baton_sim::judge::{Judgement, judge};
use baton_sim::replay::replay;
use baton_trace::scene::Scene;
use baton_trace::{Header, Record, Trace};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::Refusal;
use crate::limits::RECORDS_MAX;
use crate::run::Truncated;

/// The most processes that can be drawn.
pub const PROCESSES_MAX: usize = 2_000;

/// A trace that has been read.
#[derive(Debug)]
pub struct Upload {
    pub id: String,
    pub header: Header,
    /// The first records, at most [`RECORDS_MAX`].
    pub records: Vec<Record>,
    total: usize,
    report: Result<Judgement, String>,
    /// Why the trace cannot be repeated.
    unrepeatable: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    /// For later calls of `/api/moment`, as long as the lab remembers the trace.
    id: &'a str,
    header: &'a Header,
    /// None if the trace cannot be judged.
    report: Option<&'a Judgement>,
    unjudged: Option<&'a str>,
    scene: Scene,
    records: usize,
    truncated: Option<Truncated>,
    replayable: bool,
    /// Why the trace cannot be replayed.
    why: Option<&'a str>,
}

/// Reads, judges and repeats a trace.
pub fn read(text: &[u8]) -> Result<Upload, Refusal> {
    let Trace { header, mut records, .. } = Trace::read(text).map_err(Refusal::bad)?;
    if header.processes > PROCESSES_MAX {
        let processes = header.processes;
        let why = format!("the trace has {processes} processes, and the lab draws at most {PROCESSES_MAX}");
        return Err(Refusal::bad(why));
    }
    let report = judge(&header, &records).map_err(|why| why.to_string());
    let unrepeatable = replay(&header, &records).err().map(|why| why.to_string());
    let total = records.len();
    records.truncate(RECORDS_MAX);
    Ok(Upload { id: id(text), header, records, total, report, unrepeatable })
}

/// The hash of the text.
pub fn id(text: &[u8]) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut id, byte| {
        // A string takes everything.
        _ = write!(id, "{byte:02x}");
        id
    })
}

impl Upload {
    pub fn answer(&self) -> Answer<'_> {
        let (shown, total) = (self.records.len(), self.total);
        let why = format!("the trace has {total} records, and the lab shows the first {shown}");
        Answer {
            id: &self.id,
            header: &self.header,
            report: self.report.as_ref().ok(),
            unjudged: self.report.as_ref().err().map(String::as_str),
            scene: Scene::new(&self.header, &self.records),
            records: shown,
            truncated: (shown < total).then_some(Truncated { shown, total, why }),
            replayable: self.unrepeatable.is_none(),
            why: self.unrepeatable.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::jobs::Stop;
    use crate::run;

    fn trace(spec: &str) -> String {
        let ran = run::run(&serde_json::from_str(spec).unwrap(), &Stop::default()).unwrap();
        let lines = ran.records.iter().map(|record| serde_json::to_string(record).unwrap());
        let header = serde_json::to_string(&ran.header).unwrap();
        [header].into_iter().chain(lines).collect::<Vec<_>>().join("\n") + "\n"
    }

    fn answer(text: &str) -> Value {
        serde_json::to_value(read(text.as_bytes()).unwrap().answer()).unwrap()
    }

    #[test]
    fn a_trace_of_the_simulator_is_judged_and_can_be_repeated() {
        let text = trace(r#"{"algorithm":"maekawa","n":3,"entries":6}"#);
        let answer = answer(&text);
        assert_eq!(answer["replayable"], true);
        assert_eq!(answer["report"]["resources"][0]["entries"], 6);
        assert_eq!(answer["scene"]["processes"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_trace_that_cannot_be_repeated_says_why_and_is_shown() {
        let text = trace(r#"{"algorithm":"heartbeat","n":3}"#).replace(r#""unit":"T""#, r#""unit":"s""#);
        let answer = answer(&text);
        assert_eq!(answer["replayable"], false);
        assert!(answer["why"].as_str().unwrap().contains("clocks"), "{}", answer["why"]);
    }

    #[test]
    fn an_unknown_algorithm_is_shown_but_not_judged() {
        let hostile = r#"\u202e<script>alert(1)</script>\u0007"#;
        let text = trace(r#"{"algorithm":"maekawa","n":3,"entries":2}"#).replace("maekawa", hostile);
        let answer = answer(&text);
        assert!(answer["report"].is_null() && answer["unjudged"].as_str().unwrap().contains("<script>"));
        assert_eq!(answer["header"]["algorithm"], "\u{202e}<script>alert(1)</script>\u{7}");
    }

    #[test]
    fn broken_traces_are_refused_in_a_sentence() {
        let whole = trace(r#"{"algorithm":"central","n":2,"entries":2}"#);
        let refusal = |text: &str| read(text.as_bytes()).unwrap_err().why;
        assert!(refusal("").starts_with("the trace is empty"));
        assert!(refusal("<html>").starts_with("this is not a trace"));
        assert!(
            refusal(&whole.replacen("\"event\"", "\"evert\"", 1)).starts_with("line 2 of the trace is not an event")
        );
        assert!(refusal(&whole.replacen("\"processes\":3", "\"processes\":99999", 1)).contains("at most 2000"));
        assert!(refusal(&whole.replacen("\"baton_trace\":1", "\"baton_trace\":2", 1)).contains("version 2"));
        assert!(refusal(&whole.replacen("\"p\":0", "\"p\":1e9", 1)).starts_with("line "));
    }

    /// Every line left out, doubled, or with another number: refused or shown, and never a panic.
    #[test]
    fn a_damaged_trace_does_no_harm() {
        let whole =
            trace(r#"{"algorithm":"token-ring","n":3,"entries":3,"faults":["crash 1 @ 5"],"ignore-assumptions":true}"#);
        let lines: Vec<&str> = whole.lines().collect();
        let numbers = [
            "\"msg\":",
            "\"seq\":",
            "\"t\":",
            "\"p\":",
            "\"fence\":",
            "\"to\":",
            "\"req\":",
            "\"clients\":",
            "\"processes\":",
        ];
        for place in 0..lines.len() {
            let mut left_out = lines.clone();
            left_out.remove(place);
            let mut doubled = lines.clone();
            doubled.insert(place, lines[place]);
            let mut texts = vec![left_out.join("\n"), doubled.join("\n")];
            for number in numbers {
                let changed = lines[place].replacen(number, &format!("{number}1"), 1);
                let mut lines = lines.clone();
                lines[place] = &changed;
                texts.push(lines.join("\n"));
            }
            for text in texts {
                if let Ok(upload) = read(text.as_bytes()) {
                    serde_json::to_vec(&upload.answer()).unwrap();
                }
            }
        }
    }
}
