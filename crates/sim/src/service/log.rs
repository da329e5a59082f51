//! An abstract log that behaves like Raft's, without its messages. Proposals of the true leader are committed in order
//! after a while. When the leader changes, the first few proposals under way survive and the rest are lost. No node
//! learns which.

use std::collections::VecDeque;

use baton_service::state::Command;

pub type NodeId = usize;
/// Unique for each connection.
pub type ConnectionId = u64;

#[derive(Clone, Debug)]
pub struct Proposal {
    /// Counts from 0.
    pub id: u64,
    pub node: NodeId,
    /// The number of restarts of the node before the proposal.
    pub life: u32,
    pub term: u64,
    pub command: Command,
}

/// The committed proposals and those under way.
#[derive(Default)]
pub struct Log {
    pub committed: Vec<Proposal>,
    /// In order. All are proposals of the current leader.
    under_way: VecDeque<Proposal>,
    /// The true leader and its term. None while there is no leader.
    pub leader: Option<(NodeId, u64)>,
    term: u64,
    proposals: u64,
}

impl Log {
    /// Whether this node truly leads in this term, at this moment.
    pub fn leads(&self, node: NodeId, term: u64) -> bool {
        self.leader == Some((node, term))
    }

    /// Accepts a proposal and returns its id. The proposal may be committed or lost.
    pub fn propose(&mut self, mut proposal: Proposal) -> u64 {
        proposal.id = self.proposals;
        self.proposals += 1;
        let id = proposal.id;
        if self.leads(proposal.node, proposal.term) {
            self.under_way.push_back(proposal);
        }
        id
    }

    /// Commits this proposal and all before it. Returns the number of committed entries.
    pub fn commit(&mut self, id: u64) -> usize {
        while self.under_way.front().is_some_and(|proposal| proposal.id <= id) {
            self.committed.extend(self.under_way.pop_front());
        }
        self.committed.len()
    }

    /// Removes the leader. A random number of the proposals under way survive: they are committed now.
    pub fn depose(&mut self, rng: &mut fastrand::Rng) {
        let survive = rng.usize(..=self.under_way.len());
        self.committed.extend(self.under_way.drain(..survive));
        self.under_way.clear();
        self.leader = None;
    }

    /// Makes this node the leader. Returns the new term.
    pub fn elect(&mut self, node: NodeId, rng: &mut fastrand::Rng) -> u64 {
        self.depose(rng);
        self.term += 1;
        self.leader = Some((node, self.term));
        self.term
    }
}
