//! What comes of a check.

use baton_trace::{Header, Record, Writer};
use serde::Serialize;

use crate::{Order, Property};

/// The result of a check. As JSON it has these names; a tool may rely on them.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// As the registry calls it.
    pub algorithm: &'static str,
    /// How many processes may ask.
    pub n: usize,
    /// All processes, helpers included.
    pub processes: usize,
    /// How often each of them asks; 0 for an election.
    pub entries: u32,
    /// Of the network.
    pub order: Order,
    /// How many timers may fire at each process; none if there is no such limit.
    pub timers: Option<u32>,
    /// How many application messages there may be.
    pub app_messages: u32,
    /// What was asked.
    pub properties: Vec<Property>,
    /// Distinct states seen.
    pub states: usize,
    /// Steps seen, those to states already known included.
    pub transitions: u64,
    /// Steps from the start to the furthest state.
    pub depth: usize,
    /// How long it took.
    pub seconds: f64,
    /// Whether every state within the budgets has been seen.
    pub complete: bool,
    /// What came about, so that nobody takes an empty model for a proof.
    pub reached: Reached,
    /// The verdict.
    pub result: Verdict,
    /// Which property is violated, if one is.
    pub property: Option<Property>,
    /// How.
    pub detail: Option<String>,
    /// How many steps it takes: acquire, release, deliver, timer, application messages, suspicions and ticks.
    pub steps: Option<usize>,
    /// The steps, one a line, for people.
    pub counterexample: Option<Vec<String>>,
    /// The steps as a trace.
    #[serde(skip)]
    pub trace: Option<Trace>,
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// In every state within the budgets.
    Holds,
    /// In some state it does not hold.
    Violated,
    /// There were too many states for a verdict.
    Limit,
}

/// What came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// Steps by which somebody entered the critical section, or came to lead.
    pub entries: u64,
    /// States in which two or more wait at once.
    pub waiting_together: u64,
}

/// A counterexample as a trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The first line.
    pub header: Header,
    /// All others.
    pub records: Vec<Record>,
}

impl Trace {
    /// Writes it in the format of `baton-trace`.
    pub fn write(&self, sink: impl std::io::Write) -> std::io::Result<()> {
        let mut writer = Writer::new(sink, &self.header)?;
        for record in &self.records {
            writer.write(record.t, record.p, record.event.clone())?;
        }
        writer.flush()
    }
}
