//! Having a lock.

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

/// How long to wait for the end of a session in which nothing is held any more.
pub(crate) const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// A lock that is held, until it is lost. Dropped, it is released.
///
/// **A drop does not wait.** It asks for the release, which is then sent, and repeated until the server confirms it, by a
/// task of the tokio runtime. If the runtime ends first, as it does at the end of `main`, the server may hear nothing,
/// and nobody else is granted the lock until the lease ends. Where that matters, call [`Guard::release`], or
/// [`Session::settled`](crate::Session::settled) after the drops, or [`Session::close`](crate::Session::close): all three
/// wait for the server's word.
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard {
    handle: Arc<Handle>,
    number: AcquireNumber,
    name: Vec<u8>,
    owner: Owner,
    /// The session is there for this lock only.
    is_alone: bool,
}

impl Guard {
    pub(crate) fn new(handle: Arc<Handle>, number: AcquireNumber, name: Vec<u8>, owner: Owner, is_alone: bool) -> Self {
        Guard { handle, number, name, owner, is_alone }
    }

    /// The name of the lock. [`name::shown`](crate::name::shown) makes text of it.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// For whom it was acquired.
    pub fn owner(&self) -> &Owner {
        &self.owner
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

    /// Resolves when the lock is lost, and says why: stop whatever is done under it. [`Guard::run`] does that by itself.
    ///
    /// For want of a keep-alive that is a twentieth of the time to live before the [deadline](Guard::deadline), at most 1 s:
    /// as long there is to stop while nobody else can be granted the lock. Who needs longer begins to stop when the lock
    /// is [at risk](Guard::changed).
    pub async fn lost(&self) -> Loss {
        self.handle.shared.wait_for(|_| self.loss()).await
    }

    /// Runs a future under the lock, and stops it when the lock is lost.
    ///
    /// Each time before the future goes on, the lock is looked at. If it is lost, the future is dropped where it stands, at
    /// one of its `await` points, and the loss is returned. If the future is done, the lock is looked at once more: its
    /// result is returned only if the lock was held to the end.
    ///
    /// A future is stopped at its `await` points only. What runs between two of them (a long computation, blocking
    /// input and output) runs on after the loss, and so does what the future started elsewhere: threads, tasks, processes,
    /// requests to other servers. For these there is [`Guard::fence`].
    ///
    /// The guard stays: release it when the future is done.
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
            // The clock is asked each time: after a pause of the process nothing may have told of the loss yet.
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

    /// Gives the lock back, and waits until the server says so. Without it the lock is given back too, when the guard is
    /// dropped, but nobody hears whether that went well.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let released = self.handle.shared.release(self.number);
        // Each release is answered; should one be forgotten, then nothing is known of it.
        let unknown = |_| Err(ReleaseFailure::Unconfirmed(self.loss().unwrap_or(Loss::Closed)));
        let result = released.await.unwrap_or_else(unknown);
        if result.is_ok() && self.is_alone {
            // An end that is not confirmed keeps nobody from anything: the session holds nothing.
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
