//! What comes out of a run, in the words that tools outside read.

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

/// The outcome of one run.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Report {
    /// Of a mutual exclusion algorithm.
    Mutex(Box<MutexReport>),
    /// Of an election algorithm.
    Election(Box<ElectionReport>),
    /// Of a failure detector.
    Detector(Box<DetectorReport>),
    /// Of record append.
    Append(Box<AppendReport>),
}

/// The outcome of a run of mutual exclusion.
#[derive(Clone, Debug, Serialize)]
pub struct MutexReport {
    /// As the registry calls it.
    pub algorithm: &'static str,
    /// How it was run, if not in the default way.
    pub variant: Option<String>,
    /// How many clients.
    pub n: usize,
    /// Who asked when.
    pub load: Load,
    /// Of the run.
    pub seed: u64,
    /// How many times somebody entered.
    pub entries: u64,
    /// How many of these entries what is told per entry is of: after the warm-up, over whole rounds.
    pub measured_entries: u64,
    /// All messages of the run.
    pub messages: u64,
    /// After the warm-up, over whole rounds.
    pub messages_per_entry: Option<f64>,
    /// The most that are about one request; none where messages do not name the request that they are about.
    pub messages_per_entry_max: Option<u64>,
    /// All messages of the run.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// If one transmission could reach many receivers.
    pub multicasts_per_entry: Option<f64>,
    /// All bytes of the run.
    pub bytes: u64,
    /// After the warm-up, over whole rounds.
    pub bytes_per_entry: Option<f64>,
    /// Per entry, all messages but those sent in leaving.
    pub entry_messages: Option<f64>,
    /// Per entry, messages sent in leaving.
    pub exit_messages: Option<f64>,
    /// From request to entry.
    pub client_delay: Option<DelaySummary>,
    /// From exit to the next entry, while somebody waits.
    pub sync_delay: Option<DelaySummary>,
    /// How often later requests were granted first; not counted for many clients.
    pub bypass: Option<BypassSummary>,
    /// How long the run took, in T.
    pub time: f64,
    /// What became of the store, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreReport>,
    /// How many times each client entered, after the warm-up and while the load was as it should be.
    #[serde(skip)]
    pub entries_by_client: Vec<u64>,
    /// How the processes were arranged.
    #[serde(skip)]
    pub topology: Topology,
    /// What held.
    pub properties: Properties,
    /// Those that the algorithm promises and that did not hold.
    pub broken_promises: Vec<&'static str>,
    /// How fast it went.
    pub events_per_s: f64,
}

/// What became of the data that holders wrote.
#[derive(Clone, Debug, Serialize)]
pub struct StoreReport {
    /// Whether it looked at fences.
    pub fencing: bool,
    /// How many writes it accepted.
    pub writes: u64,
    /// How many it refused for their fence.
    pub refused: u64,
    /// How many of those accepted were overwritten by who had not seen them.
    pub lost: u64,
    /// None was.
    pub data: Finding,
}

/// The outcome of an election.
#[derive(Clone, Debug, Serialize)]
pub struct ElectionReport {
    /// As the registry calls it.
    pub algorithm: &'static str,
    /// How it was run, if not in the default way.
    pub variant: Option<String>,
    /// How many processes.
    pub n: usize,
    /// Of the run.
    pub seed: u64,
    /// Whom all who live agree on.
    pub leader: Option<usize>,
    /// In which term, where the algorithm counts terms.
    pub term: Option<u64>,
    /// Who does not live at the end.
    pub dead: Vec<usize>,
    /// Who noticed that there was no leader.
    pub noticed: Vec<usize>,
    /// From the first notice on.
    pub messages: u64,
    /// All messages of the run.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// From the first notice to the last change of a belief, or the arrival of the last message, in T.
    pub time: Option<f64>,
    /// For how long more than one led, in whatever terms, in T.
    pub rivals: f64,
    /// What held.
    pub properties: Properties,
    /// Those that the algorithm promises and that did not hold.
    pub broken_promises: Vec<&'static str>,
    /// How fast it went.
    pub events_per_s: f64,
}

