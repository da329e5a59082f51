//! Repeats a trace step by step: gives the processes the same inputs in the same order, insists on the same outputs,
//! and judges again. Whoever wrote the trace, simulator or checker, the steps are those of the protocol.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::detector::Detector;
use baton_protocol::election::{self, Election};
use baton_protocol::mutex::{self, Mutex};
use baton_protocol::registry::{self, About, Family, SetupError, Survivors, Visitor};
use baton_protocol::{Choices, Group, Input, Message, Outbox, Output, ProcessId, Protocol, Start};
use baton_trace::{Event, Header, Order, Record, Unit, is_counterexample};

use self::judge::Judge;
use self::recurrence::Snapshot;
use crate::oracle::mutex::Violation;

mod beats;
mod judge;
mod recurrence;

/// What a replay has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How many records were repeated.
    pub steps: usize,
    /// How many times somebody entered.
    pub entries: u64,
    /// What the oracles found: property and detail.
    pub violations: Vec<Violation>,
    /// What they have watched, and found nothing.
    pub held: Vec<&'static str>,
    /// What a counterexample is there to show, promised or not; nothing if it is a run.
    pub shown: Option<String>,
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
    /// It is the trace of one member of a group over sockets.
    #[error(
        "this is what P{member} alone saw of its group, without what the others sent it, and cannot be repeated; \
         traces of `baton sim` and `baton check` can"
    )]
    OneMember {
        /// Which one.
        member: ProcessId,
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
    /// The network is none.
    #[error("the trace says that the order of its network is `{found}`; there are fifo and unordered")]
    Order {
        /// What it says.
        found: String,
    },
    /// The last line is missing.
    #[error("the trace is cut off after {records} records; its last one must be `end`")]
    CutOff {
        /// How many there are.
        records: usize,
    },
    /// The steps fit, and their outcome does not.
    #[error("the trace tells of a violation of {property}, and its steps do not lead to one")]
    Outcome {
        /// What it tells of.
        property: String,
    },
}

/// Repeats a trace.
pub fn replay(header: &Header, records: &[Record]) -> Result<Replayed, ReplayError> {
    if let Some(member) = header.network.member {
        return Err(ReplayError::OneMember { member });
    }
    registry::visit(&header.algorithm, &header.group_params(), Replay { header, records })?
}

struct Replay<'t> {
    header: &'t Header,
    records: &'t [Record],
}

