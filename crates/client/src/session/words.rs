//! What a session is asked for, and what it says.

use std::fmt;

use baton_proto::name::Quoted;
use baton_proto::v1;

use super::Millis;

/// The number of an acquire within its session. It is also the name of what it was granted.
pub type AcquireNumber = u64;

/// What a session is, for the server and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Chosen at random, so that no two sessions share it.
    pub session: u64,
    /// How long it lives after its last keep-alive.
    pub ttl_ms: u64,
    /// For people: what it is.
    pub label: String,
    /// For people: where it runs.
    pub host: String,
    /// For people: as which process.
    pub pid: u32,
    /// How long each server has to open it, at most, before another one is asked.
    pub open_patience_ms: u64,
}

/// How a lock is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By one alone.
    #[default]
    Exclusive,
    /// By any number that all want it so.
    Shared,
    /// One permit of so many. All who use the lock at a time must name the same number.
    Permit {
        /// How many permits the lock has, at least 1.
        of: u32,
    },
}

/// A wish for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which lock: 1 to 512 bytes.
    pub name: Vec<u8>,
    /// How.
    pub mode: Mode,
    /// For whom: deadlocks are cycles of owners.
    pub owner: u64,
    /// The owner that waits until this one has ended, if there is one.
    pub parent: Option<u64>,
    /// For how long it waits: not at all (0), so long, or for ever.
    pub timeout_ms: Option<u64>,
    /// How long the lock stays closed if the session expires while it holds.
    pub lock_delay_ms: u64,
}

/// What the shell has to do, or to pass on to the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Connect to some server, after a pause if the last attempt was short of one; then call `connected`. An older
    /// connection is to be closed, and nothing that it still brings may be passed on.
    Connect,
    /// Close the connection. No other is wanted.
    Disconnect,
    /// Send this frame on the connection.
    Send(v1::ClientFrame),
    /// Tell the user.
    Event(Event),
}

/// What the user has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session is there.
    Opened,
    /// The lock is held.
    Granted {
        /// By which acquire.
        acquire: AcquireNumber,
        /// Greater than that of every earlier holder.
        fence: u64,
    },
    /// The lock is not held, and will not be by this acquire.
    Refused {
        /// Which acquire.
        acquire: AcquireNumber,
        /// Why.
        refusal: Refusal,
    },
    /// What was given back is given back, or not known to be.
    Released {
        /// What.
        acquire: AcquireNumber,
        /// Whether.
        result: Result<(), ReleaseFailure>,
    },
    /// Somebody forced the release: whoever works under the lock has to stop, and then to give it back.
    Revoked {
        /// What.
        acquire: AcquireNumber,
    },
    /// No keep-alive was acknowledged for half of the time to live.
    AtRisk,
    /// One was acknowledged, in time.
    Confirmed,
    /// The session, and with it every lock, is lost for ever.
    Lost(Loss),
    /// Nothing more will come.
    Finished {
        /// Whether the server said that the session has ended.
        confirmed: bool,
    },
}

/// Why a session or a lock is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// No keep-alive was acknowledged in time.
    #[error("no keep-alive was acknowledged in time")]
    Unacknowledged,
    /// The server says so.
    #[error("the server ended the session: {0}")]
    Ended(String),
    /// Somebody forced its release.
    #[error("somebody forced the release of the lock")]
    Revoked,
    /// The user closed the session.
    #[error("the session was closed")]
    Closed,
}

/// Why an acquire is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It would have to wait, and does not want to.
    #[error("the lock is not free")]
    NotAvailable,
    /// It has waited for as long as it wanted to.
    #[error("the lock was not granted within the time-out")]
    TimedOut,
    /// It was given up before it was granted.
    #[error("the request was cancelled")]
    Cancelled,
    /// It would wait for itself.
    #[error("the request would wait for itself: {}", in_words(.cycle))]
    Deadlock {
        /// Who waits for whom, the last for the first.
        cycle: Vec<Wait>,
    },
    /// The server says that the request makes no sense, or cannot be kept now.
    #[error("{message}")]
    Other {
        /// The kind, as it is on the wire.
        kind: v1::Refusal,
        /// One sentence.
        message: String,
    },
    /// The session was lost meanwhile, or this lock was revoked before its grant was known.
    #[error("the lock was not granted: {0}")]
    Lost(Loss),
}

/// A step of a cycle: this owner waits for this lock, which the next one holds, or will before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who.
    pub owner: u64,
    /// The label of its session.
    pub label: String,
    /// The lock that it waits for.
    pub lock: Vec<u8>,
}

/// Why it is not certain that a lock was given back by its release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseFailure {
    /// The server had already taken the lock away.
    #[error("the lock was no longer held: {0}")]
    NotHeld(String),
    /// The session was lost first: whoever waits gets the lock when the server notices that too.
    #[error("the release was not confirmed, and the lock stays closed until the lease ends: {0}")]
    Unconfirmed(Loss),
}

/// A session at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// It was never acknowledged yet.
    Opening,
    /// It was acknowledged lately.
    Alive,
    /// Not for half of its time to live.
    AtRisk,
    /// It is over.
    Lost,
}

/// A granted lock at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// It is held.
    Held,
    /// It is held, but no keep-alive was acknowledged for half of the time to live.
    AtRisk,
    /// It is not held any more, and never will be again.
    Lost,
}

/// What is late, so that somebody may be told when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timeout {
    pub(super) at: Millis,
    pub(super) acquire: AcquireNumber,
}

impl Wish {
    pub(super) fn operation(&self) -> v1::request::Operation {
        let (mode, permits) = match self.mode {
            Mode::Exclusive => (v1::Mode::Exclusive, 0),
            Mode::Shared => (v1::Mode::Shared, 0),
            Mode::Permit { of } => (v1::Mode::Permit, of),
        };
        v1::request::Operation::Acquire(v1::Acquire {
            name: self.name.clone(),
            mode: mode.into(),
            permits,
            owner: self.owner,
            timeout_ms: self.timeout_ms,
            lock_delay_ms: self.lock_delay_ms,
            parent: self.parent,
        })
    }
}

impl From<v1::Refused> for Refusal {
    fn from(refused: v1::Refused) -> Self {
        match refused.refusal() {
            v1::Refusal::NotAvailable => Refusal::NotAvailable,
            v1::Refusal::TimedOut => Refusal::TimedOut,
            v1::Refusal::Cancelled => Refusal::Cancelled,
            v1::Refusal::Deadlock => {
                let step = |wait: v1::Wait| Wait { owner: wait.owner, label: wait.label, lock: wait.lock };
                Refusal::Deadlock { cycle: refused.cycle.into_iter().map(step).collect() }
            }
            kind => Refusal::Other { kind, message: refused.message },
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} ({}) waits for {}", self.owner, self.label, Quoted(&self.lock))
    }
}

pub(crate) fn in_words(cycle: &[Wait]) -> String {
    cycle.iter().map(Wait::to_string).collect::<Vec<_>>().join(", ")
}
