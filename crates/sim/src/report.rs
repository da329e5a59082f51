//! The results of a run. Other programs read them as JSON, with the names of the fields as keys. Times are in T: with
//! `--network sync` a message takes 1 T.

use std::collections::BTreeMap;
use std::ops::Deref;

use baton_protocol::registry::Topology;
use baton_protocol::{PerProperty, Promises, Property};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::app::mutex::{Load, StoreKind};
use crate::metrics::{DelaySummary, ProcessLoad};
use crate::oracle::bypass::BypassSummary;
use crate::oracle::{Finding, Verdict};

/// The results of one run, for each family of algorithms.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Report {
    Mutex(Box<MutexReport>),
    Election(Box<ElectionReport>),
    Detector(Box<DetectorReport>),
    Append(Box<AppendReport>),
}

/// The results of a run of a mutual exclusion algorithm. Averages per entry, `client_delay`, `sync_delay` and
/// `entries_by_client` cover only the `measured_entries`. Everything else covers the whole run. There are no averages per
/// entry if a request waits for ever.
#[derive(Clone, Debug, Serialize)]
pub struct MutexReport {
    /// The name in the registry.
    pub algorithm: &'static str,
    /// None for the default variant.
    pub variant: Option<String>,
    /// Number of clients: the processes that request the lock.
    pub n: usize,
    pub load: Load,
    pub seed: u64,
    /// Number of times that a client entered the critical section, in the whole run.
    pub entries: u64,
    /// Number of entries behind the per-entry figures: entries after the warm-up, a multiple of n. If the run was too
    /// short or ended early, all entries count.
    pub measured_entries: u64,
    pub messages: u64,
    pub messages_per_entry: Option<f64>,
    /// The largest number of messages for one request. None if the messages of the algorithm do not name their request and
    /// several clients may request at the same time.
    pub messages_per_entry_max: Option<u64>,
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// The messages that single processes send and receive, per entry of the group: shows a process that is a
    /// bottleneck.
    pub messages_per_process: Option<ProcessLoad>,
    /// Like `messages_per_entry`, but all messages of one kind that a process sends in one step count as one.
    pub multicasts_per_entry: Option<f64>,
    pub bytes: u64,
    pub bytes_per_entry: Option<f64>,
    /// Per entry: all messages except the `exit_messages`.
    pub entry_messages: Option<f64>,
    /// Per entry: the messages that a process sends when it leaves the critical section.
    pub exit_messages: Option<f64>,
    /// The time from a request to its entry, in T.
    pub client_delay: Option<DelaySummary>,
    /// The time from one exit to the next entry, in T. Counts only exits at which a client waits.
    pub sync_delay: Option<DelaySummary>,
    /// For each request, the number of later requests that were granted first. None above
    /// [`CLIENTS_MAX`](crate::oracle::bypass::Bypasses::CLIENTS_MAX) clients, because counting would be too slow, and
    /// without entries.
    pub bypass: Option<BypassSummary>,
    /// The longest client delay of the whole run, warm-up included.
    pub client_delay_max: Option<f64>,
    /// The longest sync delay of the whole run, warm-up included.
    pub sync_delay_max: Option<f64>,
    /// How long the run took, in T.
    pub time: f64,
    /// What `--fault random` drew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
    /// What readers may not expect of the faults: processes that are on no side of a partition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The results of the store, if the workload has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreReport>,
    /// Number of measured entries of each client.
    #[serde(skip)]
    pub entries_by_client: Vec<u64>,
    #[serde(skip)]
    pub topology: Topology,
    pub properties: Properties,
    /// The properties that the algorithm promises and that were violated. Also "store", if a write was lost.
    pub broken_promises: Vec<&'static str>,
    /// Deliveries of messages per second of CPU time.
    pub events_per_s: f64,
}

/// What `--fault random` drew from the seed. The same options with these values give the same run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawn {
    /// As users write faults.
    pub faults: Vec<String>,
    /// The probability that a message is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The probability that a message arrives twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<f64>,
    /// The largest error of a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<f64>,
}

/// What happened to the data that holders wrote to the store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreReport {
    pub kind: StoreKind,
    /// Whether the store refuses writes with an old fence.
    pub fencing: bool,
    /// Number of accepted writes.
    pub writes: u64,
    /// Number of writes that were refused because their fence was too low, or because the lease was over.
    pub refused: u64,
    /// Number of accepted writes that were lost: another holder overwrote the write without having read it.
    pub lost: u64,
    /// Violated if at least one write was lost.
    pub data: Finding,
}

