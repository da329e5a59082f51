//! Bounds and defaults of the lock service, for the client, the server and the command line.

use std::time::Duration;

pub use crate::name::NAME_BYTES_MAX;

/// Where a server listens, and where a client looks for one, if nothing is said.
pub const ADDRESS: &str = "127.0.0.1:7420";

/// The shortest time to live of a session.
pub const TTL_MS_MIN: u64 = 1_000;
/// The longest time to live of a session: a day.
pub const TTL_MS_MAX: u64 = 86_400_000;
/// The time to live of a session if nothing is said.
pub const TTL_MS: u64 = 10_000;

/// The highest id of a new session.
pub const SESSION_ID_MAX: u64 = (1 << 63) - 1;
/// The longest label of a session, in bytes.
pub const LABEL_BYTES_MAX: usize = 256;
/// The longest name of a host, in bytes.
pub const HOST_BYTES_MAX: usize = 256;
/// The length of the secret that takes a session up again, in bytes.
pub const SECRET_BYTES: usize = 32;

/// The most permits that a lock can have.
pub const PERMITS_MAX: u32 = 1_000_000;
/// The longest lock-delay: an hour.
pub const LOCK_DELAY_MS_MAX: u64 = 3_600_000;
/// The most locks that one acquire can name.
pub const WANTS_MAX: usize = 64;

/// So many requests of a session may be without a seen answer before a further one is refused. Twice as many before one
/// that gives something back is, so that a session with too many can still give some back.
pub const REQUESTS_MAX: usize = 1_024;
/// A request can list so many missing answers: as many as a session can have requests without a seen answer.
pub const MISSING_MAX: usize = 2 * REQUESTS_MAX;

/// How long opening a session may take if nothing is said, and how long `baton lock` tries to reach a server.
pub const OPEN_MAX: Duration = Duration::from_secs(10);

/// More connections than this at a time are not served, whatever the system allows.
pub const CONNECTIONS_MAX: usize = 100_000;

/// How much one server takes on. A request beyond a limit is refused, and leaves no trace in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Sessions at a time.
    pub sessions: usize,
    /// Locks that are held, waited for or closed at a time.
    pub locks: usize,
    /// Claims that wait for one lock.
    pub waiters: usize,
    /// Locks that one session holds or waits for.
    pub holds: usize,
    /// Streams of one connection.
    pub streams: usize,
}

impl ServerLimits {
    /// What it takes on if nothing is said.
    pub const DEFAULT: Self =
        ServerLimits { sessions: 100_000, locks: 4_000_000, waiters: 100_000, holds: 1_000_000, streams: 1_000 };
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits::DEFAULT
    }
}
