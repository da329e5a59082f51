//! Repeats a trace step by step: gives the processes the same inputs in the same order, requires the same outputs, and
//! judges the run again. The trace may come from the simulator or from the checker.

use baton_protocol::append::Append;
use baton_protocol::detector::Detector;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Family, SetupError, Visitor};
use baton_protocol::{Group, ProcessId, Protocol};
use baton_trace::{Event, Header, Record, TracedOrder, Unit, is_counterexample};
use serde::Serialize;

use self::beats::Beats;
use self::repeat::{Aim, Elects, Repeat};
use crate::oracle::mutex::Violation;
use crate::stage::{Action, Shown, Stage};

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

/// A group right after a record of its trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// The number of the record.
    pub seq: u64,
    /// The time of the record, in the unit of the trace.
    pub t: f64,
    #[serde(flatten)]
    pub shown: Shown,
    /// The step that the record belongs to, in words: what happened, and what the processes did.
    pub text: Vec<String>,
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
    #[error("the trace has `clock_rates`, but not a positive one for each of its {processes} processes")]
    Clocks { processes: usize },
    #[error("the trace has no record {seq}")]
    NoRecord { seq: u64 },
    /// The steps fit, but do not lead to the violation in the trace.
    #[error("the trace claims a violation of {property}, but its steps do not lead to one")]
    Outcome {
        /// The property that the trace claims to be violated.
        property: String,
    },
}

pub fn replay(header: &Header, records: &[Record]) -> Result<Replayed, ReplayError> {
    check_whole(header)?;
    registry::visit(&header.algorithm, &header.group_params(), Replay { header, records })?
}

/// The group right after the record `seq`. Repeats the trace up to there.
pub fn moment(header: &Header, records: &[Record], seq: u64) -> Result<Moment, ReplayError> {
    let index = records.binary_search_by_key(&seq, |record| record.seq).map_err(|_| ReplayError::NoRecord { seq })?;
    let part = |repeat: &mut dyn Repeated| {
        repeat.play_to(index)?;
        let (shown, mut text) = repeat.now();
        if text.is_empty() {
            text.push(happening(&records[index]));
        }
        Ok(Moment { seq, t: records[index].t, shown, text })
    };
    look(header, records, part)
}

/// The actions on a stage that a trace consists of, without the start.
pub fn actions(header: &Header, records: &[Record]) -> Result<Vec<Action>, ReplayError> {
    look(header, records, |repeat| repeat.actions())
}

fn check_whole(header: &Header) -> Result<(), ReplayError> {
    header.network.member.map_or(Ok(()), |member| Err(ReplayError::OneMember { member }))
}

/// A trace during its replay, for any protocol.
trait Repeated {
    fn play_to(&mut self, index: usize) -> Result<(), ReplayError>;

    /// The group now, and the latest step in words.
    fn now(&self) -> (Shown, Vec<String>);

    /// Repeats the whole trace, and returns its actions.
    fn actions(&mut self) -> Result<Vec<Action>, ReplayError>;
}

impl<P: Protocol> Repeated for Repeat<'_, P> {
    fn play_to(&mut self, index: usize) -> Result<(), ReplayError> {
        Repeat::play_to(self, index)
    }

    fn now(&self) -> (Shown, Vec<String>) {
        (self.stage().show(self.is_fifo()), self.tell())
    }

    fn actions(&mut self) -> Result<Vec<Action>, ReplayError> {
        self.keep_actions();
        self.play(None)?;
        Ok(self.take_actions())
    }
}

/// Looks at a part of a replay.
fn look<T>(
    header: &Header,
    records: &[Record],
    part: impl FnOnce(&mut dyn Repeated) -> Result<T, ReplayError>,
) -> Result<T, ReplayError> {
    check_whole(header)?;
    let replay = Replay { header, records };
    registry::visit(&header.algorithm, &header.group_params(), Look { replay, part })?
}