/// The results of a run of an election algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct ElectionReport {
    /// The name in the registry.
    pub algorithm: &'static str,
    /// None for the default variant.
    pub variant: Option<String>,
    /// Number of processes.
    pub n: usize,
    pub seed: u64,
    /// The leader that all live processes agree on at the end. None if they do not agree.
    pub leader: Option<usize>,
    /// The term of the leader. None if the algorithm has no terms.
    pub term: Option<u64>,
    /// The sides of the cuts that are still there at the end. Empty if there are none, or if
    /// the cuts cross, so that every process reaches two processes that do not reach each other.
    pub sides: Vec<Side>,
    /// The processes that are down at the end.
    pub dead: Vec<usize>,
    /// The processes that were the first to notice that there was no leader.
    pub noticed: Vec<usize>,
    /// Messages since a process first noticed that there was no leader, or since the first fault.
    pub messages: u64,
    /// Covers the same messages as `messages`.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// Messages of the whole run.
    pub messages_in_all: u64,
    /// How long the election took, in T. It starts when a process first notices that there is no leader. It ends when a
    /// process last changes its leader, or when the last message arrives if that is later. None if the live processes
    /// do not agree.
    pub time: Option<f64>,
    /// For how long more than one process led, in T. The leaders may have different terms.
    pub rivals: f64,
    /// The processes that lead when the run ends, if there is more than one.
    pub rivals_at_end: Vec<usize>,
    /// What `--fault random` drew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
    /// What readers may not expect of the faults: processes that are on no side of a partition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub properties: Properties,
    /// The properties that the algorithm promises and that were violated.
    pub broken_promises: Vec<&'static str>,
    /// Deliveries of messages per second of CPU time.
    pub events_per_s: f64,
}

/// Live processes that reach each other while cuts divide the group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    pub processes: Vec<usize>,
    /// The leader that all processes of this side agree on. None if they do not agree.
    pub leader: Option<usize>,
    /// The term of the leader. None if the algorithm has no terms.
    pub term: Option<u64>,
    /// How long this side took to agree, in T: from the first fault until a process of this side last changes its
    /// leader. None if they do not agree.
    pub time: Option<f64>,
}

/// The results of a run of a failure detector.
#[derive(Clone, Debug, Serialize)]
pub struct DetectorReport {
    /// The name in the registry.
    pub algorithm: &'static str,
    /// None for the default variant.
    pub variant: Option<String>,
    /// Number of processes.
    pub n: usize,
    pub seed: u64,
    pub crashes: u64,
    /// The time from a crash until a live process suspects the crashed one, in T. Each live process adds one value.
    pub detection_time: Option<DelaySummary>,
    /// Number of suspicions of a live process.
    pub mistakes: u64,
    /// Mistakes per T and per ordered pair of processes: the first watches the second.
    pub mistake_rate: f64,
    /// How long a mistake lasted, in T: until a heartbeat of the suspected process arrived.
    pub mistake_time: Option<DelaySummary>,
    /// The time between two heartbeats of a process, in T.
    pub period: f64,
    /// How long the run was, in T.
    pub time: f64,
    /// What `--fault random` drew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
    /// What readers may not expect of the faults: processes that are on no side of a partition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub messages: u64,
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// Safety is accuracy: no live process is suspected. Liveness is completeness: every crashed process is suspected.
    pub properties: Properties,
    /// The properties that the algorithm promises and that were violated.
    pub broken_promises: Vec<&'static str>,
    /// Deliveries of messages per second of CPU time.
    pub events_per_s: f64,
}

