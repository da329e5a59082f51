//! Actions with which a caller drives a group by hand. The simulator's `Stage` carries them out, and the checker can
//! start after a list of them. So the type is in a crate that both use.

use std::fmt;

use baton_protocol::ProcessId;
use serde::{Deserialize, Serialize};

/// One action on a group. It names a message by its number. The first message of a run has number 0. Each further
/// message of the protocol or the application, copies and forgeries included, has the next number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The user of a process asks for something.
    User {
        process: ProcessId,
        wish: Wish,
    },
    /// A message arrives.
    Deliver {
        message: u64,
    },
    /// The network loses a message.
    Drop {
        message: u64,
    },
    /// The network makes a copy of a message.
    Duplicate {
        message: u64,
    },
    /// A copy of a message in flight, with a false sender, is on its way to another receiver.
    Forge {
        /// The false sender.
        from: ProcessId,
        to: ProcessId,
        /// The number of the copied message.
        like: u64,
    },
    /// A running timer fires.
    Timer {
        /// The owner of the timer.
        process: ProcessId,
        /// The `Debug` text of the protocol's timer.
        name: String,
    },
    /// A failure detector reports that a process has crashed.
    Suspect {
        /// The process that gets the report.
        by: ProcessId,
        /// The process that is reported as crashed.
        of: ProcessId,
    },
    /// A failure detector reports that a process is alive.
    Trust {
        /// The process that gets the report.
        by: ProcessId,
        /// The process that is reported as alive.
        of: ProcessId,
    },
    Crash {
        process: ProcessId,
    },
    /// A crashed process runs again.
    Recover {
        process: ProcessId,
        /// False: the process keeps only what is on its stable storage.
        memory: bool,
    },
    /// The application at a process sends a message to the application at another process.
    App {
        from: ProcessId,
        to: ProcessId,
    },
    /// Sets the outcomes of the next choices, in order. Choices after the end of the script are 0.
    Choose {
        script: Vec<usize>,
    },
}

/// What a user asks its process for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Enter the critical section.
    Request,
    /// Leave the critical section.
    Release,
    /// Start an election.
    Elect,
    /// Append a record with this number to the file.
    Append(u64),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::User { process, wish: Wish::Append(number) } => write!(f, "append {process} {number}"),
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
