//! What the table is told, and what it says: the words of the log.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A session, by the number that its client chose at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub u64);

/// Whoever waits for an owner waits for all that it holds. A session may have several; several sessions may share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnerId(pub u64);

/// The number of a request within its session, from 1 on.
pub type RequestNumber = u64;

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What Raft replicates: commands that are applied together, and when, for people to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since 1970 where it was proposed. The table's own time only grows, and decides nothing.
    pub now_ms: u64,
    /// One is normal.
    pub commands: Vec<Command>,
}

/// One change of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A process begins to lead in this term: from here on, an Expire of an earlier term does nothing.
    Lead {
        /// The term.
        term: u64,
    },
    /// Begins a session, or takes one up again.
    Open {
        /// Which.
        session: SessionId,
        /// How long it lives after its last keep-alive.
        ttl_ms: u64,
        /// For people: what it is.
        label: String,
        /// For people: where it runs.
        host: String,
        /// For people: as which process.
        pid: u32,
        /// Only take up a session that is there.
        resume: bool,
    },
    /// What a client asks of the table.
    Request {
        /// Which session asks.
        session: SessionId,
        /// Which of its requests this is.
        number: RequestNumber,
        /// The client has seen every answer up to this number, but for the missing ones.
        seen: RequestNumber,
        /// In order, below the request's own number and not above `seen`: unanswered yet, or lost on the way.
        missing: Vec<RequestNumber>,
        /// What it asks.
        operation: Operation,
    },
    /// The leader of this term has not heard of the session for longer than its lease.
    Expire {
        /// Which session.
        session: SessionId,
        /// The term in which its lease was counted.
        term: u64,
    },
    /// The lock-delay of this generation is over.
    EndLockDelay {
        /// Of which lock.
        lock: String,
        /// Which of its delays.
        generation: u64,
    },
    /// The acquire of this number has waited for as long as it wanted to.
    CancelWait {
        /// Which session waits.
        session: SessionId,
        /// Which of its requests.
        number: RequestNumber,
    },
    /// Somebody who is not the holder wants the lock released.
    Force {
        /// Which lock.
        lock: String,
        /// Without waiting for the holders' word or the end of their leases.
        now: bool,
    },
}

/// What a client asks, by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Wants a lock.
    Acquire {
        /// Which: 1 to 512 bytes.
        lock: String,
        /// How.
        mode: Mode,
        /// For whom.
        owner: OwnerId,
        /// For how long it waits: not at all (0), so long, or for ever.
        timeout_ms: Option<u64>,
        /// How long the lock stays closed if its session expires while it holds.
        lock_delay_ms: u64,
    },
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
    /// Ends the session and releases all that it holds.
    Close,
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

/// What has to be told or done because of a command, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The session is open.
    Opened {
        /// Which.
        session: SessionId,
        /// Its time to live: that of its first Open.
        ttl_ms: u64,
    },
    /// A request is answered.
    Answer {
        /// Whose.
        session: SessionId,
        /// Which.
        number: RequestNumber,
        /// How.
        answer: Answer,
    },
    /// What this acquire was granted is to be given back.
    Revoked {
        /// Whose.
        session: SessionId,
        /// The number of the acquire.
        acquire: RequestNumber,
    },
    /// The session is no more.
    Ended {
        /// Which.
        session: SessionId,
        /// Why.
        reason: EndReason,
    },
    /// An acquire begins to wait, and wants to be cancelled after so long.
    Waits {
        /// Whose.
        session: SessionId,
        /// Which.
        number: RequestNumber,
        /// How long.
        timeout_ms: u64,
    },
    /// A lock is closed for so long.
    LockDelay {
        /// Which.
        lock: String,
        /// What its end has to name.
        generation: u64,
        /// How long.
        delay_ms: u64,
    },
}

/// The answer to a request. It never changes, however often the request is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The lock is held, under this fence.
    Granted {
        /// Greater than that of every earlier grant; shared by those who share.
        fence: u64,
    },
    /// It is given back.
    Released,
    /// What became of the acquire.
    Cancelled(CancelOutcome),
    /// The session is ended.
    Closed,
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

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// It would have to wait, and does not want to.
    #[error("the lock is not free, and the request does not wait")]
    NotAvailable,
    /// It has waited for as long as it wanted to.
    #[error("the lock was not granted within the time-out")]
    TimedOut,
    /// Its client took it back.
    #[error("the request was cancelled")]
    Cancelled,
    /// It would wait for itself.
    #[error("the request would wait for itself: {}", cycle_in_words(.0))]
    Deadlock(Vec<WaitFor>),
    /// The lock has another number of permits.
    #[error("the lock is in use with {}, and the request says {says}", permits(*has))]
    PermitsDiffer {
        /// Now.
        has: u32,
        /// In the request.
        says: u32,
    },
    /// What is to be released is not held by this session.
    #[error("request {acquire} of this session holds no lock")]
    NotHolder {
        /// The number that was named.
        acquire: RequestNumber,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The session has too many requests without a seen answer.
    #[error("the session has {limit} requests whose answers it has not seen; more are not kept")]
    TooManyRequests {
        /// How many it may have.
        limit: u32,
    },
}

/// A step of a cycle: this owner waits for this lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitFor {
    /// Who.
    pub owner: OwnerId,
    /// The label of its session.
    pub label: String,
    /// The lock that it waits for, which the next of the cycle holds, or will before it.
    pub lock: String,
}

/// Why a session is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// Nothing was heard of it for longer than its lease.
    Expired,
    /// Its client closed it.
    Closed,
    /// There is no such session (any more).
    Unknown,
}

fn permits(count: u32) -> String {
    if count == 1 { "1 permit".to_owned() } else { format!("{count} permits") }
}

fn cycle_in_words(cycle: &[WaitFor]) -> String {
    let steps: Vec<String> =
        cycle.iter().map(|WaitFor { owner, label, lock }| format!("{owner} ({label}) waits for {lock:?}")).collect();
    steps.join(", ")
}
