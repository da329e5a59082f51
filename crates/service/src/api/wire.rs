//! Between the words on the wire and the words of the log: pure, and the only place that knows both.

use std::ops::RangeInclusive;

use baton_proto::v1;

use crate::table::{
    Answer, CancelOutcome, Command, EndReason, Mode, Operation, OwnerId, Refusal, SessionId, WaitFor, limits,
};

/// The ids of new sessions. (Earlier versions began sessions with others, which can be resumed.)
const SESSION_IDS: RangeInclusive<u64> = 1..=i64::MAX as u64;
/// The length of a SHA-256.
const SECRET_HASH_BYTES: usize = 32;

/// Why the words of a client cannot be words of the log.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// They say what the table does not take.
    #[error(transparent)]
    Invalid(#[from] limits::Invalid),
    /// A name that is no text.
    #[error("the name of a lock is not UTF-8")]
    NameNotUtf8,
    /// A new session whose id is of the other half.
    #[error("a new session has the id {session}; it must be from {} to {}", SESSION_IDS.start(), SESSION_IDS.end())]
    SessionId {
        /// What was said.
        session: u64,
    },
    /// A hash of a secret that is no SHA-256.
    #[error("the hash of a session's secret has {bytes} bytes; it has {SECRET_HASH_BYTES}, or none without a secret")]
    SecretHash {
        /// How many.
        bytes: usize,
    },
    /// An acquire in no mode.
    #[error("an acquire is exclusive, shared or for a permit; this one says none of them")]
    NoMode,
    /// A request for nothing.
    #[error("a request is an acquire, a release, a cancel or a close; this one is none of them")]
    NoOperation,
}

/// The command that begins a session, or takes it up again.
pub fn open(open: v1::Open) -> Result<Command, Malformed> {
    let v1::Open { session, ttl_ms, label, host, pid, resume, secret_hash } = open;
    limits::check_open(ttl_ms, &label, &host)?;
    if !resume && !SESSION_IDS.contains(&session) {
        return Err(Malformed::SessionId { session });
    }
    if !matches!(secret_hash.len(), 0 | SECRET_HASH_BYTES) {
        return Err(Malformed::SecretHash { bytes: secret_hash.len() });
    }
    Ok(Command::Open { session: SessionId(session), ttl_ms, label, host, pid, resume })
}

/// The command that a numbered request stands for.
pub fn request(session: SessionId, request: v1::Request) -> Result<Command, Malformed> {
    let v1::Request { number, seen, operation, missing } = request;
    let operation = match operation.ok_or(Malformed::NoOperation)? {
        v1::request::Operation::Acquire(acquire) => self::acquire(acquire)?,
        v1::request::Operation::Release(release) => Operation::Release { acquire: release.acquire },
        v1::request::Operation::Cancel(cancel) => Operation::Cancel { acquire: cancel.acquire },
        v1::request::Operation::Close(v1::Close {}) => Operation::Close,
    };
    limits::check_request(number, &operation)?;
    limits::check_seen(number, seen, &missing)?;
    Ok(Command::Request { session, number, seen, missing, operation })
}

fn acquire(acquire: v1::Acquire) -> Result<Operation, Malformed> {
    let mode = match acquire.mode() {
        v1::Mode::Exclusive => Mode::Exclusive,
        v1::Mode::Shared => Mode::Shared,
        v1::Mode::Permit => Mode::Permit { of: acquire.permits },
        v1::Mode::Unspecified => return Err(Malformed::NoMode),
    };
    let v1::Acquire { name, owner, timeout_ms, lock_delay_ms, .. } = acquire;
    Ok(Operation::Acquire { lock: self::name(name)?, mode, owner: OwnerId(owner), timeout_ms, lock_delay_ms })
}

/// A lock's name, as the table has it.
pub fn name(bytes: Vec<u8>) -> Result<String, Malformed> {
    let name = String::from_utf8(bytes).map_err(|_| Malformed::NameNotUtf8)?;
    limits::check_name(&name)?;
    Ok(name)
}

