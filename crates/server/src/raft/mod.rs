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
//!
//! # Several nodes
//!
//! - **No type of openraft is on the wire.** Entries travel as the records of the log on disk, so each names its data
//!   format.
//! - Each node dials the others. A connection carries the requests of one side, in order, many at a time, and their
//!   answers. Appends are pipelined. A snapshot has a connection of its own, so that no heartbeat waits for it, and
//!   neither side has more than a few chunks of it in memory. A file that is being sent stays readable, because it is
//!   open.
//! - The proposing node encodes an entry once. The disks and the wire have the same bytes; a follower checks that it
//!   can decode them before it accepts them.
//! - **Invariant: heartbeats and rounds wait for no sync of entries.** Only a lone node syncs entries on the thread
//!   of Raft's core. A heartbeat is answered when Raft has handled it, and acknowledges no entry. So slow disks make
//!   slow locks, and no session is lost. Raft's core waits for the disk in elections (votes, and the entries that a
//!   new leader removes), and if 64 MiB wait for it.
//! - An append that only tells a commit index waits a little for the next entries, and wakes no task meanwhile
//!   (`commits.rs`).
//! - **Invariant: an append fits into a frame.** It is limited in bytes and in entries; an entry is limited too.
//! - A node's id is random and belongs to its data folder. A node without data becomes part of the cluster that first
//!   calls it by its id. A wiped node has another id, and is refused until it is added again.
//! - **Invariant: no cluster begins under the id of another.** A node that was called does not begin one in the same
//!   run, and each start without data takes a new cluster id.
//! - Empty nodes that were started with the same list ask each other who they are. When all are empty and have the
//!   same list, the smallest name begins the cluster with the ids that it heard **in one round**. A node that joins
//!   announces itself every second or two until the leader adds it by its name. Neither changes anything before it is
//!   known to be right.
//! - **Invariant: only a round confirms a leader** (`rounds.rs`). The leader asks the voters, each answers from
//!   inside its Raft core, and the number of the call matches the answer. Read-index, the told leadership and the age
//!   of a follower's state rest on rounds. openraft's clock of acknowledgements confirms nothing. (While it has run
//!   out, openraft accepts no entries, so this node is not told to lead.) openraft matches answers to appends by log
//!   id, so with several appends in flight an old answer counts for a later one, and a deposed leader looks
//!   confirmed. Upstream, `InflightAppendQueue::drain_acked` should pop only the request that was answered, by its
//!   number. And `ensure_linearizable` should count only the heartbeats of its own round.
//! - **Invariant: a leader that no majority has confirmed for an election timeout is told to the host as no leader.**
//!   openraft does not depose it. It may be told again in the same term, so the front end begins anew with each
//!   notification. Such a leader also pauses its appends in turns, so that the others can elect another one.
//! - A follower knows how old its state may be: an append says how long ago a majority last confirmed the leader, and
//!   what was committed then. It names the follower's last answer, so it counts from when the follower sent that
//!   answer. Neither an old leader that is cut off with a follower, nor an append that waited for a stopped follower,
//!   makes it look fresh.
//! - The leader proposes only commands that all members read (`format::since`); each Hello says what a node reads.
//!   Records and chunks name the version in which their newest part appeared. So a newer node writes nothing that an
//!   older member cannot read.
//! - **Invariant: a node that lost what it had acknowledged to a leader gets no more entries from it,** until its log
//!   reaches that far again. openraft only has a debug assertion there. `progress.rs` notices it in the answers.
//! - With other members, the last 10 seconds of the log (at most 64 MiB) stay behind a snapshot, on disk only. A
//!   group of one keeps none. If the disk no longer has them, the node warns and purges them, and followers get the
//!   snapshot.
//! - **Invariant: a vote of a term goes to one start of a process, not only to one id.** Each start draws a number,
//!   which is in its Hello. The voter has the number on disk (`VOTED`) before it answers. Until they restart,
//!   followers refuse a second start that leads in a term. Of two processes with one id, the one ends that is not at
//!   the address in the membership (`copies.rs`); none ends that is there, or cannot know.
//! - **Invariant: what is committed here is never replaced.** openraft does not compare entries at or below its
//!   commit index. So before Raft sees an append or a snapshot of a leader that it would accept, `history.rs`
//!   compares the ids with the log, and the contents of entries with the same id: a voter that was set back has
//!   forgotten its votes, so a term may begin twice. If they differ, a folder was set back, and the node ends. The
//!   log does not remove committed entries either.
//! - **Invariant: the words of a peer are checked before Raft sees them** (`check.rs`): openraft ends the node with
//!   an assertion, or saves a vote of the highest term, if a peer breaks the rules. Raft gets a commit index only up
//!   to the last entry of its append, and only if the log has the entry before the append, because openraft also
//!   notes the index of an append that it refuses. The flag of a transfer, which lets a candidate depose a healthy
//!   leader, counts only for known voters. An answer never makes this node the leader of a term that it does not
//!   know. A peer that claims to be elected is still believed.
//! - Malformed bytes of a peer end its connection, and never the node. An entry or a snapshot of a newer format stops
//!   the node.
//! - Every refusal of a change of members comes before anything changes. Members change one after the other. A
//!   learner is promoted when it has answered a question that was sent after the request, and has the log as it was
//!   then. A voter is removed when a majority of the voters, with it and without it, has answered such a question.
//! - A node that stops hands the leadership over before its streams end.

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
