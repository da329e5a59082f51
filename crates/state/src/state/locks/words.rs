//! The words of the locks: commands, operations, effects and answers.

use std::sync::Arc;

use baton_types::sentences;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::limits::Invalid;
use super::{Claim, Delay, LockName, cycle, limits};
use crate::state::words::Fingerprint;
use crate::state::{Caller, OwnerId, RequestNumber, SessionId};

/// A command that is not a session's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The lock-delay of this generation is over.
    EndLockDelay { lock: LockName, generation: u64 },
    /// An acquire has reached its time-out.
    CancelWait { session: SessionId, number: RequestNumber },
    /// An operator forces the release of a lock.
    Force {
        lock: LockName,
        /// Without waiting for the holders' releases or the end of their leases.
        now: bool,
        caller: Caller,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    Acquire(Acquire),
    /// Releases the locks of an acquire.
    Release {
        acquire: RequestNumber,
    },
    /// Cancels an acquire, whether it waits, holds, or has not arrived yet.
    Cancel {
        acquire: RequestNumber,
    },
}

/// Wants one lock, or several at once: all of them or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// Each lock once.
    pub wants: Wants,
    /// Deadlocks are detected among owners. A session may have several.
    pub owner: OwnerId,
    /// The owner on whose behalf this owner acts, if any. The parent waits for this owner.
    pub parent: Option<OwnerId>,
    /// 0: does not wait. None: waits without a limit.
    pub timeout_ms: Option<u64>,
    /// How long its locks stay closed if its session expires while it holds them.
    pub lock_delay_ms: u64,
}

/// Usually one.
pub type Wants = SmallVec<[Want; 1]>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    pub lock: LockName,
    pub mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// One holder.
    Exclusive,
    /// Any number of holders that all want it shared.
    Shared,
    /// One of several permits. All claims of the lock at a time must name the same number of permits.
    Permit {
        /// The number of permits of the lock, at least 1.
        of: u32,
    },
}

/// An action for the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The session must release this acquire.
    Revoked { session: SessionId, acquire: RequestNumber },
    /// An acquire begins to wait. The leader must propose `CancelWait` after this time.
    Waits { session: SessionId, number: RequestNumber, timeout_ms: u64 },
    /// A `Force` was applied. Emitted once per `Force`, for the answer to its caller.
    Forced {
        /// The lock that the command names, whether it exists or not.
        lock: LockName,
        /// The holders at the time of the command, in the order of their grants.
        holders: Vec<ForcedHolder>,
    },
    /// A lock is closed. The leader must propose `EndLockDelay` after this time.
    LockDelay {
        lock: LockName,
        /// `EndLockDelay` must name this number.
        generation: u64,
        delay_ms: u64,
    },
}

/// A change to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A claim entered its queues, was granted, was revoked, or ended.
    Claim {
        /// None if it enters.
        before: Option<Arc<Claim>>,
        /// None if it has ended.
        after: Option<Arc<Claim>>,
    },
    /// A lock-delay closed a lock, or has ended.
    Delay {
        lock: LockName,
        /// None if the lock was open.
        before: Option<Delay>,
        /// None if the lock is open.
        after: Option<Delay>,
    },
}

/// A holder that a forced release affects, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedHolder {
    pub session: SessionId,
    pub owner: OwnerId,
    pub label: Box<str>,
    pub host: Box<str>,
    pub pid: u32,
    pub fence: u64,
    pub since_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The claim holds its locks.
    Granted {
        /// Greater than the fence of every earlier grant. Holders that share one lock share a fence.
        fence: u64,
    },
    Released,
    Cancelled(CancelOutcome),
    Refused(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelOutcome {
    /// The acquire waited, and waits no longer.
    Removed,
    /// The acquire held its locks, and has released them.
    Released,
    /// The acquire neither waited nor held.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error("{}", sentences::NOT_AVAILABLE)]
    NotAvailable,
    #[error("{}", sentences::TIMED_OUT)]
    TimedOut,
    #[error("{}", sentences::CANCELLED)]
    Cancelled,
    /// The sentence does not repeat the cycle: the client puts the cycle into words.
    #[error("{}", sentences::WAITS_FOR_ITSELF)]
    Deadlock(Vec<WaitFor>),
    #[error("{} is in use {}, and the request {}", in_words(.lock.as_ref()), used(*has), asks(*says))]
    PermitsDiffer {
        /// The lock in question; none in old answers.
        lock: Option<LockName>,
        /// The permits of the lock now.
        has: u32,
        /// The permits in the request.
        says: u32,
    },
    #[error("request {acquire} of this session holds no lock")]
    NotHolder {
        /// The number in the release.
        acquire: RequestNumber,
    },
    // Only with `Grants::ByGroup`, so they are in no log.
    #[error("this server is a member of a peer group: a lock there has one holder, and cannot be shared")]
    NoSharing,
    #[error("this server is a member of a peer group: a lock there has one holder, and no permits")]
    NoPermits,
    #[error("this server is a member of a peer group: a request there names one lock")]
    NoSeveral,
    /// The peer group cannot take the request now, for this reason.
    #[error("{0}")]
    Unavailable(String),
}

/// A step of a cycle: this owner waits for this lock. A long label or name is cut, and then ends with `…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitFor {
    pub owner: OwnerId,
    /// The label of its session.
    pub label: String,
    /// The next owner of the cycle, or an ancestor of it, holds this lock or stands before this owner in its line.
    pub lock: LockName,
}