/// The results of a run of record append.
#[derive(Clone, Debug, Serialize)]
pub struct AppendReport {
    /// The name in the registry.
    pub algorithm: &'static str,
    /// None for the default variant.
    pub variant: Option<String>,
    /// Number of clients: the processes that append.
    pub n: usize,
    pub replicas: usize,
    pub load: Load,
    pub seed: u64,
    /// Number of appends that were answered.
    pub appends: u64,
    /// Number of live replicas that have the file at the end.
    pub copies: usize,
    /// Number of different records that a reader of the file sees.
    pub records: u64,
    /// Number of slots that a reader skips because a write failed there.
    pub padding: u64,
    /// Number of slots that a reader skips because they repeat a record.
    pub repeats: u64,
    pub messages: u64,
    /// Covers the appends after the warm-up, in whole rounds, as [`MutexReport::measured_entries`] does.
    pub messages_per_append: Option<f64>,
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    pub bytes: u64,
    /// From the request to the answer, in T. Covers the same appends as `messages_per_append`.
    pub client_delay: Option<DelaySummary>,
    /// The longest client delay of the whole run, warm-up included.
    pub client_delay_max: Option<f64>,
    /// How long the run took, in T.
    pub time: f64,
    /// What `--fault random` drew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
    /// What readers may not expect of the faults: processes that are on no side of a partition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Answered appends per T, from the start of the run to the last answer.
    pub throughput: f64,
    /// Safety: each record is at the offset that the answer named. Liveness: every client got its answers.
    pub properties: Properties,
    /// The properties that the algorithm promises and that were violated.
    pub broken_promises: Vec<&'static str>,
    /// Deliveries of messages per second of CPU time.
    pub events_per_s: f64,
}

/// The verdict on each property. The JSON has one key for each property, and the key `detail` with the reasons.
#[derive(Clone, Debug)]
pub struct Properties(pub PerProperty<Finding>);

impl Deref for Properties {
    type Target = PerProperty<Finding>;

    fn deref(&self) -> &PerProperty<Finding> {
        &self.0
    }
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let detail = |(property, finding): (Property, &Finding)| Some((property.name(), finding.detail.clone()?));
        let details: BTreeMap<&str, String> = self.each().into_iter().filter_map(detail).collect();
        let mut map = serializer.serialize_map(None)?;
        for (property, finding) in self.each() {
            map.serialize_entry(property.name(), &finding.verdict)?;
        }
        map.serialize_entry("detail", &details)?;
        map.end()
    }
}

impl Properties {
    /// The names of the properties that are promised and violated.
    pub fn broken(&self, promises: &Promises) -> Vec<&'static str> {
        let each = self.each().into_iter();
        let broken =
            each.filter(|(property, finding)| promises.include(*property) && finding.verdict == Verdict::Violated);
        broken.map(|(property, _)| property.name()).collect()
    }
}

impl Report {
    /// What `--fault random` drew. None if the run drew nothing.
    pub fn drawn(&self) -> Option<&Drawn> {
        match self {
            Report::Mutex(report) => report.drawn.as_ref(),
            Report::Election(report) => report.drawn.as_ref(),
            Report::Detector(report) => report.drawn.as_ref(),
            Report::Append(report) => report.drawn.as_ref(),
        }
    }

    /// What readers may not expect of the faults.
    pub fn notes(&self) -> &[String] {
        match self {
            Report::Mutex(report) => &report.notes,
            Report::Election(report) => &report.notes,
            Report::Detector(report) => &report.notes,
            Report::Append(report) => &report.notes,
        }
    }

    pub(crate) fn set_drawn(&mut self, drawn: Drawn) {
        let place = match self {
            Report::Mutex(report) => &mut report.drawn,
            Report::Election(report) => &mut report.drawn,
            Report::Detector(report) => &mut report.drawn,
            Report::Append(report) => &mut report.drawn,
        };
        *place = Some(drawn);
    }

    pub fn broken_promises(&self) -> &[&'static str] {
        match self {
            Report::Mutex(report) => &report.broken_promises,
            Report::Election(report) => &report.broken_promises,
            Report::Detector(report) => &report.broken_promises,
            Report::Append(report) => &report.broken_promises,
        }
    }

    /// Each broken promise, and what was found.
    pub fn broken(&self) -> Vec<(&'static str, &Finding)> {
        let properties = self.properties().each().into_iter().map(|(property, finding)| (property.name(), finding));
        let store = match self {
            Report::Mutex(report) => report.store.as_ref().map(|store| ("store", &store.data)),
            _ => None,
        };
        properties.chain(store).filter(|(name, _)| self.broken_promises().contains(name)).collect()
    }

    /// The leader that all live processes agree on. None if they do not agree, or if the run is no election.
    pub fn leader(&self) -> Option<usize> {
        match self {
            Report::Election(report) => report.leader,
            _ => None,
        }
    }

    pub fn properties(&self) -> &Properties {
        match self {
            Report::Mutex(report) => &report.properties,
            Report::Election(report) => &report.properties,
            Report::Detector(report) => &report.properties,
            Report::Append(report) => &report.properties,
        }
    }
}
