//! The log, as Raft would make it, without its messages: proposals of whoever truly leads are committed in order after a while;
//! when the leader changes, the first few of those under way survive and the rest are lost, and nobody is told which.

use std::collections::VecDeque;

use baton_service::state::Command;

/// A node, by number.
pub type NodeId = usize;
/// A connection, by number; no two have the same.
pub type ConnectionId = u64;

/// What was proposed, and by whom.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// Counted from 0.
    pub id: u64,
    /// Which node proposed it.
    pub node: NodeId,
    /// In which of its lives.
    pub life: u32,
    /// In which term.
    pub term: u64,
    /// What.
    pub command: Command,
}

/// What is committed, and what may be.
#[derive(Default)]
pub struct Log {
    /// In order.
    pub committed: Vec<Proposal>,
    /// Under way, in order, all by the present leader.
    under_way: VecDeque<Proposal>,
    /// Who truly leads, and in which term: none while there is no leader.
    pub leader: Option<(NodeId, u64)>,
    term: u64,
    proposals: u64,
}

impl Log {
    /// Whether this node truly leads in this term, at this very moment.
    pub fn leads(&self, node: NodeId, term: u64) -> bool {
        self.leader == Some((node, term))
    }

    /// Takes a proposal. Whether it will be committed nobody knows.
    pub fn propose(&mut self, mut proposal: Proposal) -> u64 {
        proposal.id = self.proposals;
        self.proposals += 1;
        let id = proposal.id;
        if self.leads(proposal.node, proposal.term) {
            self.under_way.push_back(proposal);
        }
        id
    }

    /// Enough nodes have this proposal, and therefore all before it too. Says how many entries there are now.
    pub fn commit(&mut self, id: u64) -> usize {
        while self.under_way.front().is_some_and(|proposal| proposal.id <= id) {
            self.committed.extend(self.under_way.pop_front());
        }
        self.committed.len()
    }

    /// Nobody leads. Of what was under way, so many survive with whoever leads next.
    pub fn depose(&mut self, rng: &mut fastrand::Rng) {
        let survive = rng.usize(..=self.under_way.len());
        self.committed.extend(self.under_way.drain(..survive));
        self.under_way.clear();
        self.leader = None;
    }

    /// This node leads from now on; the new term.
    pub fn elect(&mut self, node: NodeId, rng: &mut fastrand::Rng) -> u64 {
        self.depose(rng);
        self.term += 1;
        self.leader = Some((node, self.term));
        self.term
    }
}
