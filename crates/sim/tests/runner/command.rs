//! The language of transcripts, as text and as values.

use baton_protocol::ProcessId;
use baton_protocol::registry::Params;
use baton_sim::stage::{Action, Wish};

/// A command of a transcript, one a line. `group` is not among them, because it begins a new scene.
#[derive(Debug)]
pub enum Command {
    /// An action that names no message: `request 1`, `timer 1 Answer`, `crash 2`, `recover 2 without-memory` and the like.
    Plain(Action),
    /// `deliver 1->2`, `drop 1->2 REPLY`, `duplicate app 1->2`: something happens to a message in flight.
    Network { fate: Fate, which: Which },
    /// `forge 0->1 2->0 COORDINATOR`: P1 gets a copy of that message from P2 to P0, with P0 as its sender.
    Forge { from: ProcessId, to: ProcessId, like: Which },
    /// `stabilize`: deliver the oldest message until no message is in flight.
    Stabilize,
    /// `messages`: list the messages in flight, oldest first.
    Messages,
    /// `timers`: list the running timers.
    Timers,
    /// `count`: the number of messages since the last `count`, without application messages.
    Count,
    /// `state 1`: the whole state of P1.
    State { process: ProcessId },
}

/// What the network does with a message.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Deliver,
    Drop,
    /// The copy comes after every other message in flight.
    Duplicate,
}

/// The oldest message in flight from one process to another, of some kind.
#[derive(Debug)]
pub struct Which {
    pub from: ProcessId,
    pub to: ProcessId,
    pub kind: Kind,
}

/// Which kind of message.
#[derive(Debug)]
pub enum Kind {
    /// Any message of the protocol.
    Any,
    /// A message of the protocol of this kind.
    Named(String),
    /// A message of the application.
    App,
}

/// Reads a command without its `> `. None if there is no such command.
pub fn parse(text: &str) -> Option<Command> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let user = |process: &str, wish| Some(Action::User { process: number(process)?, wish });
    let plain = match words[..] {
        ["request", process] => user(process, Wish::Request)?,
        ["release", process] => user(process, Wish::Release)?,
        ["elect", process] => user(process, Wish::Elect)?,
        ["append", process, data] => user(process, Wish::Append(data.parse().ok()?))?,
        ["timer", process, name] => Action::Timer { process: number(process)?, name: name.to_string() },
        ["suspect", by, of] => Action::Suspect { by: number(by)?, of: number(of)? },
        ["trust", by, of] => Action::Trust { by: number(by)?, of: number(of)? },
        ["crash", process] => Action::Crash { process: number(process)? },
        ["recover", process] => Action::Recover { process: number(process)?, memory: true },
        ["recover", process, "without-memory"] => Action::Recover { process: number(process)?, memory: false },
        ["app", link] => parse_link(link).map(|(from, to)| Action::App { from, to })?,
        ["choose", ref script @ ..] => {
            Action::Choose { script: script.iter().map(|word| number(word)).collect::<Option<_>>()? }
        }
        _ => return parse_other(&words),
    };
    Some(Command::Plain(plain))
}

fn parse_other(words: &[&str]) -> Option<Command> {
    let network = |fate, which| Some(Command::Network { fate, which: parse_which(which)? });
    match *words {
        ["deliver", ref which @ ..] => network(Fate::Deliver, which),
        ["drop", ref which @ ..] => network(Fate::Drop, which),
        ["duplicate", ref which @ ..] => network(Fate::Duplicate, which),
        ["forge", link, ref like @ ..] => {
            let (from, to) = parse_link(link)?;
            Some(Command::Forge { from, to, like: parse_which(like)? })
        }
        ["stabilize"] => Some(Command::Stabilize),
        ["messages"] => Some(Command::Messages),
        ["timers"] => Some(Command::Timers),
        ["count"] => Some(Command::Count),
        ["state", process] => Some(Command::State { process: number(process)? }),
        _ => None,
    }
}

/// Reads `group voting 3 variant=ask-all coordinators=5 votes=3 delay_max=1`, without its first word. The default of D
/// is 1. None if the text is not understood.
pub fn parse_group(text: &str) -> Option<(&str, Params)> {
    let mut words = text.split_whitespace();
    let algorithm = words.next()?;
    let mut params = Params::new(number(words.next()?)?, 1);
    for word in words {
        match word.split_once('=')? {
            ("variant", value) => params.variant = Some(value.to_string()),
            ("coordinators", value) => params.coordinators = Some(number(value)?),
            ("votes", value) => params.votes = Some(number(value)?),
            ("delay_max", value) => params.delay_max = value.parse().ok()?,
            _ => return None,
        }
    }
    Some((algorithm, params))
}

fn parse_which(words: &[&str]) -> Option<Which> {
    let (link, kind) = match words {
        [link] => (link, Kind::Any),
        ["app", link] => (link, Kind::App),
        [link, kind] => (link, Kind::Named(kind.to_string())),
        _ => return None,
    };
    parse_link(link).map(|(from, to)| Which { from, to, kind })
}

fn parse_link(link: &str) -> Option<(ProcessId, ProcessId)> {
    let (from, to) = link.split_once("->")?;
    Some((number(from)?, number(to)?))
}

fn number(word: &str) -> Option<usize> {
    word.parse().ok()
}
