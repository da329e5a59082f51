//! The results of a check.

use baton_protocol::Ticks;
use baton_trace::{Header, Record, Writer};
use serde::Serialize;

use crate::{Faults, LinkOrder, Property};

/// The result of a check. The names of the fields are the keys of the JSON, and other programs may rely on them.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// The name in the registry.
    pub algorithm: &'static str,
    /// Number of processes that may request.
    pub n: usize,
    /// All processes, including coordinators and voters.
    pub processes: usize,
    /// Number of requests of each process; 0 for elections and heartbeats.
    pub entries: u32,
    /// None for the default variant.
    pub variant: Option<String>,
    pub order: LinkOrder,
    /// For models with time: the longest delay of a message, and the longest delay that the processes believe in, both
    /// in ticks.
    pub delays: Option<(Ticks, Ticks)>,
    /// How many timers may fire at each process. None if there is no limit, or no timer.
    pub timers: Option<u32>,
    /// The budget of faults.
    pub faults: Faults,
    pub ignored_assumptions: bool,
    /// The budget of application messages.
    pub app_messages: u8,
    /// The properties that were checked.
    pub properties: Vec<Property>,
    /// Properties that should be checked, too, and have no verdict. If the user did not request them by name, the other
    /// properties may still have a verdict.
    pub unsettled: Vec<Property>,
    /// Promises that were not checked, and why.
    pub unchecked: Vec<Unchecked>,
    /// Distinct states.
    pub states: usize,
    /// Steps, including steps to states already seen.
    pub transitions: u64,
    /// Steps from the start to the furthest state, or to the violation if that is further.
    pub depth: usize,
    pub seconds: f64,
    /// Whether all states within the budgets were seen.
    pub complete: bool,
    /// How often something happened, so that a model in which nothing happens is not taken for a proof.
    pub reached: Reached,
    /// The results of the search for starvation, if there was one.
    pub cyclic: Option<Cyclic>,
    pub result: Verdict,
    /// The violated property.
    pub property: Option<Property>,
    /// How the property is violated, or why there is no verdict.
    pub detail: Option<String>,
    /// Number of steps to the violation: acquire, release, deliver, timer, application messages, suspicions and ticks.
    pub steps: Option<usize>,
    /// The steps to the violation, one in each line, for people.
    pub counterexample: Option<Vec<String>>,
    /// The steps to the violation as a trace.
    #[serde(skip)]
    pub trace: Option<Trace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All properties hold in every state within the budgets.
    Holds,
    /// A property does not hold.
    Violated,
    /// A limit was reached before a verdict.
    Limit,
}

/// The results of the search for starvation. All clients request for ever, or with crashes as often as in the rest of
/// the check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cyclic {
    /// Distinct states; normal forms if all clients request for ever.
    pub states: usize,
    /// Steps between states.
    pub transitions: u64,
    /// Strongly connected components with at least one step: the runs that never end.
    pub components: usize,
    pub reached: Reached,
    /// Violated if a client can starve, and also if too little happens in the model to show anything.
    pub result: Verdict,
    /// Why there is no verdict.
    pub detail: Option<String>,
    /// What may help to a verdict, if there is none.
    pub hint: Option<&'static str>,
}

/// A promise that was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unchecked {
    pub property: Property,
    pub why: &'static str,
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// Steps in which a process enters the critical section, becomes the leader, or hears a heartbeat.
    pub entries: u64,
    /// States in which two or more processes wait at once.
    pub waiting_together: u64,
    /// Steps in which a heartbeat detector suspects a crashed process.
    pub suspicions: u64,
}

impl Reached {
    /// Why the result proves nothing about mutual exclusion, if too little happens in the model.
    pub fn doubt(&self) -> Option<&'static str> {
        match self {
            Reached { entries: 0, .. } => Some("no process ever enters, so nothing has been shown"),
            Reached { waiting_together: 0, .. } => {
                Some("two processes never wait at the same time, so nothing has been shown about competing requests")
            }
            _ => None,
        }
    }

    pub fn add(&mut self, more: Reached) {
        self.entries += more.entries;
        self.waiting_together += more.waiting_together;
        self.suspicions += more.suspicions;
    }
}

#[derive(Clone, Debug)]
pub struct Trace {
    pub header: Header,
    pub records: Vec<Record>,
}

impl Trace {
    /// Writes the trace in the format of `baton-trace`.
    pub fn write(&self, sink: impl std::io::Write) -> std::io::Result<()> {
        let mut writer = Writer::new(sink, &self.header)?;
        for record in &self.records {
            writer.write(record)?;
        }
        writer.flush()
    }
}
