//! What comes of a check.

use baton_protocol::Ticks;
use baton_trace::{Header, Record, Writer};
use serde::Serialize;

use crate::{Faults, LinkOrder, Property};

/// The result of a check. As JSON it has these names; a tool may rely on them.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// As the registry calls it.
    pub algorithm: &'static str,
    /// How many processes may ask.
    pub n: usize,
    /// All processes, helpers included.
    pub processes: usize,
    /// How often each of them asks; 0 for an election and for heartbeats.
    pub entries: u32,
    /// Another way to run it, if it was asked for.
    pub variant: Option<String>,
    /// Of the network.
    pub order: LinkOrder,
    /// Where there is time: how many ticks a message may take, and how many the processes believe it may.
    pub delays: Option<(Ticks, Ticks)>,
    /// How many timers may fire at each process; none if there is no such limit, or no timer.
    pub timers: Option<u32>,
    /// How many faults there may be.
    pub faults: Faults,
    /// Whether what the algorithm assumes was ignored.
    pub ignored_assumptions: bool,
    /// How many application messages there may be.
    pub app_messages: u8,
    /// What was checked.
    pub properties: Vec<Property>,
    /// What was to be checked, too, and has no verdict. If nobody asked for it by name, the others may have one.
    pub unsettled: Vec<Property>,
    /// What is promised and was not checked here, and why.
    pub unchecked: Vec<Unchecked>,
    /// Distinct states seen.
    pub states: usize,
    /// Steps seen, those to states already known included.
    pub transitions: u64,
    /// Steps from the start to the furthest state, one that must not be included.
    pub depth: usize,
    /// How long it took.
    pub seconds: f64,
    /// Whether every state within the budgets has been seen.
    pub complete: bool,
    /// What came about, so that nobody takes an empty model for a proof.
    pub reached: Reached,
    /// What came of the model for starvation, if it was explored.
    pub cyclic: Option<Cyclic>,
    /// The verdict.
    pub result: Verdict,
    /// Which property is violated, if one is.
    pub property: Option<Property>,
    /// How; or why there is no verdict.
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

/// What came of the model for starvation: everybody asks for ever, or with crashes as often as in the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cyclic {
    /// Distinct states; where everybody asks for ever, in normal form.
    pub states: usize,
    /// Steps between them.
    pub transitions: u64,
    /// Components of states that can all be reached from each other, by at least one step: runs that never end.
    pub components: usize,
    /// What came about.
    pub reached: Reached,
    /// Whether anybody can starve; violated also if too little happens to tell.
    pub result: Verdict,
    /// Why there is no verdict, if there is none.
    pub detail: Option<String>,
    /// What may help to a verdict, if there is none.
    pub hint: Option<&'static str>,
}

/// A promise that was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unchecked {
    /// Which one.
    pub property: Property,
    /// Why not.
    pub why: &'static str,
}

/// What came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// Steps by which somebody entered the critical section, came to lead, or heard a beat.
    pub entries: u64,
    /// States in which two or more wait at once.
    pub waiting_together: u64,
    /// Steps by which a heartbeat's watcher came to suspect somebody who had crashed.
    pub suspicions: u64,
}

impl Reached {
    /// Why it proves nothing of a group that asks, if it does not.
    pub fn doubt(&self) -> Option<&'static str> {
        match self {
            Reached { entries: 0, .. } => Some("nobody ever gets what the algorithm is for, so nothing has been shown"),
            Reached { waiting_together: 0, .. } => {
                Some("two never wait at once, so nothing has been shown of how they get along")
            }
            _ => None,
        }
    }

    /// Adds what else has come about.
    pub fn add(&mut self, more: Reached) {
        self.entries += more.entries;
        self.waiting_together += more.waiting_together;
        self.suspicions += more.suspicions;
    }
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
