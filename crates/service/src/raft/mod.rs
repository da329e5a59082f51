//! The state, replicated: openraft over our journal. A node alone is a group of one, and there is no other code path for it.
//!
//! What is asked of openraft, and why:
//! - one leader a term (standard Raft), since the state compares terms;
//! - `enable_leader_restore` off: a leader that was killed comes back as a follower and is elected in a new term, so that
//!   its own first entry, which tells the state the term, comes before anything that it decides with an empty memory (the
//!   front end proposes that entry);
//! - pre-vote on, so that a node which was cut off does not depose a healthy leader when it is back;
//! - reads by read-index only: a restarted follower forgets to whom it granted a lease;
//! - an AppendEntries is limited in bytes, not only in entries;
//! - snapshots by the bytes of the log, and the log is purged after them.

mod cleaner;
mod compaction;
mod edge;
mod log;
mod log_store;
mod machine;
mod network;
mod node;
mod receipt;
mod snapshot;
#[cfg(test)]
mod tests;
mod types;
mod writer;

pub use crate::format::record::NodeRecord;
pub use compaction::Pause;
pub use log_store::{Fatal, Warn, abort, complain};
pub use machine::OnApply;
pub use node::{Leadership, Node, Options, Pending, ProposeError, ReadError, Role, Status};
pub use receipt::OnLost;
pub use types::Applied;
