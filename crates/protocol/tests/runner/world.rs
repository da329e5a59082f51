//! The processes of a group, driven by hand, one command at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::ops::RangeInclusive;

use baton_protocol::{Choices, Group, Input, Message, Outbox, Output, ProcessId, Protocol, Start, Ticks};

use super::command::{Command, Fate, Kind, Which, Wish};
use super::text;

/// Far more than any transcript needs: who sends more keeps on sending.
const STABILIZE_DELIVERIES_MAX: usize = 1_000;

/// A group of processes, the network between them and their users.
pub struct World<P: Protocol> {
    group: Group<P>,
    vocabulary: Vocabulary<P>,
    processes: Vec<P>,
    down: BTreeSet<ProcessId>,
    /// The oldest first.
    in_flight: Vec<Envelope<P::Message>>,
    timers: BTreeMap<(ProcessId, P::Timer), RangeInclusive<Ticks>>,
    /// Whose request has not been granted yet.
    waiting: BTreeSet<ProcessId>,
    /// Who is in the critical section, as its user sees it.
    inside: BTreeSet<ProcessId>,
    /// The outcomes of the next choices.
    script: Vec<usize>,
    /// Messages sent since they were last counted, by kind.
    sent: BTreeMap<&'static str, usize>,
    /// What there is to tell about the current command.
    lines: Vec<String>,
}

/// How the wishes and the news of a family of protocols are called.
pub struct Vocabulary<P: Protocol> {
    pub command: fn(Wish) -> Option<P::Command>,
    pub news: fn(P::Event) -> Told,
}

/// What a process tells its user.
pub enum Told {
    Granted { fence: u64 },
    Elected { leader: Option<ProcessId>, term: Option<u64> },
    Appended { offset: u64 },
}

#[derive(Clone)]
struct Envelope<M> {
    from: ProcessId,
    to: ProcessId,
    payload: Payload<M>,
}

#[derive(Clone)]
enum Payload<M> {
    Protocol(M),
    /// Of the application, with the stamp that the protocol put on it, if it has a clock.
    App(Option<u64>),
}

