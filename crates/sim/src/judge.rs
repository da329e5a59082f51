//! Judges a trace by its events alone: a run of the simulator, or the merged trace of a peer group. No process runs.
//!
//! A peer group runs many resources, and each resource is judged alone. A real run is stopped at some time, and nobody
//! knows how long a message may take. So a request that still waits at the end of a real run is no violation.

use std::collections::BTreeMap;

use baton_protocol::append::Append;
use baton_protocol::detector::Detector;
use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Family, SetupError, Visitor};
use baton_protocol::{Group, ProcessId, Promises, Property};
use baton_trace::{Event, Header, Record, TracedOrder, Unit, resource};
use serde::Serialize;

use self::append::AppendWatch;
use self::detector::DetectorWatch;
use self::election::ElectionWatch;
use self::links::Links;
use self::mutex::MutexWatch;
use crate::oracle::{Finding, Verdict};

mod append;
mod detector;
mod election;
mod links;
mod mutex;

/// The verdicts on a whole trace.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    pub algorithm: &'static str,
    pub variant: Option<String>,
    pub processes: usize,
    /// Number of records in the trace.
    pub records: usize,
    /// In the order of their names. A trace without named resources has one resource without a name.
    pub resources: Vec<JudgedResource>,
}

impl Judgement {
    /// Whether something is violated that counts.
    pub fn is_broken(&self) -> bool {
        self.resources.iter().any(JudgedResource::is_broken)
    }
}

/// The verdicts on one resource.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedResource {
    pub resource: Option<String>,
    /// Number of entries into the critical section.
    pub entries: u64,
    /// Number of messages that were sent.
    pub messages: u64,
    pub properties: Vec<JudgedProperty>,
}

impl JudgedResource {
    pub fn is_broken(&self) -> bool {
        self.properties.iter().any(JudgedProperty::is_broken)
    }
}

/// The verdict on one property of one resource.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedProperty {
    pub property: String,
    /// Whether a violation counts: the algorithm promises the property, or every trace must have it.
    pub counts: bool,
    /// What was checked.
    pub checked: String,
    #[serde(flatten)]
    pub finding: Finding,
    /// The records that show the violation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Place>,
}

impl JudgedProperty {
    pub fn is_broken(&self) -> bool {
        self.counts && self.finding.verdict == Verdict::Violated
    }
}

/// A record of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Place {
    pub seq: u64,
    /// In the unit of the trace.
    pub t: f64,
}

/// Why a trace cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(
        "this trace has only the events of member {member}; merge the traces of all members first, with \
         `baton trace merge`"
    )]
    OneMember { member: ProcessId },
    #[error("the trace has {found} processes, and `{algorithm}` with {clients} clients has {expected}")]
    Processes { algorithm: &'static str, clients: usize, found: usize, expected: usize },
}

/// Judges all resources of a trace. Every process in the trace must exist, as after [`baton_trace::Trace::read`].
pub fn judge(header: &Header, records: &[Record]) -> Result<Judgement, JudgeError> {
    if let Some(member) = header.network.member {
        return Err(JudgeError::OneMember { member });
    }
    let rules = Rules::new(header, records)?;
    let mut named: BTreeMap<&str, Watch> =
        resource::resources(records).into_keys().map(|name| (name, Watch::new(&rules))).collect();
    // The resource without a name. A merged trace usually has none.
    let mut nameless = Watch::new(&rules);
    for record in records {
        match record.resource.as_deref() {
            Some(name) => {
                if let Some(watch) = named.get_mut(name) {
                    watch.see(record);
                }
            }
            None => {
                nameless.see(record);
                if concerns_all(&record.event) {
                    named.values_mut().for_each(|watch| watch.see(record));
                }
            }
        }
    }
    let nameless = Some(nameless).filter(|watch| named.is_empty() || watch.has_own);
    let nameless = nameless.map(|watch| watch.verdicts(None, &rules));
    let named = named.into_iter().map(|(name, watch)| watch.verdicts(Some(name.to_owned()), &rules));
    Ok(Judgement {
        algorithm: rules.about.name,
        variant: header.variant.clone(),
        processes: header.processes,
        records: records.len(),
        resources: nameless.into_iter().chain(named).collect(),
    })
}

