//! The errors of the client. The text of each error is one sentence.

use baton_types::frames::Refusal;
use baton_types::limits::{NAME_BYTES_MAX, TTL_MS_MAX, TTL_MS_MIN};
use baton_types::name::Quoted;
use baton_types::sentences;
use tonic::{Code, Status};

use crate::session::{Loss, ReleaseFailure, Wait, in_words};

/// Why the client could not connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("no server was named; name at least one as host:port")]
    NoServers,
    #[error(
        "{address:?} is not the address of a server; it must be host:port, such as 127.0.0.1:7420{}",
        address_hint(address)
    )]
    InvalidAddress { address: String },
    #[error("no server answered: {reasons}")]
    NoServer {
        /// One reason for each server, separated by semicolons.
        reasons: String,
    },
}

/// How an error about an address ends: a hint if this text is an IPv6 address without brackets, else nothing.
pub fn address_hint(text: &str) -> &'static str {
    let lacks_brackets = !text.starts_with('[') && !text.contains('/') && text.matches(':').count() > 1;
    if lacks_brackets { "; an IPv6 address stands in brackets, such as [::1]:7420" } else { "" }
}

/// Why a call of [`Client`](crate::Client) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    InvalidName(#[from] InvalidName),
    #[error("the server refused: {message}")]
    Refused { kind: CallRefusal, message: String },
    /// The server received a request for a change, and no answer came back. The server may or may not make the change.
    #[error("the server did not answer; it may still do what it was asked for")]
    Unanswered,
    /// The server received a request for a change, and does not know whether the change was made.
    #[error("{message}")]
    Unsettled {
        /// One sentence of the server.
        message: String,
    },
}

/// The kind of reason for which a server refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallRefusal {
    /// The server does not accept this call. Repeating the call does not help.
    Invalid,
    /// The server cannot answer now. Another server may, or the same one later.
    Unavailable,
    /// The server is older than this client and does not know the call.
    Unsupported,
    /// The server has not applied yet what the call names. Another server may have, or the same one later.
    NotYet,
    Other,
}

pub(crate) fn call_refused(status: &Status) -> CallError {
    let kind = match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound => CallRefusal::Invalid,
        Code::OutOfRange => CallRefusal::NotYet,
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted => CallRefusal::Unavailable,
        Code::Unimplemented => CallRefusal::Unsupported,
        _ => CallRefusal::Other,
    };
    CallError::Refused { kind, message: status.message().to_owned() }
}

/// Why a session could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the time to live of a session is {} s; it must be from {} to {} s",
        ttl.as_secs_f64(), TTL_MS_MIN / 1_000, TTL_MS_MAX / 1_000
    )]
    InvalidTtl { ttl: std::time::Duration },
    /// The client needs random numbers for the session's number and secret.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The server refused the session, or the session was lost as soon as it was open.
    #[error("{}", refused(.0))]
    Refused(Loss),
    /// No server answered in time, or none has room for the session.
    #[error("no server opened a session: {reasons}")]
    NoAnswer {
        /// One reason for each server, separated by semicolons.
        reasons: String,
    },
}

fn refused(loss: &Loss) -> String {
    match loss {
        Loss::Ended(because) => format!("the server refused the session: {because}"),
        loss => format!("the session was not opened: {loss}"),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    #[error("{0}")]
    InvalidName(#[from] InvalidName),
    /// The client needs a random number for the owner, if the caller names none.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// [`Client::lock`](crate::Client::lock) could not open a session for the lock.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The lock was not free before the time-out.
    #[error("the lock {} was not granted within the time-out", Quoted(.name))]
    TimedOut { name: Vec<u8> },
    /// The owner of the request would wait for itself.
    #[error("{}: {}", sentences::WAITS_FOR_ITSELF, in_words(.cycle))]
    Deadlock {
        /// The owners that wait for each other. The last one waits for the first. Long labels and names of a long cycle
        /// end with an ellipsis.
        cycle: Vec<Wait>,
    },
    /// The session or the lock was lost before the caller could use the lock.
    #[error("the lock was not granted: {0}")]
    Lost(Loss),
    #[error("the server refused: {message}")]
    Refused { kind: Refusal, message: String },
}

/// A name of a lock with a wrong length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentences::wrong_name(*bytes))]
pub struct InvalidName {
    /// The length of the name.
    pub bytes: usize,
}

pub(crate) fn check_name(name: &[u8]) -> Result<(), InvalidName> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        bytes => Err(InvalidName { bytes }),
    }
}

/// Why a release failed or was not confirmed.
pub type ReleaseError = ReleaseFailure;

/// Why the end of a session was not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// No server confirmed the end before the lease could have ended.
    #[error("no server confirmed the end of the session; its locks stay closed until its lease ends")]
    Unconfirmed,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random number: {reason}")]
pub struct NoRandomness {
    /// The error of the operating system.
    pub reason: String,
}

/// 64 random bits: no other client has the same number.
pub(crate) fn random() -> Result<u64, NoRandomness> {
    random_bytes().map(u64::from_ne_bytes)
}

pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| NoRandomness { reason: error.to_string() })?;
    Ok(bytes)
}
