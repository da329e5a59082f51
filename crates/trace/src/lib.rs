//! The trace format. One run is one NDJSON file: a [`Header`], then one [`Record`] a line, in order of time. The
//! simulator, the checker and the peers write it. `docs/trace-format.md` says what a reader may rely on.

use std::io::{self, Write};

use baton_protocol::registry::{self, About, Topology};
use baton_protocol::{Message, Promises, Property};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod action;
pub mod diagram;
pub mod merge;
mod read;
mod recorder;
pub mod resource;
pub mod scene;
pub mod shiviz;

pub use action::{Action, Wish};
pub use read::{ReadError, Trace, read};
pub use recorder::{Recorder, Sink};

/// The version of the format that this crate writes and reads.
pub const VERSION: u32 = 1;

/// The first line of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub baton_trace: u32,
    /// The name of the algorithm in the registry.
    pub algorithm: String,
    /// None: the default variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// All processes, helpers included.
    pub processes: usize,
    /// How many processes may request. 0 or absent: all.
    #[serde(default)]
    pub clients: usize,
    /// The voters of each client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorums: Option<Vec<Vec<usize>>>,
    /// The edges of the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Vec<(usize, usize)>>,
    /// 0 if the run has no seed.
    pub seed: u64,
    pub network: Network,
    pub workload: Workload,
    /// The parameters of the group, for a replay.
    #[serde(default)]
    pub params: Params,
    /// The unit of the times in the records.
    pub unit: Unit,
}

impl Header {
    /// The header of a run of this group. The caller sets seed, network and workload.
    pub fn new(about: &About, params: &registry::Params, processes: usize, topology: &Topology, unit: Unit) -> Self {
        Header {
            baton_trace: VERSION,
            algorithm: about.name.into(),
            variant: params.variant.clone(),
            processes,
            clients: params.n,
            quorums: topology.quorums.clone(),
            tree: topology.tree.clone(),
            seed: 0,
            network: Network::default(),
            workload: Workload::default(),
            params: Params { coordinators: params.coordinators, votes: params.votes, delay_max: params.delay_max },
            unit,
        }
    }

    /// Whether the times of a counterexample count ticks of the clocks. Otherwise they count steps.
    pub fn is_dated_by_ticks(&self) -> bool {
        self.workload.dated_by == Some(DatedBy::Ticks)
    }

    /// In a counterexample to liveness: the number of the record from which on the run repeats for ever.
    pub fn cycle_from(&self) -> Option<u64> {
        self.workload.cycle_from
    }

    /// What the algorithm promises in this run.
    pub fn promises(&self, about: &About) -> Promises {
        let is_kept = |property: Property| !self.workload.not_promised.iter().any(|name| name == property.name());
        let Promises { safety, liveness, order, fence } = about.promises;
        Promises {
            safety: safety && is_kept(Property::Safety),
            liveness: liveness && is_kept(Property::Liveness),
            order: order && is_kept(Property::Order),
            fence: fence && is_kept(Property::Fence),
        }
    }

    /// The parameters from which the registry makes the group.
    pub fn group_params(&self) -> registry::Params {
        registry::Params {
            n: if self.clients == 0 { self.processes } else { self.clients },
            variant: self.variant.clone(),
            coordinators: self.params.coordinators,
            votes: self.params.votes,
            delay_max: self.params.delay_max.max(1),
        }
    }
}

/// The network between the processes: fields that a replay depends on, and notes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// For people: delays, losses, clocks.
    #[serde(flatten)]
    pub notes: Notes,
    /// The order in which the messages of a link arrived. None: any order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<TracedOrder>,
    /// The process that wrote this trace, if it was one member of a group over sockets. Such a trace cannot be replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// The speed of each process's clock; 1 is exact. None if all clocks are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_rates: Option<Vec<f64>>,
}

/// The actions of the users: fields that a replay depends on, and notes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// For people: how often the users requested, and how long they stayed inside.
    #[serde(flatten)]
    pub notes: Notes,
    /// In a counterexample to liveness: the number of the record from which on the run repeats for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle_from: Option<u64>,
    /// In a counterexample: the unit of its times. None: steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dated_by: Option<DatedBy>,
    /// The properties that the algorithm promises in other runs, but not in this one: a lease may end while its holder
    /// is inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_promised: Vec<String>,
}

/// Fields that only people read, by name.
pub type Notes = serde_json::Map<String, Value>;

/// The fields of a JSON object as notes; no notes if `object` is another kind of value.
pub fn notes(object: Value) -> Notes {
    match object {
        Value::Object(notes) => notes,
        _ => Notes::new(),
    }
}

/// The order in which the messages of a link arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TracedOrder {
    /// The order in which they were sent.
    Fifo,
    /// Any order.
    Unordered,
    /// A word that this version does not know. Such a trace can be drawn, but not replayed.
    #[serde(untagged)]
    Unknown(String),
}

