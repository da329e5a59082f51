//! How old the state of a follower may be.
//!
//! Each append says how long ago a majority had confirmed its leader, and how far the leader had committed. Once the
//! follower has applied as much, its state has everything that was acknowledged before that confirmation.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Appends whose entries are not applied yet. If there are more, the newest one stands for all that follow it.
const AWAITED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// The state has everything from before this moment.
    complete: Option<Instant>,
    /// What must be applied for the state to be complete at a later moment, in order.
    awaited: VecDeque<(Instant, u64)>,
}

impl Freshness {
    /// An append has arrived. A majority had confirmed its leader at `confirmed`; the leader had committed `commit`.
    pub fn received(&mut self, confirmed: Instant, commit: u64) {
        if self.awaited.len() == AWAITED_MAX {
            self.awaited.pop_back();
        }
        self.awaited.push_back((confirmed, commit));
    }

    pub fn age(&mut self, applied: u64, now: Instant) -> Option<Duration> {
        while let Some((confirmed, _)) = self.awaited.pop_front_if(|(_, commit)| *commit <= applied) {
            self.complete = self.complete.max(Some(confirmed));
        }
        self.complete.map(|complete| now.saturating_duration_since(complete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_as_old_as_the_newest_append_whose_commit_is_applied() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut freshness = Freshness::default();
        let age =
            |freshness: &mut Freshness, applied, now| freshness.age(applied, at(now)).map(|age| age.as_millis() as u64);
        assert_eq!(age(&mut freshness, 9, 50), None);
        freshness.received(at(100), 5);
        freshness.received(at(200), 8);
        assert_eq!(age(&mut freshness, 4, 300), None);
        assert_eq!(age(&mut freshness, 7, 300), Some(200));
        assert_eq!(age(&mut freshness, 8, 300), Some(100));
        // A leader that no majority confirms any more does not make the state younger.
        freshness.received(at(150), 8);
        assert_eq!(age(&mut freshness, 8, 400), Some(200));
        // Nobody asked for a long time.
        for ms in 1000..2000 {
            freshness.received(at(ms), ms);
        }
        assert_eq!(age(&mut freshness, 1999, 2000), Some(1));
        assert!(freshness.awaited.is_empty());
    }
}
