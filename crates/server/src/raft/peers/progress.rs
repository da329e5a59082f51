//! What a node has acknowledged to this leader.
//!
//! A follower keeps what it has acknowledged. If it says later that its log does not have such an entry, its disk was set
//! back, and a majority may have counted on that entry. openraft only asserts in debug builds that this does not happen,
//! so the network refuses such a node.

use crate::format::record::{LogId, Vote};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The leader's vote to which the rest belongs.
    vote: Option<Vote>,
    acknowledged: Option<LogId>,
    /// The entry that the node has lost.
    lost: Option<LogId>,
}

impl Progress {
    /// The node has everything up to this entry, in its log or in a snapshot.
    pub fn acknowledge(&mut self, vote: Vote, upto: Option<LogId>) {
        let progress = self.of(vote);
        progress.acknowledged = progress.acknowledged.max(upto);
    }

    /// The node says that it does not have this entry. Returns true if it had acknowledged it.
    pub fn conflict(&mut self, vote: Vote, entry: Option<LogId>) -> bool {
        let progress = self.of(vote);
        if entry.is_some() && entry <= progress.acknowledged {
            progress.lost = entry;
        }
        progress.lost.is_some()
    }

    /// The acknowledged entry that the node has lost, in this leadership.
    pub fn lost(&self, vote: Vote) -> Option<LogId> {
        self.lost.filter(|_| self.vote == Some(vote))
    }

    /// The last entry of its log has this index. If that is no less than what it had acknowledged, its data folder is
    /// whole again. Returns true if it was refused until now.
    ///
    /// Nobody sends it entries meanwhile. If the entries are others, the next append conflicts, and it is refused again.
    pub fn reaches(&mut self, vote: Vote, last_log: Option<u64>) -> bool {
        let progress = self.of(vote);
        let is_whole = last_log >= progress.acknowledged.map(|id| id.index);
        is_whole && progress.lost.take().is_some()
    }

    /// True if the node has lost an entry, in the leadership that was last.
    pub fn is_set_back(&self) -> bool {
        self.lost.is_some()
    }

    /// Another leadership begins with nothing: a node may lose entries that no majority had.
    fn of(&mut self, vote: Vote) -> &mut Progress {
        if self.vote != Some(vote) {
            *self = Progress { vote: Some(vote), ..Progress::default() };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_lost_what_it_acknowledged_is_noticed_until_the_next_leadership() {
        let vote = |term| Vote { term, node: 1, committed: true };
        let id = |index| Some(LogId { term: 1, index });
        let mut progress = Progress::default();
        // The leader searches for the last entry that both have.
        assert!(!progress.conflict(vote(1), id(9)));
        progress.acknowledge(vote(1), id(5));
        progress.acknowledge(vote(1), id(3));
        assert!(!progress.conflict(vote(1), id(6)));
        assert!(!progress.conflict(vote(1), None));
        assert_eq!(progress.lost(vote(1)), None);
        assert!(progress.conflict(vote(1), id(5)));
        assert_eq!(progress.lost(vote(1)), id(5));
        assert!(progress.conflict(vote(1), id(8)), "it stays refused");
        assert!(progress.is_set_back());
        assert!(!progress.reaches(vote(1), Some(4)) && !progress.reaches(vote(1), None));
        assert!(progress.reaches(vote(1), Some(5)), "its folder is whole again");
        assert_eq!((progress.lost(vote(1)), progress.reaches(vote(1), Some(5))), (None, false));
        assert!(progress.conflict(vote(1), id(5)), "it was another folder");
        assert_eq!(progress.lost(vote(2)), None);
        assert!(!progress.conflict(vote(2), id(5)));
    }
}
