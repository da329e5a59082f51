//! Compares what a leader says with what this node has in its log for good.
//!
//! openraft does not compare entries at or below its commit index, because no leader that was elected by the rules can have
//! others there. But if the folder of a voter was set back to an older copy, it votes for a leader that lacks committed
//! entries. That leader's entries would be taken for ours, or would replace entries that this node has applied.
//!
//! Such a voter has also forgotten its votes, so a term may have had two leaders, or one leader twice. Then two different
//! entries have one id. So the contents are compared too: each append names the last entry with commands before it, and what
//! is in it. Nodes with a different entry there have a different history.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::log::{Fingerprint, Image};
use super::log_reader::{self, LogReader};
use super::peers::is_acceptable;
use crate::format::record::{LogId, Vote};

/// A leader says what cannot be true. The subject of the sentence is the leader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Contradiction {
    #[error(
        "it has entry {} of term {}, but entry {} of term {} is committed here: the data folder of a node was set back to an older \
         copy, and entries that were acknowledged have been replaced, so the state of this node is not that of the leader; remove \
         this node from the cluster, empty its folder, and add it again; what was acknowledged in the replaced entries is lost",
        theirs.index, theirs.term, ours.index, ours.term
    )]
    Decided { ours: LogId, theirs: LogId },
    #[error(
        "its entry {} of term {} is not the one with this number and term here: the data folder of a node was set back to an \
         older copy, and the term {} began twice, so the state of this node is not that of the leader; remove this node from the \
         cluster, empty its folder, and add it again; what only this node has acknowledged is lost", id.index, id.term, id.term
    )]
    Content { id: LogId },
    #[error(
        "it sent entry {} of term {}, but as the same leader it has sent entry {} of term {} before", theirs.index,
        theirs.term, ours.index, ours.term
    )]
    Itself { ours: LogId, theirs: LogId },
}

/// The log of this node, for comparing. Clones share the same.
#[derive(Clone)]
pub struct History {
    log: LogReader,
    /// The last entry that this node has acknowledged to a leader, and that leader's vote.
    agreed: Arc<Mutex<Option<(Vote, LogId)>>>,
}

impl History {
    pub(super) fn new(log: LogReader) -> History {
        History { log, agreed: Arc::default() }
    }

    /// The vote that this node has saved last, or saves now.
    pub fn vote(&self, me: u64) -> Vote {
        self.log.image().head.vote.unwrap_or(Vote { term: 0, node: me, committed: false })
    }

    /// Compares ids of a leader's log with our own, as far as our own cannot change any more.
    ///
    /// The votes of Raft and of the log may differ for a moment, because Raft saves its vote before it acts on it. This is
    /// harmless in both directions. If Raft has a higher vote already, it refuses what is accepted here. A leader with a vote
    /// that is not below the one in the log was elected in the same term as the leader that committed our entries, or later.
    /// So it must have these entries, whatever Raft's vote is by now. And the entries up to the last committed one only become
    /// more until Raft gets the message: then `truncate_after` ends the node.
    pub fn compare(&self, vote: Vote, me: u64, ids: impl Iterator<Item = LogId>) -> Result<(), Contradiction> {
        let agreed = self.agreed().filter(|(leader, _)| *leader == vote).map(|(_, last)| last.index);
        let image = self.log.image();
        let own = image.head.vote.unwrap_or(Vote { term: 0, node: me, committed: false });
        if !is_acceptable(vote, own) {
            return Ok(());
        }
        let decided = image.decided();
        for theirs in ids {
            if let Some(ours) = decided.and_then(|upto| differs(&image, upto, theirs)) {
                return Err(Contradiction::Decided { ours, theirs });
            }
            if let Some(ours) = agreed.and_then(|upto| differs(&image, upto, theirs)) {
                return Err(Contradiction::Itself { ours, theirs });
            }
        }
        Ok(())
    }

    /// Compares the contents of a leader's entries with those of our own entries that have the same ids.
    pub fn compare_contents(
        &self,
        vote: Vote,
        me: u64,
        contents: impl Iterator<Item = (LogId, Fingerprint)>,
    ) -> Result<(), Contradiction> {
        let image = self.log.image();
        let own = image.head.vote.unwrap_or(Vote { term: 0, node: me, committed: false });
        if !is_acceptable(vote, own) {
            return Ok(());
        }
        let is_other = |&(id, theirs): &(LogId, Fingerprint)| {
            image.term(id.index) == Some(id.term) && image.fingerprint(id.index) != Some(theirs)
        };
        match contents.into_iter().find(is_other) {
            Some((id, _)) => Err(Contradiction::Content { id }),
            None => Ok(()),
        }
    }

    /// Finds the last entry with commands up to an index, if this node still has it. Does not keep the folder in use.
    pub fn last_commands(&self) -> impl Fn(u64) -> Option<(LogId, Fingerprint)> + Send + Sync + use<> {
        let image = self.log.shared_image();
        move |upto| log_reader::lock(&image).last_commands(upto)
    }

    /// Finds the index of the last entry. Does not keep the folder in use.
    pub fn log_end(&self) -> impl Fn() -> Option<u64> + Send + Sync + use<> {
        let image = self.log.shared_image();
        move || log_reader::lock(&image).last().map(|last| last.index)
    }

    /// The index of the last entry, if there is one.
    pub fn last(&self) -> Option<u64> {
        self.log.image().last().map(|last| last.index)
    }

    /// True if Raft accepts an append with this vote after this entry: an append that still waits before Raft is not
    /// counted.
    pub fn follows(&self, vote: Vote, me: u64, previous: Option<LogId>) -> bool {
        is_acceptable(vote, self.vote(me)) && previous.is_none_or(|previous| self.has(previous))
    }

    /// All entries up to this one are committed.
    pub fn settle(&self, upto: u64) {
        self.log.image().settle(upto);
    }

    /// True if the log has this entry, or has purged it.
    pub fn has(&self, id: LogId) -> bool {
        self.log.image().has(id)
    }

    /// The first entry of the log with a term above this one.
    pub fn first_above(&self, term: u64) -> Option<u64> {
        self.log.image().first_above(term)
    }

    /// True if this node has acknowledged this entry to this leader, or one after it.
    pub fn has_agreed(&self, vote: Vote, last: LogId) -> bool {
        self.agreed().is_some_and(|(leader, agreed)| leader == vote && agreed.index >= last.index)
    }

    /// This node has acknowledged all up to this entry to a leader.
    pub fn agree(&self, vote: Vote, last: Option<LogId>) {
        let Some(last) = last else { return };
        let mut agreed = self.agreed();
        match &mut *agreed {
            Some((leader, _)) if leader.term > vote.term => {}
            Some((leader, known)) if *leader == vote => *known = (*known).max(last),
            agreed => *agreed = Some((vote, last)),
        }
    }

    fn agreed(&self) -> MutexGuard<'_, Option<(Vote, LogId)>> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry of ours that cannot be in a log with the entry `theirs`, among those up to `upto`. The terms of a log never fall.
fn differs(image: &Image, upto: u64, theirs: LogId) -> Option<LogId> {
    let index = theirs.index.min(upto);
    let ours = match image.term(index) {
        Some(term) => LogId { term, index },
        // Of purged entries only the last one is known.
        None => image.head.purged.filter(|purged| index <= purged.index)?,
    };
    let fits = match theirs.index.cmp(&ours.index) {
        Ordering::Less => theirs.term <= ours.term,
        Ordering::Equal => theirs.term == ours.term,
        Ordering::Greater => theirs.term >= ours.term,
    };
    (!fits).then_some(ours)
}