/// An answer, as a frame.
pub fn answer(number: u64, answer: &Answer) -> v1::ServerFrame {
    use v1::answer::Answer as Wire;
    let answer = match *answer {
        Answer::Granted { fence } => Wire::Granted(v1::Granted { fence }),
        Answer::Released => Wire::Released(v1::Released {}),
        Answer::Cancelled(outcome) => Wire::Cancelled(v1::Cancelled { outcome: cancel_outcome(outcome).into() }),
        Answer::Closed => Wire::Closed(v1::Closed {}),
        Answer::Refused(ref refusal) => Wire::Refused(refused(refusal)),
    };
    frame(v1::server_frame::Frame::Answer(v1::Answer { number, answer: Some(answer) }))
}

/// A refusal that the table has no part in.
pub fn refuse(number: u64, refusal: v1::Refusal, message: String) -> v1::ServerFrame {
    let refused = v1::Refused { refusal: refusal.into(), message, cycle: Vec::new() };
    let answer = Some(v1::answer::Answer::Refused(refused));
    frame(v1::server_frame::Frame::Answer(v1::Answer { number, answer }))
}

fn cancel_outcome(outcome: CancelOutcome) -> v1::cancelled::Outcome {
    match outcome {
        CancelOutcome::Removed => v1::cancelled::Outcome::Removed,
        CancelOutcome::Released => v1::cancelled::Outcome::Released,
        CancelOutcome::Nothing => v1::cancelled::Outcome::Nothing,
    }
}

fn refused(refusal: &Refusal) -> v1::Refused {
    let message = refusal.to_string();
    let wire = match *refusal {
        Refusal::NotAvailable => v1::Refusal::NotAvailable,
        Refusal::TimedOut => v1::Refusal::TimedOut,
        Refusal::Cancelled => v1::Refusal::Cancelled,
        Refusal::Deadlock(_) => v1::Refusal::Deadlock,
        Refusal::PermitsDiffer { .. } => v1::Refusal::PermitsDiffer,
        Refusal::NotHolder { .. } => v1::Refusal::NotHolder,
        Refusal::Invalid(_) => v1::Refusal::Invalid,
        Refusal::TooManyRequests { .. } => v1::Refusal::TooManyRequests,
    };
    let cycle = if let Refusal::Deadlock(cycle) = refusal { cycle.iter().map(wait).collect() } else { Vec::new() };
    v1::Refused { refusal: wire.into(), message, cycle }
}

fn wait(WaitFor { owner, label, lock }: &WaitFor) -> v1::Wait {
    v1::Wait { owner: owner.0, label: label.clone(), lock: lock.clone().into() }
}

/// The session is open.
pub fn opened(session: SessionId, ttl_ms: u64) -> v1::ServerFrame {
    frame(v1::server_frame::Frame::Opened(v1::Opened { session: session.0, ttl_ms }))
}

/// The keep-alive of this number is acknowledged.
pub fn alive(number: u64) -> v1::ServerFrame {
    frame(v1::server_frame::Frame::Alive(v1::Alive { number }))
}

/// What this acquire was granted is to be given back.
pub fn revoked(acquire: u64) -> v1::ServerFrame {
    frame(v1::server_frame::Frame::Revoked(v1::Revoked { acquire }))
}

/// The session is no more.
pub fn ended(reason: EndReason) -> v1::ServerFrame {
    let (reason, message) = match reason {
        EndReason::Expired => {
            (v1::ended::Reason::Expired, "nothing was heard of the session for longer than its lease")
        }
        EndReason::Closed => (v1::ended::Reason::Closed, "the session was closed by its client"),
        EndReason::Unknown => (v1::ended::Reason::Unknown, "there is no such session any more"),
    };
    frame(v1::server_frame::Frame::Ended(v1::Ended { reason: reason.into(), message: message.to_owned() }))
}

/// The session cannot be.
pub fn malformed(malformed: &Malformed) -> v1::ServerFrame {
    let (reason, message) = (v1::ended::Reason::Invalid.into(), malformed.to_string());
    frame(v1::server_frame::Frame::Ended(v1::Ended { reason, message }))
}

fn frame(frame: v1::server_frame::Frame) -> v1::ServerFrame {
    v1::ServerFrame { frame: Some(frame) }
}

/// The server has no room for a session more.
pub fn low_space(message: String) -> v1::ServerFrame {
    frame(v1::server_frame::Frame::Ended(v1::Ended { reason: v1::ended::Reason::LowSpace.into(), message }))
}
