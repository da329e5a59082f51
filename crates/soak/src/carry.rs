//! Streams that a follower carries to the leader, frame by frame. A carried stream is a second connection, from the
//! follower to the leader. It ends when the follower learns of another leader or term, or when its link breaks.

use baton_types::frames::{Leader, ToClient, ToServer};

use super::Broken;
use super::clock::Micros;
use super::model::{Leadership, NodeId};
use super::world::{CLUSTER, Carried, Connection, ConnectionId, End, MS, NodeEvent, World, WorldEvent};

/// A follower notices within this time that its link to the leader is dead, and the leader likewise.
const DEAD_LINK: Micros = 1_200 * MS;

impl World {
    /// A client begins a stream at this node. Returns false if the node serves the stream itself, or refuses it.
    pub(super) fn carry(&mut self, node: NodeId, connection: ConnectionId) -> bool {
        let from = self.connections.get(&connection).map(|on| on.from);
        let is_carried_already = matches!(from, Some(End::Carrier { .. }));
        if is_carried_already || self.nodes[node].leads_in.is_some() {
            return false;
        }
        let Leadership::DoesNotLead { leader: Some(leader), .. } = self.nodes[node].leadership else { return false };
        let (name, address) = (leader.to_string(), leader.to_string());
        let leads = Leader { node: leader as u64, name, address, cluster: Some(CLUSTER) };
        self.answer(connection, ToClient::Leader(leads));
        self.dial_leader(node, connection, leader);
        true
    }

    fn dial_leader(&mut self, node: NodeId, of: ConnectionId, leader: NodeId) {
        self.carried += 1;
        self.takes_effect("a follower carries a stream");
        let Leadership::DoesNotLead { term, .. } = self.nodes[node].leadership else { return };
        let life = self.nodes[node].life;
        let from = End::Carrier { node, life, of };
        let to = self.connect(from, leader);
        if let Some(on) = self.connections.get_mut(&of) {
            on.carried = Some(Carried { to, leader, term });
        }
        if self.links.is_cut(node, leader) || self.links.is_cut(leader, node) || !self.nodes[leader].is_up {
            return self.break_carrier(to);
        }
        let delay = self.delay(3 * MS, 400 * MS);
        self.send_up(to, delay, NodeEvent::StreamOpens);
    }

    /// A client of this follower sent a frame. Returns the frame if the follower does not carry the stream.
    pub(super) fn carry_up(&mut self, connection: ConnectionId, said: ToServer) -> Option<ToServer> {
        let broken = self.options.broken;
        let Some(on) = self.connections.get_mut(&connection) else { return Some(said) };
        let Some(Carried { to, .. }) = on.carried else { return Some(said) };
        match &said {
            ToServer::Open(open) if broken == Some(Broken::StreamOutlivesTerm) => on.open = Some(open.clone()),
            &ToServer::KeepAlive { number } if broken == Some(Broken::FollowerAcknowledges) => {
                self.answer(connection, ToClient::Alive { number });
                return None;
            }
            _ => {}
        }
        let delay = self.delay(3 * MS, 400 * MS);
        self.send_up(to, delay, |connection| NodeEvent::Says { connection, said });
        None
    }

    /// A follower carries a stream only to the leader, and in the term, of which it has heard last.
    pub(super) fn judge_carrier(&self, node: NodeId, connection: ConnectionId) -> Result<(), String> {
        let carried = self.connections.get(&connection).and_then(|on| on.carried);
        let Some(Carried { leader, term, .. }) = carried else { return Ok(()) };
        let at = &self.nodes[node];
        if at.hears_leadership_soon || at.leadership == (Leadership::DoesNotLead { term, leader: Some(leader) }) {
            return Ok(());
        }
        let knows = at.leadership;
        Err(format!(
            "node {node} carries stream {connection} to node {leader} of term {term}, and knows better: {knows:?}"
        ))
    }

    /// The leader sent a frame on a carried stream.
    pub(super) fn carry_down(&mut self, carrier: ConnectionId, said: ToClient) {
        let Some(on) = self.connections.get(&carrier) else { return };
        let is_cut = on.cut_down.is_some_and(|cut| self.now >= cut);
        if let Some(of) = self.carried_on(carrier)
            && !is_cut
        {
            self.answer(of, said);
        }
    }