/// Whether a violation of the property counts in a run with these promises. A lost write to a store always counts: fences
/// must protect the data even in runs that do not promise safety.
pub fn counts(promises: &Promises, property: &str) -> bool {
    property == "store" || property.parse().is_ok_and(|property| promises.include(property))
}

/// Whether an event without a resource concerns all resources of its process, or of the group.
fn concerns_all(event: &Event) -> bool {
    use Event::{Crash, End, Heal, Partition, Pause, Recover, Resume, Suspect, Trust, View};
    matches!(
        event,
        Crash | Recover { .. } | Pause | Resume | Suspect { .. } | Trust { .. } | Partition { .. } | Heal | View { .. }
    ) || matches!(event, End { .. })
}

/// What a trace is judged by.
struct Rules {
    about: &'static About,
    /// What the algorithm promises in this run.
    promises: Promises,
    processes: usize,
    clients: usize,
    /// Each link keeps the order of its messages.
    fifo: bool,
    /// The run was between real processes.
    is_real: bool,
    /// Whether messages alone keep two stays apart. False if the algorithm sets timers, such as those of leases.
    without_timers: bool,
    /// The election may find no leader if too few processes are up.
    is_guarded: bool,
    /// A link is cut at the end.
    is_cut: bool,
    ended: Ended,
}

/// How the trace ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// All that was planned has been done, or nothing more can happen.
    Complete,
    /// The run was stopped.
    Stopped,
    /// A counterexample of the checker.
    Counterexample,
    /// The trace has no last record.
    CutOff,
}

impl Rules {
    fn new(header: &Header, records: &[Record]) -> Result<Self, JudgeError> {
        let params = header.group_params();
        let Shape { processes, clients, is_guarded } = registry::visit(&header.algorithm, &params, ReadShape)?;
        let about = registry::find_for(&header.algorithm, &header.group_params())?;
        if header.processes != processes {
            let (found, expected) = (header.processes, processes);
            return Err(JudgeError::Processes { algorithm: about.name, clients, found, expected });
        }
        let ended = match records.last().map(|record| &record.event) {
            Some(Event::End { reason, .. }) => match reason.as_str() {
                "finished" | "quiet" => Ended::Complete,
                "violation" => Ended::Counterexample,
                _ => Ended::Stopped,
            },
            _ => Ended::CutOff,
        };
        Ok(Rules {
            about,
            promises: header.promises(about),
            processes,
            clients,
            fifo: about.assumes.fifo || header.network.order == Some(TracedOrder::Fifo),
            is_real: header.unit == Unit::Seconds,
            without_timers: !about.sets_timers(&params),
            is_guarded,
            is_cut: is_cut(records),
            ended,
        })
    }

    /// Why a process that waits at the end says nothing. None if it violates liveness.
    fn excuse(&self) -> Option<&'static str> {
        match self.ended {
            Ended::Complete => None,
            Ended::Stopped if !self.is_real => None,
            Ended::Stopped => Some("the run was stopped"),
            Ended::Counterexample => Some("a counterexample is cut short"),
            Ended::CutOff => Some("the trace has no end"),
        }
    }
}

/// Whether a link is cut at the end. `heal` ends all cuts.
fn is_cut(records: &[Record]) -> bool {
    let last = records.iter().rev().find(|record| matches!(record.event, Event::Partition { .. } | Event::Heal));
    last.is_some_and(|record| record.event != Event::Heal)
}

/// Facts about a group that need no process.
struct Shape {
    processes: usize,
    clients: usize,
    is_guarded: bool,
}

impl Shape {
    fn of<P>(group: &Group<P>) -> Self {
        Shape { processes: group.processes, clients: group.clients, is_guarded: group.survivors.is_some() }
    }
}

struct ReadShape;

impl Visitor for ReadShape {
    type Output = Shape;

    fn unsupported(self, _: &'static About) -> Shape {
        Shape { processes: 0, clients: 0, is_guarded: false }
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> Shape {
        Shape::of(&group)
    }

    fn election<P: Election>(self, _: &'static About, group: Group<P>) -> Shape {
        Shape::of(&group)
    }

    fn detector<D: Detector>(self, _: &'static About, group: Group<D>) -> Shape {
        Shape::of(&group)
    }

    fn append<P: Append>(self, _: &'static About, group: Group<P>) -> Shape {
        Shape::of(&group)
    }
}

/// The first violation of each property, and the records that show it.
#[derive(Default)]
struct Found(BTreeMap<String, (String, Vec<Place>)>);

impl Found {
    fn add(&mut self, property: &str, detail: String, events: impl IntoIterator<Item = Place>) {
        // Simulator and checker also tell of deadlocks, which are a part of liveness.
        let property = if property == "deadlock" { "liveness" } else { property };
        if !self.0.contains_key(property) {
            self.0.insert(property.to_owned(), (detail, events.into_iter().collect()));
        }
    }

