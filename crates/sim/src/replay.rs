//! Repeats a trace step by step: gives the processes the same inputs in the same order, insists on the same outputs,
//! and judges again. Whoever wrote the trace, simulator or checker, the steps are those of the protocol.

use baton_protocol::detector::Detector;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Family, SetupError, Visitor};
use baton_protocol::{Group, ProcessId, Protocol};
use baton_trace::{Event, Header, Order, Record, Unit, is_counterexample};

use self::repeat::{Elects, Repeat};
use crate::oracle::mutex::Violation;
use crate::stage::Stage;

mod beats;
#[cfg(test)]
mod beside_world;
mod recurrence;
mod repeat;

/// What a replay has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How many records were repeated.
    pub steps: usize,
    /// How many times somebody entered.
    pub entries: u64,
    /// What the oracles found: property and detail.
    pub violations: Vec<Violation>,
    /// What they have watched, and found nothing.
    pub held: Vec<&'static str>,
    /// What a counterexample is there to show, promised or not; nothing if it is a run.
    pub shown: Option<String>,
}

/// Why a trace cannot be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// No such group can be made.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Not a protocol whose steps a trace tells.
    #[error("a trace of `{algorithm}` cannot be repeated: {reason}")]
    Unsupported {
        /// Which algorithm.
        algorithm: &'static str,
        /// What is missing in the trace.
        reason: &'static str,
    },
    /// It is the trace of one member of a group over sockets.
    #[error(
        "this is what P{member} alone saw of its group, without what the others sent it, and cannot be repeated; \
         traces of `baton sim` and `baton check` can"
    )]
    OneMember {
        /// Which one.
        member: ProcessId,
    },
    /// The trace speaks of other processes than the group has.
    #[error("the trace has {found} processes, and `{algorithm}` with {clients} clients has {expected}")]
    Processes {
        /// Which algorithm.
        algorithm: &'static str,
        /// How many may ask.
        clients: usize,
        /// In the trace.
        found: usize,
        /// In the group.
        expected: usize,
    },
    /// The processes do something else than the trace says.
    #[error("record {seq} does not fit: the trace says {found}, the processes say {expected}")]
    Differs {
        /// Which record.
        seq: u64,
        /// What the trace says.
        found: String,
        /// What would fit.
        expected: String,
    },
    /// The network is none.
    #[error("the trace says that the order of its network is `{found}`; there are fifo and unordered")]
    Order {
        /// What it says.
        found: String,
    },
    /// The last line is missing.
    #[error("the trace is cut off after {records} records; its last one must be `end`")]
    CutOff {
        /// How many there are.
        records: usize,
    },
    /// The steps fit, and their outcome does not.
    #[error("the trace tells of a violation of {property}, and its steps do not lead to one")]
    Outcome {
        /// What it tells of.
        property: String,
    },
}

/// Repeats a trace.
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
    /// Refuses a trace of another number of processes.
    fn check_size<P>(&self, about: &'static About, group: &Group<P>) -> Result<(), ReplayError> {
        let (clients, found, expected) = (group.clients, self.header.processes, group.processes);
        let wrong = || ReplayError::Processes { algorithm: about.name, clients, found, expected };
        if found == expected { Ok(()) } else { Err(wrong()) }
    }

    fn go<P: Protocol>(self, stage: Stage<P>, elects: Option<Elects>) -> Result<Replayed, ReplayError> {
        let cycle_from = self.header.cycle_from();
        let fifo = match &self.header.network.order {
            Some(Order::Fifo) => true,
            Some(Order::Unordered) | None => false,
            Some(Order::Unknown(found)) => return Err(ReplayError::Order { found: found.clone() }),
        };
        let mut repeat = Repeat::new(stage, fifo, self.records, elects);
        repeat.play(cycle_from)?;
        let end = self.records.last().and_then(|record| match &record.event {
            Event::End { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        // A process that is killed writes no last line; the simulator and the checker always do.
        if end.is_none() && self.header.unit == Unit::T {
            return Err(ReplayError::CutOff { records: self.records.len() });
        }
        let counterexample = is_counterexample(self.records);
        let claims = || self.records.iter().filter_map(claim);
        for record in self.records {
            match &record.event {
                Event::Violation { property, detail } if property == "liveness" && record.p.is_some() => {
                    // Granted too late: the steps are those of the trace, and so are their times.
                    repeat.violations.push(("liveness", detail.clone()));
                }
                Event::Violation { property, .. } if ["deadlock", "liveness"].contains(&property.as_str()) => {
                    repeat.judge_the_end(property, cycle_from.is_some(), end);
                }
                _ => {}
            }
        }
        // A counterexample ends with what it shows; a run of the simulator goes on, and may be judged by its times.
        let found = |property: &str| repeat.violations.iter().any(|(found, _)| *found == property);
        if let (true, Some(property)) = (counterexample, claims().find(|property| !found(property))) {
            return Err(ReplayError::Outcome { property: property.into() });
        }
        Ok(Replayed {
            steps: self.records.len(),
            entries: repeat.entries,
            held: repeat.held(counterexample),
            shown: claims().next_back().filter(|_| counterexample).map(str::to_owned),
            violations: repeat.violations,
        })
    }
}

impl Visitor for Replay<'_> {
    type Output = Result<Replayed, ReplayError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        let reason = match about.family {
            Family::Detector => {
                "its processes go by their own clocks, and the trace tells the time of the simulator only"
            }
            Family::Append => {
                "the trace format has no event for what a client appends, or for the offset that it is told"
            }
            Family::Mutex | Family::Election => "this family of algorithms is not known to the replay",
        };
        Err(ReplayError::Unsupported { algorithm: about.name, reason })
    }

    /// A run of the simulator tells no process's clock; in the checker they all show the same.
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

/// The property that a record tells to be violated, if it does.
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
