//! What makes sense at all: bounds for what clients send, checked here and nowhere else. The api asks before it proposes,
//! so that a client gets its answer at once; the table asks again, since it must stand whatever the log says.

use super::{Mode, Operation, RequestNumber};

/// The longest name of a lock, in bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// The longest label of a session, in bytes.
pub const LABEL_BYTES_MAX: usize = 256;
/// The longest name of a host, in bytes.
pub const HOST_BYTES_MAX: usize = 256;
/// The shortest time to live of a session.
pub const TTL_MS_MIN: u64 = 1_000;
/// The longest time to live of a session: a day.
pub const TTL_MS_MAX: u64 = 86_400_000;
/// The longest lock-delay: an hour.
pub const LOCK_DELAY_MS_MAX: u64 = 3_600_000;
/// The most permits a lock can have.
pub const PERMITS_MAX: u32 = 1_000_000;
/// So many requests of a session may be without a seen answer before a further acquire is refused. Twice as many before a
/// release or cancel is, so that who has too many can still give some back.
pub const REQUESTS_MAX: usize = 1_024;
/// So many answers can be missing: as many as a session can have requests without a seen answer.
pub const MISSING_MAX: usize = 2 * REQUESTS_MAX;
/// So many acquires of a session whose holds were ended by force are remembered until it speaks of them.
pub const FORCED_MAX: usize = 1_024;
/// So many ended holds are remembered of one lock.
pub const HISTORY_OF_LOCK_MAX: usize = 16;
/// So many ended holds are remembered in all.
pub const HISTORY_MAX: usize = 65_536;
/// So many steps of a cycle are shown to who is refused because of it.
pub const CYCLE_SHOWN_MAX: usize = 32;

/// What is wrong with what a client sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A name of no bytes.
    #[error("the name of a lock is empty; it has 1 to {NAME_BYTES_MAX} bytes")]
    NameEmpty,
    /// A name of too many bytes.
    #[error("the name of a lock has {bytes} bytes; it has 1 to {NAME_BYTES_MAX}")]
    NameTooLong {
        /// How many.
        bytes: usize,
    },
    /// A label of too many bytes.
    #[error("the label of a session has {bytes} bytes; at most {LABEL_BYTES_MAX} are kept")]
    LabelTooLong {
        /// How many.
        bytes: usize,
    },
    /// A host of too many bytes.
    #[error("the host of a session has {bytes} bytes; at most {HOST_BYTES_MAX} are kept")]
    HostTooLong {
        /// How many.
        bytes: usize,
    },
    /// A time to live that is too short or too long.
    #[error("the time to live of a session is {ttl_ms} ms; it must be from {TTL_MS_MIN} to {TTL_MS_MAX} ms")]
    Ttl {
        /// What was said.
        ttl_ms: u64,
    },
    /// No permits, or too many.
    #[error("a lock with {permits} permits; it must have from 1 to {PERMITS_MAX}")]
    Permits {
        /// What was said.
        permits: u32,
    },
    /// A lock-delay that is too long.
    #[error("a lock-delay of {lock_delay_ms} ms; it must be at most {LOCK_DELAY_MS_MAX} ms")]
    LockDelay {
        /// What was said.
        lock_delay_ms: u64,
    },
    /// A request without a number.
    #[error("a request has the number 0; numbers go from 1 on")]
    NumberZero,
    /// A release or cancel of an acquire that cannot have been before it.
    #[error("request {number} speaks of acquire {acquire}; it can only speak of an earlier one, from 1 on")]
    NotEarlier {
        /// The request.
        number: RequestNumber,
        /// What it names.
        acquire: RequestNumber,
    },
    /// More missing answers than a session can have.
    #[error("request {number} misses {missing} answers; it can miss at most {MISSING_MAX}")]
    MissingTooMany {
        /// The request.
        number: RequestNumber,
        /// How many.
        missing: usize,
    },
    /// Missing answers that are out of order, of later requests, or of those that nobody said were seen.
    #[error(
        "the missing answers of request {number} are not in order, from 1 on, before it and up to {seen}, which was seen"
    )]
    Missing {
        /// The request.
        number: RequestNumber,
        /// What it says was seen.
        seen: RequestNumber,
    },
}

/// Whether a lock can have this name.
pub fn check_name(name: &str) -> Result<(), Invalid> {
    match name.len() {
        0 => Err(Invalid::NameEmpty),
        1..=NAME_BYTES_MAX => Ok(()),
        bytes => Err(Invalid::NameTooLong { bytes }),
    }
}

/// Whether a session can be opened so.
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

/// Whether a request of this number can ask for this.
pub fn check_request(number: RequestNumber, operation: &Operation) -> Result<(), Invalid> {
    if number == 0 {
        return Err(Invalid::NumberZero);
    }
    match *operation {
        Operation::Acquire { ref lock, mode, lock_delay_ms, .. } => {
            check_name(lock)?;
            check_mode(mode)?;
            if lock_delay_ms > LOCK_DELAY_MS_MAX {
                return Err(Invalid::LockDelay { lock_delay_ms });
            }
            Ok(())
        }
        Operation::Release { acquire } | Operation::Cancel { acquire } => {
            if acquire == 0 || acquire >= number {
                return Err(Invalid::NotEarlier { number, acquire });
            }
            Ok(())
        }
        Operation::Close => Ok(()),
    }
}

/// Whether a request of this number can say that all answers up to `seen` were seen, but for these.
pub fn check_seen(number: RequestNumber, seen: RequestNumber, missing: &[RequestNumber]) -> Result<(), Invalid> {
    if missing.len() > MISSING_MAX {
        return Err(Invalid::MissingTooMany { number, missing: missing.len() });
    }
    let in_order = missing.is_sorted_by(|earlier, later| earlier < later);
    let within = |missing: &RequestNumber| (1..number).contains(missing) && *missing <= seen;
    if in_order && missing.iter().all(within) { Ok(()) } else { Err(Invalid::Missing { number, seen }) }
}

/// Whether a lock can be wanted so.
pub fn check_mode(mode: Mode) -> Result<(), Invalid> {
    match mode.permits() {
        1..=PERMITS_MAX => Ok(()),
        permits => Err(Invalid::Permits { permits }),
    }
}
