//! A stage as data, for programs that show it to people.

use baton_protocol::{Message, Picture, ProcessId, Protocol};
use baton_trace::{Action, Event, Wish};
use serde::Serialize;
use serde_json::Value;

use super::{Envelope, Payload, Stage, range};

/// The state of a group at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    pub processes: Vec<ShownProcess>,
    /// The messages in flight, oldest first.
    pub pending: Vec<ShownMessage>,
    pub timers: Vec<ShownTimer>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownProcess {
    pub id: ProcessId,
    pub role: Role,
    pub up: bool,
    /// Whether the process takes commands. False while it is down, or has not caught up after a recovery.
    pub ready: bool,
    pub waiting: bool,
    pub inside: bool,
    /// The leader that the process last reported to its user.
    pub leader: Option<ProcessId>,
    /// The processes that its failure detector believes to be down.
    pub suspects: Vec<ProcessId>,
    pub picture: Picture,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Has a user.
    Client,
    /// A coordinator, voter, store or witness.
    Helper,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownMessage {
    pub id: u64,
    /// For a copy: the number of the first original.
    pub original: u64,
    pub from: ProcessId,
    pub to: ProcessId,
    /// `app` for a message of the application.
    pub kind: &'static str,
    /// The fields of the message. None if it has none.
    pub body: Option<Value>,
    /// Kind and fields, in one line.
    pub text: String,
    pub app: bool,
    /// Whether an earlier message of a FIFO link must arrive first.
    pub blocked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownTimer {
    pub process: ProcessId,
    pub name: String,
    /// The duration that the timer was set to, as [`range`](super::range) tells it.
    pub after: String,
}

impl<P: Protocol> Stage<P> {
    /// The current state. `fifo`: whether links keep the order of messages.
    pub fn show(&self, fifo: bool) -> Shown {
        Shown {
            processes: (0..self.processes.len()).map(|id| self.show_process(id)).collect(),
            pending: self.in_flight.iter().map(|envelope| self.show_message(envelope, fifo)).collect(),
            timers: self
                .timers()
                .map(|(process, timer, after)| ShownTimer { process, name: format!("{timer:?}"), after: range(after) })
                .collect(),
        }
    }

    fn show_process(&self, id: ProcessId) -> ShownProcess {
        ShownProcess {
            id,
            role: if id < self.clients { Role::Client } else { Role::Helper },
            up: self.is_up(id),
            ready: self.is_up(id) && !self.is_catching_up(id),
            waiting: self.waiting.contains(&id),
            inside: self.inside.contains(&id),
            leader: self.leader(id),
            suspects: (0..self.processes.len()).filter(|&of| self.suspects(id, of)).collect(),
            picture: self.processes[id].view(),
        }
    }

    fn show_message(&self, envelope: &Envelope<P::Message>, fifo: bool) -> ShownMessage {
        let Envelope { id, original, from, to, ref payload } = *envelope;
        let (kind, body) = match payload {
            Payload::Protocol(message) => match Event::send(id, to, message, 0) {
                Event::Send { body, .. } => (message.kind(), body),
                _ => (message.kind(), None),
            },
            Payload::App(stamp) => ("app", stamp.map(|clock| serde_json::json!({ "clock": clock }))),
        };
        let app = matches!(payload, Payload::App(_));
        let blocked = fifo && !app && self.earlier_on_its_link(envelope).next().is_some();
        ShownMessage { id, original, from, to, kind, body, text: payload.to_string(), app, blocked }
    }

    /// An action as a sentence, in the state before the action.
    pub fn describe(&self, action: &Action) -> String {
        let message = |number: &u64| match self.message(*number) {
            Some(envelope) => envelope.to_string(),
            None => format!("message #{number}"),
        };
        match action {
            Action::User { process, wish: Wish::Request } => format!("P{process} requests"),
            Action::User { process, wish: Wish::Release } => format!("P{process} leaves"),
            Action::User { process, wish: Wish::Elect } => format!("P{process} starts an election"),
            Action::User { process, wish: Wish::Append(number) } => format!("P{process} appends record {number}"),
            Action::Deliver { message: number } => match self.message(*number) {
                Some(Envelope { from, to, payload, .. }) => format!("P{to} gets {payload} from P{from}"),
                None => format!("message #{number} arrives"),
            },
            Action::Drop { message: number } => format!("the network loses {}", message(number)),
            Action::Duplicate { message: number } => format!("the network copies {}", message(number)),
            Action::Forge { from, to, like } => format!("P{to} is sent a copy of #{like} in the name of P{from}"),
            Action::Timer { process, name } => format!("the timer {name} of P{process} fires"),
            Action::Suspect { by, of } => format!("the detector of P{by} reports that P{of} is down"),
            Action::Trust { by, of } => format!("the detector of P{by} reports that P{of} is up"),
            Action::Crash { process } => format!("P{process} crashes"),
            Action::Recover { process, memory: true } => format!("P{process} recovers"),
            Action::Recover { process, memory: false } => format!("P{process} recovers without memory"),
            Action::App { from, to } => format!("P{from} sends P{to} an application message"),
            Action::Choose { script } => format!("the next choices are {script:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::mutex::central;
    use baton_protocol::registry::Params;

    use super::*;

    fn stage() -> Stage<impl Protocol> {
        let mut stage = Stage::mutex(central::group(&Params::new(2, 1)).unwrap());
        stage.start();
        stage
    }

    #[test]
    fn a_stage_is_shown_with_its_processes_messages_and_roles() {
        let mut stage = stage();
        let request = Action::User { process: 0, wish: Wish::Request };
        assert_eq!(stage.describe(&request), "P0 requests");
        stage.apply(&request).unwrap();
        let shown = stage.show(true);
        let roles: Vec<Role> = shown.processes.iter().map(|process| process.role).collect();
        assert_eq!(roles, [Role::Client, Role::Client, Role::Helper]);
        assert!(shown.processes[0].waiting && !shown.processes[1].waiting);
        let [message] = &shown.pending[..] else { panic!("{:?}", shown.pending) };
        assert_eq!((message.from, message.to, message.kind, message.blocked), (0, 2, "REQUEST", false));
        assert_eq!(stage.describe(&Action::Deliver { message: 0 }), format!("P2 gets {} from P0", message.text));
    }

    #[test]
    fn a_later_message_of_a_fifo_link_is_blocked() {
        let mut stage = stage();
        for action in [Action::User { process: 0, wish: Wish::Request }, Action::Deliver { message: 0 }] {
            stage.apply(&action).unwrap();
        }
        stage.apply(&Action::Deliver { message: 1 }).unwrap();
        stage.apply(&Action::User { process: 0, wish: Wish::Release }).unwrap();
        stage.apply(&Action::User { process: 0, wish: Wish::Request }).unwrap();
        let blocked = |fifo| stage.show(fifo).pending.iter().map(|message| message.blocked).collect::<Vec<_>>();
        assert_eq!((blocked(true), blocked(false)), (vec![false, true], vec![false, false]));
    }
}
