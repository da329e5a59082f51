//! Runs the algorithms between real processes, on one machine or on several, without a server.
//!
//! A group is described by a file that all members share ([`PeerGroup`]). Each member starts with [`Member::join`],
//! listens at its address, and waits until it is connected with all other members. Then its program takes locks by name.
//! The simulator and the checker run the same code of the algorithm.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use baton_peer::{Member, Options, PeerGroup};
//!
//! let group = PeerGroup::read("group.toml")?;
//! let member = Member::join(&group, 0, Options::default()).await?;
//! let grant = member.lock(b"deploy")?.acquire().await?;
//! println!("mine, under fence {}", grant.fence());
//! grant.release();
//! member.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What to expect
//!
//! A broken connection is not a crash: the member opens it again, and no message is lost or comes twice. (Only failure
//! detectors keep no beats for a member that is not connected: a late beat says nothing.) Every link has
//! heartbeats, so a member notices when another one is silent. Only elections are told of that, behind their guard or
//! with `assume_synchronous`, since a silent member may be alive. All other algorithms wait for it, and
//! [`Member::hopeless_waits`] tells who waits in vain, and for which member.
//!
//! A group begins when all members agree which processes take part. Before that, a member that is restarted is simply
//! accepted. Afterwards the group runs with the processes that it began with: it refuses a member that is restarted, except in failure detection
//! and in Chang-Roberts without a guard: restart the whole group instead. Messages are neither encrypted nor signed, and
//! any program that connects to a member before the right process does can take that process's place. So use this crate
//! only in a trusted network.
//!
//! # Inside
//!
//! `frame`, `handshake`, `beginning` and `session` decide what bytes mean, which processes may talk to each other, when the
//! group begins, and what is sent again after a cut. `link` and `reception` make the connections. `driver` owns the processes of one resource and carries
//! out their outputs; `resource` is one resource behind its lock, with its user: `lock`, `election` or `detector`.
//! `resources` is the table of them, `shared` is what the tasks of a member share, `joining` waits until the group begins,
//! and `member` is the whole. **Architecture invariant: only `driver` calls the step
//! function**, and no module here knows a particular algorithm.
//!
//! What holds inside:
//!
//! - **Invariant: a broken connection is not a crash.** `session` numbers and acknowledges what two members say to
//!   each other, so every message arrives once and in order, over as many connections as it takes. One task for each
//!   link reads, so no message of an old connection is delivered after one of the next.
//! - **Invariant: no member handles an item of another member before the group has begun** (`beginning.rs`). A member
//!   says that it has begun before it sends its first item, so nothing needs to be kept. From the beginning on the
//!   list of incarnations is frozen.
//! - **Invariant: all fences of a group grow, also over a start of the whole group** (`fences.rs`, `data.rs`). A
//!   fence is the generation, which each member has on disk before the group begins, then a count that travels with
//!   every message of the resource. The fences of the algorithms themselves are not used.
//! - **Invariant: the mark "no client held anything" in a member's file is erased before the member is READY,** so
//!   long before the first grant, and written again at a proper stop. A member grants nothing while clients of an
//!   earlier generation may believe in their leases (`crates/member/src/peers.rs`).
//! - **Invariant: no algorithm is shown a suspicion that it does not bear.** A silent member may be alive. Only
//!   elections learn of it, behind their guard or if the group file says that silence means a crash. Callers of all
//!   other algorithms are told (`hopeless`), unless a member that lives says that a caller of it is inside.
//! - A process is carried by member `process mod members`. So every algorithm fits every number of members, and
//!   helpers need no machine of their own. Messages between two processes of one member are local, and counted.
//! - A resource is made on its first use at any member, and announced to all: a token must exist before the first
//!   request. It is never forgotten, because no member can know that no message about it is on its way.
//! - A step runs under the lock of its resource, in the task that caused it. The same task writes the messages that
//!   the step sends. Lock order: table of resources, resource, link.
//! - What another member has not acknowledged is kept, up to `--backlog`. At the limit the member stops: to drop a
//!   message would break the algorithm.
//! - Each caller of a member gets an entry of the algorithm of its own, so each grant has a fence of its own.
//! - A lock server over a group is the front end over a `Replica` (`crates/member`). Only the algorithm grants.

mod beginning;
mod data;
mod detector;
mod driver;
mod election;
mod fences;
mod frame;
mod group;
mod handshake;
mod joining;
mod journal;
mod link;
mod lock;
mod member;
mod options;
mod reception;
#[cfg(test)]
mod refusal_tests;
mod resource;
mod resources;
mod session;
mod shared;
mod whereabouts;
mod wires;

pub use beginning::{Agreed, Ended, GENERATION_MAX};
pub use data::{Data, DataError, folder_name};
pub use detector::Detector;
pub use driver::Stats;
pub use election::{Election, Leader};
pub use frame::{FRAME_BYTES_MAX, FrameError};
pub use group::{GroupError, GroupFile, MEMBERS_MAX, MemberId, PeerGroup};
pub use handshake::{LinkError, Refusal, VERSION};
pub use joining::{Awaited, JoinError, Missing};
pub use link::PeerHealth;
pub use lock::{AcquireError, CALLERS_MAX, Grant, Lock};
pub use member::{Hopeless, Member};
pub use options::{Options, Warning};
pub use resources::{NAME_BYTES_MAX, Names};
pub use session::SessionError;
pub use wires::PeerError;
