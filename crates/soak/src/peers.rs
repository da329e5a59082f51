//! The network between the nodes, and what each node's Raft wants of the world: messages, syncs, timers, rounds.

use baton_state::state::Command;

use super::clock::Micros;
use super::effects::Effect;
use super::faults::TTLS_MAX;
use super::model::{Leadership, Message, NodeId, Output};
use super::world::{MS, NodeEvent, World, WorldEvent};

/// The links between the nodes.
pub(super) struct Links {
    nodes: usize,
    /// For each direction between two nodes: how many partitions cut it.
    cuts: Vec<u8>,
    /// Of 256 messages, this many are lost.
    pub lost: u8,
}

impl Links {
    pub fn new(nodes: usize, lost: u8) -> Self {
        Links { nodes, cuts: vec![0; nodes * nodes], lost }
    }

    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts[from * self.nodes + to] > 0
    }

    /// How a node is cut off from all others, if it is.
    pub fn cut_off(&self, node: NodeId) -> Option<&'static str> {
        let others = || (0..self.nodes).filter(|other| *other != node);
        let is_deaf = self.nodes > 1 && others().all(|other| self.is_cut(other, node));
        let is_mute = self.nodes > 1 && others().all(|other| self.is_cut(node, other));
        match (is_deaf, is_mute) {
            (true, true) => Some("is cut off"),
            (true, false) => Some("hears nobody"),
            (false, true) => Some("is not heard"),
            (false, false) => None,
        }
    }

    pub fn cut(&mut self, links: &[(NodeId, NodeId)]) {
        links.iter().for_each(|(from, to)| self.cuts[from * self.nodes + to] += 1);
    }

    pub fn join(&mut self, links: &[(NodeId, NodeId)]) {
        for (from, to) in links {
            let cuts = &mut self.cuts[from * self.nodes + to];
            *cuts = cuts.saturating_sub(1);
        }
    }

    pub fn heal(&mut self) {
        self.cuts.fill(0);
        self.lost = 0;
    }
}

impl World {
    /// Carries out what a node's Raft wants, after anything that may have changed it.
    pub(super) fn follow_raft(&mut self, node: NodeId) -> Result<(), String> {
        if self.shipped.is_some() {
            return Ok(());
        }
        let life = self.nodes[node].life;
        while let Some(output) = self.nodes[node].raft.poll() {
            let (delay, event) = match output {
                Output::Send { to, message } => {
                    self.send_to_node(node, to, &message);
                    continue;
                }
                Output::Sync(sync) => (self.delay(3 * MS, 150 * MS), NodeEvent::Synced(sync)),
                Output::RoundDone { round, led } => (self.rng.u64(..MS), NodeEvent::RoundDone { round, led }),
                // Sometimes the node learns from elsewhere that it is deposed, before it learns of its lost proposals.
                // It never leads again in that term, so it does not matter which of them were `Lead`s.
                Output::Lost { term } => (self.delay(MS, 300 * MS), NodeEvent::Lost { term, is_lead: false }),
            };
            self.after(delay, WorldEvent::ToNode { node, life, event });
        }
        self.judge_commits(node)?;
        self.watch_leadership(node);
        self.arm_raft(node);
        let to = &mut self.nodes[node];
        if to.raft.has_to_apply() && !std::mem::replace(&mut to.applies_soon, true) {
            let delay = self.delay(2 * MS, 400 * MS);
            self.after(delay, WorldEvent::ToNode { node, life, event: NodeEvent::Apply });
        }
        Ok(())
    }

    fn send_to_node(&mut self, from: NodeId, to: NodeId, message: &Message) {
        // Before healing, a few messages arrive twice.
        let copies = 1 + usize::from(self.healed_at.is_none() && self.rng.u8(..64) == 0);
        for _ in 0..copies {
            if self.links.is_cut(from, to) || self.rng.u8(..) < self.links.lost {
                continue;
            }
            let delay = self.delay(4 * MS, 300 * MS);
            let (life, message) = (self.nodes[to].life, message.clone());
            self.after(delay, WorldEvent::ToNode { node: to, life, event: NodeEvent::Raft { from, message } });
        }
    }

