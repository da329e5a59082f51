//! How old the state of a follower may be.
//!
//! Each append says how long ago a majority had confirmed its leader, and how far the leader had committed. Once the
//! follower has applied as much, its state has everything that was acknowledged before that confirmation.
//!
//! An append may be old when the follower reads it, for example if the follower was stopped. So an append also names the
//! newest answer of the follower that the leader had received. The append was made after the follower sent that answer.
//! All times here are milliseconds of the follower's own [clock](crate::clock::boot_ms).

use std::collections::VecDeque;

/// Appends whose entries are not applied yet. If there are more, the newest one stands for all that follow it.
const AWAITED_MAX: usize = 64;

/// Answers that the other side may still name. It names none of the forgotten ones unless it is slow.
const SENT_MAX: usize = 1024;

/// When this node sent its answers on one connection, in order.
#[derive(Debug, Default)]
pub(super) struct Sent(VecDeque<(u64, u64)>);

impl Sent {
    pub fn note(&mut self, answer: u64, now_ms: u64) {
        if self.0.len() == SENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((answer, now_ms));
    }

    /// When this node sent the answer that the other side names. Forgets the answers before it.
    pub fn at(&mut self, answer: u64) -> Option<u64> {
        let place = self.0.iter().position(|(sent, _)| *sent == answer)?;
        self.0.drain(..place);
        self.0.front().map(|(_, at)| *at)
    }
}

#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// The state has everything from before this moment.
    complete: Option<u64>,
    /// What must be applied for the state to be complete at a later moment, in order.
    awaited: VecDeque<(u64, u64)>,
}

impl Freshness {
    /// An append has arrived. A majority had confirmed its leader at `confirmed`; the leader had committed `commit`.
    pub fn received(&mut self, confirmed: u64, commit: u64) {
        if self.awaited.len() == AWAITED_MAX {
            self.awaited.pop_back();
        }
        self.awaited.push_back((confirmed, commit));
    }

    pub fn age(&mut self, applied: u64, now_ms: u64) -> Option<u64> {
        while let Some((confirmed, _)) = self.awaited.pop_front_if(|(_, commit)| *commit <= applied) {
            self.complete = self.complete.max(Some(confirmed));
        }
        self.complete.map(|complete| now_ms.saturating_sub(complete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_as_old_as_the_newest_append_whose_commit_is_applied() {
        let mut freshness = Freshness::default();
        assert_eq!(freshness.age(9, 50), None);
        freshness.received(100, 5);
        freshness.received(200, 8);
        assert_eq!(freshness.age(4, 300), None);
        assert_eq!(freshness.age(7, 300), Some(200));
        assert_eq!(freshness.age(8, 300), Some(100));
        // A leader that no majority confirms any more does not make the state younger.
        freshness.received(150, 8);
        assert_eq!(freshness.age(8, 400), Some(200));
        // Nobody asked for a long time.
        for ms in 1000..2000 {
            freshness.received(ms, ms);
        }
        assert_eq!(freshness.age(1999, 2000), Some(1));
        assert!(freshness.awaited.is_empty());
    }

    #[test]
    fn an_append_is_as_old_as_the_answer_that_it_names() {
        let mut sent = Sent::default();
        assert_eq!(sent.at(0), None);
        // Answers need not be sent in the order of the calls.
        for (answer, now_ms) in [(1, 10), (3, 20), (2, 30)] {
            sent.note(answer, now_ms);
        }
        assert_eq!((sent.at(3), sent.at(3)), (Some(20), Some(20)), "several appends may name it");
        assert_eq!(sent.at(1), None, "it is forgotten");
        assert_eq!(sent.at(7), None, "an answer on another connection");
        assert_eq!(sent.at(2), Some(30));
        for answer in 10..5_000 {
            sent.note(answer, answer);
        }
        assert_eq!((sent.0.len(), sent.at(2), sent.at(4_999)), (SENT_MAX, None, Some(4_999)));
    }
}