impl Replay<'_> {
    /// Refuses a trace of another number of processes.
    fn check_size<P>(&self, about: &'static About, group: &Group<P>) -> Result<(), ReplayError> {
        let (clients, found, expected) = (group.clients, self.header.processes, group.processes);
        let wrong = || ReplayError::Processes { algorithm: about.name, clients, found, expected };
        if found == expected { Ok(()) } else { Err(wrong()) }
    }

    fn go<P: Protocol>(self, about: &'static About, group: Group<P>, words: Words<P>) -> Result<Replayed, ReplayError> {
        self.check_size(about, &group)?;
        let cycle_from = self.header.cycle_from();
        let fifo = match &self.header.network.order {
            Some(Order::Fifo) => true,
            Some(Order::Unordered) | None => false,
            Some(Order::Unknown(found)) => return Err(ReplayError::Order { found: found.clone() }),
        };
        let mut stage = Stage::new(group, fifo, self.records, words);
        stage.play(cycle_from)?;
        let end = self.records.last().and_then(|record| match &record.event {
            Event::End { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        // A process that is killed writes no last line; the simulator and the checker always do.
        if end.is_none() && self.header.unit == Unit::T {
            return Err(ReplayError::CutOff { records: self.records.len() });
        }
        let counterexample = is_counterexample(self.records);
        let claims = || self.records.iter().filter_map(claim);
        for record in self.records {
            match &record.event {
                Event::Violation { property, detail } if property == "liveness" && record.p.is_some() => {
                    // Granted too late: the steps are those of the trace, and so are their times.
                    stage.judge.violations.push(("liveness", detail.clone()));
                }
                Event::Violation { property, .. } if ["deadlock", "liveness"].contains(&property.as_str()) => {
                    stage.judge_the_end(property, cycle_from.is_some(), end);
                }
                _ => {}
            }
        }
        // A counterexample ends with what it shows; a run of the simulator goes on, and may be judged by its times.
        let found = |property: &str| stage.judge.violations.iter().any(|(found, _)| *found == property);
        if let (true, Some(property)) = (counterexample, claims().find(|property| !found(property))) {
            return Err(ReplayError::Outcome { property: property.into() });
        }
        Ok(Replayed {
            steps: self.records.len(),
            entries: stage.judge.entries,
            held: stage.held(counterexample),
            shown: claims().next_back().filter(|_| counterexample).map(str::to_owned),
            violations: stage.judge.violations,
        })
    }
}

impl Visitor for Replay<'_> {
    type Output = Result<Replayed, ReplayError>;

    fn unsupported(self, about: &'static About) -> Self::Output {
        let reason = match about.family {
            Family::Detector => {
                "its processes go by their own clocks, and the trace tells the time of the simulator only"
            }
            Family::Append => {
                "the trace format has no event for what a client appends, or for the offset that it is told"
            }
            Family::Mutex | Family::Election => "this family of algorithms is not known to the replay",
        };
        Err(ReplayError::Unsupported { algorithm: about.name, reason })
    }

    /// A run of the simulator tells no process's clock; in the checker they all show the same.
    fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> Self::Output {
        if !self.header.is_dated_by_ticks() {
            return self.unsupported(about);
        }
        self.check_size(about, &group)?;
        beats::repeat(self.header, self.records, &group)
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
        self.go(about, group, Words { command, told, fence, elects: false })
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
        self.go(about, group, Words { command, told, fence: |_| None, elects: true })
    }
}

/// The property that a record tells to be violated, if it does.
fn claim(record: &Record) -> Option<&str> {
    match &record.event {
        Event::Violation { property, .. } => Some(property),
        _ => None,
    }
}

/// A message that has been sent.
#[derive(Clone)]
struct Letter<M> {
    from: ProcessId,
    to: ProcessId,
    message: M,
}

struct Stage<'t, P: Protocol> {
    clients: usize,
    elects: election::Rule,
    survivors: Option<Survivors>,
    processes: Vec<P>,
    make: Box<dyn Fn(ProcessId) -> P + Send + Sync>,
    records: &'t [Record],
    next: usize,
    /// Whether links keep the order of messages.
    fifo: bool,
    messages: BTreeMap<u64, Letter<P::Message>>,
    app_messages: BTreeMap<u64, (ProcessId, Option<u64>)>,
    timers: BTreeSet<(ProcessId, P::Timer)>,
    /// Sent, and neither delivered nor lost: to whom.
    in_flight: BTreeMap<u64, ProcessId>,
    down: BTreeSet<ProcessId>,
    /// What everything was like where the cycle begins, if there is one.
    cycle: Option<Snapshot<P>>,
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
    /// Whether everybody is to believe in a leader.
    elects: bool,
}

impl<'t, P: Protocol> Stage<'t, P> {
    fn new(group: Group<P>, fifo: bool, records: &'t [Record], words: Words<P>) -> Self {
        let mut judge = Judge::new(group.processes, group.clients);
        if words.elects {
            judge.beliefs.extend((0..group.clients).map(|process| (process, None)));
        }
        Stage {
            clients: group.clients,
            elects: group.elects,
            survivors: group.survivors,
            processes: (0..group.processes).map(&group.make).collect(),
            judge,
            make: group.make,
            records,
            next: 0,
            fifo,
            messages: BTreeMap::new(),
            app_messages: BTreeMap::new(),
            timers: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            down: BTreeSet::new(),
            cycle: None,
            words,
        }
    }

    fn play(&mut self, cycle_from: Option<u64>) -> Result<(), ReplayError> {
        for process in 0..self.processes.len() {
            self.step(process, Input::Start(Start::Fresh))?;
        }
        while let Some(record) = self.records.get(self.next) {
            if cycle_from == Some(self.next as u64) {
                self.cycle = Some(self.snapshot());
                self.judge.entered.clear();
            }
            self.next += 1;
            self.repeat(record)?;
        }
        Ok(())
    }

    fn snapshot(&self) -> Snapshot<P> {
        let on_their_way = self.in_flight.iter().filter_map(|(msg, to)| {
            let letter = self.messages.get(msg)?;
            Some((letter.from, *to, letter.message.clone()))
        });
        Snapshot::new(&self.processes, on_their_way.collect(), &self.timers, self.judge.phases())
    }

