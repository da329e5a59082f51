//! Runs protocols over TCP: every process of a group is a real process, on one machine or on several.
//!
//! A group is described by a file that all members share ([`PeerGroup`]). Each member starts with [`MutexPeer::join`]
//! or [`ElectionPeer::join`], listens at its address, and waits until it is connected with all other members. Then the
//! algorithm begins. The simulator and the checker run the same code of the algorithm.
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
//! A group runs with the processes that it began with. A closed connection is not opened again: the member suspects the
//! other process from then on, for good. The group refuses a member that is restarted, both for mutual exclusion and
//! for elections, because groups have no views yet; restart the whole group instead. Messages are neither encrypted nor
//! signed, and any program that connects to a member before the right process does can take that process's place. So
//! use this crate only in a trusted network.
//!
//! # Inside
//!
//! `frame` and `handshake` decide what bytes mean and which processes may talk to each other. `link` makes the
//! connections. `driver` owns one process and carries out its outputs. `mutex` and `election` are the user's side of
//! the driver. `run` has whole runs. **Architecture invariant: only `driver` calls the step function**, and no module
//! here knows a particular algorithm.

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
