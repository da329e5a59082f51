//! Between the words on the wire and those of the log, as far as simulated clients use them.

use baton_proto::v1;
use baton_service::state::locks::{Acquire, CancelOutcome, Mode, Operation, Refusal};
use baton_service::state::sessions::{self, Open};
use baton_service::state::{self, Answer, Caller, Command, Effect, OwnerId, Request, SessionId, locks};

/// What a frame asks of the log.
pub enum Asked {
    /// To be proposed.
    Command(Command),
    /// To be kept alive.
    KeepAlive(u64),
}

/// What a client of this session said.
pub fn asked(session: SessionId, frame: v1::ClientFrame) -> Asked {
    match frame.frame.expect("clients say something") {
        v1::client_frame::Frame::Open(open) => {
            let v1::Open { ttl_ms, label, host, pid, resume, .. } = open;
            let (secret_hash, caller) = (None, Caller::default());
            let open = Open { session, ttl_ms, label, host, pid, resume, secret_hash, caller };
            Asked::Command(sessions::Command::Open(open).into())
        }
        v1::client_frame::Frame::KeepAlive(keep_alive) => Asked::KeepAlive(keep_alive.number),
        v1::client_frame::Frame::Request(v1::Request { number, seen, missing, operation }) => {
            let operation = match operation.expect("clients ask for something") {
                v1::request::Operation::Acquire(acquire) => Some(self::acquire(acquire)),
                v1::request::Operation::Release(v1::Release { acquire }) => Some(Operation::Release { acquire }),
                v1::request::Operation::Cancel(v1::Cancel { acquire }) => Some(Operation::Cancel { acquire }),
                v1::request::Operation::Close(_) => None,
            };
            let operation = operation.map_or(state::Operation::Close, state::Operation::Locks);
            let caller = Caller::default();
            Asked::Command(Command::Request(Request { session, number, seen, missing, caller, operation }))
        }
    }
}

fn acquire(acquire: v1::Acquire) -> Operation {
    let mode = match acquire.mode() {
        v1::Mode::Shared => Mode::Shared,
        v1::Mode::Permit => Mode::Permit { of: acquire.permits },
        v1::Mode::Exclusive | v1::Mode::Unspecified => Mode::Exclusive,
    };
    let v1::Acquire { name, owner, timeout_ms, lock_delay_ms, .. } = acquire;
    Operation::Acquire(Acquire { timeout_ms, lock_delay_ms, ..Acquire::one(&name, mode, OwnerId(owner)) })
}

/// What a session is told of an effect, if anything.
pub fn told(effect: &Effect) -> Option<(SessionId, v1::ServerFrame)> {
    use v1::server_frame::Frame;
    let (session, frame) = match effect {
        Effect::Opened { session, ttl_ms } => {
            (session, Frame::Opened(v1::Opened { session: session.0, ttl_ms: *ttl_ms }))
        }
        Effect::Answer { session, number, answer } => {
            (session, Frame::Answer(v1::Answer { number: *number, answer: Some(self::answer(answer)) }))
        }
        Effect::Locks(locks::Effect::Revoked { session, acquire }) => {
            (session, Frame::Revoked(v1::Revoked { acquire: *acquire }))
        }
        Effect::Ended { session, .. } => (session, Frame::Ended(v1::Ended::default())),
        Effect::Locks(_) => return None,
    };
    Some((*session, v1::ServerFrame { frame: Some(frame) }))
}

/// The acknowledgement of a keep-alive.
pub fn alive(number: u64) -> v1::ServerFrame {
    v1::ServerFrame { frame: Some(v1::server_frame::Frame::Alive(v1::Alive { number })) }
}

fn answer(answer: &Answer) -> v1::answer::Answer {
    use v1::answer::Answer as Wire;
    match answer {
        Answer::Closed => Wire::Closed(v1::Closed {}),
        Answer::Refused(refusal) => {
            let kind = match refusal {
                sessions::Refusal::Invalid(_) => v1::Refusal::Invalid,
                sessions::Refusal::TooManyRequests { .. } => v1::Refusal::TooManyRequests,
                sessions::Refusal::NumberReused => v1::Refusal::NumberReused,
            };
            refused(kind, refusal)
        }
        Answer::Locks(answer) => locks_answer(answer),
    }
}

fn locks_answer(answer: &locks::Answer) -> v1::answer::Answer {
    use v1::answer::Answer as Wire;
    match answer {
        locks::Answer::Granted { fence } => Wire::Granted(v1::Granted { fence: *fence }),
        locks::Answer::Released => Wire::Released(v1::Released {}),
        locks::Answer::Cancelled(outcome) => {
            let outcome = match outcome {
                CancelOutcome::Removed => v1::cancelled::Outcome::Removed,
                CancelOutcome::Released => v1::cancelled::Outcome::Released,
                CancelOutcome::Nothing => v1::cancelled::Outcome::Nothing,
            };
            Wire::Cancelled(v1::Cancelled { outcome: outcome.into() })
        }
        locks::Answer::Refused(refusal) => {
            let kind = match refusal {
                Refusal::NotAvailable => v1::Refusal::NotAvailable,
                Refusal::TimedOut => v1::Refusal::TimedOut,
                Refusal::Cancelled => v1::Refusal::Cancelled,
                Refusal::Deadlock(_) => v1::Refusal::Deadlock,
                Refusal::PermitsDiffer { .. } => v1::Refusal::PermitsDiffer,
                Refusal::NotHolder { .. } => v1::Refusal::NotHolder,
            };
            refused(kind, refusal)
        }
    }
}

fn refused(kind: v1::Refusal, refusal: &impl ToString) -> v1::answer::Answer {
    let (refusal, message) = (kind.into(), refusal.to_string());
    v1::answer::Answer::Refused(v1::Refused { refusal, message, cycle: Vec::new() })
}