/// The unit of the times in a counterexample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatedBy {
    /// Ticks of the clocks. The clocks of all processes show the same.
    Ticks,
    /// A word that this version does not know.
    #[serde(untagged)]
    Unknown(String),
}

/// The parameters of a group besides its size and variant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Params {
    /// None: the default number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinators: Option<usize>,
    /// How many votes of the coordinators win. None: the default number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<usize>,
    /// The largest message delay that the processes assume, in their ticks.
    #[serde(default)]
    pub delay_max: u64,
}

/// The unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Virtual time: one message delay.
    T,
    #[serde(rename = "s")]
    Seconds,
}

/// Every line but the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Counts up from 0.
    pub seq: u64,
    /// The time, in the header's unit.
    pub t: f64,
    /// The process. None for events of the whole network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<usize>,
    /// The resource (lock) of a peer group, as `docs/trace-format.md` writes names. None if the run has only one
    /// resource, and for events that concern all resources of a member, such as a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    #[serde(flatten)]
    pub event: Event,
}

/// What happened. `docs/trace-format.md` explains the fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Request {
        req: u64,
        lamport: u64,
    },
    Enter {
        req: u64,
        fence: u64,
    },
    Exit {
        req: u64,
    },
    Lost {
        req: u64,
    },
    Cancel {
        req: u64,
    },
    Append {
        req: u64,
    },
    Appended {
        req: u64,
        offset: u64,
    },
    Send {
        msg: u64,
        to: usize,
        kind: String,
        bytes: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Value>,
    },
    Deliver {
        msg: u64,
        from: usize,
        kind: String,
    },
    Drop {
        msg: u64,
        reason: DropReason,
    },
    AppSend {
        msg: u64,
        to: usize,
    },
    AppDeliver {
        msg: u64,
        from: usize,
    },
    Timer {
        name: String,
    },
    Choice {
        of: usize,
        chosen: usize,
    },
    Suspect {
        peer: usize,
    },
    Trust {
        peer: usize,
    },
    Crash,
    Recover {
        #[serde(default = "with_memory")]
        memory: bool,
    },
    Pause,
    Resume,
    Partition {
        groups: Vec<Vec<usize>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oneway: Option<(usize, usize)>,
    },
    Heal,
    Elected {
        leader: Option<usize>,
        term: Option<u64>,
    },
    View {
        epoch: u64,
        members: Vec<usize>,
    },
    StoreWrite {
        fence: u64,
        accepted: bool,
        value: Value,
    },
    Violation {
        property: String,
        detail: String,
    },
    End {
        reason: String,
        entries: u64,
        messages: u64,
    },
}

impl Event {
    /// A request. The [`Recorder`] sets its Lamport time.
    pub fn request(req: u64) -> Self {
        Event::Request { req, lamport: 0 }
    }

    /// The sending of a message, with its body for people to read.
    pub fn send<M: Message>(msg: u64, to: usize, message: &M, bytes: u64) -> Self {
        // Serde writes an enum as an object with the variant as its only key. People need only the part inside.
        let body = serde_json::to_value(message).ok().and_then(|value| match value {
            Value::Object(variant) => variant.into_iter().next().map(|(_, body)| body),
            _ => None,
        });
        Event::Send { msg, to, kind: message.kind().into(), bytes, body: body.filter(Value::is_object) }
    }
}

fn with_memory() -> bool {
    true
}

/// Whether the trace is a counterexample of the checker: only the checker ends a run with a violation. The times of a
/// counterexample count steps, and it has no seed.
pub fn is_counterexample(records: &[Record]) -> bool {
    let end = records.last().map(|record| &record.event);
    matches!(end, Some(Event::End { reason, .. }) if reason == "violation")
}

/// Why a message never arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    Loss,
    /// Sender and receiver are in different parts of the network.
    Partition,
    /// The receiver is not running.
    Crashed,
}

/// Writes the header and records as lines. Drivers make the records with a [`Recorder`].
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
}

impl<W: Write> Writer<W> {
    /// Begins a trace. Wrap a file in a `BufWriter` first.
    pub fn new(mut sink: W, header: &Header) -> io::Result<Self> {
        write_line(&mut sink, header)?;
        Ok(Writer { sink })
    }

    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        write_line(&mut self.sink, record)
    }

    pub fn sink_mut(&mut self) -> &mut W {
        &mut self.sink
    }

    /// Flushes the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn write_line(sink: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *sink, line)?;
    sink.write_all(b"\n")
}

#[cfg(test)]
mod example {
    use super::*;

