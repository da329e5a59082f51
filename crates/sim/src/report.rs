//! The results of a run. They serialize to the JSON that other programs read: the names of the fields are its keys.

use std::collections::BTreeMap;
use std::ops::Deref;

use baton_protocol::registry::Topology;
use baton_protocol::{PerProperty, Promises, Property};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::app::mutex::Load;
use crate::metrics::DelaySummary;
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

/// The results of a run of a mutual exclusion algorithm. Figures per entry cover the `measured_entries` only; counts
/// without "per entry" in their name cover the whole run.
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
    /// Number of entries behind the per-entry figures: the entries after the warm-up, in whole rounds of n. All entries
    /// if the run was too short or ended early.
    pub measured_entries: u64,
    pub messages: u64,
    pub messages_per_entry: Option<f64>,
    /// The most messages that belong to one request. None if the messages of the algorithm do not name their request.
    pub messages_per_entry_max: Option<u64>,
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// Like `messages_per_entry`, but a process that sends the same message to many receivers counts as one
    /// transmission.
    pub multicasts_per_entry: Option<f64>,
    pub bytes: u64,
    pub bytes_per_entry: Option<f64>,
    /// Per entry: all messages except those that a process sends when it leaves.
    pub entry_messages: Option<f64>,
    /// Per entry: the messages that a process sends when it leaves.
    pub exit_messages: Option<f64>,
    /// From request to entry, in T.
    pub client_delay: Option<DelaySummary>,
    /// From one exit to the next entry, while at least one client waits, in T.
    pub sync_delay: Option<DelaySummary>,
    /// How many later requests were granted before a request. None above
    /// [`CLIENTS_MAX`](crate::oracle::bypass::Bypasses::CLIENTS_MAX) clients, because counting would be too slow.
    pub bypass: Option<BypassSummary>,
    /// How long the run took, in T.
    pub time: f64,
    /// The results of the store, if the workload has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreReport>,
    /// Number of entries of each client, among the measured entries.
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

/// What happened to the data that holders wrote to the store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreReport {
    /// Whether the store refuses writes with an old fence.
    pub fencing: bool,
    /// Number of accepted writes.
    pub writes: u64,
    /// Number of writes that were refused because their fence was too low.
    pub refused: u64,
    /// Number of accepted writes that were lost: a holder that had not read the write overwrote it.
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
    /// The processes that are down at the end.
    pub dead: Vec<usize>,
    /// The processes that first noticed that there was no leader.
    pub noticed: Vec<usize>,
    /// Messages since a process first noticed that there was no leader, or since the first fault.
    pub messages: u64,
    /// All messages of the run, before the first notice too.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// From the first notice to the last change of a process's belief, or to the arrival of the last message if that is
    /// later, in T. None if the live processes do not agree.
    pub time: Option<f64>,
    /// For how long more than one process believed itself the leader, in any terms, in T.
    pub rivals: f64,
    pub properties: Properties,
    /// The properties that the algorithm promises and that were violated.
    pub broken_promises: Vec<&'static str>,
    /// Deliveries of messages per second of CPU time.
    pub events_per_s: f64,
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
    /// From a crash to the suspicion by each live process, in T.
    pub detection_time: Option<DelaySummary>,
    /// Number of suspicions of a live process.
    pub mistakes: u64,
    /// Mistakes per T and per pair of processes (one watches the other).
    pub mistake_rate: f64,
    /// From a mistake to the heartbeat that ended it, in T.
    pub mistake_time: Option<DelaySummary>,
    /// How often each process sends heartbeats, in T.
    pub period: f64,
    /// How long the run was, in T.
    pub time: f64,
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
    /// Number of records that a reader of the file sees, each once.
    pub records: u64,
    /// Number of slots that a reader skips because a write failed there.
    pub padding: u64,
    /// Number of slots that a reader skips because they repeat a record.
    pub repeats: u64,
    pub messages: u64,
    /// Over the appends after the warm-up, in whole rounds.
    pub messages_per_append: Option<f64>,
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    pub bytes: u64,
    /// From the request to the answer, in T.
    pub client_delay: Option<DelaySummary>,
    /// Appends per T, from the start to the last answer.
    pub throughput: f64,
    /// Safety: each record is at the offset that its client was told. Liveness: every client was answered.
    pub properties: Properties,
    /// The properties that the algorithm promises and that were violated.
    pub broken_promises: Vec<&'static str>,
    /// Deliveries of messages per second of CPU time.
    pub events_per_s: f64,
}

/// The verdict on each property. The JSON has one key for each verdict, and the key `detail` with the reasons.
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
    pub fn broken_promises(&self) -> &[&'static str] {
        match self {
            Report::Mutex(report) => &report.broken_promises,
            Report::Election(report) => &report.broken_promises,
            Report::Detector(report) => &report.broken_promises,
            Report::Append(report) => &report.broken_promises,
        }
    }

    /// The leader that all live processes agree on. None for runs that are not elections, too.
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
