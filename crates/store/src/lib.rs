//! The data on disk: a journal of checksummed frames, and snapshots. This module does not know Raft or locks; payloads
//! are bytes.
//!
//! | file | content |
//! | --- | --- |
//! | `FORMAT` | the version of the folder; written last, so a folder that has it is complete |
//! | `IDENTITY` | the ids of the cluster and of the node |
//! | `SYNCED` | the last synced frame of the log |
//! | `WRITER` | the release that wrote the folder, for the sentence that refuses a newer version |
//! | `VOTED` | which start of which node has the vote; only a node with `--peer-listen` has this file |
//! | `LOCK` | locked by the process that uses the folder |
//! | `log-*.baton` | the segments of the journal; the name has the number of the first frame |
//! | `snapshot-*.baton` | the newest snapshot; the name has the index of its last entry |
//! | `*.tmp` | a file that was not finished; never read, removed at the next start |
//!
//! # What always holds
//!
//! Everything that Raft must remember (entries, votes, and how far the log is committed, truncated and purged) is a
//! record in the one journal. So one sync covers a batch. A frame of the journal is `header, header, payload,
//! payload`. A header is magic, length, number, the segment's random nonce, and the checksums of the payload and of
//! itself.
//!
//! We chose this layout by a test with two parts. Flip any byte of a log with acknowledged entries: either all
//! entries are back, or the server refuses to start. And after a power cut, which may leave a torn write at the end,
//! the server starts. raft-engine 0.4 and fjall 3.1 failed the test. Our journal has everything twice: it repairs one
//! damaged byte from the other copy. Two bad copies with nothing valid after them are a torn write.
//!
//! - **Invariant: at most one frame is unsynced at a time, and no client hears of it before its sync.** `append`
//!   hands its entries to one writer thread and returns. Meanwhile openraft goes on with votes, replication and
//!   answers. The writer puts all queued records, in order, into one frame with one sync. Votes, truncations and
//!   purges use the same queue. Votes and truncations return when they are durable; a purge may be lost. After a sync
//!   the writer wakes openraft through a socket (`bell.rs`), because that wakes one thread of tokio instead of two.
//! - In a group of one, while the writer is idle, the appending thread itself syncs up to four entries (any number,
//!   if a sync takes less than 50 us). For a single client, the two thread switches of a hand-over would cost more
//!   than all other work for an entry.
//! - **Invariant: data that is read at the start is written and synced again before it counts.** After a kill or a
//!   failed sync it may be only in the memory of the operating system.
//! - **Invariant: a failed write or sync ends the process.** Nothing is written, read or acknowledged after it.
//! - **Invariant: a segment is used only when the one before it is sealed, and sealed only when the next is
//!   durable.** So the server notices every file that is cut short or gone. It then refuses to start, and names the
//!   file.
//! - **Invariant: the log is purged only up to a durable snapshot.** A damaged snapshot is never replaced by an older
//!   one. A snapshot has two copies, too. If a snapshot cannot be written, it is discarded and tried again; the log
//!   is kept until then.
//! - **Invariant: bytes on disk outlive the version that wrote them.** Every segment, snapshot and record names its
//!   version, and is written in types of our own (`format`). One function converts each older version to the next.
//!   The first start of a newer version rewrites what is too old to be read as it is: snapshot, segments, then
//!   `FORMAT`. A folder of a newer version is refused, and the message names that version. Old entries must lead to
//!   the same state in every later version, because clients were told the results.
//!
//! **The end of the log.** If the last frames are overwritten, they look like a write that a power cut interrupted.
//! Therefore `SYNCED` names the last synced frame, and the server refuses a log that ends before this frame. `SYNCED`
//! is exact if the process was stopped or killed; `crates/store` (`journal.rs`) says what it knows after a power cut.
//! The server does not detect these losses:
//!
//! - all frames after the one that `SYNCED` names, if both copies of all of them are destroyed;
//! - the end of the log and `SYNCED` lost together;
//! - a whole folder that was set back to an earlier time. `baton restore` and `--force-new-cluster` are for that.
//!
//! **Invariant: a cluster that begins anew applies one command, `BeginAnew`,** from a backup or in the log of a node
//! without its majority: new secret, no sessions, higher fences, and a wait. While a folder is made of a backup it
//! has a file `RESTORING`, and is refused. A node without its majority gets the new cluster id first, so one that is
//! interrupted serves nothing.
//!
//! A node begins every term with an entry of its own: openraft's `enable_leader_restore` is off, and each of its
//! terms has one leader. All reads use read-index.

mod archive;
mod disk;
mod error;
pub mod fake;
mod files;
mod format;
mod found;
mod frame;
mod identity;
mod journal;
pub mod line;
mod migrate;
mod open;
mod remarks;
mod segments;
mod snapshot;
mod snapshots;
mod synced;
#[cfg(test)]
mod tests;
mod version;
mod voted;

pub use archive::{Archive, Marks, Payloads};
pub use disk::{Disk, DiskFile, Folder};
pub use error::OpenError;
pub use files::Files;
pub use format::{begin_restore, end_restore, is_folder_of_ours, refuse_older, refuse_unfinished};
pub use identity::{Identity, adopt};
pub use journal::{Journal, Removal};
pub use open::Store;
pub use remarks::Tell;
pub use snapshots::{ChunkStream, Chunks, Received, Snapshots};
pub use version::{OLDEST_READ, Unreadable, Upgrade, VERSION};
pub use voted::{Cast, Voted};

/// The server refuses new sessions and acquires below this much free space. The rest is for releases and for a
/// snapshot.
pub const FREE_BYTES_MIN: u64 = 64 << 20;

pub const SEGMENT_BYTES: usize = 8 << 20;
