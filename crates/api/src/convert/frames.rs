//! Converts the frames on the stream of a session.

use baton_types::cluster_id::ClusterId;
use baton_types::frames::{
    Answer, EndReason, Hopeless, Leader, Malformed, Open, Operation, Part, Request, Secret, ToClient, ToServer,
};
use baton_types::limits::SECRET_BYTES;
use baton_types::locks::{self, Acquire, CancelOutcome, Mode, Wait};
use baton_types::refusal::{Refusal, RefusalCode};

use crate::v1;
use v1::{client_frame, server_frame};

/// Used by the server.
pub fn from_client(frame: v1::ClientFrame) -> Result<ToServer, Malformed> {
    match frame.frame {
        Some(client_frame::Frame::Open(open)) => Ok(ToServer::Open(self::open(open)?)),
        Some(client_frame::Frame::KeepAlive(v1::KeepAlive { number })) => Ok(ToServer::KeepAlive { number }),
        Some(client_frame::Frame::Request(request)) => {
            let part = Part::Request(request.number);
            self::request(request).map(ToServer::Request).map_err(|what| Malformed { part, what: what.to_owned() })
        }
        None => Err(Malformed { part: Part::Unknown, what: "a frame must be Open, KeepAlive or Request".to_owned() }),
    }
}

fn open(open: v1::Open) -> Result<Open, Malformed> {
    let v1::Open { session, ttl_ms, label, host, pid, resume, secret, attempt, cluster_id } = open;
    let secret = match secret.len() {
        0 => None,
        bytes => Some(Secret(secret.try_into().map_err(|_| Malformed {
            part: Part::Open,
            what: format!("the secret of a session has {bytes} bytes; it must have {SECRET_BYTES}, or none"),
        })?)),
    };
    let cluster = ClusterId::new(cluster_id);
    Ok(Open { session, attempt, ttl_ms, label, host, pid, resume, secret, cluster })
}

fn request(request: v1::Request) -> Result<Request, &'static str> {
    let v1::Request { number, seen, operation, missing } = request;
    let none = "a request is an acquire, a release, a cancel or a close; this one is none of them";
    let operation = match operation.ok_or(none)? {
        v1::request::Operation::Acquire(acquire) => locks::Operation::Acquire(self::acquire(acquire)?).into(),
        v1::request::Operation::Release(v1::Release { acquire }) => locks::Operation::Release { acquire }.into(),
        v1::request::Operation::Cancel(v1::Cancel { acquire }) => locks::Operation::Cancel { acquire }.into(),
        v1::request::Operation::Close(v1::Close {}) => Operation::Close,
    };
    Ok(Request { number, seen, missing, operation })
}

fn acquire(acquire: v1::Acquire) -> Result<Acquire, &'static str> {
    let none = "an acquire is exclusive, shared or for a permit; this one says none of them";
    let mode = mode(acquire.mode(), acquire.permits).ok_or(none)?;
    let v1::Acquire { name, owner, parent, timeout_ms, lock_delay_ms, .. } = acquire;
    Ok(Acquire { name, mode, owner, parent, timeout_ms, lock_delay_ms })
}

/// None if the mode is unspecified.
pub fn mode(mode: v1::Mode, permits: u32) -> Option<Mode> {
    match mode {
        v1::Mode::Exclusive => Some(Mode::Exclusive),
        v1::Mode::Shared => Some(Mode::Shared),
        v1::Mode::Permit => Some(Mode::Permit { of: permits }),
        v1::Mode::Unspecified => None,
    }
}

