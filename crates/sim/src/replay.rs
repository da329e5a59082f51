//! Repeats a trace step by step: gives the processes the same inputs in the same order, insists on the same outputs,
//! and judges again. Whoever wrote the trace, simulator or checker, the steps are those of the protocol.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::election::{self, Election};
use baton_protocol::mutex::{self, Mutex};
use baton_protocol::registry::{self, About, Family, SetupError, Visitor};
use baton_protocol::{Choices, Group, Input, Message, Outbox, Output, ProcessId, Protocol, Start};
use baton_trace::{Event, Header, Record};

use crate::oracle::causality::{Causality, Past};
use crate::oracle::leaders::Leaders;
use crate::oracle::mutex::{MutexJudge, Violation};

/// What a replay has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How many records were repeated.
    pub steps: usize,
    /// How many times somebody entered.
    pub entries: u64,
    /// What the oracles found: property and detail.
    pub violations: Vec<Violation>,
}

/// Why a trace cannot be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// No such group can be made.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Not a protocol whose steps a trace tells.
    #[error("a trace of `{algorithm}` cannot be repeated: {reason}")]
    Unsupported {
        /// Which algorithm.
        algorithm: &'static str,
        /// What is missing in the trace.
        reason: &'static str,
    },
    /// The trace speaks of other processes than the group has.
    #[error("the trace has {found} processes, and `{algorithm}` with {clients} clients has {expected}")]
    Processes {
        /// Which algorithm.
        algorithm: &'static str,
        /// How many may ask.
        clients: usize,
        /// In the trace.
        found: usize,
        /// In the group.
        expected: usize,
    },
    /// The processes do something else than the trace says.
    #[error("record {seq} does not fit: the trace says {found}, the processes say {expected}")]
    Differs {
        /// Which record.
        seq: u64,
        /// What the trace says.
        found: String,
        /// What would fit.
        expected: String,
    },
}

/// Repeats a trace.
pub fn replay(header: &Header, records: &[Record]) -> Result<Replayed, ReplayError> {
    registry::visit(&header.algorithm, &header.group_params(), Replay { header, records })?
}

struct Replay<'t> {
    header: &'t Header,
    records: &'t [Record],
}

impl Replay<'_> {
    fn go<P: Protocol>(self, about: &'static About, group: Group<P>, words: Words<P>) -> Result<Replayed, ReplayError> {
        if group.processes != self.header.processes {
            let (found, expected) = (self.header.processes, group.processes);
            return Err(ReplayError::Processes { algorithm: about.name, clients: group.clients, found, expected });
        }
        let mut stage = Stage::new(group, self.records, words);
        stage.play()?;
        Ok(stage.judge.verdict(self.records.len()))
    }
}

impl Visitor for Replay<'_> {
    type Output = Result<Replayed, ReplayError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        let reason = match about.family {
            Family::Detector => "its processes go by clocks, and the trace format tells the time of the simulator only",
            Family::Append => {
                "the trace format has no event for what a client appends, or for the offset that it is told"
            }
            Family::Mutex | Family::Election => "this family of algorithms is not known to the replay",
        };
        Err(ReplayError::Unsupported { algorithm: about.name, reason })
    }

    fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
        let command = |event: &Event| match event {
            Event::Request { .. } => Some(mutex::Command::Acquire),
            Event::Exit { .. } => Some(mutex::Command::Release),
            _ => None,
        };
        let told = |event: &mutex::Event, record: &Event| {
            let mutex::Event::Granted { fence } = event;
            matches!(record, Event::Enter { fence: traced, .. } if traced == fence)
        };
        let fence = |event: &mutex::Event| {
            let mutex::Event::Granted { fence } = event;
            Some(*fence)
        };
        self.go(about, group, Words { command, told, fence })
    }

    fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
        let told = |event: &election::Event, record: &Event| {
            let election::Event::Elected { leader, term } = event;
            matches!(record, Event::Elected { leader: l, term: t } if (l, t) == (leader, term))
        };
        let command = |event: &Event| match event {
            Event::Request { .. } => Some(election::Command::Elect),
            _ => None,
        };
        self.go(about, group, Words { command, told, fence: |_| None })
    }
}

struct Stage<'t, P: Protocol> {
    clients: usize,
    processes: Vec<P>,
    make: Box<dyn Fn(ProcessId) -> P + Send + Sync>,
    records: &'t [Record],
    next: usize,
    messages: BTreeMap<u64, (ProcessId, P::Message)>,
    app_messages: BTreeMap<u64, (ProcessId, Option<u64>)>,
    timers: BTreeSet<(ProcessId, P::Timer)>,
    judge: Judge,
    words: Words<P>,
}

/// How a family of protocols is told in a trace.
struct Words<P: Protocol> {
    /// The command that a record tells of.
    command: fn(&Event) -> Option<P::Command>,
    /// Whether a record tells of an event.
    told: fn(&P::Event, &Event) -> bool,
    /// The fence of a grant, if an event is one.
    fence: fn(&P::Event) -> Option<u64>,
}

