//! Between the words on the wire and those of the log, as far as simulated clients use them.

use baton_proto::v1;
use baton_service::table::{Answer, CancelOutcome, Command, Effect, Mode, Operation, OwnerId, Refusal, SessionId};

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
            Asked::Command(Command::Open { session, ttl_ms, label, host, pid, resume })
        }
        v1::client_frame::Frame::KeepAlive(keep_alive) => Asked::KeepAlive(keep_alive.number),
        v1::client_frame::Frame::Request(v1::Request { number, seen, missing, operation }) => {
            let operation = match operation.expect("clients ask for something") {
                v1::request::Operation::Acquire(acquire) => self::acquire(acquire),
                v1::request::Operation::Release(v1::Release { acquire }) => Operation::Release { acquire },
                v1::request::Operation::Cancel(v1::Cancel { acquire }) => Operation::Cancel { acquire },
                v1::request::Operation::Close(_) => Operation::Close,
            };
            Asked::Command(Command::Request { session, number, seen, missing, operation })
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
    let lock = String::from_utf8(name).expect("clients name locks in UTF-8");
    Operation::Acquire { lock, mode, owner: OwnerId(owner), timeout_ms, lock_delay_ms }
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
        Effect::Revoked { session, acquire } => (session, Frame::Revoked(v1::Revoked { acquire: *acquire })),
        Effect::Ended { session, .. } => (session, Frame::Ended(v1::Ended::default())),
        Effect::Waits { .. } | Effect::LockDelay { .. } => return None,
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
        Answer::Granted { fence } => Wire::Granted(v1::Granted { fence: *fence }),
        Answer::Released => Wire::Released(v1::Released {}),
        Answer::Cancelled(outcome) => {
            let outcome = match outcome {
                CancelOutcome::Removed => v1::cancelled::Outcome::Removed,
                CancelOutcome::Released => v1::cancelled::Outcome::Released,
                CancelOutcome::Nothing => v1::cancelled::Outcome::Nothing,
            };
            Wire::Cancelled(v1::Cancelled { outcome: outcome.into() })
        }
        Answer::Closed => Wire::Closed(v1::Closed {}),
        Answer::Refused(refusal) => {
            let kind = match refusal {
                Refusal::NotAvailable => v1::Refusal::NotAvailable,
                Refusal::TimedOut => v1::Refusal::TimedOut,
                Refusal::Cancelled => v1::Refusal::Cancelled,
                Refusal::Deadlock(_) => v1::Refusal::Deadlock,
                Refusal::PermitsDiffer { .. } => v1::Refusal::PermitsDiffer,
                Refusal::NotHolder { .. } => v1::Refusal::NotHolder,
                Refusal::Invalid(_) => v1::Refusal::Invalid,
                Refusal::TooManyRequests { .. } => v1::Refusal::TooManyRequests,
            };
            Wire::Refused(v1::Refused { refusal: kind.into(), message: refusal.to_string(), cycle: Vec::new() })
        }
    }
}
