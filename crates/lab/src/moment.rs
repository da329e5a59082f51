//! `/api/moment`: the state of every process right after a record of a run or of a trace.

use baton_sim::replay::{self, Moment};
use baton_sim::spec::Spec;
use baton_trace::{Header, Record};
use serde::Deserialize;

use crate::Refusal;

/// Names a run by its spec, or a trace by its text or by the id that its upload got.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub spec: Option<Spec>,
    pub trace: Option<String>,
    pub upload: Option<String>,
    pub seq: u64,
}

/// Where the records come from.
#[derive(Clone, Debug)]
pub enum Source {
    Spec(Box<Spec>),
    Trace(String),
    Upload(String),
}

impl Request {
    pub fn source(self) -> Result<(Source, u64), Refusal> {
        let source = match (self.spec, self.trace, self.upload) {
            (Some(spec), None, None) => Source::Spec(Box::new(spec)),
            (None, Some(text), None) => Source::Trace(text),
            (None, None, Some(id)) => Source::Upload(id),
            _ => return Err(Refusal::bad("the request must have one of spec, trace and upload")),
        };
        Ok((source, self.seq))
    }
}

pub fn moment(header: &Header, records: &[Record], seq: u64) -> Result<Moment, Refusal> {
    replay::moment(header, records, seq).map_err(Refusal::bad)
}

#[cfg(test)]
mod tests {
    use baton_trace::Event;

    use super::*;
    use crate::jobs::Stop;
    use crate::run;

    fn request(json: &str) -> Request {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_request_names_one_source() {
        for wrong in [r#"{"seq":1}"#, r#"{"seq":1,"trace":"x","upload":"y"}"#] {
            assert!(request(wrong).source().is_err(), "{wrong}");
        }
        let (source, seq) = request(r#"{"seq":3,"upload":"y"}"#).source().unwrap();
        assert!(matches!((source, seq), (Source::Upload(id), 3) if id == "y"));
    }

    /// Also with faults, partitions, leases and elections.
    #[test]
    fn every_record_of_a_run_has_its_moment() {
        let specs = [
            r#"{"algorithm":"maekawa","n":7,"entries":8,"network":"async"}"#,
            r#"{"algorithm":"raymond","n":5,"entries":6}"#,
            r#"{"algorithm":"lamport","n":3,"entries":6,"faults":["crash 2 @ 3"]}"#,
            r#"{"algorithm":"bully","n":4,"variant":"quorum","faults":["partition 0,1|2,3 @ 5 for 30"]}"#,
            r#"{"algorithm":"voting","n":3,"entries":5,"network":"async","seed":3}"#,
            r#"{"algorithm":"heartbeat","n":3,"entries":2,"drift":0.02,"ignore-assumptions":true}"#,
            r#"{"algorithm":"record-append","n":3,"entries":6,"faults":["crash 4 @ 5"]}"#,
            r#"{"algorithm":"phi-accrual","n":4,"network":"async","faults":["crash 2 @ 30","pause 1 @ 20 for 15"]}"#,
        ];
        for spec in specs {
            let ran = run::run(&serde_json::from_str(spec).unwrap(), &Stop::default()).unwrap();
            let all = 0..ran.records.len() as u64;
            for seq in all.step_by(7) {
                let moment = moment(&ran.header, &ran.records, seq).unwrap_or_else(|why| panic!("{spec}: {why:?}"));
                assert_eq!(moment.shown.processes.len(), ran.header.processes);
                assert!(!moment.text.is_empty(), "{spec}: {seq}");
            }
        }
    }

    #[test]
    fn the_moment_of_a_suspicion_shows_what_the_detector_knows() {
        let spec = r#"{"algorithm":"heartbeat","n":3,"faults":["crash 1 @ 25"]}"#;
        let ran = run::run(&serde_json::from_str(spec).unwrap(), &Stop::default()).unwrap();
        let is_suspicion = |record: &&Record| matches!(record.event, Event::Suspect { .. });
        let suspicion = ran.records.iter().find(is_suspicion).unwrap();
        let at = |seq| moment(&ran.header, &ran.records, seq).unwrap();
        let (before, now) = (at(suspicion.seq - 1), at(suspicion.seq));
        let watcher = suspicion.p.unwrap();
        assert!(before.shown.processes[watcher].suspects.is_empty());
        assert_eq!(now.shown.processes[watcher].suspects, [1]);
        let said = format!("P{watcher} suspects P1: by its clock the deadline 32.00 is over");
        assert_eq!(now.text, [said], "the last beat left at 20 T and arrived at 21 T, and P + D is 11 T");
        let picture = serde_json::to_value(&now.shown.processes[watcher].picture).unwrap();
        let part = |name: &str| picture.as_array().unwrap().iter().find(|part| part["name"] == name).unwrap().clone();
        assert_eq!(part("clock")["value"], "32.00");
        assert!(part("last beat")["value"].as_str().unwrap().contains("P1: 21.00"), "{picture}");
        assert!(!now.shown.processes[1].up && now.shown.processes.len() == 3);
        assert!(now.shown.timers.iter().all(|timer| timer.after == "10 T"), "{:?}", now.shown.timers);
    }
}