impl<'t, P: Protocol> Stage<'t, P> {
    fn new(group: Group<P>, records: &'t [Record], words: Words<P>) -> Self {
        Stage {
            clients: group.clients,
            processes: (0..group.processes).map(&group.make).collect(),
            judge: Judge::new(group.processes, group.clients),
            make: group.make,
            records,
            next: 0,
            messages: BTreeMap::new(),
            app_messages: BTreeMap::new(),
            timers: BTreeSet::new(),
            words,
        }
    }

    fn play(&mut self) -> Result<(), ReplayError> {
        for process in 0..self.processes.len() {
            self.step(process, Input::Start(Start::Fresh))?;
        }
        while let Some(record) = self.records.get(self.next) {
            self.next += 1;
            self.repeat(record)?;
        }
        Ok(())
    }

    /// Gives a process the input that a record tells of. Records that tell of no input are passed over.
    fn repeat(&mut self, record: &Record) -> Result<(), ReplayError> {
        let Some(process) = record.p.filter(|&process| process < self.processes.len()) else {
            return match record.p {
                Some(_) => Err(differs(record, format!("that there are {} processes", self.processes.len()))),
                None => Ok(()),
            };
        };
        if let Some(command) = (self.words.command)(&record.event) {
            if process >= self.clients {
                return Err(differs(record, format!("that only P0 to P{} may ask", self.clients - 1)));
            }
            self.judge.command(process, &record.event);
            return self.step(process, Input::Command(command));
        }
        match &record.event {
            Event::Deliver { msg, .. } => {
                let sent = self.messages.get(msg).cloned();
                let (from, message) = sent.ok_or_else(|| differs(record, "that nobody has sent it".into()))?;
                self.judge.receive(process, *msg);
                self.step(process, Input::Message { from, message })
            }
            Event::AppSend { msg, .. } => self.app_send(process, *msg),
            Event::AppDeliver { msg, .. } => {
                let sent = self.app_messages.get(msg).copied();
                let (_, stamp) = sent.ok_or_else(|| differs(record, "that nobody has sent it".into()))?;
                self.judge.receive(process, *msg);
                stamp.map_or(Ok(()), |stamp| self.step(process, Input::AppReceive(stamp)))
            }
            Event::Timer { name } => {
                let runs = |(owner, timer): &&(ProcessId, P::Timer)| *owner == process && format!("{timer:?}") == *name;
                let running = self.timers.iter().find(runs).copied();
                let (_, timer) = running.ok_or_else(|| differs(record, "that no such timer runs".into()))?;
                self.timers.remove(&(process, timer));
                self.step(process, Input::Timer(timer))
            }
            Event::Suspect { peer } | Event::Trust { peer } if *peer >= self.processes.len() => {
                Err(differs(record, format!("that there is no P{peer}")))
            }
            Event::Suspect { peer } => self.step(process, Input::Suspect(*peer)),
            Event::Trust { peer } => self.step(process, Input::Trust(*peer)),
            Event::Crash => {
                self.timers.retain(|(owner, _)| *owner != process);
                self.judge.crash(process);
                Ok(())
            }
            Event::Recover { memory } => {
                if !memory {
                    self.processes[process] = (self.make)(process);
                }
                self.step(process, Input::Start(Start::Recovered))
            }
            Event::Send { .. } | Event::Enter { .. } | Event::Elected { .. } | Event::Choice { .. } => {
                Err(differs(record, "nothing of the kind".into()))
            }
            _ => Ok(()),
        }
    }

    fn app_send(&mut self, process: ProcessId, msg: u64) -> Result<(), ReplayError> {
        let mut out = Outbox::new(Choices::scripted(Vec::new()));
        self.processes[process].step(Input::AppSend, &mut out);
        let stamp = out.drain().find_map(|output| match output {
            Output::Stamp(stamp) => Some(stamp),
            _ => None,
        });
        self.app_messages.insert(msg, (process, stamp));
        self.judge.send(process, msg);
        Ok(())
    }

    /// One step, with the choices that the trace tells of; the next records must tell of its outputs.
    fn step(&mut self, process: ProcessId, input: Input<P>) -> Result<(), ReplayError> {
        let mut script = Vec::new();
        while let Some(Event::Choice { chosen, .. }) = self.records.get(self.next).map(|record| &record.event) {
            script.push(*chosen);
            self.next += 1;
        }
        let mut out = Outbox::new(Choices::scripted(script));
        self.processes[process].step(input, &mut out);
        for output in out.drain() {
            match output {
                Output::Send { to, message } => self.sent(process, to, message)?,
                Output::Event(event) => self.heard(process, &event)?,
                Output::SetTimer { timer, .. } => {
                    self.timers.insert((process, timer));
                }
                Output::CancelTimer(timer) => {
                    self.timers.remove(&(process, timer));
                }
                Output::Stamp(_) => {}
            }
        }
        Ok(())
    }

