//! When a node was last heard of, and which data formats it reads. Written for every message, so it has no lock.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Heard {
    start: Instant,
    /// Milliseconds from `start`, and 1; 0 if it was never heard of.
    at: AtomicU64,
    /// The oldest and the newest format, a byte each; 0 if the node has not said it.
    formats: AtomicU16,
}

impl Heard {
    pub fn new(start: Instant) -> Heard {
        Heard { start, at: AtomicU64::new(0), formats: AtomicU16::new(0) }
    }

    pub fn now(&self) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.at.store(ms.saturating_add(1), Ordering::Relaxed);
    }

    pub fn ago(&self) -> Option<Duration> {
        let at = self.at.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.start.elapsed().saturating_sub(Duration::from_millis(at)))
    }

    pub fn reads(&self, formats: (u8, u8)) {
        self.formats.store(u16::from_le_bytes([formats.0, formats.1]), Ordering::Relaxed);
    }

    pub fn formats(&self) -> Option<(u8, u8)> {
        match self.formats.load(Ordering::Relaxed).to_le_bytes() {
            [_, 0] => None,
            [oldest, newest] => Some((oldest, newest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_heard_of_and_says_what_it_reads() {
        let heard = Heard::new(Instant::now());
        assert_eq!((heard.ago(), heard.formats()), (None, None));
        heard.now();
        heard.reads((2, 3));
        assert!(heard.ago().is_some());
        assert_eq!(heard.formats(), Some((2, 3)));
    }
}
