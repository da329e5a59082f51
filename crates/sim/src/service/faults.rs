//! The faults of a run, all drawn from the seed, and the healing at the end.

use baton_service::frontend::Frontend;
use baton_types::frames::{EndReason, Open, ToClient, ToServer};

use super::clock::Micros;
use super::log::NodeId;
use super::world::{ClientEvent, Connection, MS, NodeEvent, World, WorldEvent};

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The leader is paused for a while. Its clock goes on.
    PauseLeader(Micros),
    PauseClient(usize, Micros),
    /// Another node becomes the leader, and the old leader does not know it yet.
    ChangeLeader,
    /// A node loses everything except its log.
    Restart(NodeId, Micros),
    /// The connection of a client breaks. Its two ends notice at different moments.
    BreakConnection(usize),
    /// An operator forces the release of a lock. With `now`, the holders lose the lock although they may still be
    /// working.
    Force {
        lock: usize,
        now: bool,
    },
    /// A client does not read the frames that it is sent.
    Slow(usize),
    /// The disk of a node is full for a while.
    Full(NodeId, Micros),
    /// A thief that knows the number of a session, but not its secret, tries to resume it.
    Steal(usize),
}

impl World {
    pub(super) fn plan_faults(&mut self) {
        let until = self.rng.u64(3_000 * MS..8_000 * MS);
        let pause_max = 2 * self.ttl_ms * MS;
        for _ in 0..self.rng.usize(2..9) {
            let at = self.rng.u64(200 * MS..until);
            let client = self.rng.usize(..self.clients.len());
            let fault = match self.rng.u8(..12) {
                0 => Fault::PauseLeader(self.rng.u64(10 * MS..pause_max)),
                1 => Fault::PauseClient(client, self.rng.u64(10 * MS..pause_max)),
                2 | 3 => Fault::ChangeLeader,
                4 => Fault::Restart(self.rng.usize(..self.nodes.len()), self.rng.u64(10 * MS..1_500 * MS)),
                5 => Fault::BreakConnection(client),
                6 => Fault::Slow(client),
                7 | 8 => Fault::Full(self.rng.usize(..self.nodes.len()), self.rng.u64(100 * MS..2_000 * MS)),
                9 => Fault::Steal(client),
                _ => Fault::Force { lock: self.rng.usize(..self.locks.len()), now: self.rng.bool() },
            };
            self.at(at, WorldEvent::Fault(fault));
        }
        self.at(until, WorldEvent::Heal);
    }

    pub(super) fn strike(&mut self, fault: Fault) -> Result<(), String> {
        self.tell(|| format!("fault: {fault:?}"));
        match fault {
            Fault::PauseLeader(duration) => {
                if let Some((node, _)) = self.log.leader
                    && self.nodes[node].paused.is_none()
                {
                    self.nodes[node].paused = Some(Vec::new());
                    self.after(duration, WorldEvent::ResumeNode(node));
                    // Mostly the other nodes elect a new leader meanwhile.
                    if self.nodes.len() > 1 && self.rng.u8(..4) > 0 {
                        let delay = self.rng.u64(100 * MS..900 * MS);
                        self.after(delay, WorldEvent::Fault(Fault::ChangeLeader));
                    }
                }
            }
            Fault::PauseClient(client, duration) => {
                if self.clients[client].paused.is_none() {
                    self.clients[client].paused = Some(Vec::new());
                    self.after(duration, WorldEvent::ResumeClient(client));
                }
            }
            Fault::ChangeLeader => {
                if self.healed_at.is_none() {
                    return self.elect();
                }
            }
            Fault::Restart(node, down_for) => return self.restart(node, down_for),
            Fault::BreakConnection(client) => self.break_connection(client),
            Fault::Force { lock, now } => {
                let lock = self.locks[lock].name.clone();
                self.force(&lock, now);
            }
            Fault::Slow(client) => {
                if let Some(connection) = self.clients[client].connection
                    && let Some(on) = self.connections.get(&connection)
                {
                    let (node, life) = (on.node, on.life);
                    self.after(0, WorldEvent::ToNode { node, life, event: NodeEvent::Slow(connection) });
                }
            }
            Fault::Full(node, duration) => {
                self.set_space(0, node, 0);
                self.set_space(duration, node, u64::MAX);
            }
            Fault::Steal(client) => self.steal(client),
        }
        Ok(())
    }

