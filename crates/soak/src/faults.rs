//! The faults of a run, all drawn from the seed, and the healing at the end.

use baton_state::state::State;
use baton_types::frames::{EndReason, Open, ToClient, ToServer};

use super::clock::Micros;
use super::effects::Effect;
use super::model::NodeId;
use super::world::{ClientEvent, Connection, ConnectionId, End, MS, NodeEvent, World, WorldEvent, frontend};

/// A node leads this long after healing, and has served somebody.
const LED_WITHIN: Micros = 10_000 * MS;
/// Upper limit for the duration of a partition, and of the ignorance of a front end, in times to live.
pub(super) const TTLS_MAX: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// A node is paused for a while. Its clock goes on.
    Pause(Which, Micros),
    PauseClient(usize, Micros),
    /// A node wants to lead, for no good reason.
    Campaign(NodeId),
    /// The leader asks another node to lead.
    HandOver,
    /// A node loses everything except the synced part of its log, its term and its vote. A clean restart hands over
    /// the leadership and ends the streams before.
    Restart {
        node: Which,
        down_for: Micros,
        is_clean: bool,
    },
    Partition(Partition, Micros),
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
    /// The shipped engine only: the power of all nodes is cut at once.
    PowerCut,
    /// The shipped engine only: each operation of a disk takes up to this long for a while.
    SlowDisk(NodeId, Micros),
    /// The shipped engine only: a disk fails. The node must end.
    FailDisk(Which),
    /// The shipped engine only: some connection between nodes breaks after this many bytes.
    BreakLink {
        bytes: usize,
        one_way: bool,
    },
    /// The shipped engine only: the disks of all nodes are slow.
    SlowDisks,
    /// The shipped engine only: the node, or the leader, dies after so many operations on a snapshot of the node: one that it
    /// receives, or any one.
    DieInSnapshot {
        node: NodeId,
        kills_leader: bool,
        is_received: bool,
        after: u32,
    },
    /// The shipped engine only: an operator takes a node out, empties its folder, and adds it again.
    Replace(Which),
    /// The shipped engine only: the folder of a node is lost. It joins, or starts as at the beginning.
    Wipe {
        node: NodeId,
        joins: bool,
    },
    /// The shipped engine only: somebody copies the folder of a node.
    Backup(NodeId),
    /// The shipped engine only: a node starts with that copy.
    SetBack(NodeId),
    /// The shipped engine only: another machine starts with a copy of a node's folder. The node is cut off for a while.
    Copy {
        of: Which,
        duration: Micros,
    },
    /// The shipped engine only: the leader hears the answers of the others only when another node leads.
    HoldAnswers,
    /// The shipped engine only: the next snapshot that a node receives is late.
    HoldSnapshot {
        node: NodeId,
        duration: Micros,
    },
    /// A thief that knows the number of a session, but not its secret, tries to resume it.
    Steal(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    /// The node that leads at that moment.
    Leader,
    Node(NodeId),
}

/// Which messages between nodes are lost. Clients still reach every node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Partition {
    /// All to and from this node.
    Isolates(Which),
    /// All to this node: it can speak, and hears nothing.
    Deafens(Which),
    /// All from this node: it hears, and nothing that it says arrives.
    Mutes(Which),
    /// All between two sides. The bits say on which side each node is.
    Splits(u8),
    /// Those from one node to another.
    OneWay(NodeId, NodeId),
}

impl Partition {
    fn cuts(self, node: impl Fn(Which) -> Option<NodeId>, from: NodeId, to: NodeId) -> bool {
        let is = |which, id| node(which) == Some(id);
        match self {
            _ if from == to => false,
            Partition::Isolates(which) => is(which, from) || is(which, to),
            Partition::Deafens(which) => is(which, to),
            Partition::Mutes(which) => is(which, from),
            Partition::Splits(sides) => (sides >> from & 1) != (sides >> to & 1),
            Partition::OneWay(one, other) => (one, other) == (from, to),
        }
    }
}

