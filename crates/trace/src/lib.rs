//! The trace format: one run is one NDJSON file, a [`Header`] and then one [`Record`] a line, in the order in which
//! things happened. All drivers write it; `docs/trace-format.md` says what a reader may rely on.

use std::io::{self, BufRead, Write};

use baton_protocol::Message;
use baton_protocol::registry::{self, About, Topology};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod action;
pub mod diagram;

pub use action::{Action, Wish};

/// The version of the format that this crate writes and reads.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub baton_trace: u32,
    /// As the registry calls it.
    pub algorithm: String,
    /// How it was run, if not in the default way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// All processes.
    pub processes: usize,
    /// How many of them may ask; all if 0 or not said.
    #[serde(default)]
    pub clients: usize,
    /// Whose votes each client needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorums: Option<Vec<Vec<usize>>>,
    /// The edges of the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Vec<(usize, usize)>>,
    /// Of the run; 0 where there is none.
    pub seed: u64,
    /// For people.
    pub network: Value,
    /// For people.
    pub workload: Value,
    /// What the group was made with, for a replay.
    #[serde(default)]
    pub params: Params,
    /// Of the times below.
    pub unit: Unit,
}

impl Header {
    /// The header of a run of this group; seed, network and workload are for whoever runs it to say.
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
            network: Value::Object(serde_json::Map::new()),
            workload: Value::Object(serde_json::Map::new()),
            params: Params { coordinators: params.coordinators, votes: params.votes, delay_max: params.delay_max },
            unit,
        }
    }

    /// Whether the times of a counterexample count ticks, which all clocks show; otherwise they count steps.
    pub fn is_dated_by_ticks(&self) -> bool {
        self.workload["dated_by"] == "ticks"
    }

    /// The record from which on everything happens again and again, if this shows that somebody starves.
    pub fn cycle_from(&self) -> Option<u64> {
        self.workload["cycle_from"].as_u64()
    }

    /// What the group was made with.
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

/// What a group was made with, beyond its size and variant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Params {
    /// How many coordinators, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinators: Option<usize>,
    /// How many of their votes win, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<usize>,
    /// The bound on a message's delay that the processes believed in, in their ticks.
    #[serde(default)]
    pub delay_max: u64,
}

/// What times are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Virtual time: one message delay.
    T,
    /// Real time: seconds.
    #[serde(rename = "s")]
    Seconds,
}

/// Every line but the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Counts up from 0.
    pub seq: u64,
    /// When, in the header's unit.
    pub t: f64,
    /// At which process; none for what concerns the whole network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<usize>,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened. The meaning of the fields is that of the format's description.
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
    Cancel {
        req: u64,
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
    /// A message leaves, with a body for people to read.
    pub fn send<M: Message>(msg: u64, to: usize, message: &M, bytes: u64) -> Self {
        // An enum is an object with its variant as the only key; what people want to see is inside.
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

/// Whether this is a counterexample: the checker ends a run with the violation that it shows, and nobody else does. Its
/// times count steps, and no seed is behind it.
pub fn is_counterexample(records: &[Record]) -> bool {
    let end = records.last().map(|record| &record.event);
    matches!(end, Some(Event::End { reason, .. }) if reason == "violation")
}

/// Why a message never arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The network lost it.
    Loss,
    /// Sender and receiver are in different parts of the network.
    Partition,
    /// The receiver is not running.
    Crashed,
}

/// Writes a trace line by line.
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
    seq: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace. Wrap a file in a `BufWriter` first.
    pub fn new(mut sink: W, header: &Header) -> io::Result<Self> {
        write_line(&mut sink, header)?;
        Ok(Writer { sink, seq: 0 })
    }

    /// Writes one event.
    pub fn write(&mut self, t: f64, p: Option<usize>, event: Event) -> io::Result<()> {
        let record = Record { seq: self.seq, t, p, event };
        self.seq += 1;
        write_line(&mut self.sink, &record)
    }

    /// Makes sure that everything has reached the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn write_line(sink: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *sink, line)?;
    sink.write_all(b"\n")
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file itself.
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
    /// There is not even a header.
    #[error("the trace is empty; its first line must be a header")]
    Empty,
    /// It begins with something else than a header.
    #[error(
        "this is no trace: its first line is no header ({0}); name a file that `baton sim --trace` or `baton check \
         --trace` has written"
    )]
    NoTrace(serde_json::Error),
    /// A line that is not of the format.
    #[error("line {line} of the trace is not an event: {source}")]
    Malformed {
        /// From 1.
        line: usize,
        /// What serde says.
        source: serde_json::Error,
    },
    /// A trace of another version.
    #[error("the trace has version {found}; this program reads version {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
}

/// Reads a whole trace.
pub fn read(source: impl BufRead) -> Result<(Header, Vec<Record>), ReadError> {
    let mut lines = source.lines().enumerate();
    let (_, first) = lines.next().ok_or(ReadError::Empty)?;
    let malformed = |line| move |source| ReadError::Malformed { line: line + 1, source };
    let header: Header = serde_json::from_str(&first?).map_err(ReadError::NoTrace)?;
    if header.baton_trace != VERSION {
        return Err(ReadError::Version { found: header.baton_trace });
    }
    let records =
        lines.map(|(line, text)| serde_json::from_str(&text?).map_err(malformed(line))).collect::<Result<_, _>>()?;
    Ok((header, records))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            baton_trace: VERSION,
            algorithm: "central".into(),
            variant: None,
            processes: 3,
            clients: 2,
            quorums: None,
            tree: None,
            seed: 7,
            network: serde_json::json!({}),
            workload: serde_json::json!({}),
            params: Params::default(),
            unit: Unit::T,
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_looks_as_the_format_says() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, &header()).unwrap();
        let send = Event::Send { msg: 0, to: 2, kind: "REQUEST".into(), bytes: 1, body: None };
        writer.write(3.0, Some(1), send).unwrap();
        writer.write(3.5, None, Event::Heal).unwrap();
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
    fn what_is_not_a_trace_is_refused_with_the_line() {
        let refusal = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(refusal(""), "the trace is empty; its first line must be a header");
        assert!(refusal("{}").starts_with("this is no trace: its first line is no header (missing field `"));
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
