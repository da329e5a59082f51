//! The words of the log: what the state is told, and what it says. Each module has words of its own; the enums here list the
//! modules. Whatever is `Serialize` here is written to disk: see `format` before changing it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{RequestNumber, SessionId, locks, sessions};

/// What Raft replicates: commands that are applied together, and when, for people to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since 1970 where it was proposed. The state's own time only grows, and decides nothing.
    pub now_ms: u64,
    /// One is normal.
    pub commands: Vec<Command>,
}

/// One change of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// For the sessions.
    Sessions(sessions::Command),
    /// A client's request, applied once.
    Request(Request),
    /// For the locks.
    Locks(locks::Command),
}

/// Who asks, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// On whose behalf.
    pub principal: Principal,
    /// The address of the connection; none if there was no connection, or if it is not known.
    pub from: Option<SocketAddr>,
}

/// On whose behalf something is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Principal {
    /// The client has not said who it is.
    #[default]
    Anonymous,
    /// The client has shown that it is this one.
    Named(Box<str>),
}

/// What a client asks within its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Which session asks.
    pub session: SessionId,
    /// Which of its requests this is.
    pub number: RequestNumber,
    /// The client has seen every answer up to this number, except the missing ones.
    pub seen: RequestNumber,
    /// In ascending order, below the request's own number and not above `seen`: unanswered yet, or lost on the way.
    pub missing: Vec<RequestNumber>,
    /// Who asks.
    pub caller: Caller,
    /// What it asks.
    pub operation: Operation,
}

/// What a client asks, by module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Ends the session, and with it all that it has.
    Close,
    /// Of the locks.
    Locks(locks::Operation),
}

/// What has to be told or done because of a command, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The session is open.
    Opened {
        /// Which.
        session: SessionId,
        /// Its time to live: that of its first Open.
        ttl_ms: u64,
    },
    /// A request is answered.
    Answer {
        /// Whose.
        session: SessionId,
        /// Which.
        number: RequestNumber,
        /// How.
        answer: Answer,
    },
    /// The session has ended.
    Ended {
        /// Which.
        session: SessionId,
        /// Why.
        reason: sessions::EndReason,
    },
    /// Of the locks.
    Locks(locks::Effect),
}

/// The answer to a request. It never changes, however often the request is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The session is ended.
    Closed,
    /// The request is refused before any module sees it.
    Refused(sessions::Refusal),
    /// Of the locks.
    Locks(locks::Answer),
}

impl From<locks::Answer> for Answer {
    fn from(answer: locks::Answer) -> Self {
        Answer::Locks(answer)
    }
}

impl From<locks::Effect> for Effect {
    fn from(effect: locks::Effect) -> Self {
        Effect::Locks(effect)
    }
}

impl From<locks::Command> for Command {
    fn from(command: locks::Command) -> Self {
        Command::Locks(command)
    }
}

impl From<sessions::Command> for Command {
    fn from(command: sessions::Command) -> Self {
        Command::Sessions(command)
    }
}

impl Operation {
    /// Why it makes no sense, if it does not.
    pub fn check(&self, number: RequestNumber) -> Result<(), String> {
        match self {
            Operation::Close => Ok(()),
            Operation::Locks(operation) => operation.check(number).map_err(|invalid| invalid.to_string()),
        }
    }

    /// How many of a session's requests may be without a seen answer before this one is refused.
    pub(super) fn requests_max(&self) -> usize {
        let frees = match self {
            Operation::Close => return usize::MAX,
            Operation::Locks(operation) => operation.frees(),
        };
        if frees { 2 * sessions::limits::REQUESTS_MAX } else { sessions::limits::REQUESTS_MAX }
    }

    /// Tells one request from another that uses the same number. It is kept on disk beside the answer, so it must stay the
    /// same for every operation that a client may repeat after an upgrade: it is made of the fields, not of their encoding.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hash = Fingerprint::default();
        match self {
            Operation::Close => hash.number(0),
            Operation::Locks(operation) => {
                hash.number(1);
                operation.fingerprint(&mut hash);
            }
        }
        hash.0
    }
}

/// FNV-1a, 64 bits: small, and defined by four lines for ever. It guards a client against its own mistakes, not against attacks.
pub(super) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    pub fn number(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