impl World {
    pub(super) fn plan_faults(&mut self) {
        if self.plan_calm() {
            return;
        }
        let until = self.rng.u64(3_000 * MS..8_000 * MS);
        for _ in 0..self.rng.usize(2..9) {
            let at = self.rng.u64(200 * MS..until);
            let fault = self.any_fault();
            self.at(at, WorldEvent::Fault(fault));
        }
        self.plan_shipped_faults(until);
        // A node that is alone has no links.
        for _ in 0..if self.nodes.len() > 1 { self.rng.usize(..5) } else { 0 } {
            let at = self.rng.u64(200 * MS..until);
            let duration = self.rng.u64(50 * MS..TTLS_MAX * self.ttl_ms * MS);
            let partition = self.any_partition();
            self.at(at, WorldEvent::Fault(Fault::Partition(partition, duration)));
        }
        // The leader is cut off early, for longer than a lease. If its front end does not hear of that, it goes on to
        // believe that it leads while the next leader ends its sessions.
        if self.has_slow_watches && self.nodes.len() > 1 {
            let (at, ttl) = (self.rng.u64(200 * MS..until / 2), self.ttl_ms * MS);
            let (partition, duration) = (Partition::Isolates(Which::Leader), self.rng.u64(2 * ttl..TTLS_MAX * ttl));
            self.at(at, WorldEvent::Fault(Fault::Partition(partition, duration)));
        }
        self.at(until, WorldEvent::Heal);
    }

    fn any_fault(&mut self) -> Fault {
        let pause_max = 2 * self.ttl_ms * MS;
        let client = self.rng.usize(..self.clients.len());
        match self.rng.u8(..13) {
            0 => Fault::Pause(self.any_node(), self.rng.u64(10 * MS..pause_max)),
            1 => Fault::PauseClient(client, self.rng.u64(10 * MS..pause_max)),
            2 => Fault::Campaign(self.rng.usize(..self.nodes.len())),
            3 => Fault::HandOver,
            4 => {
                let (node, down_for) = (self.any_node(), self.rng.u64(10 * MS..1_500 * MS));
                Fault::Restart { node, down_for, is_clean: self.rng.bool() }
            }
            5 => Fault::BreakConnection(client),
            6 => Fault::Slow(client),
            7 | 8 => Fault::Full(self.rng.usize(..self.nodes.len()), self.rng.u64(100 * MS..2_000 * MS)),
            9 => Fault::Steal(client),
            _ => Fault::Force { lock: self.rng.usize(..self.locks.len()), now: self.rng.bool() },
        }
    }

    /// The leader is hit as often as all other nodes together.
    pub(super) fn any_node(&mut self) -> Which {
        if self.rng.bool() { Which::Leader } else { Which::Node(self.rng.usize(..self.nodes.len())) }
    }

    fn any_partition(&mut self) -> Partition {
        let node = self.any_node();
        match self.rng.u8(..6) {
            0 | 1 => Partition::Isolates(node),
            2 => Partition::Deafens(node),
            3 => Partition::Mutes(node),
            4 => Partition::Splits(self.rng.u8(..)),
            _ => Partition::OneWay(self.rng.usize(..self.nodes.len()), self.rng.usize(..self.nodes.len())),
        }
    }

    pub(super) fn which(&self, which: Which) -> Option<NodeId> {
        match which {
            Which::Leader => self.leader(),
            Which::Node(node) => Some(node),
        }
    }

