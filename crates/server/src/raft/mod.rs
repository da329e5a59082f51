//! Replicates the state: openraft over our journal. A single node is a group of one; it has no other code path.
//!
//! Our settings of openraft, and the reasons:
//! - One leader per term (standard Raft), because the state compares terms.
//! - `enable_leader_restore` is off: a killed leader restarts as a follower and must win an election in a new term. The
//!   first entry of that term, proposed by the front end, tells the state the term. So the term is in the state before
//!   the leader decides anything with an empty memory.
//! - Pre-vote is on, so that a node that was cut off does not depose a healthy leader when it returns.
//! - Reads use read-index only: a restarted follower forgets which leader it granted a Raft lease to.
//! - An AppendEntries is limited in bytes, not only in entries.
//! - The bytes of the log decide when a snapshot is made. After each snapshot the log is purged, except for the last
//!   seconds of it if the group has several nodes. These stay on disk only.

mod advertised;
mod anew;
mod cleaner;
mod compaction;
mod copies;
mod edge;
mod errors;
mod forming;
mod freshness;
mod governing;
mod group;
mod handing_over;
mod history;
mod joining;
mod leadership;
mod listed;
mod log;
mod log_reader;
mod log_store;
mod machine;
mod members;
mod node;
mod options;
mod pace;
mod peers;
mod receipt;
mod records;
mod replica;
mod restore;
mod retention;
mod rounds;
pub mod simulated;
mod snapshot;
mod space;
#[cfg(test)]
mod tests;
mod types;
mod view;
mod votes;
mod writer;

pub use crate::format::record::NodeRecord;
pub use crate::replica::{Leadership, Role, Status};
pub use anew::Anew;
pub(crate) use anew::NO_DATA;
pub use compaction::Pause;
pub use errors::MemberError;
pub(crate) use forming::check_list;
pub use governing::Wishes;
pub use log_store::{Fatal, Warn, complain, end_process};
pub use machine::OnApply;
pub use members::Member;
pub use node::{Node, ReadError};
pub use options::{Beginning, Options, Timing};
pub use peers::{Hello, LinkError, Listener, NodeStatus, Refusal, Simulated, Stream, Tcp, Transport};
pub use receipt::OnLost;
pub use restore::{RestoreError, Restored, Stopped, read_stopped, restore};
pub use retention::Keep;
pub use types::Applied;
