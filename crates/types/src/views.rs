//! What the service shows to people: locks, sessions, how a server is. Times of day are milliseconds since 1970.

use crate::frames::Mode;

/// A lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Its name: 1 to 512 bytes.
    pub name: Vec<u8>,
    /// How it is held; none if nobody holds it.
    pub mode: Option<Mode>,
    /// How many permits it has.
    pub permits: u32,
    /// In the order of their grants.
    pub holders: Vec<Holder>,
    /// In the order in which they asked.
    pub waiters: Vec<Waiter>,
    /// Ended holds, the oldest first.
    pub history: Vec<Past>,
    /// How long it stays closed yet, at most.
    pub lock_delay_ms: u64,
}

/// A holder of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Its session.
    pub session: u64,
    /// For whom it holds.
    pub owner: u64,
    /// What its session is.
    pub label: String,
    /// Where its session runs.
    pub host: String,
    /// As which process.
    pub pid: u32,
    /// The fence of its grant.
    pub fence: u64,
    /// When it was granted the lock.
    pub since_ms: u64,
    /// How long its session lives if nothing is heard of it.
    pub deadline_in_ms: u64,
}

/// A waiter for a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiter {
    /// Its session.
    pub session: u64,
    /// For whom it waits.
    pub owner: u64,
    /// What its session is.
    pub label: String,
    /// How it wants the lock.
    pub mode: Mode,
    /// How long it has waited.
    pub waiting_ms: u64,
    /// Its place in the queue, from 1 on.
    pub position: u32,
}

/// A hold that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Whose.
    pub session: u64,
    /// What its session was.
    pub label: String,
    /// The fence of its grant.
    pub fence: u64,
    /// When it was granted.
    pub from_ms: u64,
    /// When it ended.
    pub to_ms: u64,
    /// How it ended.
    pub ended: HowEnded,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowEnded {
    /// Its holder gave the lock back.
    Released,
    /// Its session expired.
    Expired,
    /// Somebody forced the release.
    Forced,
    /// A newer server says something else.
    Unknown,
}

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: u64,
    /// What it is.
    pub label: String,
    /// Where it runs.
    pub host: String,
    /// As which process.
    pub pid: u32,
    /// How long it lives after its last keep-alive.
    pub ttl_ms: u64,
    /// How long it lives if nothing is heard of it.
    pub expires_in_ms: u64,
    /// Names of locks; a lock as often as the session holds it.
    pub holds: Vec<Vec<u8>>,
    /// Names of locks; a lock as often as the session waits for it.
    pub waits: Vec<Vec<u8>>,
}

/// How a server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Which node of its group it is.
    pub node: u64,
    /// What it is in its group, such as `leader`.
    pub role: String,
    /// In which term.
    pub term: u64,
    /// Up to which index the log is committed.
    pub commit: u64,
    /// Up to which index it is applied.
    pub applied: u64,
    /// Locks that are held, waited for or closed.
    pub locks: u64,
    /// Sessions.
    pub sessions: u64,
    /// Claims that wait.
    pub waiters: u64,
    /// How long it has run.
    pub uptime_ms: u64,
    /// Its version.
    pub version: String,
    /// How many bytes more its data folder takes; none if the system does not say.
    pub free_bytes: Option<u64>,
    /// Whether that is too little to begin anything new.
    pub low_space: bool,
}

/// A page of a listing, and where the next one begins: nowhere if it is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// What to ask the next page with. It means something to the service only.
    pub next: Vec<u8>,
}
