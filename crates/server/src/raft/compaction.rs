//! Decides when to make a snapshot: when the log has grown by enough bytes, and some time after a failed attempt.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// The pause after a snapshot that could not be written. It doubles with each further failure in a row.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl Default for Pause {
    fn default() -> Self {
        Pause { first: Duration::from_secs(10), max: Duration::from_secs(300) }
    }
}

impl Pause {
    /// The pause after this many failures in a row; none if there was no failure.
    fn after(self, failures: u32) -> Option<Duration> {
        let doublings = failures.checked_sub(1)?;
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        Some(self.first.saturating_mul(factor).min(self.max))
    }
}

/// Counts the bytes of log since the last snapshot, and the failed attempts since then.
#[derive(Debug)]
pub(super) struct Compaction {
    bytes_min: u64,
    pause: Pause,
    since_snapshot: AtomicU64,
    snapshot_bytes: AtomicU64,
    failures: AtomicU32,
    wanted: Notify,
    /// Notified when `failures` changes.
    tried: Notify,
}

impl Compaction {
    /// A snapshot is wanted after `bytes_min` bytes of log, or after as many bytes as the last snapshot has, whichever
    /// is more. So writing snapshots costs no more than writing the log, and the log in memory is not much larger than
    /// the state.
    pub fn new(bytes_min: u64, pause: Pause) -> Compaction {
        Compaction {
            bytes_min,
            pause,
            since_snapshot: AtomicU64::new(0),
            snapshot_bytes: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            wanted: Notify::new(),
            tried: Notify::new(),
        }
    }

    pub fn appended(&self, bytes: u64) {
        let since = self.since_snapshot.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if since > self.bytes_min.max(self.snapshot_bytes.load(Ordering::Relaxed)) {
            // Reset at once, so that only one snapshot is triggered.
            self.since_snapshot.store(0, Ordering::Relaxed);
            self.wanted.notify_one();
        }
    }

    /// Records that a snapshot of this many bytes is durable.
    pub fn saved(&self, bytes: u64) {
        self.snapshot_bytes.store(bytes, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.tried.notify_one();
    }

    pub fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.tried.notify_one();
    }

    /// Returns when a snapshot should be made: the log has grown, or the pause after a failure is over. Only one task
    /// may wait here.
    pub async fn wanted(&self) {
        loop {
            let pause = self.pause.after(self.failures.load(Ordering::Relaxed));
            let paused = async {
                match pause {
                    Some(pause) => baton_runtime::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.wanted.notified() => return,
                () = paused => return,
                () = self.tried.notified() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_a_limit() {
        let pause = Pause::default();
        assert_eq!(pause.after(0), None);
        let seconds = |failures| pause.after(failures).unwrap().as_secs();
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 40, u32::MAX].map(seconds), [10, 20, 40, 80, 160, 300, 300, 300, 300]);
    }

    #[tokio::test]
    async fn a_snapshot_is_wanted_after_bytes_or_a_while_after_a_failure() {
        let pause = Pause { first: Duration::from_millis(1), max: Duration::from_millis(1) };
        let compaction = Compaction::new(100, pause);
        compaction.appended(101);
        compaction.wanted().await;
        compaction.failed();
        compaction.wanted().await;
        compaction.saved(1000);
        // Wanted only when the log has grown by the size of the snapshot. The earlier failure no longer counts.
        compaction.appended(1000);
        let mut wanted = std::pin::pin!(compaction.wanted());
        for _ in 0..3 {
            assert!(futures::poll!(wanted.as_mut()).is_pending());
        }
        compaction.appended(1);
        wanted.await;
    }
}
