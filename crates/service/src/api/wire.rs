//! Between the words on the wire and the words of the log: pure, and the only place that knows both.

use baton_proto::v1;

use crate::state::locks::{self, Acquire, CancelOutcome, LockName, Mode, WaitFor};
use crate::state::sessions::{self, EndReason, Open};
use crate::state::{Answer, Caller, Command, Operation, OwnerId, Request, SessionId};

/// The length of a SHA-256.
const SECRET_HASH_BYTES: usize = 32;

/// Why the words of a client cannot be words of the log.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// They say of sessions or numbers what the state does not take.
    #[error(transparent)]
    Session(#[from] sessions::limits::Invalid),
    /// They say of locks what the state does not take.
    #[error(transparent)]
    Lock(#[from] locks::limits::Invalid),
    /// A hash of a secret that is no SHA-256.
    #[error("the hash of a session's secret has {bytes} bytes; it has {SECRET_HASH_BYTES}, or none without a secret")]
    SecretHash {
        /// The length that was given, in bytes.
        bytes: usize,
    },
    /// An acquire in no mode.
    #[error("an acquire is exclusive, shared or for a permit; this one says none of them")]
    NoMode,
    /// A request for nothing.
    #[error("a request is an acquire, a release, a cancel or a close; this one is none of them")]
    NoOperation,
}

/// What begins a session, or takes it up again.
pub fn open(open: v1::Open, caller: Caller) -> Result<Open, Malformed> {
    let v1::Open { session, ttl_ms, label, host, pid, resume, secret_hash } = open;
    let session = SessionId(session);
    sessions::limits::check_open(ttl_ms, &label, &host)?;
    if !resume {
        sessions::limits::check_new_id(session)?;
    }
    let secret_hash = match secret_hash.len() {
        0 => None,
        bytes => Some(secret_hash.try_into().map_err(|_| Malformed::SecretHash { bytes })?),
    };
    Ok(Open { session, ttl_ms, label, host, pid, resume, secret_hash, caller })
}

/// The command that a numbered request stands for.
pub fn request(session: SessionId, request: v1::Request, caller: Caller) -> Result<Request, Malformed> {
    let v1::Request { number, seen, operation, missing } = request;
    sessions::limits::check_number(number)?;
    sessions::limits::check_seen(number, seen, &missing)?;
    let operation = match operation.ok_or(Malformed::NoOperation)? {
        v1::request::Operation::Close(v1::Close {}) => Operation::Close,
        v1::request::Operation::Acquire(acquire) => lock_operation(number, self::acquire(acquire)?)?,
        v1::request::Operation::Release(v1::Release { acquire }) => {
            lock_operation(number, locks::Operation::Release { acquire })?
        }
        v1::request::Operation::Cancel(v1::Cancel { acquire }) => {
            lock_operation(number, locks::Operation::Cancel { acquire })?
        }
    };
    Ok(Request { session, number, seen, missing, caller, operation })
}

fn lock_operation(number: u64, operation: locks::Operation) -> Result<Operation, Malformed> {
    operation.check(number)?;
    Ok(Operation::Locks(operation))
}

fn acquire(acquire: v1::Acquire) -> Result<locks::Operation, Malformed> {
    let mode = match acquire.mode() {
        v1::Mode::Exclusive => Mode::Exclusive,
        v1::Mode::Shared => Mode::Shared,
        v1::Mode::Permit => Mode::Permit { of: acquire.permits },
        v1::Mode::Unspecified => return Err(Malformed::NoMode),
    };
    let v1::Acquire { name, owner, timeout_ms, lock_delay_ms, parent, .. } = acquire;
    let one = Acquire::one(&name, mode, OwnerId(owner));
    Ok(locks::Operation::Acquire(Acquire { parent: parent.map(OwnerId), timeout_ms, lock_delay_ms, ..one }))
}

/// The command that forces a release.
pub fn force(request: v1::ForceReleaseRequest, caller: Caller) -> Result<Command, Malformed> {
    let v1::ForceReleaseRequest { name, now } = request;
    Ok(locks::Command::Force { lock: self::name(&name)?, now, caller }.into())
}

/// A lock's name.
pub fn name(bytes: &[u8]) -> Result<LockName, Malformed> {
    locks::limits::check_name(bytes)?;
    Ok(LockName::from(bytes))
}

/// An answer, as a frame.
pub fn answer(number: u64, answer: &Answer) -> v1::ServerFrame {
    use v1::answer::Answer as Wire;
    let answer = match answer {
        Answer::Closed => Wire::Closed(v1::Closed {}),
        Answer::Refused(refusal) => {
            let kind = match refusal {
                sessions::Refusal::Invalid(_) => v1::Refusal::Invalid,
                sessions::Refusal::TooManyRequests { .. } => v1::Refusal::TooManyRequests,
                sessions::Refusal::NumberReused => v1::Refusal::NumberReused,
            };
            Wire::Refused(v1::Refused { refusal: kind.into(), message: refusal.to_string(), cycle: Vec::new() })
        }
        Answer::Locks(locks::Answer::Granted { fence }) => Wire::Granted(v1::Granted { fence: *fence }),
        Answer::Locks(locks::Answer::Released) => Wire::Released(v1::Released {}),
        Answer::Locks(locks::Answer::Cancelled(outcome)) => {
            Wire::Cancelled(v1::Cancelled { outcome: cancel_outcome(*outcome).into() })
        }
        Answer::Locks(locks::Answer::Refused(refusal)) => Wire::Refused(refused(refusal)),
    };
    frame(v1::server_frame::Frame::Answer(v1::Answer { number, answer: Some(answer) }))
}

/// A refusal that the state has no part in.
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

fn refused(refusal: &locks::Refusal) -> v1::Refused {
    use locks::Refusal;
    let message = refusal.to_string();
    let wire = match *refusal {
        Refusal::NotAvailable => v1::Refusal::NotAvailable,
        Refusal::TimedOut => v1::Refusal::TimedOut,
        Refusal::Cancelled => v1::Refusal::Cancelled,
        Refusal::Deadlock(_) => v1::Refusal::Deadlock,
        Refusal::PermitsDiffer { .. } => v1::Refusal::PermitsDiffer,
        Refusal::NotHolder { .. } => v1::Refusal::NotHolder,
    };
    let cycle = if let Refusal::Deadlock(cycle) = refusal { cycle.iter().map(wait).collect() } else { Vec::new() };
    v1::Refused { refusal: wire.into(), message, cycle }
}

fn wait(WaitFor { owner, label, lock }: &WaitFor) -> v1::Wait {
    v1::Wait { owner: owner.0, label: label.clone(), lock: lock.as_bytes().to_vec() }
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
