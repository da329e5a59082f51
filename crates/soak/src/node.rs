//! A node of the service: the real front end, driven in virtual time.

use baton_state::frontend::{
    self, CallId, Closing, ConnectionId as OnConnection, Note, Output, Reply, RoundId, StreamId,
};
use baton_state::state::{Caller, Command, Outcome, locks};
use baton_types::frames::ToClient;

use super::Broken;
use super::clock::Micros;
use super::model::{Leadership, NodeId};
use super::world::{ClientEvent, ConnectionId, End, MIN_BYTES, MS, NodeEvent, World, WorldEvent};

impl World {
    pub(super) fn node_hears(&mut self, node: NodeId, event: NodeEvent) -> Result<(), String> {
        let now = self.now;
        self.refresh_state(node);
        let to = &mut self.nodes[node];
        let now_ms = to.clock.read_ms(now);
        match event {
            NodeEvent::Raft { from, message } => to.raft.receive(now, from, message),
            NodeEvent::Synced(sync) => to.raft.synced(sync),
            NodeEvent::RaftAlarm => {
                to.raft_alarm_at = None;
                to.raft.tick(now);
            }
            NodeEvent::Apply => self.apply(node)?,
            NodeEvent::Leadership => self.hear_leadership(node)?,
            NodeEvent::Lost { term, is_lead } => to.frontend.lost(now_ms, term, is_lead),
            NodeEvent::Alarm => {
                to.alarm_at = None;
                to.frontend.tick(now_ms);
            }
            NodeEvent::RoundDone { round, led } => to.frontend.round_done(now_ms, RoundId(round), led),
            NodeEvent::StreamOpens(connection) => {
                if !self.carry(node, connection) {
                    let (stream, on) = (StreamId(connection), OnConnection(connection));
                    self.nodes[node].frontend.stream_opens(now_ms, stream, on, Caller::default());
                }
            }
            NodeEvent::Says { connection, said } => {
                let is_cut = self.connections.get(&connection).is_none_or(|on| on.cut_up.is_some_and(|cut| now >= cut));
                self.judge_carrier(node, connection)?;
                if !is_cut && let Some(said) = self.carry_up(connection, said) {
                    let to = &mut self.nodes[node];
                    to.frontend.hears(now_ms, &to.state, StreamId(connection), Ok(said));
                }
            }
            NodeEvent::Gone(connection) => match self.carrier_of(connection) {
                Some(carrier) => self.send_up(carrier, 0, NodeEvent::Gone),
                None => self.nodes[node].frontend.stream_gone(StreamId(connection)),
            },
            NodeEvent::Slow(connection) => match self.carrier_of(connection) {
                Some(carrier) => self.send_up(carrier, 0, NodeEvent::Slow),
                None => self.nodes[node].frontend.stream_slow(StreamId(connection)),
            },
            NodeEvent::CarriesDown { carrier, said } => self.carry_down(carrier, said),
            NodeEvent::CarrierEnded(carrier) => self.carrier_ended(node, carrier),
            NodeEvent::Space(free_bytes) => {
                to.frontend.space(Some(free_bytes), MIN_BYTES);
                self.set_disk_full(node, free_bytes == 0);
            }
            NodeEvent::Force { call, lock, now } => {
                let caller = Caller { from: Some(super::oracle::caller_of(call)), ..Caller::default() };
                to.frontend.force(CallId(call), lock.as_bytes().into(), now, caller);
            }
        }
        self.carry_out_at(node)
    }

    /// The connection on which this stream is carried to the leader, if it is.
    fn carrier_of(&self, connection: ConnectionId) -> Option<ConnectionId> {
        Some(self.connections.get(&connection)?.carried?.to)
    }

    /// The front end learns of the latest state only. Whatever it missed: it leads only with another `Lead` of its own.
    fn hear_leadership(&mut self, node: NodeId) -> Result<(), String> {
        let to = &mut self.nodes[node];
        to.hears_leadership_soon = false;
        let (leads_in, told) = match to.leadership {
            Leadership::Leads { term } => (Some(term), frontend::Leadership::Leads { term }),
            Leadership::DoesNotLead { leader, .. } => {
                let leader = leader.map(|leader| leader as u64);
                (None, frontend::Leadership::DoesNotLead { leader })
            }
        };
        to.leads_in = leads_in;
        to.frontend.told(told);
        if to.frontend.leads() {
            return Err(format!("node {node} goes on to lead without a new Lead, although it did not lead meanwhile"));
        }
        self.end_other_carriers(node);
        Ok(())
    }

