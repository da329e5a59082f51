//! The words of the sessions.

use serde::{Deserialize, Serialize};

use crate::state::{Caller, SessionId};

/// A change of the sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A process begins to lead in this term: from here on, an Expire of an earlier term does nothing.
    Lead {
        /// The term.
        term: u64,
    },
    /// Begins a session, or takes one up again.
    Open(Open),
    /// The leader of this term has not heard from the session for longer than its lease.
    Expire {
        /// Which session.
        session: SessionId,
        /// The term in which its lease was counted.
        term: u64,
    },
}

/// Begins a session, or takes one up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The session of the client.
    pub session: SessionId,
    /// How long it lives after its last keep-alive.
    pub ttl_ms: u64,
    /// For people: what it is.
    pub label: String,
    /// For people: where it runs.
    pub host: String,
    /// For people: as which process.
    pub pid: u32,
    /// Only take up a session that is there.
    pub resume: bool,
    /// SHA-256 of a secret that only the client knows. None in data format 1.
    pub secret_hash: Option<[u8; 32]>,
    /// The principal that asks, and its address.
    pub caller: Caller,
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// The leader has not heard from it for longer than its lease.
    Expired,
    /// Its client closed it.
    Closed,
    /// There is no such session (any more).
    Unknown,
}

/// Why a request is refused before any module sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The session has too many requests without a seen answer.
    #[error("the session has {limit} requests whose answers it has not seen; more are not kept")]
    TooManyRequests {
        /// How many it may have.
        limit: u32,
    },
    /// The session has used the number for another request.
    #[error("the session has used the number of this request for another one; each request needs a number of its own")]
    NumberReused,
}
