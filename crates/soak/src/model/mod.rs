//! A small Raft for the simulator: elections, replication, read-index rounds, and the watch for a lost majority. It is
//! pure, like the front end that it carries: the world reports messages, syncs and time, and carries out the outputs.
//!
//! It differs from the Raft of the real service (openraft) where the difference makes it simpler and not kinder:
//! - Messages may be lost, repeated, and overtake each other.
//! - There is no pre-vote, so a node that comes back may depose the leader.
//! - The log is never purged, so that no node needs a snapshot. A restarted node applies its log again.
//!
//! What a restart keeps: the term, the vote, and all synced entries. Entries that are not synced may be lost.

mod election;
mod replication;
mod rounds;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::clock::Micros;
use rounds::Round;

pub type NodeId = usize;

const MS: Micros = 1_000;
/// A leader sends to every follower at least this often.
pub const HEARTBEAT: Micros = 100 * MS;
/// A follower waits for a random time in this range without a leader, and then wants to lead.
pub const ELECTION_MIN: Micros = 250 * MS;
pub const ELECTION_MAX: Micros = 500 * MS;
/// A leader without a majority alternates: it sends nothing for this time, so that others can be elected, and then it
/// sends again for this time.
const PROBE: Micros = 2 * ELECTION_MAX;

/// An entry of the log. The world has the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub term: u64,
    /// The number of the command. None for the entry with which each leader begins its term.
    pub command: Option<u32>,
}

/// The end of a log: the term of its last entry and its length. A log with a higher end is more up to date.
type End = (u64, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A candidate asks for a vote.
    Vote {
        term: u64,
        end: End,
    },
    Voted {
        term: u64,
        granted: bool,
    },
    /// A leader sends entries, or none as a heartbeat.
    Append {
        term: u64,
        /// The end of the log before these entries.
        before: End,
        entries: Vec<Entry>,
        commit: usize,
        /// The answer repeats it: from then on, at least, the follower followed this leader.
        sent_at: Micros,
    },
    Appended {
        term: u64,
        /// How much of the leader's log the follower has synced; or how long its log is, if the entries do not fit.
        matched: Result<usize, usize>,
        sent_at: Micros,
    },
    /// The leader wants this node to lead.
    Campaign {
        term: u64,
    },
}

impl Message {
    fn term(&self) -> u64 {
        match *self {
            Message::Vote { term, .. }
            | Message::Voted { term, .. }
            | Message::Append { term, .. }
            | Message::Appended { term, .. }
            | Message::Campaign { term } => term,
        }
    }
}

/// Entries on their way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The length of the log after these entries.
    length: usize,
    /// Void if entries were removed from the log meanwhile.
    removals: u64,
    /// The append to answer: its term, leader and sending time.
    answers: Option<(u64, NodeId, Micros)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Send {
        to: NodeId,
        message: Message,
    },
    /// Call [`Raft::synced`] when the log is on the disk.
    Sync(Sync),
    /// A read-index round is over. If the node led, its state has everything that was committed when the round began.
    RoundDone {
        round: u64,
        led: bool,
    },
    /// The node no longer leads in this term, and proposals of the term may be lost.
    Lost {
        term: u64,
    },
}

/// What a node knows about the leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// This node leads, and a majority has confirmed it not long ago.
    Leads { term: u64 },
    DoesNotLead {
        term: u64,
        /// The node that leads in this term, if this node knows it.
        leader: Option<NodeId>,
    },
}

#[derive(Clone, Debug)]
enum Role {
    Follower,
    Candidate { votes: Vec<bool> },
    Leader(Leader),
}

#[derive(Clone, Debug)]
struct Leader {
    since: Micros,
    /// The length of the log after the first entry of the term.
    first: usize,
    peers: Vec<Peer>,
    heartbeat_at: Micros,
    rounds: Vec<Round>,
    /// Whether entries wait to be sent.
    has_news: bool,
}

/// What a leader knows about another node.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// How many entries the leader has sent.
    sent: usize,
    /// How many entries the node has synced for certain.
    matched: usize,
    /// When the leader sent the latest append that the node has answered in this term.
    heard: Option<Micros>,
}

