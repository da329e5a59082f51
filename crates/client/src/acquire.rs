//! Acquiring a lock, and having it.

use std::sync::Arc;
use std::time::Duration;

use baton_proto::name::Quoted;

use crate::clock::BootTime;
use crate::error::{AcquireError, ReleaseError, check_name, random};
use crate::handle::Handle;
use crate::session::{AcquireNumber, LockState, Loss, Mode, Refusal, ReleaseFailure, Wish};
use crate::v1;

/// A lock about to be acquired.
#[must_use = "a lock is acquired by `acquire` or `try_acquire`"]
pub struct Acquire {
    handle: Arc<Handle>,
    name: Vec<u8>,
    mode: Mode,
    owner: Option<u64>,
    parent: Option<u64>,
    timeout: Option<Duration>,
    lock_delay: Duration,
}

impl Acquire {
    pub(crate) fn new(handle: Arc<Handle>, name: Vec<u8>, mode: Mode) -> Self {
        Acquire { handle, name, mode, owner: None, parent: None, timeout: None, lock_delay: Duration::ZERO }
    }

    /// How it is wanted.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// For how long to wait.
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

    /// For whom. Deadlocks are cycles of owners: whoever waits for an owner waits for all that it holds. Without this each
    /// acquire has an owner of its own, which can never be part of a cycle.
    pub fn owner(mut self, owner: u64) -> Self {
        self.owner = Some(owner);
        self
    }

    /// The owner that waits until this one has ended: a program that started this one and holds locks meanwhile. A wait for a lock
    /// of the parent's is a cycle. Owners of the same parent wait for each other like any others.
    pub fn parent(mut self, parent: u64) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Waits for the lock. If this future is dropped, the lock is not acquired, or given back at once.
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        check_name(&self.name)?;
        let owner = self.owner.map_or_else(random, Ok).map_err(AcquireError::NoRandomness)?;
        // Rounded up, so that a wait of less than a millisecond is one.
        let timeout_ms = self.timeout.map(|timeout| millis(timeout.saturating_add(Duration::from_nanos(999_999))));
        let lock_delay_ms = millis(self.lock_delay);
        let wish =
            Wish { name: self.name.clone(), mode: self.mode, owner, parent: self.parent, timeout_ms, lock_delay_ms };
        let (number, outcome) = self.handle.shared.acquire(&wish);
        // From here on, whoever drops it gives it up.
        let guard = Guard { handle: self.handle, number, name: self.name, owner };
        match outcome.await {
            Ok(Ok(_fence)) => match guard.loss() {
                None => Ok(guard),
                Some(loss) => Err(AcquireError::Lost(loss)),
            },
            Ok(Err(refusal)) => Err(not_acquired(guard.name.clone(), refusal)),
            // Each acquire is answered; should one be forgotten, then nothing is held.
            Err(_) => Err(AcquireError::Lost(guard.loss().unwrap_or(Loss::Closed))),
        }
    }

    /// The lock, if it is free.
    pub async fn try_acquire(self) -> Result<Option<Guard>, AcquireError> {
        match self.timeout(Duration::ZERO).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(AcquireError::Refused { kind: v1::Refusal::NotAvailable, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn not_acquired(name: Vec<u8>, refusal: Refusal) -> AcquireError {
    let message = refusal.to_string();
    match refusal {
        Refusal::TimedOut => AcquireError::TimedOut { name },
        Refusal::Deadlock { cycle } => AcquireError::Deadlock { cycle },
        Refusal::Lost(loss) => AcquireError::Lost(loss),
        Refusal::NotAvailable => AcquireError::Refused { kind: v1::Refusal::NotAvailable, message },
        Refusal::Cancelled => AcquireError::Refused { kind: v1::Refusal::Cancelled, message },
        Refusal::Other { kind, message } => AcquireError::Refused { kind, message },
    }
}

/// A lock that is held, until it is lost. Dropped, it is released.
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard {
    handle: Arc<Handle>,
    number: AcquireNumber,
    name: Vec<u8>,
    owner: u64,
}

impl Guard {
    /// The name of the lock. [`name::shown`](crate::name::shown) makes text of it.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// For whom it was acquired.
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// A number that is greater than that of every earlier holder. Pass it on to whatever is changed under the lock, so that
    /// it can refuse those who came before. An error once the lock is lost.
    pub fn fence(&self) -> Result<u64, Loss> {
        let fence = self.handle.shared.ask(|session, now| session.fence(now, self.number));
        fence.ok_or_else(|| self.loss().unwrap_or(Loss::Unacknowledged))
    }

    /// The end of the lease: until this moment nobody else is granted the lock, unless it is given back or taken by force.
    /// A keep-alive that is acknowledged moves it later; without one the lock is lost a little before.
    pub fn deadline(&self) -> BootTime {
        let deadline = self.handle.shared.ask(|session, _| session.deadline());
        BootTime::from_millis(deadline.unwrap_or_default())
    }

    /// The lock at this moment.
    pub fn state(&self) -> LockState {
        self.handle.shared.ask(|session, now| session.lock_state(now, self.number))
    }

    /// Resolves when the state is no longer this one, and says which it is now: `changed(LockState::Held)` when the lock is
    /// at risk or lost, `changed(LockState::AtRisk)` when it is held again or lost.
    pub async fn changed(&self, from: LockState) -> LockState {
        self.handle.shared.wait_for(|_| Some(self.state()).filter(|state| *state != from)).await
    }

    /// Resolves when the lock is lost, and says why: stop whatever is done under it.
    ///
    /// For want of a keep-alive that is a twentieth of the time to live before the [deadline](Guard::deadline), at most 1 s:
    /// as long there is to stop while nobody else can be granted the lock. Who needs longer begins to stop when the lock
    /// is [at risk](Guard::changed).
    pub async fn lost(&self) -> Loss {
        let loss = self.handle.shared.wait_for(|_| self.loss());
        loss.await
    }

    /// Gives the lock back, and waits until the server says so. Without it the lock is given back too, when the guard is
    /// dropped, but nobody hears whether that went well.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let released = self.handle.shared.release(self.number);
        // Each release is answered; should one be forgotten, then nothing is known of it.
        released.await.unwrap_or_else(|_| Err(ReleaseFailure::Unconfirmed(self.loss().unwrap_or(Loss::Closed))))
    }

    fn loss(&self) -> Option<Loss> {
        self.handle.shared.ask(|session, now| session.lock_loss(now, self.number))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.handle.shared.with(|session, now| session.give_up(now, self.number));
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("name", &format_args!("{}", Quoted(&self.name)))
            .field("state", &self.state())
            .finish()
    }
}
