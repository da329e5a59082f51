//! Protocols over TCP: every process of a group is a real one, on a machine of its own if you like.
//!
//! A group is a file that all members have ([`PeerGroup`]). Each of them starts as [`MutexPeer::join`] or
//! [`ElectionPeer::join`], listens at its address, and waits until it is connected with all others; then the algorithm
//! begins. It is the very code that the simulator and the checker run.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use baton_peer::{MutexPeer, Options, PeerGroup};
//!
//! let group = PeerGroup::read("group.toml")?;
//! let peer = MutexPeer::join(&group, 0, Options::default()).await?;
//! let grant = peer.acquire().await?;
//! println!("mine, under fence {}", grant.fence());
//! grant.release();
//! peer.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What to expect
//!
//! A group runs with the processes it began with. A connection that closes is not opened again: the other side is
//! suspected from then on, once and for good. A member that is started anew is refused, for mutual exclusion and
//! elections alike, until groups have views; start the whole group anew instead. Messages are neither encrypted nor
//! signed, and whoever reaches the address of a member before the right one does can take its place: use it in a
//! network that you trust.
//!
//! # Inside
//!
//! `frame` and `handshake` decide what bytes mean and who may talk to whom, `link` makes the connections, `driver` owns
//! one process and carries out what it wants, `mutex` and `election` are what users see of it, `run` whole runs.
//! **Architecture invariant: only `driver` calls the step function**, and nothing here knows any particular algorithm.

mod driver;
mod election;
mod frame;
mod group;
mod handshake;
mod join;
mod journal;
mod link;
mod mutex;
mod options;
#[cfg(test)]
mod refusal_tests;
mod run;

pub use driver::{PeerError, Stats, Status};
pub use election::{ElectionPeer, Leader};
pub use frame::{FRAME_BYTES_MAX, FrameError};
pub use group::{GroupError, GroupFile, MEMBERS_MAX, PeerGroup};
pub use handshake::{LinkError, Refusal, VERSION};
pub use link::{JoinError, Missing};
pub use mutex::{AcquireError, CALLERS_MAX, Grant, MutexPeer};
pub use options::{Options, Warning};
pub use run::{MemberReport, RunError, Turns, run_election, run_turns};
