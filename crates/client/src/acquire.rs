//! The builder with which a program acquires a lock.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use baton_types::frames::Hopeless;
use baton_types::refusal::{Refusal, RefusalCode};
use tokio::sync::watch;

use crate::error::{AcquireError, check_name};
use crate::guard::{GOODBYE_MAX, Guard};
use crate::handle::{Handle, Session, SessionBuilder};
use crate::owner::Owner;
use crate::session::{Loss, Mode, NotGranted, Wish};

/// Options for acquiring one lock. The lock is acquired in an existing [`Session`], or in a new session that only this
/// lock uses (`Acquire<SessionBuilder>`, made by [`Client::lock`](crate::Client::lock)).
#[must_use = "a lock is acquired by `acquire` or `try_acquire`"]
#[derive(Clone, Debug)]
pub struct Acquire<S = Session> {
    session: S,
    name: Vec<u8>,
    mode: Mode,
    owner: Option<Owner>,
    timeout: Option<Duration>,
    lock_delay: Duration,
    on_hopeless: Option<OnHopeless>,
}

/// Called while an acquire waits.
#[derive(Clone)]
struct OnHopeless(Arc<dyn Fn(&Hopeless) + Send + Sync>);

impl fmt::Debug for OnHopeless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnHopeless")
    }
}

impl<S> Acquire<S> {
    pub(crate) fn new(session: S, name: &[u8]) -> Self {
        let (name, mode, lock_delay) = (name.to_vec(), Mode::Exclusive, Duration::ZERO);
        Acquire { session, name, mode, owner: None, timeout: None, lock_delay, on_hopeless: None }
    }

    /// Sets the mode of the request. Default: exclusive.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Requests the lock in shared mode: short for `mode(Mode::Shared)`. Any number of shared requests hold the lock at
    /// the same time.
    pub fn shared(self) -> Self {
        self.mode(Mode::Shared)
    }

    /// Sets how long to wait for the lock. Default: no limit. With [`Client::lock`](crate::Client::lock) the time
    /// counts from the moment when the session is open.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long the server grants the lock to no session after the holder's session expires. The delay gives work
    /// that the holder started, and can no longer stop, time to end. Default: 0.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = delay;
        self
    }

    /// Sets the owner of the request. Default: each acquire has a new owner, which can never be part of a deadlock.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Sets a function that is called when the wait has turned from busy to hopeless: the server is a member of a peer
    /// group, and a process that the group waits for is silent. The acquire goes on waiting, because the process may come
    /// back. The function is called by the future of the acquire, at most about once a second. A server that is not a
    /// member of a group never reports this.
    pub fn on_hopeless(mut self, call: impl Fn(&Hopeless) + Send + Sync + 'static) -> Self {
        self.on_hopeless = Some(OnHopeless(Arc::new(call)));
        self
    }

    /// The request for the server, without the session.
    fn wish(self) -> Result<(S, Wish, Owner, Option<OnHopeless>), AcquireError> {
        check_name(&self.name)?;
        let owner = self.owner.map_or_else(Owner::new, Ok)?;
        // Round up, so that a wait of less than a millisecond does not become "do not wait".
        let timeout_ms = self.timeout.map(|timeout| millis(timeout.saturating_add(Duration::from_nanos(999_999))));
        let lock_delay_ms = millis(self.lock_delay);
        let (name, mode, parent) = (self.name, self.mode, owner.parent());
        let wish = Wish { name, mode, owner: owner.to_raw(), parent, timeout_ms, lock_delay_ms };
        Ok((self.session, wish, owner, self.on_hopeless))
    }
}

impl Acquire<Session> {
    /// Waits until the lock is granted. If this future is dropped, the client cancels the request, or releases the lock
    /// if the server has already granted it.
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        let (session, wish, owner, on_hopeless) = self.wish()?;
        acquire(session.handle, wish, owner, on_hopeless, false).await
    }

    /// Acquires the lock if it is free, without waiting. Returns `None` if it is not free.
    pub async fn try_acquire(self) -> Result<Option<Guard>, AcquireError> {
        if_free(self.timeout(Duration::ZERO).acquire().await)
    }
}