/// Used by the client.
pub fn to_server(said: ToServer) -> v1::ClientFrame {
    let frame = match said {
        ToServer::Open(Open { session, attempt, ttl_ms, label, host, pid, resume, secret, cluster }) => {
            let secret = secret.map_or_else(Vec::new, |Secret(bytes)| bytes.to_vec());
            let cluster_id = ClusterId::to_wire(cluster);
            let open = v1::Open { session, ttl_ms, label, host, pid, resume, secret, attempt, cluster_id };
            client_frame::Frame::Open(open)
        }
        ToServer::KeepAlive { number } => client_frame::Frame::KeepAlive(v1::KeepAlive { number }),
        ToServer::Request(Request { number, seen, missing, operation }) => {
            let operation = self::operation(operation);
            client_frame::Frame::Request(v1::Request { number, seen, operation, missing })
        }
    };
    v1::ClientFrame { frame: Some(frame) }
}

/// None if there are no words for the operation: the server refuses the request.
fn operation(operation: Operation) -> Option<v1::request::Operation> {
    match operation {
        Operation::Close => Some(v1::request::Operation::Close(v1::Close {})),
        Operation::Locks(operation) => Some(lock_operation(operation)),
        #[allow(unreachable_patterns, reason = "the module of tests is on no wire")]
        _ => None,
    }
}

fn lock_operation(operation: locks::Operation) -> v1::request::Operation {
    use locks::Operation;
    match operation {
        Operation::Acquire(Acquire { name, mode, owner, parent, timeout_ms, lock_delay_ms }) => {
            let permits = if let Mode::Permit { of } = mode { of } else { 0 };
            let mode = self::mode_to_wire(mode).into();
            v1::request::Operation::Acquire(v1::Acquire {
                name,
                mode,
                permits,
                owner,
                timeout_ms,
                lock_delay_ms,
                parent,
            })
        }
        Operation::Release { acquire } => v1::request::Operation::Release(v1::Release { acquire }),
        Operation::Cancel { acquire } => v1::request::Operation::Cancel(v1::Cancel { acquire }),
    }
}

pub(super) fn mode_to_wire(mode: Mode) -> v1::Mode {
    match mode {
        Mode::Exclusive => v1::Mode::Exclusive,
        Mode::Shared => v1::Mode::Shared,
        Mode::Permit { .. } => v1::Mode::Permit,
    }
}

/// Used by the server.
pub fn to_client(said: ToClient) -> v1::ServerFrame {
    let frame = match said {
        ToClient::Opened { session, ttl_ms, cluster, closed_ms } => {
            let cluster_id = ClusterId::to_wire(cluster);
            server_frame::Frame::Opened(v1::Opened { session, ttl_ms, cluster_id, closed_ms })
        }
        ToClient::Alive { number } => server_frame::Frame::Alive(v1::Alive { number }),
        ToClient::Answer { number, answer } => {
            let answer = answer_to_wire(answer);
            server_frame::Frame::Answer(v1::Answer { number, answer })
        }
        ToClient::Revoked { acquire } => server_frame::Frame::Revoked(v1::Revoked { acquire }),
        ToClient::Ended { reason, message } => {
            server_frame::Frame::Ended(v1::Ended { reason: reason_to_wire(reason).into(), message })
        }
        ToClient::Hopeless { acquire, why: Hopeless { process, message } } => {
            server_frame::Frame::Hopeless(v1::Hopeless { acquire, process, message })
        }
        ToClient::Leader(Leader { node, name, address, cluster }) => {
            server_frame::Frame::Leader(v1::Leader { node, name, address, cluster_id: ClusterId::to_wire(cluster) })
        }
        ToClient::OtherCluster { cluster } => {
            server_frame::Frame::OtherCluster(v1::OtherCluster { cluster_id: cluster.get() })
        }
    };
    v1::ServerFrame { frame: Some(frame) }
}

