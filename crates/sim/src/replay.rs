//! Repeats a trace step by step: gives the processes the same inputs in the same order, requires the same outputs, and
//! judges the run again. The trace may come from the simulator or from the checker.

use baton_protocol::detector::Detector;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Family, SetupError, Visitor};
use baton_protocol::{Group, ProcessId, Protocol};
use baton_trace::{Event, Header, Record, TracedOrder, Unit, is_counterexample};

use self::repeat::{Elects, Repeat};
use crate::oracle::mutex::Violation;
use crate::stage::Stage;

mod beats;
#[cfg(test)]
mod beside_world;
mod recurrence;
mod repeat;

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Number of repeated records.
    pub steps: usize,
    /// Number of entries into the critical section.
    pub entries: u64,
    /// The findings of the oracles: property and detail.
    pub violations: Vec<Violation>,
    /// The properties that the oracles checked without finding a violation.
    pub held: Vec<&'static str>,
    /// The property that a counterexample violates, even if the algorithm does not promise it. None for a simulated
    /// run.
    pub shown: Option<String>,
}

/// Why a trace cannot be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The trace lacks what a replay of this algorithm needs.
    #[error("a trace of `{algorithm}` cannot be repeated: {reason}")]
    Unsupported {
        algorithm: &'static str,
        /// What is missing in the trace.
        reason: &'static str,
    },
    /// The trace is from one member of a group over sockets.
    #[error(
        "this trace has only the records of P{member}, not those of its whole group, and cannot be repeated; \
         traces of `baton sim` and `baton check` can"
    )]
    OneMember { member: ProcessId },
    /// The trace and the group have different numbers of processes.
    #[error("the trace has {found} processes, and `{algorithm}` with {clients} clients has {expected}")]
    Processes {
        algorithm: &'static str,
        /// In the group.
        clients: usize,
        /// In the trace.
        found: usize,
        /// In the group.
        expected: usize,
    },
    /// The processes do not do what the trace says.
    #[error("record {seq} does not fit: the trace says {found}, the processes say {expected}")]
    Differs {
        seq: u64,
        /// What the trace says.
        found: String,
        /// What the processes do.
        expected: String,
    },
    /// The trace names an unknown order of messages.
    #[error("the trace says that the order of its network is `{found}`; there are fifo and unordered")]
    Order { found: String },
    /// The last record is missing.
    #[error("the trace is cut off after {records} records; its last one must be `end`")]
    CutOff { records: usize },
    /// The steps fit, but do not lead to the violation in the trace.
    #[error("the trace claims a violation of {property}, but its steps do not lead to one")]
    Outcome {
        /// The property that the trace claims to be violated.
        property: String,
    },
}

pub fn replay(header: &Header, records: &[Record]) -> Result<Replayed, ReplayError> {
    if let Some(member) = header.network.member {
        return Err(ReplayError::OneMember { member });
    }
    registry::visit(&header.algorithm, &header.group_params(), Replay { header, records })?
}

struct Replay<'t> {
    header: &'t Header,
    records: &'t [Record],
}

impl Replay<'_> {
    /// Returns an error if the trace has another number of processes than the group.
    fn check_size<P>(&self, about: &'static About, group: &Group<P>) -> Result<(), ReplayError> {
        let (clients, found, expected) = (group.clients, self.header.processes, group.processes);
        let wrong = || ReplayError::Processes { algorithm: about.name, clients, found, expected };
        if found == expected { Ok(()) } else { Err(wrong()) }
    }

    fn go<P: Protocol>(self, stage: Stage<P>, elects: Option<Elects>) -> Result<Replayed, ReplayError> {
        let about = registry::find(&self.header.algorithm)?;
        let cycle_from = self.header.cycle_from();
        let fifo = match &self.header.network.order {
            Some(TracedOrder::Fifo) => true,
            Some(TracedOrder::Unordered) | None => false,
            Some(TracedOrder::Unknown(found)) => return Err(ReplayError::Order { found: found.clone() }),
        };
        let mut repeat = Repeat::new(stage, fifo, self.records, elects);
        repeat.play(cycle_from)?;
        let end = self.records.last().and_then(|record| match &record.event {
            Event::End { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        // A killed process writes no last record; the simulator and the checker always do.
        if end.is_none() && self.header.unit == Unit::T {
            return Err(ReplayError::CutOff { records: self.records.len() });
        }
        let counterexample = is_counterexample(self.records);
        let claims = || self.records.iter().filter_map(claim);
        for record in self.records {
            match &record.event {
                Event::Violation { property, detail } if property == "liveness" && record.p.is_some() => {
                    // Granted too late. The replay takes this finding from the trace, because the times are the trace's
                    // own.
                    repeat.violations.push(("liveness", detail.clone()));
                }
                Event::Violation { property, .. } if ["deadlock", "liveness"].contains(&property.as_str()) => {
                    repeat.judge_the_end(property, cycle_from.is_some(), end);
                }
                _ => {}
            }
        }
        // A counterexample ends with its violation. A run of the simulator goes on, and some of its findings depend on
        // times.
        let found = |property: &str| repeat.violations.iter().any(|(found, _)| *found == property);
        if let (true, Some(property)) = (counterexample, claims().find(|property| !found(property))) {
            return Err(ReplayError::Outcome { property: property.into() });
        }
        Ok(Replayed {
            steps: self.records.len(),
            entries: repeat.entries,
            held: repeat.held(counterexample, &about.promises),
            shown: claims().next_back().filter(|_| counterexample).map(str::to_owned),
            violations: repeat.violations,
        })
    }
}

impl Visitor for Replay<'_> {
    type Output = Result<Replayed, ReplayError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        let reason = match about.family {
            Family::Detector => "its processes use their own clocks, and the trace has only the time of the simulator",
            Family::Append => "the trace format has no events for appends and their offsets",
            Family::Mutex | Family::Election => "this family of algorithms is not known to the replay",
        };
        Err(ReplayError::Unsupported { algorithm: about.name, reason })
    }

    /// The trace of a simulated run does not have the clocks of the processes. In the checker all clocks show the same
    /// time.
    fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> Self::Output {
        if !self.header.is_dated_by_ticks() {
            return self.unsupported(about);
        }
        self.check_size(about, &group)?;
        beats::repeat(self.header, self.records, &group)
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.check_size(about, &group)?;
        self.go(Stage::mutex(group), None)
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.check_size(about, &group)?;
        let elects = Elects { rule: group.elects, survivors: group.survivors.clone() };
        self.go(Stage::election(group), Some(elects))
    }
}

/// The property that a record reports as violated.
fn claim(record: &Record) -> Option<&str> {
    match &record.event {
        Event::Violation { property, .. } => Some(property),
        _ => None,
    }
}

fn differs(record: &Record, expected: String) -> ReplayError {
    let found = serde_json::to_string(&record.event).unwrap_or_else(|_| format!("{:?}", record.event));
    let place = record.p.map(|p| format!("P{p} ")).unwrap_or_default();
    ReplayError::Differs { seq: record.seq, found: place + &found, expected }
}
