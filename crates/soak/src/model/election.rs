//! Elections: one vote a node and term, for a candidate whose log is at least as up to date.

use super::{
    ELECTION_MAX, ELECTION_MIN, End, Entry, HEARTBEAT, Leader, Message, Micros, NodeId, Output, Peer, Raft, Role,
};

impl Raft {
    pub(super) fn put_off_election(&mut self, now: Micros) {
        // A node without others need not wait for them.
        let wait = if self.nodes == 1 { 0 } else { self.rng.u64(ELECTION_MIN..ELECTION_MAX) };
        self.election_at = now + wait;
    }

    /// Another node leads, or wants to lead, in this term.
    pub(super) fn follow(&mut self, now: Micros, term: u64) {
        let before = std::mem::replace(&mut self.role, Role::Follower);
        if let Role::Leader(leader) = before {
            for round in leader.rounds {
                self.out.push_back(Output::RoundDone { round: round.id, led: false });
            }
            self.out.push_back(Output::Lost { term: self.term });
            self.put_off_election(now);
        }
        if term > self.term {
            (self.term, self.vote, self.leader) = (term, None, None);
        }
    }

    /// Wants to lead in the next term.
    pub fn campaign(&mut self, now: Micros) {
        self.follow(now, self.term + 1);
        self.vote = Some(self.id);
        self.put_off_election(now);
        let mut votes = vec![false; self.nodes];
        votes[self.id] = true;
        self.role = Role::Candidate { votes };
        let (term, end) = (self.term, self.end());
        for to in self.others() {
            self.send(to, Message::Vote { term, end });
        }
        self.lead_if_elected(now);
    }

    pub(super) fn on_vote(&mut self, now: Micros, from: NodeId, term: u64, end: End) {
        let is_free = self.vote.is_none_or(|vote| vote == from);
        let granted = term == self.term && is_free && end >= self.end();
        if granted {
            self.vote = Some(from);
            self.put_off_election(now);
        }
        let term = self.term;
        self.send(from, Message::Voted { term, granted });
    }

    pub(super) fn on_voted(&mut self, now: Micros, from: NodeId, term: u64, granted: bool) {
        if let Role::Candidate { votes } = &mut self.role
            && term == self.term
            && granted
        {
            votes[from] = true;
            self.lead_if_elected(now);
        }
    }

    fn lead_if_elected(&mut self, now: Micros) {
        let Role::Candidate { votes } = &self.role else { return };
        if votes.iter().filter(|vote| **vote).count() <= self.nodes / 2 {
            return;
        }
        let sent = self.log.len();
        self.log.push(Entry { term: self.term, command: None });
        self.leader = Some(self.id);
        self.role = Role::Leader(Leader {
            since: now,
            first: sent + 1,
            peers: vec![Peer { sent, matched: 0, heard: None }; self.nodes],
            heartbeat_at: now + HEARTBEAT,
            rounds: Vec::new(),
            has_news: true,
        });
        self.flush(now);
    }

    /// Asks another node, one that lacks as little as possible, to lead. Returns false if this node does not lead.
    pub fn hand_over(&mut self) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        let Some(to) = self.others().max_by_key(|node| leader.peers[*node].matched) else { return false };
        let term = self.term;
        self.send(to, Message::Campaign { term });
        true
    }
}
