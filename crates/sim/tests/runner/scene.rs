//! A group on a stage, driven by the commands of a transcript.

use std::collections::BTreeMap;

use baton_protocol::{Message, ProcessId, Protocol};
use baton_sim::stage::{Action, Effect, Envelope, Payload, Stage, range};

use super::command::{Command, Fate, Kind, Which};

/// Far more than any transcript needs. A group that sends more probably never stops.
const STABILIZE_DELIVERIES_MAX: usize = 1_000;

pub struct Scene<P: Protocol> {
    stage: Stage<P>,
    /// Messages sent until the last `count`, by kind.
    counted: BTreeMap<&'static str, u64>,
}

impl<P: Protocol> Scene<P> {
    /// The group before its start.
    pub fn new(stage: Stage<P>) -> Self {
        Scene { stage, counted: BTreeMap::new() }
    }

    /// Starts all processes and returns the lines of output.
    pub fn start(&mut self) -> Vec<String> {
        let clients = self.stage.clients();
        let helpers = processes(clients..self.stage.processes().len());
        let clients = processes(0..clients);
        let group = if helpers.is_empty() { clients } else { format!("{clients}; helpers {helpers}") };
        [group].into_iter().chain(lines(&self.stage.start())).collect()
    }

    /// Carries out a command and returns the lines of output.
    pub fn run(&mut self, command: Command) -> Vec<String> {
        let told = self.try_run(command).unwrap_or_else(|why| vec![format!("refused: {why}")]);
        if told.is_empty() { vec!["nothing follows".to_string()] } else { told }
    }

    fn try_run(&mut self, command: Command) -> Result<Vec<String>, String> {
        match command {
            Command::Plain(Action::Choose { script }) => {
                let told = format!("next choices: {script:?}");
                self.apply(Action::Choose { script })?;
                Ok(vec![told])
            }
            Command::Plain(action) => self.apply(action),
            Command::Network { fate, which } => {
                let message = self.find(&which)?;
                self.apply(match fate {
                    Fate::Deliver => Action::Deliver { message },
                    Fate::Drop => Action::Drop { message },
                    Fate::Duplicate => Action::Duplicate { message },
                })
            }
            Command::Forge { from, to, like } => {
                let like = self.find(&like)?;
                self.apply(Action::Forge { from, to, like })
            }
            Command::Stabilize => self.stabilize(),
            Command::Messages => {
                Ok(list(self.stage.in_flight().iter().map(ToString::to_string), "nothing is in flight"))
            }
            Command::Timers => {
                let timers = self.stage.timers();
                let timers = timers.map(|(process, timer, after)| format!("P{process} {timer:?} {}", range(after)));
                Ok(list(timers, "no timer is running"))
            }
            Command::Count => Ok(vec![self.count()]),
            Command::State { process } => {
                let state = format!("{:?}", self.stage.processes()[process]);
                assert!(!state.contains("0x"), "the state of P{process} shows an address: {state}");
                Ok(vec![state])
            }
        }
    }

    fn apply(&mut self, action: Action) -> Result<Vec<String>, String> {
        self.stage.apply(&action).map(|effects| lines(&effects)).map_err(|refused| refused.to_string())
    }

    fn find(&self, which: &Which) -> Result<u64, String> {
        let found = self.stage.in_flight().iter().find(|envelope| is(envelope, which));
        let missing = || format!("no such message is in flight from P{} to P{}", which.from, which.to);
        found.map(|envelope| envelope.id).ok_or_else(missing)
    }

    fn stabilize(&mut self) -> Result<Vec<String>, String> {
        let mut told = Vec::new();
        for _ in 0..STABILIZE_DELIVERIES_MAX {
            let Some(oldest) = self.stage.in_flight().first() else { return Ok(told) };
            let message = oldest.id;
            told.extend(self.apply(Action::Deliver { message })?);
        }
        panic!("still not quiet after {STABILIZE_DELIVERIES_MAX} deliveries");
    }

    fn count(&mut self) -> String {
        let counted = std::mem::replace(&mut self.counted, self.stage.sent().clone());
        let since = |kind: &str, count: u64| count - counted.get(kind).copied().unwrap_or_default();
        let sent = self.stage.sent().iter().map(|(&kind, &count)| (kind, since(kind, count)));
        let sent: Vec<(&str, u64)> = sent.filter(|(_, count)| *count > 0).collect();
        let kinds: Vec<String> = sent.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        match sent.iter().map(|(_, count)| count).sum::<u64>() {
            0 => "no messages".into(),
            total => format!("{total} messages: {}", kinds.join(", ")),
        }
    }
}

/// The effects as lines. Effects of a delivery are indented.
fn lines<P: Protocol>(effects: &[Effect<P>]) -> Vec<String> {
    let arrival = effects.iter().position(|effect| matches!(effect, Effect::Delivered(_)));
    let indent = |place: usize| if arrival.is_some_and(|arrival| place > arrival) { "  " } else { "" };
    effects.iter().enumerate().map(|(place, effect)| format!("{}{effect}", indent(place))).collect()
}

fn list(items: impl Iterator<Item = String>, if_none: &str) -> Vec<String> {
    let items: Vec<String> = items.collect();
    if items.is_empty() { vec![if_none.to_string()] } else { items }
}

fn is<M: Message>(envelope: &Envelope<M>, which: &Which) -> bool {
    let kind = match (&which.kind, &envelope.payload) {
        (Kind::Any, Payload::Protocol(_)) | (Kind::App, Payload::App(_)) => true,
        (Kind::Named(name), Payload::Protocol(message)) => message.kind() == name,
        (Kind::App, Payload::Protocol(_)) | (Kind::Any | Kind::Named(_), Payload::App(_)) => false,
    };
    (envelope.from, envelope.to) == (which.from, which.to) && kind
}

/// `P0 P1 P2`.
fn processes(ids: impl IntoIterator<Item = ProcessId>) -> String {
    ids.into_iter().map(|id| format!("P{id}")).collect::<Vec<_>>().join(" ")
}
