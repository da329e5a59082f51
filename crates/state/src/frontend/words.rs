//! Converts between the frames of clients and the commands of the log, as far as they belong to no module.

use baton_types::frames::{self, Answer, Secret};
use baton_types::refusal::{Refusal, RefusalCode};
use baton_types::sentences;
use sha2::{Digest, Sha256};

use super::modules::Modules;
use crate::state::sessions::{self, EndReason, limits};
use crate::state::{Caller, Request, SessionId};

/// Why a client's frame cannot become a command.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    #[error(transparent)]
    Session(#[from] sessions::limits::Invalid),
    /// Its module says why.
    #[error("{0}")]
    Operation(String),
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

pub fn request(
    modules: &Modules,
    session: SessionId,
    request: frames::Request,
    caller: Caller,
) -> Result<Request, Invalid> {
    let frames::Request { number, seen, missing, operation } = request;
    limits::check_number(number)?;
    limits::check_seen_is_earlier(number, seen)?;
    limits::check_seen(number, seen, &missing)?;
    let operation = modules.operation(number, operation)?;
    Ok(Request { session, number, seen, missing, caller, operation })
}

/// A refusal before any module sees the request.
pub(super) fn refused(refusal: &sessions::Refusal) -> Answer {
    let code = match refusal {
        sessions::Refusal::Invalid(_) => RefusalCode::Invalid,
        sessions::Refusal::TooManyRequests { .. } => RefusalCode::TooManyRequests,
        sessions::Refusal::NumberReused => RefusalCode::NumberReused,
    };
    refuse(code, refusal.to_string())
}

/// A refusal by the front end, without the state.
pub fn refuse(code: RefusalCode, message: impl Into<String>) -> Answer {
    Answer::Refused(Refusal::new(code, message))
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