/// None if there are no words for the answer.
fn answer_to_wire(answer: Answer) -> Option<v1::answer::Answer> {
    use v1::answer::Answer as Wire;
    Some(match answer {
        Answer::Closed => Wire::Closed(v1::Closed {}),
        Answer::Locks(locks::Answer::Granted { fence }) => Wire::Granted(v1::Granted { fence }),
        Answer::Locks(locks::Answer::Released) => Wire::Released(v1::Released {}),
        Answer::Locks(locks::Answer::Cancelled(outcome)) => {
            let outcome = match outcome {
                CancelOutcome::Removed => v1::cancelled::Outcome::Removed,
                CancelOutcome::Released => v1::cancelled::Outcome::Released,
                CancelOutcome::Nothing => v1::cancelled::Outcome::Nothing,
            };
            Wire::Cancelled(v1::Cancelled { outcome: outcome.into() })
        }
        Answer::Refused(Refusal { code, message, cycle }) => {
            let wait = |Wait { owner, label, lock }| v1::Wait { owner, label, lock };
            let (refusal, cycle) = (code_to_wire(code).into(), cycle.into_iter().map(wait).collect());
            Wire::Refused(v1::Refused { refusal, message, cycle })
        }
        #[allow(unreachable_patterns, reason = "the module of tests is on no wire")]
        _ => return None,
    })
}

fn code_to_wire(code: RefusalCode) -> v1::Refusal {
    match code {
        RefusalCode::NotAvailable => v1::Refusal::NotAvailable,
        RefusalCode::TimedOut => v1::Refusal::TimedOut,
        RefusalCode::Cancelled => v1::Refusal::Cancelled,
        RefusalCode::Deadlock => v1::Refusal::Deadlock,
        RefusalCode::PermitsDiffer => v1::Refusal::PermitsDiffer,
        RefusalCode::NotHolder => v1::Refusal::NotHolder,
        RefusalCode::Invalid => v1::Refusal::Invalid,
        RefusalCode::TooManyRequests => v1::Refusal::TooManyRequests,
        RefusalCode::LowSpace => v1::Refusal::LowSpace,
        RefusalCode::NumberReused => v1::Refusal::NumberReused,
        RefusalCode::TooManyLocks => v1::Refusal::TooManyLocks,
        RefusalCode::TooManyWaiters => v1::Refusal::TooManyWaiters,
        RefusalCode::TooManyHolds => v1::Refusal::TooManyHolds,
        RefusalCode::Unsupported => v1::Refusal::Unsupported,
        RefusalCode::Unavailable => v1::Refusal::Unavailable,
        RefusalCode::Unknown => v1::Refusal::Unspecified,
    }
}

fn code_from_wire(code: v1::Refusal) -> RefusalCode {
    match code {
        v1::Refusal::NotAvailable => RefusalCode::NotAvailable,
        v1::Refusal::TimedOut => RefusalCode::TimedOut,
        v1::Refusal::Cancelled => RefusalCode::Cancelled,
        v1::Refusal::Deadlock => RefusalCode::Deadlock,
        v1::Refusal::PermitsDiffer => RefusalCode::PermitsDiffer,
        v1::Refusal::NotHolder => RefusalCode::NotHolder,
        v1::Refusal::Invalid => RefusalCode::Invalid,
        v1::Refusal::TooManyRequests => RefusalCode::TooManyRequests,
        v1::Refusal::LowSpace => RefusalCode::LowSpace,
        v1::Refusal::NumberReused => RefusalCode::NumberReused,
        v1::Refusal::TooManyLocks => RefusalCode::TooManyLocks,
        v1::Refusal::TooManyWaiters => RefusalCode::TooManyWaiters,
        v1::Refusal::TooManyHolds => RefusalCode::TooManyHolds,
        v1::Refusal::Unsupported => RefusalCode::Unsupported,
        v1::Refusal::Unavailable => RefusalCode::Unavailable,
        v1::Refusal::Unspecified => RefusalCode::Unknown,
    }
}

