//! Sentences that more than one part of the service says: the server in an answer, and a client or a command without
//! asking the server.

use std::fmt::Display;

use crate::frames::EndReason;
use crate::limits::{LABEL_BYTES_MAX, NAME_BYTES_MAX};

pub const NOT_AVAILABLE: &str = "the lock is not free, and the request does not wait";
pub const TIMED_OUT: &str = "the lock was not granted within the time-out";
pub const CANCELLED: &str = "the request was cancelled";
/// The client adds the cycle in words.
pub const WAITS_FOR_ITSELF: &str = "the request would wait for itself";

/// Why a session ended, if the server says nothing more exact.
pub const fn ended(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Expired => "the lease of the session expired, because no keep-alive came in time",
        EndReason::Closed => "the session was closed by its client",
        EndReason::Unknown => "there is no such session",
        EndReason::Invalid => "the server gave no reason",
        EndReason::LowSpace => "the server has too little free space",
        EndReason::TooManySessions => "the server takes no more sessions",
        EndReason::WrongSecret => "the session began with another secret: only the client that began it can resume it",
    }
}

/// Why a closed cluster grants no lock. `left` is a duration for people.
pub fn closed(left: impl Display) -> String {
    format!("no lock is granted for another {left}, because the cluster began anew and leases of before may still run")
}

/// For a name with fewer than 1 or more than [`NAME_BYTES_MAX`] bytes. The state keeps this sentence on disk, in answers,
/// so it must not change.
pub fn wrong_name(bytes: usize) -> String {
    match bytes {
        0 => format!("the name of a lock is empty; it has 1 to {NAME_BYTES_MAX} bytes"),
        _ => format!("the name of a lock has {bytes} bytes; it has 1 to {NAME_BYTES_MAX}"),
    }
}

/// The state keeps this sentence on disk, in answers, so it must not change.
pub fn long_label(bytes: usize) -> String {
    format!("the label of a session has {bytes} bytes; it must have at most {LABEL_BYTES_MAX}")
}
