//! Converts between the frames of clients and the commands of the log. Pure, and the only place that knows both.

use baton_types::frames::{self, Answer, CancelOutcome, Mode, Operation, Refusal, Refused, Secret};
use baton_types::sentences;
use baton_types::views::Holder;
use sha2::{Digest, Sha256};

use crate::state::locks::{self, LockName};
use crate::state::sessions::{self, EndReason};
use crate::state::{self, Caller, OwnerId, Request, SessionId};

/// Why a client's frame cannot become a command.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    #[error(transparent)]
    Session(#[from] sessions::limits::Invalid),
    #[error(transparent)]
    Lock(#[from] locks::limits::Invalid),
}

/// The log keeps only the hash of a secret.
pub fn secret_hash(secret: Option<Secret>) -> Option<[u8; 32]> {
    secret.map(|Secret(bytes)| Sha256::digest(bytes).into())
}

pub fn open(open: frames::Open, caller: Caller) -> Result<sessions::Open, Invalid> {
    let frames::Open { session, ttl_ms, label, host, pid, resume, secret, attempt: _, cluster: _ } = open;
    let session = SessionId(session);
    sessions::limits::check_open(ttl_ms, &label, &host)?;
    if !resume {
        sessions::limits::check_new_id(session)?;
    }
    Ok(sessions::Open { session, ttl_ms, label, host, pid, resume, secret_hash: secret_hash(secret), caller })
}

pub fn request(session: SessionId, request: frames::Request, caller: Caller) -> Result<Request, Invalid> {
    let frames::Request { number, seen, missing, operation } = request;
    sessions::limits::check_number(number)?;
    sessions::limits::check_seen_is_earlier(number, seen)?;
    sessions::limits::check_seen(number, seen, &missing)?;
    let operation = match operation {
        Operation::Close => state::Operation::Close,
        Operation::Acquire(acquire) => lock_operation(number, locks::Operation::Acquire(self::acquire(acquire)))?,
        Operation::Release { acquire } => lock_operation(number, locks::Operation::Release { acquire })?,
        Operation::Cancel { acquire } => lock_operation(number, locks::Operation::Cancel { acquire })?,
    };
    Ok(Request { session, number, seen, missing, caller, operation })
}

fn lock_operation(number: u64, operation: locks::Operation) -> Result<state::Operation, Invalid> {
    operation.check(number)?;
    Ok(state::Operation::Locks(operation))
}

fn acquire(acquire: frames::Acquire) -> locks::Acquire {
    let frames::Acquire { name, mode, owner, parent, timeout_ms, lock_delay_ms } = acquire;
    let mode = match mode {
        Mode::Exclusive => locks::Mode::Exclusive,
        Mode::Shared => locks::Mode::Shared,
        Mode::Permit { of } => locks::Mode::Permit { of },
    };
    let one = locks::Acquire::one(&name, mode, OwnerId(owner));
    locks::Acquire { parent: parent.map(OwnerId), timeout_ms, lock_delay_ms, ..one }
}

pub fn name(bytes: &[u8]) -> Result<LockName, Invalid> {
    locks::limits::check_name(bytes)?;
    Ok(LockName::from(bytes))
}

pub fn mode(mode: locks::Mode) -> Mode {
    match mode {
        locks::Mode::Exclusive => Mode::Exclusive,
        locks::Mode::Shared => Mode::Shared,
        locks::Mode::Permit { of } => Mode::Permit { of },
    }
}

pub fn answer(answer: &state::Answer) -> Answer {
    match answer {
        state::Answer::Closed => Answer::Closed,
        state::Answer::Refused(refusal) => {
            let kind = match refusal {
                sessions::Refusal::Invalid(_) => Refusal::Invalid,
                sessions::Refusal::TooManyRequests { .. } => Refusal::TooManyRequests,
                sessions::Refusal::NumberReused => Refusal::NumberReused,
            };
            refuse(kind, refusal.to_string())
        }
        state::Answer::Locks(locks::Answer::Granted { fence }) => Answer::Granted { fence: *fence },
        state::Answer::Locks(locks::Answer::Released) => Answer::Released,
        state::Answer::Locks(locks::Answer::Cancelled(outcome)) => Answer::Cancelled(match outcome {
            locks::CancelOutcome::Removed => CancelOutcome::Removed,
            locks::CancelOutcome::Released => CancelOutcome::Released,
            locks::CancelOutcome::Nothing => CancelOutcome::Nothing,
        }),
        state::Answer::Locks(locks::Answer::Refused(refusal)) => Answer::Refused(lock_refusal(refusal)),
    }
}

fn lock_refusal(refusal: &locks::Refusal) -> Refused {
    use locks::Refusal as Lock;
    let kind = match refusal {
        Lock::NotAvailable => Refusal::NotAvailable,
        Lock::TimedOut => Refusal::TimedOut,
        Lock::Cancelled => Refusal::Cancelled,
        Lock::Deadlock(_) => Refusal::Deadlock,
        Lock::PermitsDiffer { .. } => Refusal::PermitsDiffer,
        Lock::NotHolder { .. } => Refusal::NotHolder,
        Lock::NoSharing | Lock::NoPermits | Lock::NoSeveral => Refusal::Unsupported,
        Lock::Unavailable(_) => Refusal::Unavailable,
    };
    let wait = |step: &locks::WaitFor| {
        let (owner, label, lock) = (step.owner.0, step.label.clone(), step.lock.as_bytes().to_vec());
        frames::Wait { owner, label, lock }
    };
    let cycle = if let Lock::Deadlock(cycle) = refusal { cycle.iter().map(wait).collect() } else { Vec::new() };
    Refused { refusal: kind, message: refusal.to_string(), cycle }
}

/// A refusal by the front end, without the state.
pub fn refuse(refusal: Refusal, message: String) -> Answer {
    Answer::Refused(Refused { refusal, message, cycle: Vec::new() })
}

const UNKNOWN_TO_MEMBER: &str = "this member of a peer group does not know the session: another member or an earlier start \
    of this one opened it, and each keeps its own sessions in memory";

/// The reason and the message that the client receives.
pub fn ended(reason: EndReason, is_member: bool) -> (frames::EndReason, &'static str) {
    let reason = match reason {
        EndReason::Expired => frames::EndReason::Expired,
        EndReason::Closed => frames::EndReason::Closed,
        EndReason::Unknown if is_member => return (frames::EndReason::Unknown, UNKNOWN_TO_MEMBER),
        EndReason::Unknown => frames::EndReason::Unknown,
    };
    (reason, sentences::ended(reason))
}

pub fn holder(holder: &locks::ForcedHolder, deadline_in_ms: u64) -> Holder {
    Holder {
        session: holder.session.0,
        owner: holder.owner.0,
        label: holder.label.to_string(),
        host: holder.host.to_string(),
        pid: holder.pid,
        fence: holder.fence,
        since_ms: holder.since_ms,
        deadline_in_ms,
    }
}
