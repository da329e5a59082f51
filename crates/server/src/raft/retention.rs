//! Decides how much of the log stays behind a snapshot, for nodes that were away for a short time: the last seconds, and
//! at most some bytes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_runtime::Instant;
use tokio::sync::watch;

/// How much of the log a node with other members keeps behind a snapshot, on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub newer_than: Duration,
    pub bytes_max: u64,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep { newer_than: Duration::from_secs(10), bytes_max: 64 << 20 }
    }
}

/// Marks are this far apart, in time or in bytes. So the limits are met to within one mark.
const MARK_EVERY: Duration = Duration::from_millis(250);
const MARK_BYTES: u64 = 1 << 20;

/// A moment in the growth of the log.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    /// The last entry of the log at this moment.
    index: u64,
    /// The bytes that were ever appended until this moment.
    bytes: u64,
}

/// Remembers when the log had which length.
#[derive(Debug, Default)]
pub(super) struct Retention {
    keep: Keep,
    growth: Mutex<Growth>,
    /// The disk no longer has the entries up to this one as they were written.
    damaged: watch::Sender<Option<u64>>,
}

#[derive(Debug, Default)]
struct Growth {
    marks: VecDeque<Mark>,
    bytes: u64,
}

impl Retention {
    pub fn new(keep: Keep) -> Retention {
        Retention { keep, ..Retention::default() }
    }

    /// The log has grown by these bytes, up to this entry.
    pub fn appended(&self, index: u64, bytes: u64, now: Instant) {
        let mut growth = self.growth();
        growth.bytes += bytes;
        let total = growth.bytes;
        // The log may have been truncated.
        while growth.marks.back().is_some_and(|mark| mark.index > index) {
            growth.marks.pop_back();
        }
        let is_near = |mark: &Mark| now.duration_since(mark.at) < MARK_EVERY && total - mark.bytes < MARK_BYTES;
        if !growth.marks.back().is_some_and(is_near) {
            growth.marks.push_back(Mark { at: now, index, bytes: total });
        }
        // Of the marks that are old enough, the last one is enough.
        while growth.marks.get(1).is_some_and(|mark| mark.is_old(self.keep, now, total)) {
            growth.marks.pop_front();
        }
    }

    /// The entries up to this one cannot be read from the disk. Returns true if that is new.
    pub fn damaged(&self, upto: u64) -> bool {
        self.damaged.send_if_modified(|damaged| {
            let is_new = *damaged < Some(upto);
            *damaged = (*damaged).max(Some(upto));
            is_new
        })
    }

    /// The last entry that cannot be read, and every change of it.
    pub fn watch_damaged(&self) -> watch::Receiver<Option<u64>> {
        self.damaged.subscribe()
    }

    /// The last entry that need not be kept, or cannot be read; none if all must be kept.
    pub fn purgeable(&self, now: Instant) -> Option<u64> {
        let growth = self.growth();
        let old = growth.marks.iter().rev().find(|mark| mark.is_old(self.keep, now, growth.bytes));
        old.map(|mark| mark.index).max(*self.damaged.borrow())
    }

    fn growth(&self) -> MutexGuard<'_, Growth> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.growth.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mark {
    fn is_old(&self, keep: Keep, now: Instant, bytes: u64) -> bool {
        now.duration_since(self.at) >= keep.newer_than || bytes - self.bytes >= keep.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seconds_and_the_last_bytes_are_kept() {
        let retention = Retention::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        for second in 0..30 {
            retention.appended(second, 10, at(second * 1000));
        }
        assert_eq!(retention.purgeable(at(29_000)), Some(19));
        assert_eq!(retention.purgeable(at(29_999)), Some(19));
        assert_eq!(retention.purgeable(at(30_000)), Some(20));
        assert!(retention.growth().marks.len() <= 12);
        // Much is written in a short time.
        for index in 30..130 {
            retention.appended(index, 1 << 20, at(30_000));
        }
        assert_eq!(retention.purgeable(at(30_000)), Some(129 - 64));
        // After a truncation the log grows again.
        retention.appended(100, 1, at(31_000));
        assert_eq!(retention.growth().marks.back().map(|mark| mark.index), Some(100));
        assert_eq!(Retention::default().purgeable(start), None);
    }
}
