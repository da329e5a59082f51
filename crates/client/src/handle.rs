//! A session, as a program has it.

use std::sync::Arc;
use std::time::Duration;

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

/// A session about to be opened.
#[must_use = "a session is opened by `open`"]
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    servers: Arc<Servers>,
    /// The server that the session asks first.
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

    /// How long the session lives after its last keep-alive: from 1 second to a day, 10 seconds if nothing is said. So long a
    /// client that died blocks the others, and so long a server may be away without a loss.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// What it is, for people who look at the locks.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// For how long the servers are asked: 10 seconds if nothing is said.
    pub fn open_timeout(mut self, timeout: Duration) -> Self {
        self.open_timeout = timeout;
        self
    }

    /// Opens the session. While no server does, all of them are asked again: one that does not answer, one that takes no more
    /// connections or sessions, and one that has too little free space. It is an error at once if none of them can ever
    /// help, such as servers of another kind.
    pub async fn open(self) -> Result<Session, OpenError> {
        self.open_in(Rounds::Until).await
    }

    /// Opens the session. Each server is asked once, and has an equal share of the time. When each has failed, that is an error
    /// at once.
    pub async fn open_once(self) -> Result<Session, OpenError> {
        self.open_in(Rounds::One).await
    }

    async fn open_in(self, rounds: Rounds) -> Result<Session, OpenError> {
        if !(Duration::from_millis(TTL_MS_MIN)..=Duration::from_millis(TTL_MS_MAX)).contains(&self.ttl) {
            return Err(OpenError::InvalidTtl { ttl: self.ttl });
        }
        let session = session_id(random()?);
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        // There is time for each of them and, if they are asked again, for one more attempt.
        let attempts = self.servers.count() + usize::from(rounds == Rounds::Until);
        let share = self.open_timeout / u32::try_from(attempts).unwrap_or(u32::MAX);
        let open_patience_ms = u64::try_from(share.as_millis()).unwrap_or(u64::MAX).max(1);
        let (label, host, pid) = (self.label, host_name(), std::process::id());
        let secret = Some(Secret(random_bytes()?));
        let config = Config { session, ttl_ms, label, host, pid, secret, open_patience_ms };
        let shared = Shared::spawn(Machine::new(config), ttl_ms, self.servers, self.turn, rounds);
        // From here on, whoever drops it closes it.
        let session = Session { handle: Arc::new(Handle { shared, id: session }) };
        let opened = session.handle.shared.wait_for(Shared::opened);
        match tokio::time::timeout(self.open_timeout, opened).await {
            Ok(opened) => opened.map(|()| session),
            Err(_) => Err(session.handle.shared.not_in_time()),
        }
    }
}

/// The id of a new session: from 1 to 2^63-1.
fn session_id(random: u64) -> u64 {
    (random & SESSION_ID_MAX).max(1)
}

/// What sessions and guards have in common: when the last of them goes, the session is closed.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: u64,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.with(|machine, now| machine.close(now));
    }
}

/// A session with the lock service: it keeps what is acquired in it alive.
///
/// Clones are the same session. It is closed when the last clone and the last guard are gone.
///
/// **A drop does not wait**, neither that of a session nor that of a [`Guard`] or of an acquire that is under way: what is
/// given up is told to the server by a task of the tokio runtime. If the runtime ends first, the server may hear nothing,
/// and the locks stay closed until the lease ends. [`Session::settled`] waits for what was dropped,
/// [`Session::close`] ends the session and waits for that.
#[derive(Clone)]
pub struct Session {
    pub(crate) handle: Arc<Handle>,
}

impl Session {
    /// A lock, to be acquired: exclusive, and with all the time in the world, if nothing else is said.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Acquire {
        Acquire::new(self.clone(), name.as_ref())
    }

    /// One permit of so many, to be acquired. All who use this lock at a time must name the same number.
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Acquire {
        self.lock(name).mode(Mode::Permit { of: permits })
    }

    /// The lock, if it is free.
    pub async fn try_lock(&self, name: impl AsRef<[u8]>) -> Result<Option<Guard>, AcquireError> {
        self.lock(name).try_acquire().await
    }

    /// Its number, as `baton sessions` shows it.
    pub fn id(&self) -> u64 {
        self.handle.id
    }

    /// The session at this moment.
    pub fn state(&self) -> SessionState {
        self.handle.shared.ask(|machine, now| machine.state(now))
    }

    /// The end of the lease: until this moment nobody else is granted what the session holds. It moves later with every
    /// keep-alive that is acknowledged; without one the session is lost a little before.
    pub fn deadline(&self) -> BootTime {
        let deadline = self.handle.shared.ask(|machine, _| machine.deadline());
        // An open session has one; without one, nothing may be believed.
        BootTime::from_millis(deadline.unwrap_or_default())
    }

    /// Resolves when the session, and with it every lock, is lost.
    pub async fn lost(&self) -> Loss {
        self.handle.shared.wait_for(|shared| shared.ask(|machine, now| machine.loss(now))).await
    }

    /// Waits until the server has confirmed everything that was given up so far: guards that were dropped are released, and
    /// acquires that were dropped or timed out wait no longer. At once if there is nothing of the kind. An error if the
    /// session is lost, or closed, before that: then the locks stay closed until the lease ends.
    pub async fn settled(&self) -> Result<(), Loss> {
        self.handle.shared.settled().await
    }

    /// Ends the session and releases all that it holds: guards that are still there are lost at once. An error if no server
    /// confirms it while the session could have been alive.
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