    /// Carries out all outputs of the front end.
    pub(super) fn carry_out_at(&mut self, node: NodeId) -> Result<(), String> {
        while let Some(output) = self.nodes[node].frontend.poll() {
            match output {
                Output::Propose { term, command } => {
                    self.skip_lead(node, term, &command);
                    self.propose(node, term, command);
                }
                Output::BeginRound(round) => self.begin_round(node, round),
                Output::Say { stream, said } => {
                    self.judge_term(node, stream.0)?;
                    self.answer(stream.0, said);
                }
                Output::Close { stream, why } => {
                    self.judge_close(node, stream.0, &why)?;
                    self.end_stream(stream.0);
                }
                Output::Reply { call, reply: Reply::Locks(frontend::locks::Reply::Forced(holders)) } => {
                    self.oracle.forced(call, &holders)?;
                }
                // Simulated clients never fill a window, and the simulator makes no other calls.
                Output::Listen(_) | Output::Reply { .. } => {}
                Output::Note(Note::OutOfOrder { term }) => {
                    return Err(format!("node {node} gets its proposals of term {term} back in another order"));
                }
                Output::Note(note) => self.tell(|| format!("node {node}: {note:?}")),
            }
        }
        self.rearm(node);
        if self.shipped.is_some() {
            return Ok(());
        }
        self.nodes[node].raft.flush(self.now);
        self.follow_raft(node)
    }

    /// The mistake: a node leads as soon as it is elected, although entries of earlier terms still come.
    fn skip_lead(&mut self, node: NodeId, term: u64, command: &Command) {
        if command.is_lead() && self.options.broken == Some(Broken::LeadSkipped) {
            let to = &mut self.nodes[node];
            let now_ms = to.clock.read_ms(self.now);
            to.frontend.applied(now_ms, &to.state, term, command, &Outcome::default());
        }
    }

    fn rearm(&mut self, node: NodeId) {
        let to = &mut self.nodes[node];
        let Some(wake) = to.frontend.next_wake().map(|wake_ms| to.clock.when(wake_ms)) else { return };
        if to.alarm_at.is_none_or(|alarm_at| wake < alarm_at) {
            to.alarm_at = Some(wake);
            let life = to.life;
            self.at(wake, WorldEvent::ToNode { node, life, event: NodeEvent::Alarm });
        }
    }

    fn begin_round(&mut self, node: NodeId, round: RoundId) {
        let life = self.nodes[node].life;
        if self.options.broken == Some(Broken::NoRound) {
            let event = NodeEvent::RoundDone { round: round.0, led: true };
            return self.after(0, WorldEvent::ToNode { node, life, event });
        }
        if self.shipped.is_some() {
            return self.begin_shipped_round(node, round.0);
        }
        self.nodes[node].raft.begin_round(self.now, round.0);
    }

    fn apply(&mut self, node: NodeId) -> Result<(), String> {
        self.nodes[node].applies_soon = false;
        while let Some((index, entry)) = self.nodes[node].raft.apply_next() {
            if self.committed.get(index) != Some(&entry) {
                return Err(format!("Raft itself is broken: node {node} applies another entry {index} than others"));
            }
            // The front end hears nothing of the entry with which Raft begins a term.
            let Some(command) = entry.command.map(|command| &self.commands[command as usize]) else { continue };
            let to = &mut self.nodes[node];
            let mut now_ms = to.clock.read_ms(self.now);
            let mut outcome = Outcome::default();
            to.state.apply(index as u64, self.now / MS, command, &mut outcome);
            if command.is_lead() && self.options.broken == Some(Broken::LeasesNotAnew) {
                // As if three quarters of every lease were over.
                now_ms = now_ms.saturating_sub(self.ttl_ms * 3 / 4);
            }
            to.frontend.applied(now_ms, &to.state, entry.term, command, &outcome);
            // Carry out the outputs after each entry.
            self.carry_out_at(node)?;
        }
        self.nodes[node].raft.end_rounds();
        Ok(())
    }

    pub(super) fn answer(&mut self, connection: ConnectionId, said: ToClient) {
        let delay = self.delay(3 * MS, 400 * MS);
        let now = self.now;
        let Some(on) = self.connections.get_mut(&connection) else { return };
        on.down_at = on.down_at.max(now + delay);
        let (from, at) = (on.from, on.down_at);
        if on.cut_down.is_some_and(|cut| at >= cut) {
            return;
        }
        match self.client_at(from) {
            Ok(client) => self.at(at, WorldEvent::ToClient { client, event: ClientEvent::Hears { connection, said } }),
            Err((node, life)) => {
                let event = NodeEvent::CarriesDown { carrier: connection, said };
                self.at(at, WorldEvent::ToNode { node, life, event });
            }
        }
    }