    fn sent(&mut self, process: ProcessId, to: ProcessId, message: P::Message) -> Result<(), ReplayError> {
        let record = self.next_output(|| format!("that P{process} sends {} to P{to}", message.kind()))?;
        match &record.event {
            Event::Send { msg, to: traced, kind, .. }
                if record.p == Some(process) && *traced == to && kind == message.kind() =>
            {
                self.judge.send(process, *msg);
                self.messages.insert(*msg, (process, message));
                Ok(())
            }
            _ => Err(differs(record, format!("that P{process} sends {} to P{to}", message.kind()))),
        }
    }

    fn heard(&mut self, process: ProcessId, event: &P::Event) -> Result<(), ReplayError> {
        if (self.words.fence)(event).is_some_and(|fence| self.judge.unasked(process, fence)) {
            // Some tell of such a grant as an entry, some only of the violation.
            let told = |record: &&Record| record.p == Some(process) && (self.words.told)(event, &record.event);
            self.next += usize::from(self.records.get(self.next).filter(told).is_some());
            return Ok(());
        }
        let record = self.next_output(|| format!("P{process}: {event:?}"))?;
        if record.p != Some(process) || !(self.words.told)(event, &record.event) {
            return Err(differs(record, format!("P{process}: {event:?}")));
        }
        self.judge.event(process, &record.event);
        Ok(())
    }

    /// The next record that tells of an output; what oracles and networks added in between is passed over.
    fn next_output(&mut self, expected: impl Fn() -> String) -> Result<&'t Record, ReplayError> {
        let skipped = |event: &Event| matches!(event, Event::Violation { .. } | Event::Drop { .. });
        while self.records.get(self.next).is_some_and(|record| skipped(&record.event)) {
            self.next += 1;
        }
        let record = self.records.get(self.next).ok_or_else(|| ReplayError::Differs {
            seq: self.next as u64,
            found: "nothing more".into(),
            expected: expected(),
        })?;
        self.next += 1;
        Ok(record)
    }
}

fn differs(record: &Record, expected: String) -> ReplayError {
    let found = serde_json::to_string(&record.event).unwrap_or_else(|_| format!("{:?}", record.event));
    let place = record.p.map(|p| format!("P{p} ")).unwrap_or_default();
    ReplayError::Differs { seq: record.seq, found: place + &found, expected }
}

/// The oracles, fed from the trace.
struct Judge {
    mutex: MutexJudge,
    causality: Option<Causality>,
    pasts: BTreeMap<u64, Past>,
    leaders: Leaders,
    entries: u64,
    violations: Vec<Violation>,
}

impl Judge {
    fn new(processes: usize, clients: usize) -> Self {
        let watch_order = clients <= Causality::CLIENTS_MAX;
        Judge {
            mutex: MutexJudge::new(clients, watch_order),
            causality: watch_order.then(|| Causality::new(processes, clients)),
            pasts: BTreeMap::new(),
            leaders: Leaders::default(),
            entries: 0,
            violations: Vec::new(),
        }
    }

    fn command(&mut self, process: ProcessId, event: &Event) {
        match event {
            Event::Request { .. } => {
                let past = self.causality.as_mut().map(|causality| causality.request(process));
                self.mutex.request(process, past);
            }
            _ => self.mutex.leave(process),
        }
    }

    fn send(&mut self, process: ProcessId, msg: u64) {
        if let Some(causality) = &self.causality {
            self.pasts.insert(msg, causality.of(process));
        }
    }

    fn receive(&mut self, process: ProcessId, msg: u64) {
        if let (Some(causality), Some(past)) = (&mut self.causality, self.pasts.get(&msg)) {
            causality.receive(process, past);
        }
    }

    /// Whether this grant is to one that has not asked: a violation, and no entry.
    fn unasked(&mut self, process: ProcessId, fence: u64) -> bool {
        let unasked = !self.mutex.is_waiting(process);
        if unasked {
            self.violations.extend(self.mutex.grant(process, fence));
        }
        unasked
    }

    fn event(&mut self, process: ProcessId, event: &Event) {
        match event {
            Event::Enter { fence, .. } => {
                self.entries += 1;
                self.violations.extend(self.mutex.grant(process, *fence));
            }
            Event::Elected { leader, term } => {
                let found = self.leaders.believes(process, *leader, *term);
                self.violations.extend(found.map(|detail| ("safety", detail)));
            }
            _ => {}
        }
    }

    fn crash(&mut self, process: ProcessId) {
        self.mutex.crash(process);
        self.leaders.gone(process);
    }

    fn verdict(self, steps: usize) -> Replayed {
        Replayed { steps, entries: self.entries, violations: self.violations }
    }
}
