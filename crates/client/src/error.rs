//! What can go wrong, each in one sentence.

use baton_types::frames::Refusal;
use baton_types::limits::{NAME_BYTES_MAX, TTL_MS_MAX, TTL_MS_MIN};
use baton_types::name::Quoted;
use tonic::{Code, Status};

use crate::session::{Loss, ReleaseFailure, Wait, in_words};

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No server was named.
    #[error("no server was named; name at least one as host:port")]
    NoServers,
    /// What was named is not an address.
    #[error("{address:?} is not the address of a server; it should be host:port, such as 127.0.0.1:7420")]
    InvalidAddress {
        /// What was named.
        address: String,
    },
    /// None of them can be reached, or none answers.
    #[error("no server answers: {reasons}")]
    NoServer {
        /// Each server, and what went wrong.
        reasons: String,
    },
}

/// Why a call was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No server can be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The name of a lock is none.
    #[error("{0}")]
    InvalidName(#[from] InvalidName),
    /// The server refused.
    #[error("the server refused: {message}")]
    Refused {
        /// What kind of reason.
        kind: CallRefusal,
        /// The reason, in a sentence.
        message: String,
    },
    /// The server was asked to change something, and nothing came back: it may do so or not.
    #[error("the server does not answer; what it was asked for may still happen")]
    Unanswered,
}

/// Of which kind a refusal of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallRefusal {
    /// The call makes no sense to the server. A repetition would be refused, too.
    Invalid,
    /// The server cannot answer now. Another one may, or the same one later.
    Unavailable,
    /// The server is older than this client, and has no such call.
    Unsupported,
    /// Another reason.
    Other,
}

/// A refusal, as it comes from the wire.
pub(crate) fn call_refused(status: &Status) -> CallError {
    let kind = match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::NotFound => CallRefusal::Invalid,
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted => CallRefusal::Unavailable,
        Code::Unimplemented => CallRefusal::Unsupported,
        _ => CallRefusal::Other,
    };
    CallError::Refused { kind, message: status.message().to_owned() }
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The time to live makes no sense.
    #[error(
        "a session lives from {} to {} seconds after its last keep-alive, not {} s",
        TTL_MS_MIN / 1_000, TTL_MS_MAX / 1_000, ttl.as_secs_f64()
    )]
    InvalidTtl {
        /// What was said.
        ttl: std::time::Duration,
    },
    /// The number and the secret of a session are random.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The server will not have it, or it was over at once.
    #[error("{}", refused(.0))]
    Refused(Loss),
    /// No server answered in time, or none has room for the session.
    #[error("no server opened a session: {reasons}")]
    NoAnswer {
        /// Each server, and what went wrong.
        reasons: String,
    },
}

fn refused(loss: &Loss) -> String {
    match loss {
        Loss::Ended(because) => format!("the server opens no session: {because}"),
        loss => format!("the session was not opened: {loss}"),
    }
}

/// Why a lock was not acquired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// The name is none.
    #[error("{0}")]
    InvalidName(#[from] InvalidName),
    /// The owner is random unless one is named.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// There is no session to acquire the lock in: [`Client::lock`](crate::Client::lock) opens one.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Somebody else has it, and the time to wait is over.
    #[error("the lock {} was not granted within the time-out", Quoted(.name))]
    TimedOut {
        /// Which lock.
        name: Vec<u8>,
    },
    /// Whoever is asked for would wait for itself.
    #[error("the request would wait for itself: {}", in_words(.cycle))]
    Deadlock {
        /// Who waits for whom, the last for the first.
        cycle: Vec<Wait>,
    },
    /// The session or the lock was lost before it could be used.
    #[error("the lock was not granted: {0}")]
    Lost(Loss),
    /// The server refused for another reason.
    #[error("the server refused: {message}")]
    Refused {
        /// What kind of reason.
        kind: Refusal,
        /// The reason.
        message: String,
    },
}

/// Why a name is not that of a lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of a lock has 1 to {NAME_BYTES_MAX} bytes, not {bytes}")]
pub struct InvalidName {
    /// How many it has.
    pub bytes: usize,
}

pub(crate) fn check_name(name: &[u8]) -> Result<(), InvalidName> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        bytes => Err(InvalidName { bytes }),
    }
}

/// Why a lock is not known to be given back.
pub type ReleaseError = ReleaseFailure;

/// Why a session is not known to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// Nobody answered while it could have been alive.
    #[error("the end of the session was not confirmed; its locks stay closed until its lease ends")]
    Unconfirmed,
}

/// The system has no randomness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random number: {reason}")]
pub struct NoRandomness {
    /// What the system says.
    pub reason: String,
}

/// 64 bits that nobody else has.
pub(crate) fn random() -> Result<u64, NoRandomness> {
    random_bytes().map(u64::from_ne_bytes)
}

pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| NoRandomness { reason: error.to_string() })?;
    Ok(bytes)
}
