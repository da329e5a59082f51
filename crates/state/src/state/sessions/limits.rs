//! Limits for what clients send about sessions and request numbers. The front end checks them before it proposes, so
//! that a client gets its answer at once. The state checks them again, because the log may contain anything.

pub use baton_types::limits::{HOST_BYTES_MAX, LABEL_BYTES_MAX, MISSING_MAX, REQUESTS_MAX, TTL_MS_MAX, TTL_MS_MIN};
use baton_types::sentences;

use crate::state::{RequestNumber, SessionId};

/// The most ended sessions that the state remembers.
pub const ENDED_MAX: usize = 4_096;

/// Why a client's input is invalid. The texts are part of kept answers in the replicated state, so they must never
/// change: see `state`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error(
        "a new session has the id {id}; it must be from 1 to {} (upgrade a client that is older than 0.2.0)",
        SessionId::MAX
    )]
    SessionId { id: u64 },
    #[error("{}", sentences::long_label(*bytes))]
    LabelTooLong { bytes: usize },
    #[error("the host of a session has {bytes} bytes; it must have at most {HOST_BYTES_MAX}")]
    HostTooLong { bytes: usize },
    #[error("the time to live of a session is {ttl_ms} ms; it must be from {TTL_MS_MIN} to {TTL_MS_MAX} ms")]
    Ttl { ttl_ms: u64 },
    #[error("a request has the number 0; numbers go from 1 on")]
    NumberZero,
    #[error("request {number} misses {missing} answers; it can miss at most {MISSING_MAX}")]
    MissingTooMany {
        number: RequestNumber,
        /// How many answers the request lists as missing.
        missing: usize,
    },
    /// Missing answers that are out of order, of later requests, or above `seen`.
    #[error(
        "the missing answers of request {number} are not in order, from 1 on, before it and up to {seen}, which was seen"
    )]
    Missing {
        number: RequestNumber,
        /// The client says that it has seen the answers up to this one.
        seen: RequestNumber,
    },
    #[error("request {number} says that the answers up to {seen} were seen; it can only say so of earlier requests")]
    SeenNotEarlier { number: RequestNumber, seen: RequestNumber },
}

/// Only the front end checks this: old sessions may have any id.
pub fn check_new_id(SessionId(id): SessionId) -> Result<(), Invalid> {
    if (1..=SessionId::MAX).contains(&id) { Ok(()) } else { Err(Invalid::SessionId { id }) }
}

pub fn check_open(ttl_ms: u64, label: &str, host: &str) -> Result<(), Invalid> {
    if !(TTL_MS_MIN..=TTL_MS_MAX).contains(&ttl_ms) {
        return Err(Invalid::Ttl { ttl_ms });
    }
    if label.len() > LABEL_BYTES_MAX {
        return Err(Invalid::LabelTooLong { bytes: label.len() });
    }
    if host.len() > HOST_BYTES_MAX {
        return Err(Invalid::HostTooLong { bytes: host.len() });
    }
    Ok(())
}

/// Whether a request can have this number and say that all answers up to `seen` were seen, except `missing`.
pub fn check_seen(number: RequestNumber, seen: RequestNumber, missing: &[RequestNumber]) -> Result<(), Invalid> {
    if missing.len() > MISSING_MAX {
        return Err(Invalid::MissingTooMany { number, missing: missing.len() });
    }
    let in_order = missing.is_sorted_by(|earlier, later| earlier < later);
    let within = |missing: &RequestNumber| (1..number).contains(missing) && *missing <= seen;
    if in_order && missing.iter().all(within) { Ok(()) } else { Err(Invalid::Missing { number, seen }) }
}

/// Only the front end checks this: a log of an older version may have such requests. The state ignores them.
pub fn check_seen_is_earlier(number: RequestNumber, seen: RequestNumber) -> Result<(), Invalid> {
    if seen < number { Ok(()) } else { Err(Invalid::SeenNotEarlier { number, seen }) }
}

pub fn check_number(number: RequestNumber) -> Result<(), Invalid> {
    if number == 0 { Err(Invalid::NumberZero) } else { Ok(()) }
}