struct Look<'t, F> {
    replay: Replay<'t>,
    part: F,
}

impl<T, F: FnOnce(&mut dyn Repeated) -> Result<T, ReplayError>> Visitor for Look<'_, F> {
    type Output = Result<T, ReplayError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        Err(unsupported(about))
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.replay.check_size(about, &group)?;
        (self.part)(&mut Repeat::new(Stage::mutex(group), self.replay.fifo()?, self.replay.records, Aim::Lock))
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.replay.check_size(about, &group)?;
        let aim = Aim::Lead(Elects { rule: group.elects, survivors: group.survivors.clone() });
        (self.part)(&mut Repeat::new(Stage::election(group), self.replay.fifo()?, self.replay.records, aim))
    }

    fn append<P: Append>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.replay.check_size(about, &group)?;
        (self.part)(&mut Repeat::new(Stage::append(group), self.replay.fifo()?, self.replay.records, Aim::Append))
    }

    fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> Self::Output {
        (self.part)(&mut self.replay.beats(about, group)?)
    }
}

/// A record that is no step of a process, in words.
fn happening(record: &Record) -> String {
    let who = record.p.map_or("the network".to_owned(), |process| format!("P{process}"));
    match &record.event {
        Event::Pause => format!("{who} pauses"),
        Event::Resume => format!("{who} runs again"),
        Event::Partition { groups, oneway: None } => {
            let group = |group: &Vec<usize>| group.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            format!("the network splits: {}", groups.iter().map(group).collect::<Vec<_>>().join(" | "))
        }
        Event::Partition { oneway: Some((from, to)), .. } => format!("the link from P{from} to P{to} is cut"),
        Event::Heal => "the network is whole again".into(),
        Event::Violation { property, detail } => format!("VIOLATES {property}: {detail}"),
        Event::StoreWrite { fence, accepted: true, .. } => format!("{who} writes to the store with fence {fence}"),
        Event::StoreWrite { fence, .. } => format!("the store refuses the write of {who} with fence {fence}"),
        Event::Drop { msg, .. } => format!("message #{msg} to {who} is lost"),
        Event::View { epoch, members } => format!("{who} has view {epoch}: {members:?}"),
        Event::Cancel { .. } => format!("{who} gives up its request"),
        Event::End { reason, .. } => format!("the run ends: {reason}"),
        _ => "nothing changes".into(),
    }
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

    /// Whether each link keeps the order of messages.
    fn fifo(&self) -> Result<bool, ReplayError> {
        match &self.header.network.order {
            Some(TracedOrder::Fifo) => Ok(true),
            Some(TracedOrder::Unordered) | None => Ok(false),
            Some(TracedOrder::Unknown(found)) => Err(ReplayError::Order { found: found.clone() }),
        }
    }

    /// The trace of a real group does not have the clocks of its processes.
    fn beats<D: Detector>(&self, about: &'static About, group: Group<D>) -> Result<Beats<'_, D>, ReplayError> {
        if self.header.unit != Unit::T {
            return Err(unsupported(about));
        }
        self.check_size(about, &group)?;
        Beats::new(about.name, self.header, self.records, group)
    }

    fn go<P: Protocol>(self, stage: Stage<P>, aim: Aim) -> Result<Replayed, ReplayError> {
        let about = registry::find_for(&self.header.algorithm, &self.header.group_params())?;
        let cycle_from = self.header.cycle_from();
        let mut repeat = Repeat::new(stage, self.fifo()?, self.records, aim);
        repeat.play(cycle_from)?;
        let end = self.records.last().and_then(|record| match &record.event {
            Event::End { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        // A killed process writes no last record; the simulator and the checker always do.
        if end.is_none() && self.header.unit == Unit::T {
            return Err(ReplayError::CutOff { records: self.records.len() });
        }
        // No event was left, so all replicas have the same file.
        if end == Some("quiet") {
            repeat.judge_the_files();
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
                // A replay has no store, so it takes this finding from the trace.
                Event::Violation { property, detail } if property == "store" => {
                    repeat.violations.push(("store", detail.clone()));
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
            held: repeat.held(counterexample, &self.header.promises(about), about.broken.is_some()),
            shown: claims().next_back().filter(|_| counterexample).map(str::to_owned),
            violations: repeat.violations,
        })
    }
}

impl Visitor for Replay<'_> {
    type Output = Result<Replayed, ReplayError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        Err(unsupported(about))
    }

    fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> Self::Output {
        self.beats(about, group)?.repeat()
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.check_size(about, &group)?;
        self.go(Stage::mutex(group), Aim::Lock)
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.check_size(about, &group)?;
        let aim = Aim::Lead(Elects { rule: group.elects, survivors: group.survivors.clone() });
        self.go(Stage::election(group), aim)
    }

    fn append<P: Append>(self, about: &'static About, group: Group<P>) -> Self::Output {
        self.check_size(about, &group)?;
        self.go(Stage::append(group), Aim::Append)
    }
}

fn unsupported(about: &'static About) -> ReplayError {
    let reason = match about.family {
        Family::Detector => "its processes use their own clocks, which are not in the trace",
        Family::Mutex | Family::Election | Family::Append => "this family of algorithms is not known to the replay",
    };
    ReplayError::Unsupported { algorithm: about.name, reason }
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

#[cfg(test)]
mod tests {
    use baton_protocol::mutex::central;
    use baton_protocol::registry::Params;

    use super::*;
    use crate::stage::{StageRecorder, Wish};

    /// Two clients of a central server: P0 requests and enters, P1 requests, P0 leaves.
    fn trace() -> (Header, Vec<Record>, Vec<Action>) {
        let params = Params::new(2, 1);
        let group = central::group(&params).unwrap();
        let header = Header::new(&central::ABOUT, &params, group.processes, &group.topology, Unit::T);
        let mut stage = Stage::mutex(group);
        let mut recorder = StageRecorder::new(header.processes);
        recorder.start(&stage.start());
        let user = |process, wish| Action::User { process, wish };
        let actions = vec![
            user(0, Wish::Request),
            Action::Deliver { message: 0 },
            Action::Deliver { message: 1 },
            user(1, Wish::Request),
            Action::Drop { message: 2 },
            user(0, Wish::Release),
        ];
        for action in &actions {
            recorder.action(action, &stage.apply(action).unwrap());
        }
        (header, recorder.finish("limit"), actions)
    }

    #[test]
    fn a_moment_shows_the_group_after_the_step_of_a_record() {
        let (header, records, _) = trace();
        let at = |event: fn(&Event) -> bool| {
            let record = records.iter().find(|record| event(&record.event)).unwrap();
            moment(&header, &records, record.seq).unwrap()
        };
        let request = at(|event| matches!(event, Event::Request { .. }));
        assert!(request.shown.processes[0].waiting && request.shown.pending.len() == 1);
        assert_eq!(request.text, ["P0 requests", "P0 -> P2 REQUEST"]);
        assert_eq!(at(|event| matches!(event, Event::Send { .. })).text, request.text, "the same step");
        let enter = at(|event| matches!(event, Event::Enter { .. }));
        assert!(enter.shown.processes[0].inside);
        assert_eq!(enter.text, ["P0 gets GRANT {fence: 1} from P2", "P0 granted, fence 1"]);
        let lost = at(|event| matches!(event, Event::Drop { .. }));
        assert_eq!(lost.shown.pending, []);
        let end = at(|event| matches!(event, Event::End { .. }));
        assert_eq!(end.text, ["the run ends: limit"]);
        assert!(matches!(moment(&header, &records, 99), Err(ReplayError::NoRecord { seq: 99 })));
    }

    #[test]
    fn the_actions_of_a_trace_are_those_that_made_it() {
        let (header, records, made) = trace();
        assert_eq!(actions(&header, &records).unwrap(), made);
    }
}
