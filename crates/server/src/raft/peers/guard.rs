//! Checks the requests of peers before Raft sees them. `network.rs` checks their answers.

use openraft::async_runtime::WatchReceiver;
use openraft::raft::AppendEntriesRequest;

use super::check::{self, Unfit};
use super::wire::{Candidacy, LinkError, Transfer};
use crate::format::record::{LogId, Vote};
use crate::format::snapshot::SnapshotMeta;
use crate::raft::edge;
use crate::raft::group::Group;
use crate::raft::history::{Contradiction, History};
use crate::raft::log::Fingerprint;
use crate::raft::log_store::Fatal;
use crate::raft::types::{LogEntry, Payload, TypeConfig};

pub struct Guard {
    pub group: Group,
    pub history: History,
    pub fatal: Fatal,
}

impl Guard {
    /// Checks an append of the node `from`. Raft gets only what is committed for sure: see [`check::append`]. openraft
    /// notes the commit index of an append even if it refuses the append, and later applies up to that index. So it gets
    /// the index only with an append that it will accept. Until then the next append, or a heartbeat, brings it again.
    /// `known`: an entry of the leader's log, see [`History::compare_contents`].
    pub fn append(
        &self,
        from: u64,
        known: Option<(LogId, Fingerprint)>,
        rpc: &mut AppendEntriesRequest<TypeConfig>,
    ) -> Result<(), LinkError> {
        let (me, vote) = (self.group.id(), Vote::from(rpc.vote));
        let (previous, commit) = (rpc.prev_log_id.map(LogId::from), rpc.leader_commit.map(LogId::from));
        let ids = || rpc.entries.iter().map(|entry| LogId::from(entry.log_id));
        let committed = check::append(from, self.history.vote(me), vote, (previous, commit), ids())?;
        for entry in &rpc.entries {
            if let Payload::Membership(membership) = &entry.payload
                && membership.get_joint_config().is_empty()
            {
                return Err(Unfit::NoVoters { index: entry.log_id.index }.into());
            }
        }
        self.compare(from, vote, previous.into_iter().chain(commit).chain(ids()))?;
        let last = self.history.last();
        let is_here_too = |entry: &&LogEntry| last.is_some_and(|last| entry.log_id.index <= last);
        let content = |entry: &LogEntry| {
            let payload = edge::encoded(entry.payload.clone());
            (LogId::from(entry.log_id), Fingerprint::of(&payload))
        };
        let contents = known.into_iter().chain(rpc.entries.iter().take_while(is_here_too).map(content));
        self.judge(from, vote, self.history.compare_contents(vote, me, contents))?;
        let follows = self.history.follows(vote, me, previous);
        // An entry of the append itself, or one that the log has already.
        let is_here = |commit: &LogId| Some(*commit) > previous || self.history.has(*commit);
        rpc.leader_commit = committed.filter(|commit| follows && is_here(commit)).map(Into::into);
        Ok(())
    }

    /// True for an elected leader that this node does not follow yet, although Raft will accept it.
    pub fn is_new(&self, vote: Vote) -> bool {
        let own = self.history.vote(self.group.id());
        vote.committed && vote != own && check::is_acceptable(vote, own)
    }

    /// Checks the beginning of a snapshot.
    pub fn snapshot(&self, from: u64, vote: Vote, meta: &SnapshotMeta) -> Result<(), LinkError> {
        check::snapshot(from, self.history.vote(self.group.id()), vote, meta)?;
        self.compare(from, vote, meta.last.into_iter())
    }

    /// Checks a candidacy. The flag of a transfer lets a candidate depose a leader that others hear, so it only counts for
    /// a node that votes, as far as this one knows. Another candidate may have become a voter with entries that this node
    /// does not have, so it is no stranger for sure, but it has to wait until the leader is silent.
    pub fn candidacy(&self, from: u64, candidacy: Candidacy) -> Result<Candidacy, LinkError> {
        check::candidacy(from, self.history.vote(self.group.id()), &candidacy)?;
        Ok(Candidacy { is_transfer: candidacy.is_transfer && self.votes(from), ..candidacy })
    }

    /// Checks the vote of any request: its sender and its term. Returns a sentence if another node leads in this term.
    pub fn vote(&self, from: u64, vote: Vote) -> Result<Result<(), String>, LinkError> {
        let own = self.history.vote(self.group.id());
        check::vote(from, own, vote)?;
        Ok(check::one_leader(own, vote).map_err(|unfit| unfit.to_string()))
    }

    /// Returns a sentence if the transfer comes too late, or to a node without a vote.
    pub fn transfer(&self, from: u64, transfer: &Transfer) -> Result<Result<(), String>, LinkError> {
        let me = self.group.id();
        match check::transfer(from, self.history.vote(me), (me, self.votes(me)), transfer) {
            Ok(()) => Ok(Ok(())),
            Err(late @ (Unfit::NotLeader | Unfit::NoVote)) => Ok(Err(late.to_string())),
            Err(unfit) => Err(unfit.into()),
        }
    }

    /// If this node and an elected leader contradict each other about committed entries, one of the two must not go on. A
    /// node that is no member, as far as this one knows, must not end this one, so it is only refused.
    fn compare(&self, from: u64, vote: Vote, ids: impl Iterator<Item = LogId>) -> Result<(), LinkError> {
        self.judge(from, vote, self.history.compare(vote, self.group.id(), ids))
    }

    fn judge(&self, from: u64, vote: Vote, compared: Result<(), Contradiction>) -> Result<(), LinkError> {
        if let Err(contradiction @ (Contradiction::Decided { .. } | Contradiction::Content { .. })) = &compared
            && self.group.raft.server_metrics().borrow_watched().membership_config.get_node(&from).is_some()
        {
            (self.fatal)(&format!("{} leads in term {}; {contradiction}", self.group.peers.label(from), vote.term));
        }
        Ok(compared?)
    }

    fn votes(&self, id: u64) -> bool {
        self.group.raft.server_metrics().borrow_watched().membership_config.voter_ids().any(|voter| voter == id)
    }
}

impl From<Unfit> for LinkError {
    fn from(unfit: Unfit) -> LinkError {
        LinkError::Unfit(unfit.to_string())
    }
}

impl From<Contradiction> for LinkError {
    fn from(contradiction: Contradiction) -> LinkError {
        LinkError::Unfit(contradiction.to_string())
    }
}