    /// Elects a random node that is up and not paused: not the current leader. Without such a node the leader stays.
    fn elect(&mut self) -> Result<(), String> {
        let leader = self.log.leader;
        let could: Vec<NodeId> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].is_up && self.nodes[*node].paused.is_none())
            .filter(|node| leader.is_none_or(|(leader, _)| leader != *node))
            .collect();
        let Some(node) = self.rng.choice(could) else { return Ok(()) };
        let term = self.log.elect(node, &mut self.rng);
        self.nodes[node].term = Some(term);
        self.nodes[node].is_cut_off = false;
        self.tell(|| format!("node {node} leads in term {term}"));
        let delay = self.rng.u64(..20 * MS);
        let life = self.nodes[node].life;
        self.after(delay, WorldEvent::ToNode { node, life, event: NodeEvent::Elected(term) });
        if let Some((old, term)) = leader {
            let is_cut_off = self.healed_at.is_none() && self.rng.u8(..3) == 0;
            let delay = match is_cut_off {
                true => self.rng.u64(100 * MS..3 * self.ttl_ms * MS),
                false => self.delay(200 * MS, 2_000 * MS),
            };
            self.nodes[old].is_cut_off = is_cut_off;
            let life = self.nodes[old].life;
            self.after(delay, WorldEvent::ToNode { node: old, life, event: NodeEvent::Deposed(term) });
        }
        self.judge_log()
    }

    /// Elects a leader if there is none. Tries again later if no node can lead.
    pub(super) fn ensure_leader(&mut self) -> Result<(), String> {
        if self.log.leader.is_some() {
            return Ok(());
        }
        self.elect()?;
        if self.log.leader.is_none() {
            self.after(100 * MS, WorldEvent::EnsureLeader);
        }
        Ok(())
    }

    fn restart(&mut self, node: NodeId, down_for: Micros) -> Result<(), String> {
        let to = &mut self.nodes[node];
        if !to.is_up {
            return Ok(());
        }
        to.is_up = false;
        to.life += 1;
        to.paused = None;
        to.term = None;
        to.is_cut_off = false;
        to.frontend = Frontend::new(self.limits);
        to.alarm_at = None;
        self.after(down_for, WorldEvent::NodeUp(node));
        if self.log.leader.is_some_and(|(leader, _)| leader == node) {
            self.log.depose(&mut self.rng);
            let delay = self.rng.u64(50 * MS..800 * MS);
            self.after(delay, WorldEvent::EnsureLeader);
        }
        // The connections of the node's earlier lives break.
        let broken = self.connections.iter().filter(|(_, on)| on.node == node && on.life != self.nodes[node].life);
        let broken: Vec<_> = broken.map(|(connection, on)| (*connection, on.client)).collect();
        for (connection, client) in broken {
            let delay = self.delay(3 * MS, 400 * MS);
            self.after(delay, WorldEvent::ToClient { client, event: ClientEvent::Disconnected(connection) });
        }
        self.judge_log()
    }

    fn break_connection(&mut self, client: usize) {
        let Some(connection) = self.clients[client].connection else { return };
        let [up, down, server, told] = std::array::from_fn(|_| self.now + self.rng.u64(..600 * MS));
        if let Some(on) = self.connections.get_mut(&connection) {
            (on.cut_up, on.cut_down) = (Some(up), Some(down));
            let (node, life) = (on.node, on.life);
            self.at(server, WorldEvent::ToNode { node, life, event: NodeEvent::Gone(connection) });
        }
        self.at(told, WorldEvent::ToClient { client, event: ClientEvent::Disconnected(connection) });
    }

    /// From now on there are no faults, and every client requests one more lock.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.tell(|| "healed".to_owned());
        self.healed_at = Some(self.now);
        for node in 0..self.nodes.len() {
            self.after(0, WorldEvent::ResumeNode(node));
            self.after(0, WorldEvent::NodeUp(node));
            self.nodes[node].is_cut_off = false;
            self.set_space(0, node, u64::MAX);
        }
        for client in 0..self.clients.len() {
            self.clients[client].wish_for_the_last_time();
            self.after(0, WorldEvent::ResumeClient(client));
            self.plan(client, 100 * MS);
        }
        self.after(50 * MS, WorldEvent::EnsureLeader);
        Ok(())
    }

    fn set_space(&mut self, delay: Micros, node: NodeId, free_bytes: u64) {
        let life = self.nodes[node].life;
        self.after(delay, WorldEvent::ToNode { node, life, event: NodeEvent::Space(free_bytes) });
    }

    /// The thief claims a higher connection number than the client's, so that its stream counts as the latest.
    fn steal(&mut self, client: usize) {
        let Some((node, _)) = self.log.leader else { return };
        if !self.oracle.began(self.clients[client].session_id().0) {
            return;
        }
        self.connections_ever += 1;
        let (connection, thief) = (self.connections_ever, self.clients.len());
        let (now, life) = (self.now, self.nodes[node].life);
        let on = Connection { client: thief, node, life, up_at: now, down_at: now, cut_up: None, cut_down: None };
        self.connections.insert(connection, on);
        let (label, host, resume) = (String::new(), String::new(), self.rng.bool());
        let (session, ttl_ms) = (self.clients[client].session_id().0, self.ttl_ms);
        let open = Open { session, attempt: u64::MAX, ttl_ms, label, host, pid: 0, resume, secret: None };
        self.send_up(connection, 0, NodeEvent::StreamOpens);
        self.send_up(connection, 0, |connection| NodeEvent::Says { connection, said: ToServer::Open(open) });
    }

    pub(super) fn thief_hears(&mut self, event: &ClientEvent) -> Result<(), String> {
        match event {
            ClientEvent::Hears { said: ToClient::Opened { session, .. }, .. } => {
                return Err(format!("a thief has resumed session {session}"));
            }
            ClientEvent::Hears { said: ToClient::Ended { reason: EndReason::WrongSecret, .. }, .. } => self.thefts += 1,
            _ => {}
        }
        Ok(())
    }
}
