//! [`Guard`]: a lock that was granted.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use baton_types::name::Quoted;

use crate::clock::BootTime;
use crate::error::ReleaseError;
use crate::handle::Handle;
use crate::owner::Owner;
use crate::session::{AcquireNumber, LockState, Loss, ReleaseFailure};

/// How long to wait until the server confirms the end of a session that holds nothing any more.
pub(crate) const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// A lock that was granted. Dropping the guard releases the lock.
///
/// **A drop does not wait.** A task of the tokio runtime sends the release and repeats it until the server confirms it.
/// If the runtime ends first, as it does at the end of `main`, the server may never receive the release, and it grants
/// the lock to no other session until the lease ends. Where that matters, call [`Guard::release`], or
/// [`Session::settled`](crate::Session::settled) after the drops, or [`Session::close`](crate::Session::close): all
/// three wait until the server confirms.
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard {
    handle: Arc<Handle>,
    number: AcquireNumber,
    name: Vec<u8>,
    owner: Owner,
    /// The session was opened for this lock only, so the guard closes it.
    is_alone: bool,
}

impl Guard {
    pub(crate) fn new(handle: Arc<Handle>, number: AcquireNumber, name: Vec<u8>, owner: Owner, is_alone: bool) -> Self {
        Guard { handle, number, name, owner, is_alone }
    }

    /// The name of the lock. [`name::shown`](crate::name::shown) converts it to text.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The owner for which the lock was acquired.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The fence: a number that is greater than the fence of every earlier holder. Send it with every write to the
    /// resource that the lock protects, so that the resource can refuse writes of earlier holders. Returns an error if
    /// the lock is lost.
    pub fn fence(&self) -> Result<u64, Loss> {
        let fence = self.handle.shared.ask(|session, now| session.fence(now, self.number));
        fence.ok_or_else(|| self.loss().unwrap_or(Loss::Unacknowledged))
    }

    /// The end of the lease. Until this moment the server grants the lock to no other session, unless the lock is
    /// released or an operator forces its release. Each acknowledged keep-alive moves the deadline. Without one the
    /// lock is lost shortly before the deadline: see [`Guard::lost`].
    pub fn deadline(&self) -> BootTime {
        let deadline = self.handle.shared.ask(|session, _| session.deadline());
        BootTime::from_millis(deadline.unwrap_or_default())
    }

    /// The state of the lock at this moment.
    pub fn state(&self) -> LockState {
        self.handle.shared.ask(|session, now| session.lock_state(now, self.number))
    }

    /// Resolves when the state is no longer `from`, and returns the new state. `changed(LockState::Held)` resolves when
    /// the lock is at risk or lost; `changed(LockState::AtRisk)` when the lock is held again or lost.
    pub async fn changed(&self, from: LockState) -> LockState {
        self.handle.shared.wait_for(|_| Some(self.state()).filter(|state| *state != from)).await
    }

    /// Resolves when the lock is lost, and returns the reason. The caller must then stop all work under the lock.
    /// [`Guard::run`] stops its work by itself.
    ///
    /// If keep-alives are not acknowledged, the lock is lost a twentieth of the time to live before the
    /// [deadline](Guard::deadline), at most 1 s before it. That is the time to stop in which the server grants the lock
    /// to no other session. Work that needs more time to stop must begin to stop when the lock is [at
    /// risk](Guard::changed).
    pub async fn lost(&self) -> Loss {
        self.handle.shared.wait_for(|_| self.loss()).await
    }

    /// Runs a future under the lock, and stops the future when the lock is lost.
    ///
    /// `run` checks the lock each time before it polls the future. If the lock is lost, `run` drops the future at the
    /// `await` point where it stands, and returns the loss. When the future is done, `run` checks the lock once more:
    /// it returns the result only if the lock was held to the end.
    ///
    /// `run` can stop a future at its `await` points only. Code between two `await` points (a long computation,
    /// blocking input and output) continues after the loss. So does everything that the future started elsewhere:
    /// threads, tasks, processes, requests to other servers. Protect these with [`Guard::fence`].
    ///
    /// The guard stays held: release it when the future is done.
    ///
    /// ```no_run
    /// # async fn example(session: baton_client::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = session.lock("report").acquire().await?;
    /// let fence = guard.fence()?;
    /// guard.run(write_report(fence)).await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// # async fn write_report(fence: u64) {}
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Loss> {
        let (mut lost, mut work) = (pin!(self.lost()), pin!(work));
        poll_fn(|context| {
            // Check the clock each time: after a pause of the process no task may have reported the loss yet.
            if let Some(loss) = self.loss() {
                return Poll::Ready(Err(loss));
            }
            if let Poll::Ready(loss) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(loss));
            }
            work.as_mut().poll(context).map(|done| self.loss().map_or(Ok(done), Err))
        })
        .await
    }

    /// Releases the lock and waits until the server confirms the release. Dropping the guard releases the lock too, but
    /// does not report whether the release succeeded.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let released = self.handle.shared.release(self.number);
        // The session answers each release. If it ever forgot one, the outcome would be unknown.
        let unknown = |_| Err(ReleaseFailure::Unconfirmed(self.loss().unwrap_or(Loss::Closed)));
        let result = released.await.unwrap_or_else(unknown);
        if result.is_ok() && self.is_alone {
            // Ignore a missing confirmation: the session holds nothing, so it blocks no other session.
            let _ = tokio::time::timeout(GOODBYE_MAX, self.handle.shared.close()).await;
        }
        result
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.handle.shared.ask(|session, now| session.lock_loss(now, self.number))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.handle.shared.give_up(self.number);
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