impl Answer {
    /// The answer as this version keeps it. An older version kept longer cycles.
    pub(super) fn shortened(self) -> Self {
        match self {
            Answer::Refused(Refusal::Deadlock(steps)) => {
                Answer::Refused(Refusal::Deadlock(cycle::shown(steps.into_iter())))
            }
            answer => answer,
        }
    }
}

impl Acquire {
    /// An acquire of one lock that waits without a limit, and has no lock-delay.
    pub fn one(lock: impl Into<LockName>, mode: Mode, owner: OwnerId) -> Self {
        let wants = [Want { lock: lock.into(), mode }].into_iter().collect();
        Acquire { wants, owner, parent: None, timeout_ms: None, lock_delay_ms: 0 }
    }
}

impl Mode {
    /// The number of permits of a lock in this mode.
    pub fn permits(self) -> u32 {
        match self {
            Mode::Exclusive | Mode::Shared => 1,
            Mode::Permit { of } => of,
        }
    }

    /// Whether two claims in these modes can hold one lock together, whatever the number of permits.
    pub(super) fn shares_with(self, other: Mode) -> bool {
        self == Mode::Shared && other == Mode::Shared
    }

    fn fingerprint(self) -> u64 {
        match self {
            Mode::Exclusive => 0,
            Mode::Shared => 1,
            Mode::Permit { of } => 2 + u64::from(of),
        }
    }
}

impl Operation {
    /// Fails if a request of this number cannot have this operation.
    pub fn check(&self, number: RequestNumber) -> Result<(), Invalid> {
        limits::check_operation(number, self)
    }

    /// Adds all fields to the hash: see [`crate::state::Operation::fingerprint`].
    pub(super) fn fingerprint(&self, hash: &mut Fingerprint) {
        match self {
            Operation::Acquire(Acquire { wants, owner, parent, timeout_ms, lock_delay_ms }) => {
                hash.number(0);
                hash.number(wants.len() as u64);
                for want in wants {
                    hash.bytes(want.lock.as_bytes());
                    hash.number(want.mode.fingerprint());
                }
                hash.number(owner.0);
                for optional in [parent.map(|parent| parent.0), *timeout_ms] {
                    hash.number(u64::from(optional.is_some()));
                    hash.number(optional.unwrap_or(0));
                }
                hash.number(*lock_delay_ms);
            }
            Operation::Release { acquire } => [1, *acquire].into_iter().for_each(|number| hash.number(number)),
            Operation::Cancel { acquire } => [2, *acquire].into_iter().for_each(|number| hash.number(number)),
        }
    }
}

fn in_words(lock: Option<&LockName>) -> String {
    lock.map_or_else(|| "the lock".to_owned(), |lock| format!("the lock {lock:?}"))
}

/// What a request with so many permits asks for. One with 1 permit names none, unless it is for a lock with 1 permit.
fn asks(says: u32) -> String {
    if says == 1 { "is exclusive or shared (1 permit)".to_owned() } else { format!("says {says}") }
}

/// How a lock with so many permits is used. One with 1 permit has an exclusive holder or shared ones.
fn used(has: u32) -> String {
    if has == 1 { "as exclusive or shared (1 permit)".to_owned() } else { format!("with {has} permits") }
}