    pub(super) fn strike(&mut self, fault: Fault) -> Result<(), String> {
        let nodes = self.nodes.len();
        self.tell(|| format!("fault: {}", fault.words(nodes)));
        self.mark(|| format!("fault: {}", fault.words(nodes)));
        match fault {
            Fault::Pause(which, duration) => {
                if let Some(node) = self.which(which).filter(|node| self.nodes[*node].paused.is_none()) {
                    self.nodes[node].paused = Some(Vec::new());
                    self.pause_shipped(node);
                    self.after(duration, WorldEvent::ResumeNode(node));
                }
            }
            Fault::PauseClient(client, duration) => {
                if self.clients[client].paused.is_none() {
                    self.clients[client].paused = Some(Vec::new());
                    self.after(duration, WorldEvent::ResumeClient(client));
                }
            }
            Fault::Campaign(node) if self.shipped.is_some() => self.transfer_to(node),
            Fault::HandOver if self.shipped.is_some() => self.hand_over_shipped(),
            Fault::PowerCut => self.power_cut(),
            Fault::SlowDisk(node, duration) => self.slow_disk(node, duration),
            Fault::FailDisk(which) => self.fail_disk(self.which(which)),
            Fault::SlowDisks => self.slow_disks(),
            Fault::DieInSnapshot { node, kills_leader, is_received, after } => {
                self.die_in_snapshot(node, kills_leader, is_received, after);
            }
            Fault::Replace(which) => self.replace_which(which),
            Fault::Wipe { node, joins } => return self.wipe(node, joins),
            Fault::Backup(node) => self.backup(node),
            Fault::SetBack(node) => self.set_back(node),
            Fault::Copy { of, duration } => self.copy(of, duration),
            Fault::HoldAnswers => self.hold_answers(),
            Fault::HoldSnapshot { node, duration } => self.hold_snapshot(node, duration),
            Fault::BreakLink { bytes, one_way } => self.break_link(bytes, one_way),
            Fault::Campaign(node) => {
                let to = &mut self.nodes[node];
                if to.is_up && to.paused.is_none() && !to.raft.leads() {
                    to.raft.campaign(self.now);
                    return self.follow_raft(node);
                }
            }
            Fault::HandOver => {
                if let Some(node) = self.leader() {
                    self.nodes[node].raft.hand_over();
                    return self.follow_raft(node);
                }
            }
            Fault::Restart { node, down_for, is_clean } => {
                if let Some(node) = self.which(node) {
                    return self.restart(node, down_for, is_clean);
                }
            }
            Fault::Partition(partition, duration) => {
                let nodes = 0..self.nodes.len();
                let all = nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to)));
                let cut = all.filter(|(from, to)| partition.cuts(|which| self.which(which), *from, *to)).collect();
                let effect = self.effect_of(partition);
                self.cut(cut, effect, duration);
            }
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

    /// What a partition does if bytes wait for its end.
    fn effect_of(&self, partition: Partition) -> Effect {
        match partition {
            Partition::Isolates(_) => "a node is isolated",
            Partition::Deafens(_) => "a node is deaf",
            Partition::Mutes(which) if self.which(which).is_some_and(|node| self.is_deaf(node)) => {
                "a leader hears old answers"
            }
            Partition::Mutes(_) => "a node is mute",
            Partition::Splits(_) => "the nodes are split",
            Partition::OneWay(..) => "a link is cut one way",
        }
    }

    fn is_deaf(&self, node: NodeId) -> bool {
        (0..self.nodes.len()).filter(|other| *other != node).all(|other| self.links.is_cut(other, node))
    }

    fn restart(&mut self, node: NodeId, down_for: Micros, is_clean: bool) -> Result<(), String> {
        let to = &mut self.nodes[node];
        if !to.is_up {
            return Ok(());
        }
        if self.shipped.is_some() {
            return self.restart_shipped(node, down_for, is_clean);
        }
        if is_clean && to.paused.is_none() {
            to.raft.hand_over();
            to.frontend.stop();
            self.carry_out_at(node)?;
        }
        self.goes_down(node, down_for);
        Ok(())
    }

    /// The node has lost everything except what its disk keeps.
    pub(super) fn goes_down(&mut self, node: NodeId, down_for: Micros) {
        let to = &mut self.nodes[node];
        to.is_up = false;
        to.life += 1;
        to.paused = None;
        (to.raft_alarm_at, to.alarm_at) = (None, None);
        (to.applies_soon, to.hears_leadership_soon, to.leads_in) = (false, false, None);
        to.state = State::default();
        to.frontend = frontend(self.limits);
        self.after(down_for, WorldEvent::NodeUp(node));
        // The connections of the node's earlier lives break.
        let life = self.nodes[node].life;
        let to_node = self.connections.iter().filter(|(_, on)| on.node == node && on.life != life);
        let to_node: Vec<ConnectionId> = to_node.map(|(connection, _)| *connection).collect();
        for connection in to_node {
            let delay = self.delay(3 * MS, 400 * MS);
            self.disconnect(connection, self.now + delay);
        }
        let is_carrier = |on: &Connection| matches!(on.from, End::Carrier { node: by, .. } if by == node);
        let carriers = self.connections.iter().filter(|(_, on)| is_carrier(on));
        let carriers: Vec<ConnectionId> = carriers.map(|(connection, _)| *connection).collect();
        for carrier in carriers {
            let delay = self.delay(3 * MS, 400 * MS);
            self.send_up(carrier, delay, NodeEvent::Gone);
        }
    }

    /// A node that was down begins its next life.
    pub(super) fn node_up(&mut self, node: NodeId) -> Result<(), String> {
        let to = &mut self.nodes[node];
        if to.is_up {
            return Ok(());
        }
        to.is_up = true;
        if self.shipped.is_some() {
            self.start_node(node);
            return Ok(());
        }
        to.raft.restart(self.now);
        to.leadership = to.raft.leadership(self.now);
        self.follow_raft(node)
    }

    fn break_connection(&mut self, client: usize) {
        let Some(connection) = self.clients[client].connection else { return };
        let [up, down, server, told] = std::array::from_fn(|_| self.now + self.rng.u64(..600 * MS));
        if let Some(on) = self.connections.get_mut(&connection) {
            (on.cut_up, on.cut_down) = (Some(up), Some(down));
            let (node, life) = (on.node, on.life);
            self.at(server, WorldEvent::ToNode { node, life, event: NodeEvent::Gone(connection) });
        }
        self.disconnect(connection, told);
    }

    /// From now on there are no faults, and every client requests one more lock.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.tell(|| "healed".to_owned());
        self.mark(|| "healed".to_owned());
        self.healed_at = Some(self.now);
        self.links.heal();
        self.heal_shipped();
        self.end_copy();
        self.after(LED_WITHIN, WorldEvent::MustBeLed { entries: self.entries });
        for node in 0..self.nodes.len() {
            self.after(0, WorldEvent::ResumeNode(node));
            self.after(0, WorldEvent::NodeUp(node));
            self.set_space(0, node, u64::MAX);
        }
        for client in 0..self.clients.len() {
            self.clients[client].wish_for_the_last_time();
            self.after(0, WorldEvent::ResumeClient(client));
            self.plan(client, 100 * MS);
        }
        Ok(())
    }

    fn set_space(&mut self, delay: Micros, node: NodeId, free_bytes: u64) {
        let life = self.nodes[node].life;
        self.after(delay, WorldEvent::ToNode { node, life, event: NodeEvent::Space(free_bytes) });
    }

    /// The thief claims a higher connection number than the client's, so that its stream counts as the latest.
    fn steal(&mut self, client: usize) {
        let Some(node) = self.any_node_that_is_up() else { return };
        if !self.oracle.began(self.clients[client].session_id().0) {
            return;
        }
        let connection = self.connect(End::Thief, node);
        let (label, host, resume) = (String::new(), String::new(), self.rng.bool());
        let (session, ttl_ms) = (self.clients[client].session_id().0, self.ttl_ms);
        let open =
            Open { session, attempt: u64::MAX, ttl_ms, label, host, pid: 0, resume, secret: None, cluster: None };
        self.send_up(connection, 0, NodeEvent::StreamOpens);
        self.send_up(connection, 0, |connection| NodeEvent::Says { connection, said: ToServer::Open(open) });
    }

    /// Half of the time the leader.
    fn any_node_that_is_up(&mut self) -> Option<NodeId> {
        let which = self.any_node();
        self.which(which).filter(|node| self.nodes[*node].is_up)
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