#[derive(Clone, Debug)]
pub struct Raft {
    id: NodeId,
    nodes: usize,
    // Survives a restart.
    term: u64,
    vote: Option<NodeId>,
    log: Vec<Entry>,
    synced: usize,
    // Lost in a restart.
    role: Role,
    leader: Option<NodeId>,
    commit: usize,
    applied: usize,
    removals: u64,
    /// When the node wants to lead, unless it hears from a leader or votes.
    election_at: Micros,
    rng: fastrand::Rng,
    out: VecDeque<Output>,
    /// A rule of Raft itself is broken.
    fault: Option<String>,
}

impl Raft {
    pub fn new(id: NodeId, nodes: usize, seed: u64) -> Self {
        let mut raft = Raft {
            id,
            nodes,
            term: 0,
            vote: None,
            log: Vec::new(),
            synced: 0,
            role: Role::Follower,
            leader: None,
            commit: 0,
            applied: 0,
            removals: 0,
            election_at: 0,
            rng: fastrand::Rng::with_seed(seed),
            out: VecDeque::new(),
            fault: None,
        };
        raft.put_off_election(0);
        raft
    }

    /// The next action for the world.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When to call [`Raft::tick`].
    pub fn next_wake(&self) -> Micros {
        match &self.role {
            Role::Leader(leader) => leader.heartbeat_at,
            Role::Follower | Role::Candidate { .. } => self.election_at,
        }
    }

    pub fn tick(&mut self, now: Micros) {
        if now < self.next_wake() {
            return;
        }
        match &mut self.role {
            Role::Leader(leader) => {
                leader.heartbeat_at = now + HEARTBEAT;
                if !self.is_suppressed(now) {
                    self.send_to_all(now);
                }
                self.end_old_rounds(now);
            }
            Role::Follower | Role::Candidate { .. } => self.campaign(now),
        }
    }

    pub fn receive(&mut self, now: Micros, from: NodeId, message: Message) {
        if message.term() > self.term {
            self.follow(now, message.term());
        }
        match message {
            Message::Vote { term, end } => self.on_vote(now, from, term, end),
            Message::Voted { term, granted } => self.on_voted(now, from, term, granted),
            Message::Append { term, before, entries, commit, sent_at } => {
                self.on_append(now, from, term, before, &entries, commit, sent_at)
            }
            Message::Appended { term, matched, sent_at } => self.on_appended(now, from, term, matched, sent_at),
            Message::Campaign { term } => {
                if term == self.term && !self.leads() {
                    self.campaign(now);
                }
            }
        }
    }

    /// The process restarts. Some of the entries that were not synced may be there nevertheless.
    pub fn restart(&mut self, now: Micros) {
        let kept = self.rng.usize(self.synced..=self.log.len());
        self.log.truncate(kept);
        self.synced = kept;
        self.role = Role::Follower;
        (self.leader, self.commit, self.applied) = (None, 0, 0);
        self.out.clear();
        self.put_off_election(now);
    }

    pub fn term(&self) -> u64 {
        self.term
    }

    /// Whether this node is the leader of its term. It may not know yet that there is a later term.
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// The committed part of the log, as far as this node knows.
    pub fn committed(&self) -> &[Entry] {
        &self.log[..self.commit]
    }

    /// The next committed entry to apply. The caller applies it at once.
    pub fn apply_next(&mut self) -> Option<(usize, Entry)> {
        let entry = *self.committed().get(self.applied)?;
        self.applied += 1;
        Some((self.applied - 1, entry))
    }

    pub fn has_to_apply(&self) -> bool {
        self.applied < self.commit
    }

    /// A broken rule of Raft itself, if there is one.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// What this node tells its front end. A leader that no majority has answered for an election timeout cannot be
    /// sure that it leads.
    pub fn leadership(&self, now: Micros) -> Leadership {
        let term = self.term;
        match &self.role {
            Role::Leader(leader) if self.unconfirmed_for(now, leader) < ELECTION_MAX => Leadership::Leads { term },
            Role::Leader(_) => Leadership::DoesNotLead { term, leader: None },
            Role::Follower | Role::Candidate { .. } => Leadership::DoesNotLead { term, leader: self.leader },
        }
    }

    fn send(&mut self, to: NodeId, message: Message) {
        self.out.push_back(Output::Send { to, message });
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let id = self.id;
        (0..self.nodes).filter(move |node| *node != id)
    }

    fn end(&self) -> End {
        self.end_at(self.log.len())
    }

    fn end_at(&self, length: usize) -> End {
        (length.checked_sub(1).map_or(0, |last| self.log[last].term), length)
    }
}