    /// The header of a run that tests make up.
    pub fn header() -> Header {
        Header {
            baton_trace: VERSION,
            algorithm: "central".into(),
            variant: None,
            processes: 3,
            clients: 2,
            quorums: None,
            tree: None,
            seed: 7,
            network: Network::default(),
            workload: Workload::default(),
            params: Params::default(),
            unit: Unit::T,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::example::header;
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_looks_as_the_format_says() {
        let mut bytes = Vec::new();
        let mut recorder = Recorder::begin(&mut bytes, &header(), 0).unwrap();
        let send = Event::Send { msg: 0, to: 2, kind: "REQUEST".into(), bytes: 1, body: None };
        recorder.record(3.0, Some(1), send);
        recorder.record(3.5, None, Event::Heal);
        recorder.flush().unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], r#"{"seq":0,"t":3.0,"p":1,"event":"send","msg":0,"to":2,"kind":"REQUEST","bytes":1}"#);
        assert_eq!(lines[2], r#"{"seq":1,"t":3.5,"event":"heal"}"#);
        let (read_header, records) = read(bytes.as_slice()).unwrap();
        assert_eq!(read_header, header());
        assert_eq!(records.len(), 2);
        assert_eq!(records[1].event, Event::Heal);
    }

    #[test]
    fn a_member_names_the_resource_of_an_event() {
        let mut bytes = Vec::new();
        let mut recorder = Recorder::begin(&mut bytes, &header(), 0).unwrap();
        recorder.record_for(0.5, Some(1), Some(r"caf\xe9"), Event::Exit { req: 3 });
        recorder.flush().unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let line = text.lines().nth(1).unwrap();
        assert_eq!(line, r#"{"seq":0,"t":0.5,"p":1,"resource":"caf\\xe9","event":"exit","req":3}"#);
        let (_, records) = read(bytes.as_slice()).unwrap();
        assert_eq!(records[0].resource.as_deref(), Some(r"caf\xe9"));
    }

    /// Simulator, checker and peers have written these before the fields had types.
    #[test]
    fn what_a_replay_depends_on_is_where_it_always_was() {
        let line = |network: &str, workload: &str| {
            format!(
                r#"{{"baton_trace":1,"algorithm":"central","processes":3,"clients":2,"seed":7,"network":{network},"workload":{workload},"params":{{"delay_max":0}},"unit":"T"}}"#
            )
        };
        let read_header = |line: &str| read(line.as_bytes()).unwrap().0;
        let sim = line(r#"{"delay":"const:1","drift":0.25,"loss":0.0,"order":"fifo"}"#, r#"{"entries":9}"#);
        let header = read_header(&sim);
        assert_eq!((&header.network.order, header.network.member), (&Some(TracedOrder::Fifo), None));
        assert_eq!((&header.network.notes["drift"], &header.workload.notes["entries"]), (&0.25.into(), &9.into()));
        assert_eq!(serde_json::to_string(&header).unwrap(), sim, "nothing is lost, and nothing is added");

        let check = line(r#"{"order":"unordered"}"#, r#"{"app_messages":1,"cycle_from":4,"dated_by":"ticks"}"#);
        let header = read_header(&check);
        assert_eq!((&header.network.order, header.cycle_from()), (&Some(TracedOrder::Unordered), Some(4)));
        assert!(header.is_dated_by_ticks());
        assert_eq!(serde_json::to_string(&header).unwrap(), check);

        let peer = line(r#"{"kind":"tcp","started_unix_s":1.5,"member":2}"#, "{}");
        assert_eq!(read_header(&peer).network.member, Some(2));
        assert_eq!(serde_json::to_string(&read_header(&peer)).unwrap(), peer);

        let later = line(r#"{"order":"sideways"}"#, r#"{"dated_by":"suns"}"#);
        assert_eq!(read_header(&later).network.order, Some(TracedOrder::Unknown("sideways".into())));
        assert!(!read_header(&later).is_dated_by_ticks());
        let wrong = line(r#"{"order":"fifo","member":"P2"}"#, "{}");
        let refusal = read(wrong.as_bytes()).unwrap_err().to_string();
        assert!(refusal.contains(r#"invalid type: string "P2", expected usize"#), "{refusal}");
    }

    #[test]
    fn what_is_not_a_trace_is_refused_with_the_line() {
        let refusal = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(refusal(""), "the trace is empty; its first line must be a header");
        assert!(refusal("{}").starts_with("this is not a trace: its first line is not a header (missing field `"));
        assert!(
            refusal("<svg>").ends_with("; name a file that `baton sim --trace` or `baton check --trace` has written")
        );
        let mut bytes = Vec::new();
        Writer::new(&mut bytes, &header()).unwrap();
        bytes.extend(b"{\"seq\":0,\"t\":0.0,\"event\":\"dance\"}\n");
        assert!(refusal(std::str::from_utf8(&bytes).unwrap()).starts_with("line 2 of the trace is not an event"));
        let newer = serde_json::to_string(&Header { baton_trace: 2, ..header() }).unwrap();
        assert_eq!(refusal(&newer), "the trace has version 2; this program reads version 1");
    }
}