    /// The oracle judges each entry when a leader first knows that it is committed. All nodes must agree on the log.
    fn judge_commits(&mut self, node: NodeId) -> Result<(), String> {
        let raft = &self.nodes[node].raft;
        if let Some(fault) = raft.fault() {
            return Err(format!("Raft itself is broken: {fault}"));
        }
        if raft.leads() {
            match self.leaders.insert(raft.term(), node) {
                Some(other) if other != node => {
                    return Err(format!("Raft itself is broken: nodes {node} and {other} lead in one term"));
                }
                _ => {}
            }
        }
        let known = self.committed.len();
        if raft.committed().len() > known {
            let news = raft.committed()[known..].to_vec();
            for entry in news {
                self.committed.push(entry);
                self.judge_entry(entry)?;
            }
        }
        Ok(())
    }

    /// The front end hears of a change later, and then of the latest state only: the real node has such a watch, too.
    fn watch_leadership(&mut self, node: NodeId) {
        let (now, life) = (self.now, self.nodes[node].life);
        let to = &mut self.nodes[node];
        let leadership = to.raft.leadership(now);
        self.knows_leadership(node, life, leadership);
    }

    /// A node has told this leadership, now or earlier.
    pub(super) fn knows_leadership(&mut self, node: NodeId, life: u32, leadership: Leadership) {
        let to = &mut self.nodes[node];
        if std::mem::replace(&mut to.leadership, leadership) == leadership || to.hears_leadership_soon {
            return;
        }
        to.hears_leadership_soon = true;
        if let Leadership::Leads { term } = leadership {
            self.tell(|| format!("node {node} leads in term {term}"));
        }
        let is_slow = self.has_slow_watches && self.healed_at.is_none() && self.rng.bool();
        let ttl = self.ttl_ms * MS;
        let delay = match leadership {
            _ if !is_slow => self.delay(20 * MS, 400 * MS),
            Leadership::Leads { .. } => self.rng.u64(..TTLS_MAX * ttl),
            Leadership::DoesNotLead { .. } => self.rng.u64(ttl..TTLS_MAX * ttl),
        };
        self.after(delay, WorldEvent::ToNode { node, life, event: NodeEvent::Leadership });
    }

    fn arm_raft(&mut self, node: NodeId) {
        let to = &mut self.nodes[node];
        let (life, wake) = (to.life, to.raft.next_wake());
        if to.raft_alarm_at.is_none_or(|alarm_at| wake < alarm_at) {
            to.raft_alarm_at = Some(wake);
            self.at(wake, WorldEvent::ToNode { node, life, event: NodeEvent::RaftAlarm });
        }
    }

    /// The front end of a node proposes a command. Sometimes the engine refuses it although the node leads. Then the
    /// engine says so before it can apply any later proposal.
    pub(super) fn propose(&mut self, node: NodeId, term: u64, command: Command) {
        if self.shipped.is_some() {
            return self.submit(node, term, command);
        }
        let raft = &mut self.nodes[node].raft;
        let leads = raft.leads() && raft.term() == term;
        let is_unlucky = self.healed_at.is_none() && self.rng.u8(..) == 0;
        let is_refused = is_unlucky || (self.needs_lease && !raft.has_lease(self.now, term));
        if leads && !is_refused {
            raft.propose(term, self.commands.len() as u32);
            self.commands.push(command);
        } else if leads || self.rng.bool() {
            // Otherwise the engine says nothing, because the node is about to learn that it is deposed.
            let (life, is_lead) = (self.nodes[node].life, command.is_lead());
            self.after(0, WorldEvent::ToNode { node, life, event: NodeEvent::Lost { term, is_lead } });
        }
    }

    /// The node that leads in the latest term, if any. Earlier leaders do not know yet that they are none.
    pub(super) fn leader(&self) -> Option<NodeId> {
        if self.shipped.is_some() {
            return self.shipped_leader();
        }
        let leaders = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up && self.nodes[*node].raft.leads());
        leaders.max_by_key(|node| self.nodes[*node].raft.term())
    }

    /// Cuts links between nodes, for about so long.
    pub(super) fn cut_links(&mut self, links: &[(NodeId, NodeId)], duration: Micros) {
        self.links.cut(links);
        self.cut_shipped(links);
        self.cut_carriers(links, duration);
    }

    /// Cuts links between nodes for a while.
    pub(super) fn cut(&mut self, links: Vec<(NodeId, NodeId)>, effect: Effect, duration: Micros) {
        self.cut_links(&links, duration);
        let waited = self.waited();
        self.after(duration, WorldEvent::Join { links, effect, waited });
    }
}
