//! Read-index rounds, and the watch for a lost majority. Both count the followers that have answered what the leader
//! sent at some time or later.

use super::{ELECTION_MAX, Leader, Micros, Output, PROBE, Raft, Role};

#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub id: u64,
    began: Micros,
    /// The round ends when the node has applied this many entries.
    needs: usize,
}

impl Raft {
    /// Begins a round: a majority must answer something that this node sends from now on.
    pub fn begin_round(&mut self, now: Micros, id: u64) {
        let commit = self.commit;
        let Role::Leader(leader) = &mut self.role else {
            return self.out.push_back(Output::RoundDone { round: id, led: false });
        };
        // A new leader knows what is committed only when the first entry of its term is.
        let needs = commit.max(leader.first);
        leader.rounds.push(Round { id, began: now, needs });
        if !self.is_suppressed(now) {
            self.send_to_all(now);
        }
        self.end_rounds();
    }

    /// Ends the rounds that have their answers and whose entries are applied.
    pub fn end_rounds(&mut self) {
        let applied = self.applied;
        let nodes = self.nodes;
        let Role::Leader(leader) = &mut self.role else { return };
        let confirmed = confirmed_at(leader, nodes);
        let is_over =
            |round: &mut Round| round.needs <= applied && (nodes == 1 || confirmed.is_some_and(|at| at >= round.began));
        let over = leader.rounds.extract_if(.., is_over);
        self.out.extend(over.map(|round| Output::RoundDone { round: round.id, led: true }));
    }

    /// Ends the rounds that have waited for too long.
    pub(super) fn end_old_rounds(&mut self, now: Micros) {
        let Role::Leader(leader) = &mut self.role else { return };
        let over = leader.rounds.extract_if(.., |round| now > round.began + ELECTION_MAX);
        self.out.extend(over.map(|round| Output::RoundDone { round: round.id, led: false }));
    }

    /// The time since a majority confirmed this leader. Its election was the first confirmation.
    pub(super) fn unconfirmed_for(&self, now: Micros, leader: &Leader) -> Micros {
        if self.nodes == 1 {
            return 0;
        }
        now - confirmed_at(leader, self.nodes).map_or(leader.since, |at| at.max(leader.since))
    }

    /// Whether this leader sends nothing for a while, because it lost its majority.
    pub(super) fn is_suppressed(&self, now: Micros) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        let lost_for = self.unconfirmed_for(now, leader).checked_sub(ELECTION_MAX);
        lost_for.is_some_and(|lost_for| (lost_for / PROBE).is_multiple_of(2))
    }
}

/// A majority, the leader included, has answered what the leader sent at this time or later.
fn confirmed_at(leader: &Leader, nodes: usize) -> Option<Micros> {
    // The leader's own place is among those that never answer.
    let mut heard: Vec<Option<Micros>> = leader.peers.iter().map(|peer| peer.heard).collect();
    heard.sort_unstable_by(|one, other| other.cmp(one));
    heard.get((nodes / 2).checked_sub(1)?).copied().flatten()
}
