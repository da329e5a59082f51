//! [`Session`] and its builder: the session as a program uses it.

use std::sync::Arc;
use std::time::Duration;

use baton_types::cluster_id::ClusterId;
use baton_types::frames::Secret;
use baton_types::limits::{OPEN_MAX, SESSION_ID_MAX, TTL_MS, TTL_MS_MAX, TTL_MS_MIN};

use crate::acquire::Acquire;
use crate::clock::BootTime;
use crate::driver::Shared;
use crate::error::{AcquireError, CloseError, OpenError, random, random_bytes};
use crate::guard::Guard;
use crate::platform::host_name;
use crate::servers::{Rounds, Servers};
use crate::session::{Config, Loss, Mode, Session as Machine, SessionState};

/// Options for opening a session.
#[must_use = "a session is opened by `open`"]
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    servers: Arc<Servers>,
    /// The turn of the first server to try.
    turn: usize,
    ttl: Duration,
    label: String,
    open_timeout: Duration,
}

impl SessionBuilder {
    pub(crate) fn new(servers: Arc<Servers>, turn: usize) -> Self {
        let (ttl, label) = (Duration::from_millis(TTL_MS), String::new());
        SessionBuilder { servers, turn, ttl, label, open_timeout: OPEN_MAX }
    }

    /// Sets the time to live: how long the session survives without a keep-alive. From 1 second to 1 day; default 10
    /// seconds. After a crash of the client its locks stay held for this time. The session also survives a server
    /// outage that is shorter.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets a text that tells people what the session is. `baton locks` and `baton sessions` show it.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets how long [`open`](SessionBuilder::open) tries. Default: 10 seconds.
    pub fn open_timeout(mut self, timeout: Duration) -> Self {
        self.open_timeout = timeout;
        self
    }

    /// Opens the session. The client tries the servers again and again until one opens the session or the
    /// [time](SessionBuilder::open_timeout) is over: a server may be silent, may have its limit of connections or
    /// sessions, or may have too little free space. Returns an error at once if no server can ever open the session,
    /// for example if none of them is a Baton server.
    pub async fn open(self) -> Result<Session, OpenError> {
        self.open_in(Rounds::Until).await
    }

    /// Opens the session. The client tries each server once; each server has an equal share of the time. Returns an
    /// error as soon as each server has failed.
    pub async fn open_once(self) -> Result<Session, OpenError> {
        self.open_in(Rounds::One).await
    }

    async fn open_in(self, rounds: Rounds) -> Result<Session, OpenError> {
        if !(Duration::from_millis(TTL_MS_MIN)..=Duration::from_millis(TTL_MS_MAX)).contains(&self.ttl) {
            return Err(OpenError::InvalidTtl { ttl: self.ttl });
        }
        let session = session_id(random()?);
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        // The time is enough for one attempt at each server, plus one more if the client tries the servers again.
        let attempts = self.servers.count() + usize::from(rounds == Rounds::Until);
        let share = self.open_timeout / u32::try_from(attempts).unwrap_or(u32::MAX);
        let open_patience_ms = u64::try_from(share.as_millis()).unwrap_or(u64::MAX).max(1);
        let (label, host, pid) = (self.label, host_name(), std::process::id());
        let secret = Secret(random_bytes()?);
        let config = Config { session, ttl_ms, label, host, pid, secret: Some(secret), open_patience_ms };
        let key = SessionKey { session, secret: secret.0, ttl_ms };
        let shared = Shared::spawn(Machine::new(config), ttl_ms, self.servers, self.turn, rounds);
        // From here on, dropping this future drops the handle, which closes the session.
        let session = Session { handle: Arc::new(Handle { shared, key }) };
        let opened = session.handle.shared.wait_for(Shared::opened);
        match tokio::time::timeout(self.open_timeout, opened).await {
            Ok(opened) => opened.map(|()| session),
            Err(_) => Err(session.handle.shared.not_in_time()),
        }
    }
}

fn session_id(random: u64) -> u64 {
    (random & SESSION_ID_MAX).max(1)
}

/// With this another process, or another session of the same process, can close a session:
/// [`Client::close_session`](crate::Client::close_session). Keep it as secret as a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionKey {
    /// The session's number.
    pub session: u64,
    /// Only the server and the client know it.
    pub secret: [u8; 32],
    pub ttl_ms: u64,
}

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKey").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Closes the session with this key, and waits until a server confirms the end.
pub(crate) async fn close_session(servers: Arc<Servers>, turn: usize, key: &SessionKey) -> Result<(), CloseError> {
    let &SessionKey { session, secret, ttl_ms } = key;
    // The server has the texts about the session already.
    let (label, host, pid) = (String::new(), String::new(), std::process::id());
    let open_patience_ms = u64::try_from(OPEN_MAX.as_millis()).unwrap_or(u64::MAX);
    let config = Config { session, ttl_ms, label, host, pid, secret: Some(Secret(secret)), open_patience_ms };
    let machine = Machine::closing(config, BootTime::now().as_millis());
    let closing = Closing(Shared::spawn(machine, ttl_ms, servers, turn, Rounds::Until));
    if closing.0.close().await { Ok(()) } else { Err(CloseError::Unconfirmed) }
}