    /// The client at this end of a connection. A thief has a number that no client has. The error is the follower at
    /// this end, and its life.
    fn client_at(&self, from: End) -> Result<usize, (NodeId, u32)> {
        match from {
            End::Client(client) => Ok(client),
            End::Thief => Ok(self.clients.len()),
            End::Carrier { node, life, .. } => Err((node, life)),
        }
    }

    /// No stream outlives a term: only one leader, in one term, ever speaks on it.
    fn judge_term(&mut self, node: NodeId, stream: ConnectionId) -> Result<(), String> {
        let Some(term) = self.nodes[node].leads_in else { return Ok(()) };
        let stream = self.client_stream(stream);
        let Some(on) = self.connections.get_mut(&stream) else { return Ok(()) };
        match on.spoken_in.replace((node, term)) {
            Some(before) if before != (node, term) => {
                Err(format!("stream {stream} was of node {} in term {}, and outlives it", before.0, before.1))
            }
            _ => Ok(()),
        }
    }

    /// The client's end of a stream, which may be carried.
    fn client_stream(&self, stream: ConnectionId) -> ConnectionId {
        match self.connections.get(&stream).map(|on| on.from) {
            Some(End::Carrier { of, .. }) => of,
            _ => stream,
        }
    }

    /// A stream may be replaced by a later one of its session, never by an earlier one. Exception: a node that does not
    /// know yet that it is deposed may not have the session. So it cannot tell the client from a thief that came first.
    fn judge_close(&mut self, node: NodeId, connection: ConnectionId, why: &Closing) -> Result<(), String> {
        self.tell(|| format!("node {node} ends stream {connection}: {why}"));
        let connection = self.client_stream(connection);
        let Some(End::Client(client)) = self.connections.get(&connection).map(|on| on.from) else { return Ok(()) };
        let client = &self.clients[client];
        if *why != Closing::Replaced || client.connection != Some(connection) {
            return Ok(());
        }
        let knows = self.nodes[node].state.session(client.session_id()).is_some();
        if !knows && self.has_seen_a_thief(node) {
            return Ok(());
        }
        Err(format!("the live stream {connection} of client {} gives way to an earlier one", client.id))
    }

    fn has_seen_a_thief(&self, node: NodeId) -> bool {
        let is_thief = |stream| self.connections.get(&stream).is_some_and(|on| on.from == End::Thief);
        let mut here = self.connections.iter().filter(|(_, on)| on.node == node);
        here.any(|(stream, _)| is_thief(self.client_stream(*stream)))
    }

    /// The other end learns of the end after all frames that were sent before.
    pub(super) fn end_stream(&mut self, connection: ConnectionId) {
        let delay = self.delay(3 * MS, 400 * MS);
        let now = self.now;
        let Some(on) = self.connections.get_mut(&connection) else { return };
        on.down_at = on.down_at.max(now + delay);
        let at = on.down_at;
        self.disconnect(connection, at);
    }

    /// The other end learns at this time that the connection has ended.
    pub(super) fn disconnect(&mut self, connection: ConnectionId, at: Micros) {
        let Some(from) = self.connections.get(&connection).map(|on| on.from) else { return };
        match self.client_at(from) {
            Ok(client) => self.at(at, WorldEvent::ToClient { client, event: ClientEvent::Disconnected(connection) }),
            Err((node, life)) => {
                self.at(at, WorldEvent::ToNode { node, life, event: NodeEvent::CarrierEnded(connection) });
            }
        }
    }

    /// Asks the leader to force the release of a lock.
    pub(super) fn force(&mut self, lock: &str, now: bool) {
        if let Some(node) = self.leader() {
            self.forces += 1;
            let event = NodeEvent::Force { call: self.forces, lock: lock.to_owned(), now };
            let life = self.nodes[node].life;
            self.after(0, WorldEvent::ToNode { node, life, event });
        }
    }

    /// The call that made this command, if the command forces a release.
    pub(super) fn forced_by(command: &Command) -> Option<CallId> {
        match command {
            Command::Locks(locks::Command::Force { caller, .. }) => Some(CallId(u64::from(caller.from?.port()))),
            _ => None,
        }
    }
}