impl<P: Protocol> World<P> {
    /// The group as it is before its start.
    pub fn new(group: Group<P>, vocabulary: Vocabulary<P>) -> Self {
        World {
            processes: (0..group.processes).map(&group.make).collect(),
            group,
            vocabulary,
            down: BTreeSet::new(),
            in_flight: Vec::new(),
            timers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            inside: BTreeSet::new(),
            script: Vec::new(),
            sent: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    /// Starts all processes; returns what there is to tell.
    pub fn start(&mut self) -> Vec<String> {
        let helpers = text::processes(self.group.clients..self.group.processes);
        let clients = text::processes(0..self.group.clients);
        self.lines.push(if helpers.is_empty() { clients } else { format!("{clients}; helpers {helpers}") });
        for process in 0..self.processes.len() {
            self.step(process, Input::Start(Start::Fresh));
        }
        take(&mut self.lines)
    }

    /// Carries out a command; returns what there is to tell.
    pub fn run(&mut self, command: Command) -> Vec<String> {
        if let Err(why) = self.try_run(command) {
            self.lines.push(format!("refused: {why}"));
        }
        if self.lines.is_empty() {
            self.lines.push("nothing follows".to_string());
        }
        take(&mut self.lines)
    }

    fn try_run(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::User { process, wish } => self.wish(process, wish),
            Command::Network { fate, which } => self.network(fate, &which),
            Command::Forge { from, to, like } => {
                let payload = self.in_flight[self.find(&like)?].payload.clone();
                self.send(Envelope { from, to, payload });
                Ok(())
            }
            Command::Stabilize => self.stabilize(),
            Command::Timer { process, name } => self.timer(process, &name),
            Command::Suspect { by, of } => self.step_if_up(by, Input::Suspect(of)),
            Command::Trust { by, of } => self.step_if_up(by, Input::Trust(of)),
            Command::Crash { process } => self.crash(process),
            Command::Recover { process, with_memory } => self.recover(process, with_memory),
            Command::App { from, to } => self.app(from, to),
            Command::Choose { script } => {
                self.lines.push(format!("next choices: {script:?}"));
                self.script = script;
                Ok(())
            }
            Command::Messages => {
                let messages: Vec<String> = self.in_flight.iter().map(Envelope::text).collect();
                self.list(messages, "nothing is in flight")
            }
            Command::Timers => {
                let timers = self.timers.iter();
                let timers =
                    timers.map(|((p, timer), after)| format!("P{p} {timer:?} {}", text::range(after))).collect();
                self.list(timers, "no timer is running")
            }
            Command::Count => self.count(),
            Command::State { process } => {
                let state = format!("{:?}", self.processes[process]);
                assert!(!state.contains("0x"), "the state of P{process} shows an address: {state}");
                self.lines.push(state);
                Ok(())
            }
        }
    }

    /// Users ask in turns, as they have to: no request while one is pending or granted, no release but of a grant.
    fn wish(&mut self, process: ProcessId, wish: Wish) -> Result<(), String> {
        let command = (self.vocabulary.command)(wish).ok_or("this is not what the algorithm is for")?;
        if process >= self.group.clients {
            return Err(format!("P{process} has no user"));
        }
        self.check_up(process)?;
        match wish {
            Wish::Request if self.inside.contains(&process) => return Err(format!("P{process} is inside")),
            Wish::Request | Wish::Append(_) if !self.waiting.insert(process) => {
                return Err(format!("P{process} has asked already"));
            }
            Wish::Release if !self.inside.remove(&process) => return Err(format!("P{process} is not inside")),
            _ => self.step(process, Input::Command(command)),
        }
        Ok(())
    }

    fn network(&mut self, fate: Fate, which: &Which) -> Result<(), String> {
        let index = self.find(which)?;
        match fate {
            Fate::Deliver => self.deliver(index),
            Fate::Drop => {
                let lost = self.in_flight.remove(index);
                self.lines.push(format!("{} is lost", lost.text()));
            }
            Fate::Duplicate => {
                let copy = self.in_flight[index].clone();
                self.lines.push(format!("{} again", copy.text()));
                self.in_flight.push(copy);
            }
        }
        Ok(())
    }

    fn find(&self, which: &Which) -> Result<usize, String> {
        let found = self.in_flight.iter().position(|envelope| envelope.is(which));
        found.ok_or_else(|| format!("no such message is in flight from P{} to P{}", which.from, which.to))
    }

    fn stabilize(&mut self) -> Result<(), String> {
        for _ in 0..STABILIZE_DELIVERIES_MAX {
            if self.in_flight.is_empty() {
                return Ok(());
            }
            self.deliver(0);
        }
        panic!("still not quiet after {STABILIZE_DELIVERIES_MAX} deliveries");
    }

    /// The message arrives; what follows from it is indented.
    fn deliver(&mut self, index: usize) {
        let Envelope { from, to, payload } = self.in_flight.remove(index);
        self.lines.push(format!("P{to} gets {} from P{from}", payload.text()));
        let told = self.lines.len();
        match payload {
            Payload::Protocol(message) => self.step(to, Input::Message { from, message }),
            Payload::App(Some(stamp)) => self.step(to, Input::AppReceive(stamp)),
            Payload::App(None) => {}
        }
        for line in &mut self.lines[told..] {
            line.insert_str(0, "  ");
        }
    }

    fn timer(&mut self, process: ProcessId, name: &str) -> Result<(), String> {
        let mut running = self.timers.keys().copied();
        let key = running.find(|(owner, timer)| *owner == process && format!("{timer:?}") == name);
        let key = key.ok_or_else(|| format!("P{process} has no timer {name} running"))?;
        self.timers.remove(&key);
        self.step(process, Input::Timer(key.1));
        Ok(())
    }

    fn crash(&mut self, process: ProcessId) -> Result<(), String> {
        self.check_up(process)?;
        self.down.insert(process);
        self.timers.retain(|(owner, _), _| *owner != process);
        self.lines.push(format!("P{process} is down"));
        for lost in self.in_flight.extract_if(.., |envelope| envelope.to == process) {
            self.lines.push(format!("{} is lost", lost.text()));
        }
        Ok(())
    }

    fn recover(&mut self, process: ProcessId, with_memory: bool) -> Result<(), String> {
        if !self.down.remove(&process) {
            return Err(format!("P{process} is not down"));
        }
        if !with_memory {
            self.processes[process].forget((self.group.make)(process));
            self.waiting.remove(&process);
            self.inside.remove(&process);
        }
        self.lines.push(format!("P{process} is up again"));
        self.step(process, Input::Start(Start::Recovered));
        Ok(())
    }

    fn app(&mut self, from: ProcessId, to: ProcessId) -> Result<(), String> {
        self.check_up(from)?;
        let mut stamp = None;
        for output in self.outputs_of(from, Input::AppSend) {
            match output {
                Output::Stamp(clock) => stamp = Some(clock),
                other => self.carry_out(from, other),
            }
        }
        self.send(Envelope { from, to, payload: Payload::App(stamp) });
        Ok(())
    }

    fn count(&mut self) -> Result<(), String> {
        let sent = take(&mut self.sent);
        let total: usize = sent.values().sum();
        let kinds: Vec<String> = sent.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        self.lines.push(if total == 0 {
            "no messages".into()
        } else {
            format!("{total} messages: {}", kinds.join(", "))
        });
        Ok(())
    }

    fn list(&mut self, items: Vec<String>, if_none: &str) -> Result<(), String> {
        self.lines.extend(items);
        if self.lines.is_empty() {
            self.lines.push(if_none.to_string());
        }
        Ok(())
    }

    fn check_up(&self, process: ProcessId) -> Result<(), String> {
        assert!(process < self.processes.len(), "there is no P{process}");
        if self.down.contains(&process) { Err(format!("P{process} is down")) } else { Ok(()) }
    }

    fn step_if_up(&mut self, process: ProcessId, input: Input<P>) -> Result<(), String> {
        self.check_up(process)?;
        self.step(process, input);
        Ok(())
    }

    fn step(&mut self, process: ProcessId, input: Input<P>) {
        for output in self.outputs_of(process, input) {
            self.carry_out(process, output);
        }
    }

    fn outputs_of(&mut self, process: ProcessId, input: Input<P>) -> Vec<Output<P>> {
        let mut out = Outbox::new(Choices::scripted(self.script.clone()));
        self.processes[process].step(input, &mut out);
        let made = out.choices().take_made();
        self.script.drain(..made.len().min(self.script.len()));
        for choice in made {
            self.lines.push(format!("P{process} chooses {} out of {}", choice.chosen, choice.of));
        }
        out.drain().collect()
    }

    fn carry_out(&mut self, process: ProcessId, output: Output<P>) {
        match output {
            Output::Send { to, message } => {
                *self.sent.entry(message.kind()).or_default() += 1;
                self.send(Envelope { from: process, to, payload: Payload::Protocol(message) });
            }
            Output::SetTimer { timer, after } => {
                self.lines.push(format!("P{process} sets {timer:?} to {}", text::range(&after)));
                self.timers.insert((process, timer), after);
            }
            Output::CancelTimer(timer) => {
                if self.timers.remove(&(process, timer)).is_some() {
                    self.lines.push(format!("P{process} cancels {timer:?}"));
                }
            }
            Output::Event(event) => self.tell(process, (self.vocabulary.news)(event)),
            Output::Stamp(clock) => panic!("P{process} gives a stamp {clock} without being asked for one"),
        }
    }

    fn send(&mut self, envelope: Envelope<P::Message>) {
        if self.down.contains(&envelope.to) {
            self.lines.push(format!("{} is lost", envelope.text()));
        } else {
            self.lines.push(envelope.text());
            self.in_flight.push(envelope);
        }
    }

    fn tell(&mut self, process: ProcessId, news: Told) {
        self.lines.push(match news {
            Told::Granted { fence } => {
                let asked = if self.waiting.remove(&process) { "" } else { ", unasked" };
                let others = text::processes(self.inside.difference(&self.down).copied());
                let others = if others.is_empty() { others } else { format!(", WHILE {others} IS INSIDE") };
                self.inside.insert(process);
                format!("P{process} granted, fence {fence}{asked}{others}")
            }
            Told::Elected { leader, term } => {
                let leader = leader.map_or("none".to_string(), |leader| format!("P{leader}"));
                let term = term.map_or(String::new(), |term| format!(", term {term}"));
                format!("P{process} leader: {leader}{term}")
            }
            Told::Appended { offset } => {
                self.waiting.remove(&process);
                format!("P{process} appended at {offset}")
            }
        });
    }
}

impl<M: Message> Envelope<M> {
    fn is(&self, which: &Which) -> bool {
        let kind = match (&which.kind, &self.payload) {
            (Kind::Any, Payload::Protocol(_)) | (Kind::App, Payload::App(_)) => true,
            (Kind::Named(name), Payload::Protocol(message)) => message.kind() == name,
            (Kind::App, Payload::Protocol(_)) | (Kind::Any | Kind::Named(_), Payload::App(_)) => false,
        };
        (self.from, self.to) == (which.from, which.to) && kind
    }

    fn text(&self) -> String {
        format!("P{} -> P{} {}", self.from, self.to, self.payload.text())
    }
}

impl<M: Message> Payload<M> {
    fn text(&self) -> String {
        match self {
            Payload::Protocol(message) => text::message(message),
            Payload::App(Some(stamp)) => format!("app {{clock: {stamp}}}"),
            Payload::App(None) => "app".to_string(),
        }
    }
}
