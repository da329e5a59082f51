//! Limits for what clients send about locks. The front end checks them before it proposes, so that a client gets its
//! answer at once. The state checks them again, because the log may contain anything.

use std::collections::BTreeSet;

pub use baton_types::limits::{LOCK_DELAY_MS_MAX, NAME_BYTES_MAX, PERMITS_MAX, WANTS_MAX};
use baton_types::sentences;

use super::{Acquire, LockName, Mode, Operation, Wants};
use crate::state::RequestNumber;

/// The most forced releases of a session that the state remembers, until its client releases or cancels them.
pub const FORCED_MAX: usize = 1_024;
/// The most ended holds that one lock remembers.
pub const HISTORY_OF_LOCK_MAX: usize = 16;
/// The most ended holds that all locks together remember.
pub const HISTORY_MAX: usize = 65_536;
/// The most steps of a cycle that a refusal shows to the client.
pub const CYCLE_SHOWN_MAX: usize = 32;
/// The most bytes that the labels and names of such a cycle have together. Longer ones are cut.
pub const CYCLE_BYTES_MAX: usize = 1_024;

/// The most claims that the check of one acquire for a deadlock may visit. One visit takes less than a microsecond.
pub const VISITS_MAX: usize = 10_000;

/// Why a client's input is invalid. The texts are part of kept answers in the replicated state, so they must never
/// change: see `state`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("{}", sentences::wrong_name(*bytes))]
    NameLength { bytes: usize },
    #[error("an acquire names {wants} locks; it must name from 1 to {WANTS_MAX}")]
    Wants { wants: usize },
    #[error("an acquire names the lock {lock:?} twice; it must name each lock once")]
    WantedTwice { lock: LockName },
    #[error("a lock with {permits} permits; it must have from 1 to {PERMITS_MAX}")]
    Permits { permits: u32 },
    #[error("a lock-delay of {lock_delay_ms} ms; it must be at most {LOCK_DELAY_MS_MAX} ms")]
    LockDelay { lock_delay_ms: u64 },
    /// A release or cancel names an acquire that is not earlier.
    #[error("request {number} speaks of acquire {acquire}; it can only speak of an earlier one, from 1 on")]
    NotEarlier {
        number: RequestNumber,
        /// The number that it names.
        acquire: RequestNumber,
    },
}

pub fn check_name(name: &[u8]) -> Result<(), Invalid> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        bytes => Err(Invalid::NameLength { bytes }),
    }
}

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

pub fn check_mode(mode: Mode) -> Result<(), Invalid> {
    match mode.permits() {
        1..=PERMITS_MAX => Ok(()),
        permits => Err(Invalid::Permits { permits }),
    }
}
