//! Bounds of what clients say about locks, checked here and nowhere else. The front end asks before it proposes, so that a client gets
//! its answer at once; the state asks again, since it must stand whatever the log says.

use std::collections::BTreeSet;

pub use baton_types::limits::{LOCK_DELAY_MS_MAX, NAME_BYTES_MAX, PERMITS_MAX, WANTS_MAX};

use super::{Acquire, LockName, Mode, Operation, Wants};
use crate::state::RequestNumber;

/// So many acquires of a session whose holds were ended by force are remembered until it speaks of them.
pub const FORCED_MAX: usize = 1_024;
/// So many ended holds are remembered of one lock.
pub const HISTORY_OF_LOCK_MAX: usize = 16;
/// So many ended holds are remembered in all.
pub const HISTORY_MAX: usize = 65_536;
/// So many steps of a cycle are shown to a client whose acquire is refused because of it.
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
        /// The length that was given, in bytes.
        bytes: usize,
    },
    /// No lock, or too many.
    #[error("an acquire names {wants} locks; it must name from 1 to {WANTS_MAX}")]
    Wants {
        /// How many locks the acquire names.
        wants: usize,
    },
    /// One lock twice.
    #[error("an acquire names the lock {lock:?} twice; it must name each lock once")]
    WantedTwice {
        /// The name of the lock.
        lock: LockName,
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
    /// A release or cancel of an acquire that cannot have been before it.
    #[error("request {number} speaks of acquire {acquire}; it can only speak of an earlier one, from 1 on")]
    NotEarlier {
        /// The request.
        number: RequestNumber,
        /// What it names.
        acquire: RequestNumber,
    },
}

/// Whether a lock can have this name.
pub fn check_name(name: &[u8]) -> Result<(), Invalid> {
    match name.len() {
        0 => Err(Invalid::NameEmpty),
        1..=NAME_BYTES_MAX => Ok(()),
        bytes => Err(Invalid::NameTooLong { bytes }),
    }
}

/// Whether a request of this number can ask for this.
pub fn check_operation(number: RequestNumber, operation: &Operation) -> Result<(), Invalid> {
    match operation {
        Operation::Acquire(Acquire { wants, lock_delay_ms, .. }) => {
            check_wants(wants)?;
            match *lock_delay_ms {
                0..=LOCK_DELAY_MS_MAX => Ok(()),
                lock_delay_ms => Err(Invalid::LockDelay { lock_delay_ms }),
            }
        }
        &Operation::Release { acquire } | &Operation::Cancel { acquire } => {
            if acquire == 0 || acquire >= number {
                return Err(Invalid::NotEarlier { number, acquire });
            }
            Ok(())
        }
    }
}

/// Whether an acquire can want these locks.
pub(super) fn check_wants(wants: &Wants) -> Result<(), Invalid> {
    if !(1..=WANTS_MAX).contains(&wants.len()) {
        return Err(Invalid::Wants { wants: wants.len() });
    }
    let mut names = BTreeSet::new();
    for want in wants {
        check_name(want.lock.as_bytes())?;
        check_mode(want.mode)?;
        if wants.len() > 1 && !names.insert(&want.lock) {
            return Err(Invalid::WantedTwice { lock: want.lock.clone() });
        }
    }
    Ok(())
}

/// Whether a lock can be wanted so.
pub fn check_mode(mode: Mode) -> Result<(), Invalid> {
    match mode.permits() {
        1..=PERMITS_MAX => Ok(()),
        permits => Err(Invalid::Permits { permits }),
    }
}