    /// The verdict on a property. Without a violation it is `otherwise`.
    fn verdict(&mut self, property: &str, counts: bool, checked: String, otherwise: Finding) -> JudgedProperty {
        let (finding, events) = match self.0.remove(property) {
            Some((detail, events)) => (Finding::violated(detail), events),
            None => (otherwise, Vec::new()),
        };
        JudgedProperty { property: property.to_owned(), counts, checked, finding, events }
    }
}

/// Watches the events of one resource.
struct Watch {
    family: FamilyWatch,
    links: Links,
    found: Found,
    entries: u64,
    messages: u64,
    /// Whether any record concerns only this resource.
    has_own: bool,
}

enum FamilyWatch {
    Mutex(Box<MutexWatch>),
    Election(ElectionWatch),
    Detector(DetectorWatch),
    Append(AppendWatch),
    /// The trace has too few events to judge the family.
    Other(&'static str),
}

impl Watch {
    fn new(rules: &Rules) -> Self {
        let family = match rules.about.family {
            Family::Mutex => FamilyWatch::Mutex(Box::new(MutexWatch::new(rules))),
            Family::Election => FamilyWatch::Election(ElectionWatch::new(rules)),
            // The trace of a member begins with its start. Before it, others may be right to suspect the member.
            Family::Detector if rules.is_real => {
                FamilyWatch::Other("the trace does not say whether a member that is suspected had started")
            }
            Family::Detector => FamilyWatch::Detector(DetectorWatch::new(rules)),
            Family::Append => FamilyWatch::Append(AppendWatch::default()),
        };
        Watch { family, links: Links::new(rules), found: Found::default(), entries: 0, messages: 0, has_own: false }
    }

    fn see(&mut self, record: &Record) {
        let place = Place { seq: record.seq, t: record.t };
        self.has_own |= !concerns_all(&record.event);
        match &record.event {
            Event::Enter { .. } => self.entries += 1,
            Event::Send { .. } => self.messages += 1,
            // The events do not show everything that the simulator judges, such as a grant that comes too late.
            Event::Violation { property, detail } => self.found.add(property, detail.clone(), [place]),
            _ => {}
        }
        let Some(p) = record.p else { return };
        self.links.see(p, &record.event, place, &mut self.found);
        match &mut self.family {
            FamilyWatch::Mutex(watch) => watch.see(p, &record.event, place, &mut self.found),
            FamilyWatch::Election(watch) => watch.see(p, &record.event, place, &mut self.found),
            FamilyWatch::Detector(watch) => watch.see(p, &record.event, place, &mut self.found),
            FamilyWatch::Append(watch) => watch.see(p, &record.event, place, &mut self.found),
            FamilyWatch::Other(_) => {}
        }
    }

    fn verdicts(self, resource: Option<String>, rules: &Rules) -> JudgedResource {
        let Watch { family, links, mut found, entries, messages, .. } = self;
        let mut properties = match family {
            FamilyWatch::Mutex(watch) => watch.verdicts(rules, &mut found),
            FamilyWatch::Election(watch) => watch.verdicts(rules, &mut found),
            FamilyWatch::Detector(watch) => watch.verdicts(rules, &mut found),
            FamilyWatch::Append(watch) => watch.verdicts(rules, &mut found),
            FamilyWatch::Other(reason) => [Property::Safety, Property::Liveness]
                .map(|property| {
                    let counts = rules.promises.include(property);
                    found.verdict(property.name(), counts, String::new(), Finding::unchecked(reason))
                })
                .into(),
        };
        properties.push(links.verdict(&mut found));
        // What the trace itself tells, and no oracle here judges.
        let rest: Vec<String> = found.0.keys().cloned().collect();
        properties.extend(rest.iter().map(|property| {
            let counts = counts(&rules.promises, property);
            found.verdict(property, counts, String::new(), Finding::held())
        }));
        JudgedResource { resource, entries, messages, properties }
    }
}