    /// The leader ended a carried stream, or the link to the leader is dead.
    pub(super) fn carrier_ended(&mut self, node: NodeId, carrier: ConnectionId) {
        let Some(of) = self.carried_on(carrier) else { return };
        if self.options.broken == Some(Broken::StreamOutlivesTerm) && self.carry_on(node, of) {
            return;
        }
        self.tell(|| format!("node {node} no longer carries stream {of}"));
        self.connections.get_mut(&of).into_iter().for_each(|on| on.carried = None);
        self.end_stream(of);
    }

    /// The mistake: the follower carries the stream on to the leader of the next term, with the Open that it remembers.
    fn carry_on(&mut self, node: NodeId, of: ConnectionId) -> bool {
        let Leadership::DoesNotLead { leader: Some(leader), .. } = self.nodes[node].leadership else { return false };
        let open = self.connections.get(&of).and_then(|on| on.open.clone());
        let Some(open) = open.filter(|_| self.nodes[node].leads_in.is_none()) else { return false };
        self.dial_leader(node, of, leader);
        drop(self.carry_up(of, ToServer::Open(open)));
        true
    }

    /// The client's connection that this carrier carries, unless it is no longer carried there.
    fn carried_on(&self, carrier: ConnectionId) -> Option<ConnectionId> {
        let End::Carrier { of, .. } = self.connections.get(&carrier)?.from else { return None };
        let carried = self.connections.get(&of)?.carried?;
        (carried.to == carrier).then_some(of)
    }

    /// This node has heard of a leader or a term. It ends all streams that it carries elsewhere.
    pub(super) fn end_other_carriers(&mut self, node: NodeId) {
        if self.options.broken == Some(Broken::CarriesToDeposed) {
            return;
        }
        let (life, now_known) = (self.nodes[node].life, self.nodes[node].leadership);
        let is_right = |carried: &Carried| {
            now_known == Leadership::DoesNotLead { term: carried.term, leader: Some(carried.leader) }
        };
        let own = self.connections.values().filter(|on| on.node == node && on.life == life);
        let wrong: Vec<ConnectionId> =
            own.filter_map(|on| on.carried).filter(|carried| !is_right(carried)).map(|carried| carried.to).collect();
        for carrier in wrong {
            self.send_up(carrier, 0, NodeEvent::Gone);
            self.carrier_ended(node, carrier);
        }
    }

    /// Links are cut. A carried stream on such a link breaks, or its frames wait until the link is back.
    pub(super) fn cut_carriers(&mut self, links: &[(NodeId, NodeId)], duration: Micros) {
        let is_hit = |on: &Connection| match on.from {
            End::Carrier { node, .. } => links.contains(&(node, on.node)) || links.contains(&(on.node, node)),
            End::Client(_) | End::Thief => false,
        };
        let hit: Vec<ConnectionId> =
            self.connections.iter().filter(|(_, on)| is_hit(on)).map(|(connection, _)| *connection).collect();
        let until = self.now + duration;
        for carrier in hit {
            if self.rng.bool() {
                self.break_carrier(carrier);
            } else if let Some(on) = self.connections.get_mut(&carrier) {
                (on.up_at, on.down_at) = (on.up_at.max(until), on.down_at.max(until));
            }
        }
    }

    /// No more frames arrive on this carried stream. Both ends notice it after a while.
    fn break_carrier(&mut self, carrier: ConnectionId) {
        let now = self.now;
        let Some(on) = self.connections.get_mut(&carrier) else { return };
        (on.cut_up, on.cut_down) = (Some(now), Some(now));
        let (leader, life) = (on.node, on.life);
        let End::Carrier { node, life: own, .. } = on.from else { return };
        let [here, there] = std::array::from_fn(|_| self.rng.u64(..DEAD_LINK));
        self.after(here, WorldEvent::ToNode { node, life: own, event: NodeEvent::CarrierEnded(carrier) });
        self.after(there, WorldEvent::ToNode { node: leader, life, event: NodeEvent::Gone(carrier) });
    }
}