    /// Whether what the trace says of the end is so: somebody waits and nothing can happen, or it waits for ever while
    /// the same happens again and again, or those who live do not agree on a leader.
    fn judge_the_end(&mut self, property: &str, in_a_cycle: bool, end: Option<&str>) {
        let property = if property == "deadlock" { "deadlock" } else { "liveness" };
        let name = |waiting: Vec<ProcessId>| {
            let names: Vec<String> = waiting.iter().map(|process| format!("P{process}")).collect();
            format!("{} {}", names.join(" and "), if names.len() == 1 { "waits" } else { "wait" })
        };
        let waiting: Vec<ProcessId> = self.judge.phases().0.into_iter().collect();
        let arrives = self.in_flight.values().any(|to| !self.down.contains(to));
        if !waiting.is_empty() && !arrives && self.timers.is_empty() && self.judge.inside.is_empty() {
            let detail = format!("{}, and nothing can happen", name(waiting));
            self.judge.violations.push((property, detail));
        } else if in_a_cycle && self.cycle.as_ref() == Some(&self.snapshot()) {
            let passed_over = |process: &ProcessId| !self.judge.entered.contains(process);
            let starving: Vec<ProcessId> = waiting.into_iter().filter(passed_over).collect();
            if !starving.is_empty() {
                let detail = format!("{} for ever: all is as it was, and can happen again and again", name(starving));
                self.judge.violations.push(("liveness", detail));
            }
        } else if let Some(&at) = self.judge.beliefs.keys().find(|at| self.disagrees(**at)) {
            let detail = format!("P{at} does not follow the one that is to lead");
            self.judge.violations.push(("liveness", detail));
        } else if let (Some(end @ ("finished" | "limit")), true) = (end, self.judge.beliefs.is_empty()) {
            // Things still happen, in vain: a counterexample would have to show that by a cycle, but a run has an end.
            let who = match waiting.is_empty() {
                true => (end == "limit").then(|| "not everybody has asked".into()),
                false => Some(name(waiting)),
            };
            let detail = who.map(|who| ("liveness", format!("{who}, and the run has come to its end")));
            self.judge.violations.extend(detail);
        }
    }

    /// What has been watched, without a violation. That a counterexample ends while somebody waits says nothing.
    fn held(&self, counterexample: bool) -> Vec<&'static str> {
        let elects = self.words.elects;
        let served = match elects {
            true => !self.judge.beliefs.keys().any(|at| self.disagrees(*at)),
            false => self.judge.phases().0.is_empty(),
        };
        let watched = [
            ("safety", true),
            ("liveness", served && !counterexample),
            ("order", !elects && self.judge.causality.is_some()),
            ("fence", !elects),
        ];
        let violated = |property| self.judge.violations.iter().any(|(found, _)| *found == property);
        let held = |&(property, watched): &(&'static str, bool)| watched && !violated(property);
        watched.iter().filter(|property| held(property)).map(|(property, _)| *property).collect()
    }

    fn disagrees(&self, at: ProcessId) -> bool {
        let lives = |process: &ProcessId| !self.down.contains(process);
        let enough = |Survivors { among, least, .. }: &Survivors| among.clone().filter(lives).count() >= *least;
        let best = self.elects.best((0..self.clients).filter(lives));
        // With too few nobody can be elected, which is what is wrong, or somebody is believed in nonetheless.
        let too_few = !self.survivors.as_ref().is_none_or(enough);
        lives(&at) && (too_few || self.judge.beliefs.get(&at).copied().flatten() != best)
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
                let Letter { from, to, message } =
                    sent.ok_or_else(|| differs(record, "that nobody has sent it".into()))?;
                if to != process {
                    return Err(differs(record, format!("that it was sent to P{to}")));
                }
                let on_this_link =
                    |other: &u64| self.messages.get(other).is_some_and(|other| (other.from, other.to) == (from, to));
                if self.fifo && self.in_flight.range(..msg).any(|(earlier, _)| on_this_link(earlier)) {
                    return Err(differs(record, "that an earlier message on this link is still on its way".into()));
                }
                self.judge.receive(process, *msg);
                self.in_flight.remove(msg);
                self.step(process, Input::Message { from, message })
            }
            Event::AppSend { msg, to } => {
                self.in_flight.insert(*msg, *to);
                self.app_send(process, *msg)
            }
            Event::Drop { msg, .. } => {
                self.in_flight.remove(msg);
                Ok(())
            }
            Event::AppDeliver { msg, .. } => {
                let sent = self.app_messages.get(msg).copied();
                let (_, stamp) = sent.ok_or_else(|| differs(record, "that nobody has sent it".into()))?;
                self.judge.receive(process, *msg);
                self.in_flight.remove(msg);
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
                self.down.insert(process);
                self.judge.crash(process);
                Ok(())
            }
            Event::Recover { memory } => {
                self.down.remove(&process);
                // What was on its way then is of an earlier life.
                let messages = &self.messages;
                let concerns = |msg: &u64| messages.get(msg).is_some_and(|it| [it.from, it.to].contains(&process));
                self.in_flight.retain(|msg, _| !concerns(msg));
                if !memory {
                    self.processes[process].forget((self.make)(process));
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
                self.in_flight.insert(*msg, to);
                self.messages.insert(*msg, Letter { from: process, to, message });
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
        while let Some(record) = self.records.get(self.next).filter(|record| skipped(&record.event)) {
            if let Event::Drop { msg, .. } = &record.event {
                self.in_flight.remove(msg);
            }
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
