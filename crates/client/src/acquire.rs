//! Acquiring a lock.

use std::sync::Arc;
use std::time::Duration;

use baton_types::frames::Refusal;

use crate::error::{AcquireError, check_name};
use crate::guard::{GOODBYE_MAX, Guard};
use crate::handle::{Handle, Session, SessionBuilder};
use crate::owner::Owner;
use crate::session::{Loss, Mode, NotGranted, Wish};

/// A lock about to be acquired: in a [`Session`], or in a session of its own that is yet to be opened.
#[must_use = "a lock is acquired by `acquire` or `try_acquire`"]
#[derive(Clone, Debug)]
pub struct Acquire<S = Session> {
    session: S,
    name: Vec<u8>,
    mode: Mode,
    owner: Option<Owner>,
    timeout: Option<Duration>,
    lock_delay: Duration,
}

impl<S> Acquire<S> {
    pub(crate) fn new(session: S, name: &[u8]) -> Self {
        let (name, mode, lock_delay) = (name.to_vec(), Mode::Exclusive, Duration::ZERO);
        Acquire { session, name, mode, owner: None, timeout: None, lock_delay }
    }

    /// How it is wanted: exclusive if nothing is said.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Together with all others who want it shared: short for `mode(Mode::Shared)`.
    pub fn shared(self) -> Self {
        self.mode(Mode::Shared)
    }

    /// How long to wait for the lock: for ever if nothing is said. In a session of its own the time counts from when that is
    /// open.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long the lock stays closed if the session expires while it is held: time for what the holder started, and can no
    /// longer stop, to end.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = delay;
        self
    }

    /// For whom. Without this each acquire has an owner of its own, which can never be part of a deadlock.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// What is asked for, and for whom, apart from the session.
    fn wish(self) -> Result<(S, Wish, Owner), AcquireError> {
        check_name(&self.name)?;
        let owner = self.owner.map_or_else(Owner::new, Ok)?;
        // Rounded up, so that a wait of less than a millisecond is one.
        let timeout_ms = self.timeout.map(|timeout| millis(timeout.saturating_add(Duration::from_nanos(999_999))));
        let lock_delay_ms = millis(self.lock_delay);
        let (name, mode, parent) = (self.name, self.mode, owner.parent());
        let wish = Wish { name, mode, owner: owner.to_raw(), parent, timeout_ms, lock_delay_ms };
        Ok((self.session, wish, owner))
    }
}

impl Acquire<Session> {
    /// Waits for the lock. If this future is dropped, the lock is not acquired, or given back at once.
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        let (session, wish, owner) = self.wish()?;
        acquire(session.handle, wish, owner, false).await
    }

    /// The lock, if it is free.
    pub async fn try_acquire(self) -> Result<Option<Guard>, AcquireError> {
        if_free(self.timeout(Duration::ZERO).acquire().await)
    }
}

/// The session of its own is closed when the guard is released or dropped.
impl Acquire<SessionBuilder> {
    /// How long the lock is kept for a client that died: see [`SessionBuilder::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.session = self.session.ttl(ttl);
        self
    }

    /// What the holder is, for people who look at the locks.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.session = self.session.label(label);
        self
    }

    /// Opens the session, for which the servers have 10 seconds, and waits for the lock. If this future is dropped, the lock
    /// is not acquired, or given back at once.
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        let (session, wish, owner) = self.wish()?;
        let handle = session.open().await?.handle;
        let acquired = acquire(Arc::clone(&handle), wish, owner, true).await;
        if acquired.is_err() {
            // Many a program ends now. Its request must not stay in the queue until the lease ends.
            let _ = tokio::time::timeout(GOODBYE_MAX, handle.shared.close()).await;
        }
        acquired
    }

    /// The lock, if it is free.
    pub async fn try_acquire(self) -> Result<Option<Guard>, AcquireError> {
        if_free(self.timeout(Duration::ZERO).acquire().await)
    }
}

async fn acquire(handle: Arc<Handle>, wish: Wish, owner: Owner, is_alone: bool) -> Result<Guard, AcquireError> {
    let (number, outcome) = handle.shared.acquire(&wish);
    // From here on, whoever drops it gives it up.
    let guard = Guard::new(handle, number, wish.name, owner, is_alone);
    match outcome.await {
        Ok(Ok(_fence)) => match guard.loss() {
            None => Ok(guard),
            Some(loss) => Err(AcquireError::Lost(loss)),
        },
        Ok(Err(refusal)) => Err(not_acquired(guard.name().to_vec(), refusal)),
        // Each acquire is answered; should one be forgotten, then nothing is held.
        Err(_) => Err(AcquireError::Lost(guard.loss().unwrap_or(Loss::Closed))),
    }
}

fn if_free(acquired: Result<Guard, AcquireError>) -> Result<Option<Guard>, AcquireError> {
    match acquired {
        Ok(guard) => Ok(Some(guard)),
        Err(AcquireError::Refused { kind: Refusal::NotAvailable, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn not_acquired(name: Vec<u8>, refusal: NotGranted) -> AcquireError {
    let message = refusal.to_string();
    match refusal {
        NotGranted::TimedOut => AcquireError::TimedOut { name },
        NotGranted::Deadlock { cycle } => AcquireError::Deadlock { cycle },
        NotGranted::Lost(loss) => AcquireError::Lost(loss),
        NotGranted::NotAvailable => AcquireError::Refused { kind: Refusal::NotAvailable, message },
        NotGranted::Cancelled => AcquireError::Refused { kind: Refusal::Cancelled, message },
        NotGranted::Other { kind, message } => AcquireError::Refused { kind, message },
    }
}