/// The session that was opened for this lock is closed when the guard is released or dropped.
impl Acquire<SessionBuilder> {
    /// Sets how long the lock stays held after the client dies: see [`SessionBuilder::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.session = self.session.ttl(ttl);
        self
    }

    /// Sets a text that tells people what the holder is. `baton locks` shows it.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.session = self.session.label(label);
        self
    }

    /// Opens the session and waits until the lock is granted. Opening the session takes at most 10 seconds. If this
    /// future is dropped, the client cancels the request, or releases the lock if the server has already granted it.
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        let (session, wish, owner, on_hopeless) = self.wish()?;
        let handle = session.open().await?.handle;
        let acquired = acquire(Arc::clone(&handle), wish, owner, on_hopeless, true).await;
        if acquired.is_err() {
            // Many programs end after this error. Close the session first, so that the request does not stay in the
            // queue until the lease ends.
            let _ = tokio::time::timeout(GOODBYE_MAX, handle.shared.close()).await;
        }
        acquired
    }

    /// Acquires the lock if it is free, without waiting. Returns `None` if it is not free.
    pub async fn try_acquire(self) -> Result<Option<Guard>, AcquireError> {
        if_free(self.timeout(Duration::ZERO).acquire().await)
    }
}

async fn acquire(
    handle: Arc<Handle>,
    wish: Wish,
    owner: Owner,
    on_hopeless: Option<OnHopeless>,
    is_alone: bool,
) -> Result<Guard, AcquireError> {
    // Most callers do not want to know, and need no channel.
    let hopeless = on_hopeless.is_some().then(|| watch::Sender::new(None));
    let reports = on_hopeless.zip(hopeless.as_ref().map(watch::Sender::subscribe));
    let (number, mut outcome) = handle.shared.acquire(&wish, hopeless);
    // From here on, dropping this future drops the guard, which gives up the acquire.
    let guard = Guard::new(handle, number, wish.name, owner, is_alone);
    let outcome = match reports {
        None => outcome.await,
        Some((OnHopeless(call), hopeless)) => tokio::select! {
            biased;
            outcome = &mut outcome => outcome,
            never = report(hopeless, &*call) => match never {},
        },
    };
    match outcome {
        Ok(Ok(_fence)) => match guard.loss() {
            None => Ok(guard),
            Some(loss) => Err(AcquireError::Lost(loss)),
        },
        Ok(Err(refusal)) => Err(not_acquired(guard.name().to_vec(), refusal)),
        // The session answers each acquire. If it ever forgot one, the lock would not be held.
        Err(_) => Err(AcquireError::Lost(guard.loss().unwrap_or(Loss::Closed))),
    }
}

/// Calls the function for each reason, until the caller drops this future.
async fn report(
    mut hopeless: watch::Receiver<Option<Hopeless>>,
    call: &(dyn Fn(&Hopeless) + Send + Sync),
) -> Infallible {
    // The sender is gone once the acquire has its result.
    while hopeless.changed().await.is_ok() {
        let why = hopeless.borrow_and_update().clone();
        why.iter().for_each(call);
    }
    std::future::pending().await
}

fn if_free(acquired: Result<Guard, AcquireError>) -> Result<Option<Guard>, AcquireError> {
    match acquired {
        Ok(guard) => Ok(Some(guard)),
        Err(AcquireError::Refused(Refusal { code: RefusalCode::NotAvailable, .. })) => Ok(None),
        // A member of a peer group waits a little, because only its group knows whether the lock is free.
        Err(AcquireError::TimedOut { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn not_acquired(name: Vec<u8>, refusal: NotGranted) -> AcquireError {
    match refusal {
        NotGranted::Refused(Refusal { code: RefusalCode::TimedOut, .. }) => AcquireError::TimedOut { name },
        NotGranted::Refused(refusal) => AcquireError::Refused(refusal),
        NotGranted::Lost(loss) => AcquireError::Lost(loss),
    }
}
