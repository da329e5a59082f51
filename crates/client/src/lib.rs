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
//! // Waits until the lock is granted, and stops the work if the lock is lost. Send the fence with every write.
//! let guard = session.lock("report").timeout(Duration::from_secs(60)).acquire().await?;
//! guard.run(write_report(guard.fence()?)).await?;
//! guard.release().await?;
//!
//! // Many sessions may hold a shared lock. A semaphore has a fixed number of permits. `try_lock` does not wait.
//! let reading = session.lock("config").shared().acquire().await?;
//! let permit = session.semaphore("downloads", 3).acquire().await?;
//! let free = session.try_lock("report").await?.is_some();
//! # drop((reading, permit, free));
//!
//! // A program that needs a single lock does not have to open a session.
//! let alone = client.lock("cleanup").acquire().await?;
//! # drop(alone);
//! # Ok(())
//! # }
//! # async fn write_report(fence: u64) {}
//! ```
//!
//! **A [`Guard`] is Held, AtRisk or Lost.** [`Guard::state`] answers at once, without an `await`. The session sends the
//! server a keep-alive every third of its time to live. The lease counts from the moment when the client *sent* the
//! last acknowledged keep-alive, on a clock that goes on while the machine sleeps. The client takes 2 percent off the
//! time to live, because the clocks of client and server may run at different rates. The result is the
//! [deadline](Guard::deadline): the server grants the lock to no other session before it. A twentieth of the time to
//! live before the deadline (at most 1 s) [`Guard::run`] stops the work and [`Guard::lost`] resolves, so that the
//! holder has time to stop. [`Guard::changed`] reports AtRisk when half of the time to live has passed without an
//! acknowledgement. A lost lock stays lost.
//!
//! **A paused process cannot act.** When the process wakes, its first call on the guard reports the loss. A write that
//! the process sends before that call carries an old fence. The store refuses the write if the store remembers the
//! highest fence that it has seen. That is the purpose of [`Guard::fence`].
//!
//! **Nothing leaks.** The client cancels an acquire that times out or whose future is dropped, and releases a guard
//! that is dropped. The client repeats the cancel or release, on new connections too, until the server confirms it or
//! the session is over. A task of the runtime does this work, so a program that ends right after a drop must first wait
//! for [`Session::settled`].
//!
//! **Several servers.** A client takes the addresses of several servers, and one that answers is enough: a follower
//! carries a session to the leader. The client then goes to the leader itself, if it can reach the leader. If a server
//! falls silent or goes away, the session turns to the next one within its lease, keeps its locks, and keeps the place
//! of each waiting acquire.
//!
//! **Owners.** The service looks for deadlocks among owners: an owner that waits for a lock waits for the owners that
//! hold the lock. Each acquire has its own [`Owner`] unless [`Acquire::owner`] names one. With one owner for the whole
//! session, two tasks that contend for a lock would look like one owner that waits for itself. Name an owner where one
//! piece of work takes several locks: the service then refuses a request that could never be granted.
//!
//! [`session`] contains the pure state machine of a session, without clock and network. Without the feature `net` the
//! crate contains only that module.

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
mod feed;
#[cfg(feature = "net")]
mod guard;
#[cfg(feature = "net")]
mod handle;
#[cfg(feature = "net")]
mod known;
#[cfg(feature = "net")]
mod listing;
#[cfg(feature = "net")]
mod members;
#[cfg(feature = "net")]
mod one_cluster;
#[cfg(feature = "net")]
mod owner;
#[cfg(feature = "net")]
mod pin;
#[cfg(feature = "net")]
mod platform;
#[cfg(feature = "net")]
mod servers;

#[cfg(feature = "net")]
pub use acquire::Acquire;
pub use baton_types::cluster_id::{ClusterId, NotAnId};
pub use baton_types::frames::{Hopeless, Refusal};
pub use baton_types::{events, name, views};
#[cfg(feature = "net")]
pub use client::Client;
#[cfg(feature = "net")]
pub use clock::BootTime;
#[cfg(feature = "net")]
pub use error::{
    AcquireError, CallError, CallRefusal, CloseError, ConnectError, InvalidName, NoRandomness, OpenError, ReleaseError,
    address_hint,
};
#[cfg(feature = "net")]
pub use feed::{Changes, FollowChanges, Heard};
#[cfg(feature = "net")]
pub use guard::Guard;
#[cfg(feature = "net")]
pub use handle::{Session, SessionBuilder, SessionKey};
#[cfg(feature = "net")]
pub use listing::{ListLocks, Local};
#[cfg(feature = "net")]
pub use members::{Backup, Changed, MemberUpdate};
#[cfg(feature = "net")]
pub use owner::Owner;
pub use session::{LockState, Loss, Mode, SessionState, Wait};
