//! Limits and defaults of the lock service, for the client, the server and the command line.

use std::time::Duration;

pub use crate::name::NAME_BYTES_MAX;

/// The default address: a server listens there, and a client connects to it.
pub const ADDRESS: &str = "127.0.0.1:7420";

/// The shortest TTL of a session.
pub const TTL_MS_MIN: u64 = 1_000;
/// The longest TTL of a session: a day.
pub const TTL_MS_MAX: u64 = 86_400_000;
/// The longest TTL of the sessions of a new cluster, unless `--max-ttl` says otherwise: 10 minutes.
pub const TTL_MS_MAX_OF_NEW: u64 = 600_000;
/// The default TTL of a session.
pub const TTL_MS: u64 = 10_000;

/// The highest id of a new session.
pub const SESSION_ID_MAX: u64 = (1 << 63) - 1;
/// The longest label of a session, in bytes.
pub const LABEL_BYTES_MAX: usize = 256;
/// The longest name of a host, in bytes.
pub const HOST_BYTES_MAX: usize = 256;
/// The length of a session's secret, in bytes.
pub const SECRET_BYTES: usize = 32;

/// Fences stay below this. JavaScript, Lua and many readers of JSON keep numbers as floating-point, and lose digits from
/// here on.
pub const FENCE_END: u64 = 1 << 53;
/// The highest fence at which a cluster can be told to go on. As many fences are left above it.
pub const FENCE_FROM_MAX: u64 = 1 << 52;
/// The highest fence at which a cluster can begin anew. It is above the one before, so that a cluster of that one can
/// still begin anew, and 2^51 fences are left above it.
pub const FENCE_ANEW_MAX: u64 = FENCE_END - (1 << 51);

pub const PERMITS_MAX: u32 = 1_000_000;
/// An hour.
pub const LOCK_DELAY_MS_MAX: u64 = 3_600_000;
/// The most locks that one acquire can name.
pub const WANTS_MAX: usize = 64;

/// The most requests of a session without a seen answer. Beyond it the state refuses acquires. Releases and cancels
/// have twice this limit, so that a session with too many requests can still release its locks.
pub const REQUESTS_MAX: usize = 1_024;
/// The most missing answers that a request can list: as many as a session can have requests without a seen answer.
pub const MISSING_MAX: usize = 2 * REQUESTS_MAX;

/// The longest message of a client over gRPC, in bytes: a request, or a frame of a session.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The default time limit for opening a session. `baton lock` tries to reach a server for this long.
pub const OPEN_MAX: Duration = Duration::from_secs(10);

/// The server never serves more connections than this at a time, whatever the system allows.
pub const CONNECTIONS_MAX: usize = 100_000;

/// The limits of one server. A request beyond a limit is refused, and leaves no trace in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Sessions at a time.
    pub sessions: usize,
    /// Locks that are held, waited for or closed at a time.
    pub locks: usize,
    /// Requests that wait for one lock.
    pub waiters: usize,
    /// Locks that one session holds or waits for.
    pub holds: usize,
    /// Streams of one connection.
    pub streams: usize,
    /// The longest TTL of a session, in milliseconds.
    pub ttl_ms_max: u64,
}

impl ServerLimits {
    pub const DEFAULT: Self = ServerLimits {
        sessions: 100_000,
        locks: 4_000_000,
        waiters: 100_000,
        holds: 1_000_000,
        streams: 1_000,
        ttl_ms_max: TTL_MS_MAX,
    };
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits::DEFAULT
    }
}