fn reason_to_wire(reason: EndReason) -> v1::ended::Reason {
    match reason {
        EndReason::Expired => v1::ended::Reason::Expired,
        EndReason::Closed => v1::ended::Reason::Closed,
        EndReason::Unknown => v1::ended::Reason::Unknown,
        EndReason::Invalid => v1::ended::Reason::Invalid,
        EndReason::LowSpace => v1::ended::Reason::LowSpace,
        EndReason::TooManySessions => v1::ended::Reason::TooManySessions,
        EndReason::WrongSecret => v1::ended::Reason::WrongSecret,
    }
}

/// Used by the client. None if a newer service sends a frame that this client does not understand.
pub fn from_server(frame: v1::ServerFrame) -> Option<ToClient> {
    Some(match frame.frame? {
        server_frame::Frame::Opened(v1::Opened { session, ttl_ms, cluster_id, closed_ms }) => {
            ToClient::Opened { session, ttl_ms, cluster: ClusterId::new(cluster_id), closed_ms }
        }
        server_frame::Frame::Alive(v1::Alive { number }) => ToClient::Alive { number },
        server_frame::Frame::Answer(v1::Answer { number, answer }) => {
            ToClient::Answer { number, answer: answer_from_wire(answer) }
        }
        server_frame::Frame::Revoked(v1::Revoked { acquire }) => ToClient::Revoked { acquire },
        server_frame::Frame::Ended(ended) => {
            let reason = match ended.reason() {
                v1::ended::Reason::Expired => EndReason::Expired,
                v1::ended::Reason::Closed => EndReason::Closed,
                // A newer service may have another reason. The session has ended in any case.
                v1::ended::Reason::Unknown | v1::ended::Reason::Unspecified => EndReason::Unknown,
                v1::ended::Reason::Invalid => EndReason::Invalid,
                v1::ended::Reason::LowSpace => EndReason::LowSpace,
                v1::ended::Reason::TooManySessions => EndReason::TooManySessions,
                v1::ended::Reason::WrongSecret => EndReason::WrongSecret,
            };
            ToClient::Ended { reason, message: ended.message }
        }
        server_frame::Frame::Hopeless(v1::Hopeless { acquire, process, message }) => {
            ToClient::Hopeless { acquire, why: Hopeless { process, message } }
        }
        server_frame::Frame::Leader(v1::Leader { node, name, address, cluster_id }) => {
            ToClient::Leader(Leader { node, name, address, cluster: ClusterId::new(cluster_id) })
        }
        server_frame::Frame::OtherCluster(v1::OtherCluster { cluster_id }) => {
            ToClient::OtherCluster { cluster: ClusterId::new(cluster_id)? }
        }
    })
}

/// An answer that this client does not understand counts as a refusal: the client does not have the lock.
fn answer_from_wire(answer: Option<v1::answer::Answer>) -> Answer {
    use v1::answer::Answer as Wire;
    match answer {
        Some(Wire::Granted(v1::Granted { fence })) => locks::Answer::Granted { fence }.into(),
        Some(Wire::Released(v1::Released {})) => locks::Answer::Released.into(),
        Some(Wire::Cancelled(cancelled)) => locks::Answer::Cancelled(match cancelled.outcome() {
            v1::cancelled::Outcome::Removed => CancelOutcome::Removed,
            v1::cancelled::Outcome::Released => CancelOutcome::Released,
            v1::cancelled::Outcome::Nothing | v1::cancelled::Outcome::Unspecified => CancelOutcome::Nothing,
        })
        .into(),
        Some(Wire::Closed(v1::Closed {})) => Answer::Closed,
        Some(Wire::Refused(refused)) => {
            let code = code_from_wire(refused.refusal());
            let wait = |v1::Wait { owner, label, lock }| Wait { owner, label, lock };
            let cycle = refused.cycle.into_iter().map(wait).collect();
            Answer::Refused(Refusal { code, message: refused.message, cycle })
        }
        None => {
            let message = "the server sent an answer that this client does not understand".to_owned();
            Answer::Refused(Refusal::new(RefusalCode::Unknown, message))
        }
    }
}
