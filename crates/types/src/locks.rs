//! The words of the locks.

use serde::Serialize;

use crate::json;

/// What a client asks about locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Acquire(Acquire),
    /// Releases the lock of an acquire.
    Release {
        /// The number of the acquire.
        acquire: u64,
    },
    /// Cancels an acquire: it stops waiting or, if it was granted meanwhile, is released.
    Cancel {
        /// The number of the acquire.
        acquire: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    pub name: Vec<u8>,
    pub mode: Mode,
    /// Deadlocks are detected among owners: a request that waits for a lock of an owner waits for that owner.
    pub owner: u64,
    /// The owner on whose behalf this owner acts. A parent waits for its children.
    pub parent: Option<u64>,
    /// 0: does not wait. None: waits without a limit.
    pub timeout_ms: Option<u64>,
    /// How long the lock stays closed if the session of its holder expires.
    pub lock_delay_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One holder.
    #[default]
    Exclusive,
    /// Any number of holders that all want it shared.
    Shared,
    /// One of several permits. All requests for the lock at a time must name the same number of permits.
    Permit {
        /// The number of permits of the lock, at least 1.
        of: u32,
    },
}

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
            Mode::Permit { .. } => "permit",
        }
    }
}

/// The answer to an operation that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The session holds the lock.
    Granted {
        /// Greater than the fence of every earlier grant. Holders that share a lock share a fence.
        fence: u64,
    },
    Released,
    Cancelled(CancelOutcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The acquire no longer waits.
    Removed,
    /// The acquire had been granted, and is released.
    Released,
    /// The acquire neither waited nor held.
    Nothing,
}

/// A step of a cycle: this owner waits for this lock. The next owner holds the lock, or gets it earlier. The server cuts
/// long labels and names of a long cycle; they end with an ellipsis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    #[serde(serialize_with = "json::hex")]
    pub owner: u64,
    /// The label of its session.
    pub label: String,
    #[serde(flatten, serialize_with = "json::name")]
    pub lock: Vec<u8>,
}
