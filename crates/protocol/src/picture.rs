//! The picture of a process, as data. So a program can draw trees, quorums and tokens without knowing the algorithm.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Write};

use serde::{Deserialize, Serialize};

use crate::ProcessId;
use crate::clock::Stamp;

/// The parts of a process's state that are worth drawing, in the order and under the names of the algorithm's paper.
/// [`Protocol::view`](crate::Protocol::view) makes it. All names differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Picture {
    /// Never empty.
    pub parts: Vec<Part>,
}

/// A constant of an algorithm, or a text that was read from a file.
pub type Text = Cow<'static, str>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The same part of a state always has the same name.
    pub name: Text,
    #[serde(flatten)]
    pub kind: Kind,
}

/// The kind of a part, which decides how it is drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    Field {
        value: Value,
    },
    /// Points to another process, to the process itself, or to none.
    Pointer {
        to: Option<ProcessId>,
    },
    Set {
        /// In ascending order.
        of: Vec<ProcessId>,
    },
    /// Waiting requests.
    Queue {
        /// The request that is served next comes first.
        of: Vec<Queued>,
    },
    /// A number for each of some processes.
    Numbers {
        /// In ascending order of the processes.
        of: Vec<(ProcessId, u64)>,
    },
    /// The token, which is at this process.
    Token {
        /// The fence of the latest grant.
        fence: u64,
        /// The state that travels with the token.
        carries: Picture,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// The field has no value now.
    None,
    Flag(bool),
    Number(u64),
    Text(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// The process that requests.
    pub process: ProcessId,
    /// The Lamport time or the number of the request, if the algorithm has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<u64>,
}

impl Picture {
    /// An empty picture. The caller adds parts.
    pub fn new() -> Self {
        Picture::default()
    }

    pub fn field(self, name: &'static str, value: impl Into<Value>) -> Self {
        self.with(name, Kind::Field { value: value.into() })
    }

    /// Adds the field `state`: the name of an enum's variant, without what the variant holds.
    pub fn state(self, state: &impl Debug) -> Self {
        let mut name = FirstWord(String::new());
        // The error ends the formatting after the first word.
        let _ = write!(name, "{state:?}");
        self.field("state", name.0)
    }

    pub fn pointer(self, name: &'static str, to: impl Into<Option<ProcessId>>) -> Self {
        self.with(name, Kind::Pointer { to: to.into() })
    }

    /// Adds a set of processes, given in ascending order.
    pub fn set(self, name: &'static str, of: impl IntoIterator<Item = ProcessId>) -> Self {
        self.with(name, Kind::Set { of: of.into_iter().collect() })
    }

    /// Adds a queue. The request that is served next comes first.
    pub fn queue(self, name: &'static str, of: impl IntoIterator<Item: Into<Queued>>) -> Self {
        self.with(name, Kind::Queue { of: of.into_iter().map(Into::into).collect() })
    }

    /// Adds a number for each of some processes, in ascending order of the processes.
    pub fn numbers(self, name: &'static str, of: impl IntoIterator<Item = (ProcessId, u64)>) -> Self {
        self.with(name, Kind::Numbers { of: of.into_iter().collect() })
    }

    /// Adds the token, if the process has it: its fence, and the state that travels with it.
    pub fn token(self, token: Option<(u64, Picture)>) -> Self {
        match token {
            Some((fence, carries)) => self.with("token", Kind::Token { fence, carries }),
            None => self,
        }
    }

    pub fn and(mut self, other: Picture) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Adds all parts of a protocol that runs inside this one, with `name` before their names.
    pub fn inside(self, name: &'static str, mut inside: Picture) -> Self {
        inside.parts.iter_mut().for_each(|part| part.name = alloc::format!("{name} {}", part.name).into());
        self.and(inside)
    }

    fn with(mut self, name: &'static str, kind: Kind) -> Self {
        self.parts.push(Part { name: name.into(), kind });
        self
    }
}

/// Accepts letters and digits, and returns an error at the first other character.
struct FirstWord(String);

impl Write for FirstWord {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let word = text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        self.0.push_str(word);
        if word.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Flag(flag)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Number(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text.into())
    }
}

impl From<Option<u64>> for Value {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Value::None, Value::Number)
    }
}

impl From<ProcessId> for Queued {
    fn from(process: ProcessId) -> Self {
        Queued { process, stamp: None }
    }
}

impl From<Stamp> for Queued {
    fn from(request: Stamp) -> Self {
        Queued { process: request.process, stamp: Some(request.time) }
    }
}

impl From<(ProcessId, u64)> for Queued {
    fn from((process, number): (ProcessId, u64)) -> Self {
        Queued { process, stamp: Some(number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_the_name_of_its_variant() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "only its name is shown")]
        enum State {
            Idle,
            Waiting(u64),
            Inside { fence: u64 },
        }
        let states = [State::Idle, State::Waiting(7), State::Inside { fence: 1 }];
        for (state, name) in states.iter().zip(["Idle", "Waiting", "Inside"]) {
            assert_eq!(Picture::new().state(state), Picture::new().field("state", String::from(name)));
        }
    }
}
