//! What can be done to a group by hand, one action at a time. The simulator's `Stage` carries actions out and the checker can
//! start after a list of them, so the type belongs to neither.

use std::fmt;

use baton_protocol::ProcessId;
use serde::{Deserialize, Serialize};

/// One thing that happens to a group. Messages go by their number: the first message of a run, of the protocol or of the
/// application, is 0, and every further one, copies and forgeries included, is one more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The user of a process asks for something.
    User {
        /// Whose user.
        process: ProcessId,
        /// What for.
        wish: Wish,
    },
    /// A message arrives.
    Deliver {
        /// Its number.
        message: u64,
    },
    /// The network loses a message.
    Drop {
        /// Its number.
        message: u64,
    },
    /// The network makes a copy of a message.
    Duplicate {
        /// Its number.
        message: u64,
    },
    /// The receiver is sent a copy of another message in flight, as if the copy were from this sender.
    Forge {
        /// The pretended sender.
        from: ProcessId,
        /// The receiver.
        to: ProcessId,
        /// The number of the message that is copied.
        like: u64,
    },
    /// A running timer runs out.
    Timer {
        /// Whose timer.
        process: ProcessId,
        /// Which one, as its protocol calls it.
        name: String,
    },
    /// A failure detector says that a process has crashed.
    Suspect {
        /// Whose detector.
        by: ProcessId,
        /// Who is said to have crashed.
        of: ProcessId,
    },
    /// A failure detector says that a process is alive.
    Trust {
        /// Whose detector.
        by: ProcessId,
        /// Who is said to be alive.
        of: ProcessId,
    },
    /// A process stops.
    Crash {
        /// Which one.
        process: ProcessId,
    },
    /// A process that has crashed runs again.
    Recover {
        /// Which one.
        process: ProcessId,
        /// Whether it still has its memory; if not, it has what it does not forget.
        memory: bool,
    },
    /// The application at a process sends a message of its own.
    App {
        /// The sender.
        from: ProcessId,
        /// The receiver.
        to: ProcessId,
    },
    /// Says how the next choices of steps come out; after the last of them every choice comes out as 0.
    Choose {
        /// The outcomes, in order.
        script: Vec<usize>,
    },
}

/// What a user may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// The critical section.
    Request,
    /// To leave the critical section.
    Release,
    /// An election.
    Elect,
    /// A record of one byte at the end of the file.
    Append(u8),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::User { process, wish: Wish::Append(byte) } => write!(f, "append {process} {byte}"),
            Action::User { process, wish } => write!(f, "{wish} {process}"),
            Action::Deliver { message } => write!(f, "deliver #{message}"),
            Action::Drop { message } => write!(f, "drop #{message}"),
            Action::Duplicate { message } => write!(f, "duplicate #{message}"),
            Action::Forge { from, to, like } => write!(f, "forge {from}->{to} #{like}"),
            Action::Timer { process, name } => write!(f, "timer {process} {name}"),
            Action::Suspect { by, of } => write!(f, "suspect {by} {of}"),
            Action::Trust { by, of } => write!(f, "trust {by} {of}"),
            Action::Crash { process } => write!(f, "crash {process}"),
            Action::Recover { process, memory: true } => write!(f, "recover {process}"),
            Action::Recover { process, memory: false } => write!(f, "recover {process} without-memory"),
            Action::App { from, to } => write!(f, "app {from}->{to}"),
            Action::Choose { script } => {
                write!(f, "choose")?;
                script.iter().try_for_each(|outcome| write!(f, " {outcome}"))
            }
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wish::Request => "request",
            Wish::Release => "release",
            Wish::Elect => "elect",
            Wish::Append(_) => "append",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_told_in_the_words_of_transcripts_and_survive_json() {
        let told = [
            (Action::User { process: 1, wish: Wish::Request }, "request 1"),
            (Action::User { process: 1, wish: Wish::Append(65) }, "append 1 65"),
            (Action::Deliver { message: 7 }, "deliver #7"),
            (Action::Forge { from: 0, to: 1, like: 7 }, "forge 0->1 #7"),
            (Action::Timer { process: 2, name: "Answer".into() }, "timer 2 Answer"),
            (Action::Recover { process: 2, memory: false }, "recover 2 without-memory"),
            (Action::Choose { script: vec![2, 0] }, "choose 2 0"),
        ];
        for (action, words) in told {
            assert_eq!(action.to_string(), words);
            let json = serde_json::to_string(&action).unwrap();
            assert_eq!(serde_json::from_str::<Action>(&json).unwrap(), action, "{json}");
        }
    }
}
