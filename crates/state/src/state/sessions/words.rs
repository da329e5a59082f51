//! The words of the sessions: commands, end reasons and refusals.

use serde::{Deserialize, Serialize};

use crate::state::{Caller, SessionId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A process begins to lead in this term. From here on, an Expire of an earlier term does nothing.
    Lead { term: u64 },
    /// Begins or resumes a session.
    Open(Open),
    /// The leader of this term has received nothing from the session for longer than its lease.
    Expire {
        session: SessionId,
        /// The term in which the lease was counted.
        term: u64,
    },
}

/// Begins or resumes a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    pub session: SessionId,
    /// How long the session lives after its last keep-alive.
    pub ttl_ms: u64,
    pub label: String,
    pub host: String,
    pub pid: u32,
    /// If true, only an existing session is resumed, and none begins.
    pub resume: bool,
    /// SHA-256 of a secret that only the client knows.
    pub secret_hash: Option<[u8; 32]>,
    pub caller: Caller,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// The leader received nothing from the session for longer than its lease.
    Expired,
    /// Its client closed it.
    Closed,
    /// The session does not exist, or no longer.
    Unknown,
}

/// Why a request is refused before any module sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Invalid(String),
    #[error("the session has {limit} requests whose answers its client has not seen; it may have no more")]
    TooManyRequests { limit: u32 },
    #[error("the session has used the number of this request for another one; each request needs a number of its own")]
    NumberReused,
}
