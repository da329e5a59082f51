//! The words of the locks.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::limits::Invalid;
use super::{LockName, limits};
use crate::state::words::Fingerprint;
use crate::state::{Caller, OwnerId, RequestNumber, SessionId};

/// A change of the locks that is not a session's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The lock-delay of this generation is over.
    EndLockDelay {
        /// Of which lock.
        lock: LockName,
        /// Which of its delays.
        generation: u64,
    },
    /// The acquire of this number has waited until its time-out.
    CancelWait {
        /// Which session waits.
        session: SessionId,
        /// Which of its requests.
        number: RequestNumber,
    },
    /// Somebody who is not the holder wants the lock released.
    Force {
        /// Which lock.
        lock: LockName,
        /// Without waiting for the holders' word or the end of their leases.
        now: bool,
        /// The principal that asks, and its address.
        caller: Caller,
    },
}

/// What a session asks of the locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Wants one lock, or several at once.
    Acquire(Acquire),
    /// Gives back what the acquire of this number was granted.
    Release {
        /// The number of the acquire.
        acquire: RequestNumber,
    },
    /// Takes back the acquire of this number.
    Cancel {
        /// The number of the acquire.
        acquire: RequestNumber,
    },
}

/// Wants one lock, or several at once: all of them or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// Each lock once.
    pub wants: Wants,
    /// Deadlocks are looked for among owners: a session may have several.
    pub owner: OwnerId,
    /// The owner that this owner acts for, if any: that one waits for this one. None in data format 1.
    pub parent: Option<OwnerId>,
    /// How long it waits: not at all (0), so many milliseconds, or for ever.
    pub timeout_ms: Option<u64>,
    /// How long its locks stay closed if its session expires while it holds them.
    pub lock_delay_ms: u64,
}

/// One lock is normal.
pub type Wants = SmallVec<[Want; 1]>;

/// A lock, and how it is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// Which lock.
    pub lock: LockName,
    /// Exclusive, shared, or one of several permits.
    pub mode: Mode,
}

/// How a lock is wanted, or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// By one alone.
    Exclusive,
    /// By any number that all want it so.
    Shared,
    /// One permit of so many. All who use the lock at a time must name the same number.
    Permit {
        /// How many permits the lock has, at least 1.
        of: u32,
    },
}

/// What has to be told or done because of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What this acquire was granted is to be given back.
    Revoked {
        /// The session of the client.
        session: SessionId,
        /// The number of the acquire.
        acquire: RequestNumber,
    },
    /// An acquire begins to wait, and is to be cancelled after this time.
    Waits {
        /// The session of the client.
        session: SessionId,
        /// The number of the request.
        number: RequestNumber,
        /// How long.
        timeout_ms: u64,
    },
    /// A `Force` was applied: whoever asked for it is told whom it hit. Told once for each.
    Forced {
        /// The lock that the command names, whether it is there or not.
        lock: LockName,
        /// Who held it when the command came, in the order in which they were granted it.
        holders: Vec<ForcedHolder>,
    },
    /// A lock is closed for this time.
    LockDelay {
        /// The name of the lock.
        lock: LockName,
        /// What its end has to name.
        generation: u64,
        /// How long.
        delay_ms: u64,
    },
}

/// A holder whose lock somebody else wants released, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedHolder {
    /// The session of the client.
    pub session: SessionId,
    /// The owner of the claim that holds.
    pub owner: OwnerId,
    /// What the session is.
    pub label: Box<str>,
    /// Where it runs.
    pub host: Box<str>,
    /// As which process.
    pub pid: u32,
    /// Under which fence it holds, or held.
    pub fence: u64,
    /// Since when.
    pub since_ms: u64,
}

/// The answer of the locks to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The claim holds its locks, under this fence.
    Granted {
        /// Greater than that of every earlier grant; holders that share one lock share a fence.
        fence: u64,
    },
    /// They are given back.
    Released,
    /// What became of the acquire.
    Cancelled(CancelOutcome),
    /// No, and why.
    Refused(Refusal),
}

/// What a cancel found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelOutcome {
    /// It waited, and waits no more.
    Removed,
    /// It had been granted, and is released.
    Released,
    /// It neither waited nor held.
    Nothing,
}

/// Why an acquire or a release is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// It would have to wait, and its time-out is 0.
    #[error("the lock is not free, and the request does not wait")]
    NotAvailable,
    /// It has waited until its time-out.
    #[error("the lock was not granted within the time-out")]
    TimedOut,
    /// Its client took it back.
    #[error("the request was cancelled")]
    Cancelled,
    /// It would wait for itself.
    #[error("the request would wait for itself: {}", cycle_in_words(.0))]
    Deadlock(Vec<WaitFor>),
    /// The lock has another number of permits.
    #[error("{} is in use with {}, and the request says {says}", in_words(.lock.as_ref()), permits(*has))]
    PermitsDiffer {
        /// Which of the locks that the request names; not known in data format 1.
        lock: Option<LockName>,
        /// The permits of the lock now.
        has: u32,
        /// The permits in the request.
        says: u32,
    },
    /// What is to be released is not held by this session.
    #[error("request {acquire} of this session holds no lock")]
    NotHolder {
        /// The number that was named.
        acquire: RequestNumber,
    },
}

/// A step of a cycle: this owner waits for this lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitFor {
    /// Which owner.
    pub owner: OwnerId,
    /// The label of its session.
    pub label: String,
    /// The lock that it waits for. The next owner of the cycle, or an ancestor of it, holds it or stands before it in the queue.
    pub lock: LockName,
}

impl Acquire {
    /// An acquire of one lock that waits for ever, and closes nothing if it expires.
    pub fn one(lock: impl Into<LockName>, mode: Mode, owner: OwnerId) -> Self {
        let wants = [Want { lock: lock.into(), mode }].into_iter().collect();
        Acquire { wants, owner, parent: None, timeout_ms: None, lock_delay_ms: 0 }
    }
}

impl Mode {
    /// How many permits a lock has that is wanted so.
    pub fn permits(self) -> u32 {
        match self {
            Mode::Exclusive | Mode::Shared => 1,
            Mode::Permit { of } => of,
        }
    }

    /// Whether two claims that want one lock so can hold it together, however many permits there are.
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
    /// Whether a request of this number can ask for it.
    pub fn check(&self, number: RequestNumber) -> Result<(), Invalid> {
        limits::check_operation(number, self)
    }

    /// Whether it gives something back: a session with too many requests may still do that.
    pub(in crate::state) fn frees(&self) -> bool {
        !matches!(self, Operation::Acquire(_))
    }

    /// Adds what tells it from another request: see [`crate::state::Operation::fingerprint`].
    pub(in crate::state) fn fingerprint(&self, hash: &mut Fingerprint) {
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

fn permits(count: u32) -> String {
    if count == 1 { "1 permit".to_owned() } else { format!("{count} permits") }
}

fn cycle_in_words(cycle: &[WaitFor]) -> String {
    let steps: Vec<String> =
        cycle.iter().map(|WaitFor { owner, label, lock }| format!("{owner} ({label}) waits for {lock:?}")).collect();
    steps.join(", ")
}
