//! Locks that know when they are lost: the client of Baton's lock service.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use baton_client::Client;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(["127.0.0.1:7420"]).await?;
//! let session = client.session().ttl(Duration::from_secs(10)).label("nightly report").open().await?;
//!
//! // Waits for its turn, and stops the work if the lock is lost. Whoever stores something under the lock passes the fence on.
//! let guard = session.lock("report").timeout(Duration::from_secs(60)).acquire().await?;
//! guard.run(write_report(guard.fence()?)).await?;
//! guard.release().await?;
//!
//! // Several may read, or hold one of three permits; or just ask whether the lock is free.
//! let reading = session.lock("config").shared().acquire().await?;
//! let permit = session.semaphore("downloads", 3).acquire().await?;
//! let free = session.try_lock("report").await?.is_some();
//! # drop((reading, permit, free));
//!
//! // A program that needs one lock and nothing else need not open a session.
//! let alone = client.lock("cleanup").acquire().await?;
//! # drop(alone);
//! # Ok(())
//! # }
//! # async fn write_report(fence: u64) {}
//! ```
//!
//! **A [`Guard`] is Held, AtRisk or Lost**, and says so at once, also to who does not await anything. The session behind it
//! tells the server every third of its time to live that it is alive. The client counts from when it *sent* what the
//! server acknowledged, on a clock that goes on while the machine sleeps, and gives 2 percent away for clocks that run
//! unevenly: that is the [deadline](Guard::deadline), until which nobody else is granted the lock. [`Guard::run`] stops the work,
//! and [`Guard::lost`] resolves, a twentieth of the time to live before it (at most 1 s), so that there is time to stop;
//! [`Guard::changed`] tells of AtRisk, when half of the time has gone by. What is lost stays lost.
//!
//! **If a process is paused, nothing in it can act.** The first thing it learns when it wakes is the loss; what it wrote just
//! before it asked is refused by its fence, if whatever it writes to keeps the highest fence that it has seen. That is what
//! [`Guard::fence`] is for.
//!
//! **Nothing leaks.** An acquire that times out or whose future is dropped is cancelled, a guard that is dropped is released,
//! and both are repeated, over broken connections too, until the server says that it is so or the session is over. That is
//! done by a task of the runtime, so a program that ends right after a drop first waits for [`Session::settled`].
//!
//! **Owners.** Deadlocks are cycles of owners: whoever waits for an owner waits for all that it holds. Each acquire has an
//! [`Owner`] of its own unless [`Acquire::owner`] names one, because with one owner for the whole session two tasks of a process that
//! merely contend for a lock would look like one that waits for itself. Name one where several locks are taken by the
//! same piece of work, and the service refuses what could never be granted.
//!
//! [`session`] is the state machine behind all this: pure, without clock or network. Without the feature `net` it is all there is.

pub mod session;

#[cfg(feature = "net")]
mod acquire;
#[cfg(feature = "net")]
mod client;
#[cfg(feature = "net")]
mod clock;
#[cfg(feature = "net")]
mod driver;
#[cfg(feature = "net")]
mod error;
#[cfg(feature = "net")]
mod failures;
#[cfg(feature = "net")]
mod guard;
#[cfg(feature = "net")]
mod handle;
#[cfg(feature = "net")]
mod listing;
#[cfg(feature = "net")]
mod owner;
#[cfg(feature = "net")]
mod platform;
#[cfg(feature = "net")]
mod servers;

#[cfg(feature = "net")]
pub use acquire::Acquire;
pub use baton_types::{frames::Refusal, name, views};
#[cfg(feature = "net")]
pub use client::Client;
#[cfg(feature = "net")]
pub use clock::BootTime;
#[cfg(feature = "net")]
pub use error::{
    AcquireError, CallError, CallRefusal, CloseError, ConnectError, InvalidName, NoRandomness, OpenError, ReleaseError,
};
#[cfg(feature = "net")]
pub use guard::Guard;
#[cfg(feature = "net")]
pub use handle::{Session, SessionBuilder};
#[cfg(feature = "net")]
pub use listing::ListLocks;
#[cfg(feature = "net")]
pub use owner::Owner;
pub use session::{LockState, Loss, Mode, SessionState, Wait};
