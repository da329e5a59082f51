//! The language of transcripts, as text and as values.

use baton_protocol::ProcessId;
use baton_protocol::registry::Params;

/// What a transcript can ask for, one a line. `group` is not among them: it begins a new transcript.
#[derive(Debug)]
pub enum Command {
    /// `request 1`, `release 1`, `elect 1`, `append 1 65`: the user of P1 asks for something.
    User { process: ProcessId, wish: Wish },
    /// `deliver 1->2`, `drop 1->2 REPLY`, `duplicate app 1->2`: something happens to a message in flight.
    Network { fate: Fate, which: Which },
    /// `forge 0->1 2->0 COORDINATOR`: P1 is sent a copy of that message from P2 to P0, as if it were from P0.
    Forge { from: ProcessId, to: ProcessId, like: Which },
    /// `stabilize`: deliver, the oldest message first, until none is in flight.
    Stabilize,
    /// `timer 1 Answer`: this timer, which must be running, runs out.
    Timer { process: ProcessId, name: String },
    /// `suspect 1 4`: the failure detector of P1 says that P4 has crashed.
    Suspect { by: ProcessId, of: ProcessId },
    /// `trust 1 4`: the failure detector of P1 says that P4 is alive.
    Trust { by: ProcessId, of: ProcessId },
    /// `crash 2`: P2 stops; its timers, and the messages on their way to it, are lost.
    Crash { process: ProcessId },
    /// `recover 2`, `recover 2 without-memory`: P2 runs again.
    Recover { process: ProcessId, with_memory: bool },
    /// `app 0->1`: the application at P0 sends a message of its own to P1.
    App { from: ProcessId, to: ProcessId },
    /// `choose 2 0 1`: the outcomes of the next choices; beyond them it is always 0.
    Choose { script: Vec<usize> },
    /// `messages`: list what is in flight, the oldest first.
    Messages,
    /// `timers`: list what is running.
    Timers,
    /// `count`: how many messages have been sent since the last `count`; those of the application are left out.
    Count,
    /// `state 1`: the whole state of P1.
    State { process: ProcessId },
}

/// What a user may want.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    Request,
    Release,
    Elect,
    /// Of a record of one byte.
    Append(u8),
}

/// What the network does with a message.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Deliver,
    Drop,
    /// A second copy is put behind everything else in flight.
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
    /// Any of the protocol's.
    Any,
    /// Of the protocol's, those of this name.
    Named(String),
    /// Those of the application.
    App,
}

/// Reads a command, without the `> ` before it; none if there is no such command.
pub fn parse(text: &str) -> Option<Command> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(match words[..] {
        ["request", process] => Command::User { process: number(process)?, wish: Wish::Request },
        ["release", process] => Command::User { process: number(process)?, wish: Wish::Release },
        ["elect", process] => Command::User { process: number(process)?, wish: Wish::Elect },
        ["append", process, data] => {
            Command::User { process: number(process)?, wish: Wish::Append(data.parse().ok()?) }
        }
        ["deliver", ref which @ ..] => Command::Network { fate: Fate::Deliver, which: parse_which(which)? },
        ["drop", ref which @ ..] => Command::Network { fate: Fate::Drop, which: parse_which(which)? },
        ["duplicate", ref which @ ..] => Command::Network { fate: Fate::Duplicate, which: parse_which(which)? },
        ["forge", link, ref like @ ..] => {
            let (from, to) = parse_link(link)?;
            Command::Forge { from, to, like: parse_which(like)? }
        }
        ["stabilize"] => Command::Stabilize,
        ["timer", process, name] => Command::Timer { process: number(process)?, name: name.to_string() },
        ["suspect", by, of] => Command::Suspect { by: number(by)?, of: number(of)? },
        ["trust", by, of] => Command::Trust { by: number(by)?, of: number(of)? },
        ["crash", process] => Command::Crash { process: number(process)? },
        ["recover", process] => Command::Recover { process: number(process)?, with_memory: true },
        ["recover", process, "without-memory"] => Command::Recover { process: number(process)?, with_memory: false },
        ["app", link] => parse_link(link).map(|(from, to)| Command::App { from, to })?,
        ["choose", ref script @ ..] => {
            Command::Choose { script: script.iter().map(|word| number(word)).collect::<Option<_>>()? }
        }
        ["messages"] => Command::Messages,
        ["timers"] => Command::Timers,
        ["count"] => Command::Count,
        ["state", process] => Command::State { process: number(process)? },
        _ => return None,
    })
}

/// Reads `group voting 3 variant=ask-all coordinators=5 votes=3 delay_max=1`, without its first word: which algorithm,
/// and how. D is 1 unless told. None if it makes no sense.
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
