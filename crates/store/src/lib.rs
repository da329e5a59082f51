//! The data on disk: a journal of checksummed frames, and snapshots. This module does not know Raft or locks; payloads
//! are bytes.
//!
//! | file | content |
//! | --- | --- |
//! | `FORMAT` | the version of the folder; written last, so a folder that has it is complete |
//! | `IDENTITY` | the ids of the cluster and of the node |
//! | `SYNCED` | the last synced frame of the log |
//! | `WRITER` | the release that wrote the folder, for the sentence that refuses a newer version |
//! | `LOCK` | locked by the process that uses the folder |
//! | `log-*.baton` | the segments of the journal; the name has the number of the first frame |
//! | `snapshot-*.baton` | the newest snapshot; the name has the index of its last entry |
//! | `*.tmp` | a file that was not finished; never read, removed at the next start |
//!
//! We have our own log, because the libraries that we tried failed the test that a lock service must pass: flip any
//! byte of a log with acknowledged entries. Then either all of them are restored, or the start is refused; and yet a
//! start after a power cut is not refused. See ARCHITECTURE.md, "The store".

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