/// Ends the attempts to close a session when the caller stops waiting.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.with(|machine, _| machine.stop());
    }
}

/// Shared by a session and its guards. The session is closed when the last of them is dropped.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: SessionKey,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.with(|machine, now| machine.close(now));
    }
}

/// A session with the lock service. The session holds the locks that are acquired in it and keeps them alive.
///
/// Clones are the same session. The session is closed when the last clone and the last guard are dropped.
///
/// **A drop does not wait.** If a session, a [`Guard`] or the future of an acquire is dropped, a task of the tokio
/// runtime tells the server. If the runtime ends first, the server may never learn of the drop, and the locks stay held
/// until the lease ends. [`Session::settled`] waits until the server has confirmed the drops. [`Session::close`] closes
/// the session and waits until the server confirms.
#[derive(Clone)]
pub struct Session {
    pub(crate) handle: Arc<Handle>,
}

impl Session {
    /// Returns a builder for acquiring a lock. Defaults: exclusive, no time-out.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Acquire {
        Acquire::new(self.clone(), name.as_ref())
    }

    /// Returns a builder for acquiring one of `permits` permits. All holders and waiters of this lock must state the
    /// same number.
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Acquire {
        self.lock(name).mode(Mode::Permit { of: permits })
    }

    /// Acquires the lock if it is free, without waiting. Returns `None` if it is not free.
    pub async fn try_lock(&self, name: impl AsRef<[u8]>) -> Result<Option<Guard>, AcquireError> {
        self.lock(name).try_acquire().await
    }

    /// The session's number, as `baton sessions` shows it.
    pub fn id(&self) -> u64 {
        self.handle.key.session
    }

    /// What another process needs to close this session when this process is gone, or this process when the session is
    /// lost: see [`Client::close_session`](crate::Client::close_session).
    pub fn key(&self) -> SessionKey {
        self.handle.key
    }

    /// The cluster that the session belongs to. None if its servers are older than such ids.
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.handle.shared.cluster_id()
    }

    /// How long the cluster grants no lock yet, because it began anew from a backup and leases of before may still run.
    /// Requests wait meanwhile. Zero: it grants locks. The wait is longer if the cluster has no leader for a while.
    pub fn closed_for(&self) -> Duration {
        self.handle.shared.closed_for()
    }

    /// The state of the session at this moment.
    pub fn state(&self) -> SessionState {
        self.handle.shared.ask(|machine, now| machine.state(now))
    }

    /// The end of the lease. Until this moment the server grants the session's locks to no other session. Each
    /// acknowledged keep-alive moves the deadline. Without one the session is lost shortly before the deadline.
    pub fn deadline(&self) -> BootTime {
        let deadline = self.handle.shared.ask(|machine, _| machine.deadline());
        // An open session has a deadline. If there were none, 0 means that the lease is over.
        BootTime::from_millis(deadline.unwrap_or_default())
    }

    /// Resolves when the session and all its locks are lost, and returns the reason.
    pub async fn lost(&self) -> Loss {
        self.handle.shared.wait_for(|shared| shared.ask(|machine, now| machine.loss(now))).await
    }

    /// What went wrong at each server since one last opened the session, as one sentence; none if nothing did. After
    /// [`Loss::Unacknowledged`] it says why no server acknowledged a keep-alive.
    pub fn trouble(&self) -> Option<String> {
        self.handle.shared.trouble()
    }

    /// Waits until the server has confirmed all drops so far: dropped guards are released, and acquires that were
    /// dropped or timed out are cancelled. Returns at once if there is nothing to confirm. Returns an error if the
    /// session is lost or closed first: then the locks stay held until the lease ends.
    pub async fn settled(&self) -> Result<(), Loss> {
        self.handle.shared.settled().await
    }

    /// Closes the session and releases its locks. Guards that still exist are lost at once. Returns an error if no
    /// server confirms the end within one time to live.
    pub async fn close(self) -> Result<(), CloseError> {
        if self.handle.shared.close().await { Ok(()) } else { Err(CloseError::Unconfirmed) }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id()).field("state", &self.state()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_session_has_an_id_from_1_to_2_to_the_63_minus_1() {
        assert_eq!([0, 1, 2, 1 << 63, u64::MAX].map(session_id), [1, 1, 2, 1, (1 << 63) - 1]);
    }
}
