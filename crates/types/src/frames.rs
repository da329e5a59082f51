//! What a client and the service say to each other on the stream of a session. Everything is pipelined, and answered by
//! number, in whatever order the answers come.

use crate::limits::SECRET_BYTES;

/// What takes a session up again. Only its client knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; SECRET_BYTES]);

/// It does not show the secret.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToServer {
    /// The first frame of a stream, and only the first.
    Open(Open),
    /// Asks for the whole lease once more.
    KeepAlive {
        /// The answer is Alive with this number, or Ended, or none.
        number: u64,
    },
    /// Asks for something.
    Request(Request),
}

/// A message of a client that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Malformed {
    /// What it would have been.
    pub part: Part,
    /// What is wrong with it, in a sentence.
    pub what: String,
}

/// What a message that stands for nothing would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An Open.
    Open,
    /// The request of this number.
    Request(u64),
    /// Nobody can say.
    Unknown,
}

/// Begins a session, or takes one up again after a broken connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Chosen by the client at random, so that a repeated Open is the same session.
    pub session: u64,
    /// Counts the connections of the session, from 1 on: an Open that arrives after a later one is late. 0 if the
    /// client does not count.
    pub attempt: u64,
    /// How long the session lives after its last keep-alive.
    pub ttl_ms: u64,
    /// For people: what the session is.
    pub label: String,
    /// For people: where it runs.
    pub host: String,
    /// For people: as which process.
    pub pid: u32,
    /// Takes up a session that is there. It never begins one.
    pub resume: bool,
    /// None from a client older than 0.2.0.
    pub secret: Option<Secret>,
}

/// A numbered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// From 1 on, each once; a repeated number is a retry, and is applied once.
    pub number: u64,
    /// The client has seen every answer up to this number, except the missing ones.
    pub seen: u64,
    /// In order, each below `number` and not above `seen`.
    pub missing: Vec<u64>,
    /// What is asked for.
    pub operation: Operation,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A lock.
    Acquire(Acquire),
    /// Gives back what an acquire was granted.
    Release {
        /// The number of the acquire.
        acquire: u64,
    },
    /// Takes an acquire back: it stops waiting or, if it was granted meanwhile, is released.
    Cancel {
        /// The number of the acquire.
        acquire: u64,
    },
    /// Ends the session and releases all that it holds.
    Close,
}

/// A wish for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// Which lock.
    pub name: Vec<u8>,
    /// How.
    pub mode: Mode,
    /// Deadlocks are cycles of owners: a request that waits for an owner waits for all that the owner holds.
    pub owner: u64,
    /// The owner that this owner acts for: a parent waits for its children.
    pub parent: Option<u64>,
    /// How long the request waits: none is for ever, 0 is not at all.
    pub timeout_ms: Option<u64>,
    /// How long the lock stays closed if the session of its holder expires.
    pub lock_delay_ms: u64,
}

/// How a lock is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By one alone.
    #[default]
    Exclusive,
    /// By any number of holders that all share it.
    Shared,
    /// One permit of several. All who use the lock at a time must name the same number of permits.
    Permit {
        /// How many permits the lock has, at least 1.
        of: u32,
    },
}

/// What the service says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// The session is there.
    Opened {
        /// Which session.
        session: u64,
        /// How long it lives after its last keep-alive.
        ttl_ms: u64,
    },
    /// The keep-alive of this number is acknowledged.
    Alive {
        /// The number of the keep-alive.
        number: u64,
    },
    /// The answer to a request.
    Answer {
        /// The number of the request.
        number: u64,
        /// The answer.
        answer: Answer,
    },
    /// Somebody forced the release of a lock: its holder has to stop, and then to release it.
    Revoked {
        /// The number of the acquire that was granted.
        acquire: u64,
    },
    /// The session is no more, and never will be again.
    Ended {
        /// Why.
        reason: EndReason,
        /// One sentence for people.
        message: String,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The lock is held.
    Granted {
        /// Greater than that of every earlier holder.
        fence: u64,
    },
    /// It is given back.
    Released,
    /// What became of an acquire that was taken back.
    Cancelled(CancelOutcome),
    /// The session has ended.
    Closed,
    /// Not so.
    Refused(Refused),
}

/// What became of an acquire that was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It no longer waits.
    Removed,
    /// It had been granted, and is released.
    Released,
    /// There was nothing left to cancel.
    Nothing,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Of what kind.
    pub refusal: Refusal,
    /// One sentence for people.
    pub message: String,
    /// Of a deadlock: which owner waits for which, the last for the first.
    pub cycle: Vec<Wait>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The lock is not free, and the request does not wait.
    NotAvailable,
    /// The request has waited for as long as it wanted to.
    TimedOut,
    /// The request was cancelled.
    Cancelled,
    /// The request would wait for itself.
    Deadlock,
    /// Others use the lock with another number of permits.
    PermitsDiffer,
    /// The session does not hold what it gives back.
    NotHolder,
    /// The request makes no sense.
    Invalid,
    /// The session has too many requests whose answers it has not seen.
    TooManyRequests,
    /// The server has too little free space.
    LowSpace,
    /// An earlier request of the session had this number and asked for something else.
    NumberReused,
    /// The server has as many locks as it takes.
    TooManyLocks,
    /// As many wait for the lock as the server lets wait.
    TooManyWaiters,
    /// The session has as many locks as the server lets one have.
    TooManyHolds,
    /// A newer server has a reason that this client does not know.
    Unknown,
}

/// A step of a cycle: this owner waits for this lock, which the next one holds, or will before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The owner that waits.
    pub owner: u64,
    /// The label of its session.
    pub label: String,
    /// The lock that it waits for.
    pub lock: Vec<u8>,
}

/// Why a session is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Nothing was heard of it for longer than its lease.
    Expired,
    /// Its client closed it.
    Closed,
    /// There is none.
    Unknown,
    /// The Open makes no sense.
    Invalid,
    /// The server has too little free space for a new session.
    LowSpace,
    /// The server has as many sessions as it takes.
    TooManySessions,
    /// The session is another client's.
    WrongSecret,
}