/// The outcome of a run of failure detectors.
#[derive(Clone, Debug, Serialize)]
pub struct DetectorReport {
    /// As the registry calls it.
    pub algorithm: &'static str,
    /// How it was run, if not in the default way.
    pub variant: Option<String>,
    /// How many processes.
    pub n: usize,
    /// Of the run.
    pub seed: u64,
    /// How many crashes there were.
    pub crashes: u64,
    /// From each crash to the suspicion by each who lives.
    pub detection_time: Option<DelaySummary>,
    /// How many times somebody alive was suspected.
    pub mistakes: u64,
    /// The same per T and per pair of watcher and watched.
    pub mistake_rate: f64,
    /// From a mistake to the beat that put it right.
    pub mistake_time: Option<DelaySummary>,
    /// How often everybody beats, in T.
    pub period: f64,
    /// How long the run was, in T.
    pub time: f64,
    /// All messages of the run.
    pub messages: u64,
    /// All messages of the run.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// What held: safety is accuracy, liveness is completeness.
    pub properties: Properties,
    /// Those that the algorithm promises and that did not hold.
    pub broken_promises: Vec<&'static str>,
    /// How fast it went.
    pub events_per_s: f64,
}

/// The outcome of a run of record append.
#[derive(Clone, Debug, Serialize)]
pub struct AppendReport {
    /// As the registry calls it.
    pub algorithm: &'static str,
    /// How it was run, if not in the default way.
    pub variant: Option<String>,
    /// How many clients.
    pub n: usize,
    /// How many replicas.
    pub replicas: usize,
    /// Who appended when.
    pub load: Load,
    /// Of the run.
    pub seed: u64,
    /// How many appends were answered.
    pub appends: u64,
    /// How many replicas have the file in the end.
    pub copies: usize,
    /// What a reader finds in the file: each record once.
    pub records: u64,
    /// What it skips because a write failed there.
    pub padding: u64,
    /// What it skips because it has seen it before.
    pub repeats: u64,
    /// All messages of the run.
    pub messages: u64,
    /// After the warm-up, over whole rounds.
    pub messages_per_append: Option<f64>,
    /// All messages of the run.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// All bytes of the run.
    pub bytes: u64,
    /// From the request to the answer.
    pub client_delay: Option<DelaySummary>,
    /// Appends per T, from the start to the last answer.
    pub throughput: f64,
    /// What held: safety is that what was told is where it was told, liveness that all were told.
    pub properties: Properties,
    /// Those that the algorithm promises and that did not hold.
    pub broken_promises: Vec<&'static str>,
    /// How fast it went.
    pub events_per_s: f64,
}

/// What is known of each property after a run. As JSON a verdict each, and in `detail` what there is to say of some.
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
    /// The names of those that are promised and violated.
    pub fn broken(&self, promises: &Promises) -> Vec<&'static str> {
        let each = self.each().into_iter();
        let broken =
            each.filter(|(property, finding)| promises.include(*property) && finding.verdict == Verdict::Violated);
        broken.map(|(property, _)| property.name()).collect()
    }
}

impl Report {
    /// The promises that were broken.
    pub fn broken_promises(&self) -> &[&'static str] {
        match self {
            Report::Mutex(report) => &report.broken_promises,
            Report::Election(report) => &report.broken_promises,
            Report::Detector(report) => &report.broken_promises,
            Report::Append(report) => &report.broken_promises,
        }
    }

    /// Whom all who live agree on, after an election.
    pub fn leader(&self) -> Option<usize> {
        match self {
            Report::Election(report) => report.leader,
            _ => None,
        }
    }

    /// What held.
    pub fn properties(&self) -> &Properties {
        match self {
            Report::Mutex(report) => &report.properties,
            Report::Election(report) => &report.properties,
            Report::Detector(report) => &report.properties,
            Report::Append(report) => &report.properties,
        }
    }
}
