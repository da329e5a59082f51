//! When to make a snapshot: by the bytes that would have to be read and applied again.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts bytes of the log since the last snapshot.
#[derive(Debug)]
pub(super) struct Compaction {
    bytes_min: u64,
    since_snapshot: AtomicU64,
    snapshot_bytes: AtomicU64,
    wanted: Notify,
}

impl Compaction {
    /// A snapshot after so many bytes, or after as many as the last snapshot has: so writing snapshots takes no more than
    /// writing the log does, and the log, which is in memory, too, not much more than the table.
    pub fn new(bytes_min: u64) -> Compaction {
        let (since_snapshot, snapshot_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Compaction { bytes_min, since_snapshot, snapshot_bytes, wanted: Notify::new() }
    }

    /// So much was added to the log.
    pub fn appended(&self, bytes: u64) {
        let since = self.since_snapshot.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if since > self.bytes_min.max(self.snapshot_bytes.load(Ordering::Relaxed)) {
            // Counted anew at once, so that it is wanted once.
            self.since_snapshot.store(0, Ordering::Relaxed);
            self.wanted.notify_one();
        }
    }

    /// The last snapshot has so many bytes.
    pub fn saved(&self, bytes: u64) {
        self.snapshot_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns when a snapshot should be made.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }
}
