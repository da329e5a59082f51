//! A node of the service: the real front end, driven in virtual time.

use baton_service::frontend::{CallId, Closing, ConnectionId as OnConnection, Output, Reply, RoundId, StreamId};
use baton_service::state::{Caller, Command, Outcome, locks, sessions};
use baton_types::frames::ToClient;

use super::Broken;
use super::log::{ConnectionId, NodeId, Proposal};
use super::world::{ClientEvent, MIN_BYTES, MS, NodeEvent, World, WorldEvent};

impl World {
    pub(super) fn node_hears(&mut self, node: NodeId, event: NodeEvent) -> Result<(), String> {
        let now = self.now;
        let to = &mut self.nodes[node];
        let now_ms = to.clock.read_ms(now);
        match event {
            NodeEvent::Elected(term) => to.frontend.elected(term),
            NodeEvent::Deposed(term) => {
                to.is_cut_off = false;
                // The node may have been elected again before this message arrived.
                if to.term == Some(term) {
                    to.frontend.deposed();
                }
            }
            NodeEvent::Lost(term) => to.frontend.lost(now_ms, term),
            NodeEvent::Apply => self.apply(node)?,
            NodeEvent::Alarm => {
                to.alarm_at = None;
                to.frontend.tick(now_ms);
            }
            NodeEvent::RoundDone { round, ok } => {
                // The engine finishes a round only when the node has applied all entries that were committed when the
                // round began.
                if ok && self.options.broken != Some(Broken::NoRound) {
                    self.apply(node)?;
                }
                self.nodes[node].frontend.round_done(now_ms, round, ok);
            }
            NodeEvent::StreamOpens(connection) => {
                to.frontend.stream_opens(now_ms, StreamId(connection), OnConnection(connection), Caller::default());
            }
            NodeEvent::Says { connection, said } => {
                let is_cut = self.connections.get(&connection).is_none_or(|on| on.cut_up.is_some_and(|cut| now >= cut));
                if !is_cut {
                    to.frontend.hears(now_ms, &to.state, StreamId(connection), Ok(said));
                }
            }
            NodeEvent::Gone(connection) => to.frontend.stream_gone(StreamId(connection)),
            NodeEvent::Slow(connection) => to.frontend.stream_slow(StreamId(connection)),
            NodeEvent::Space(free_bytes) => to.frontend.space(Some(free_bytes), MIN_BYTES),
            NodeEvent::Force { call, lock, now } => {
                let caller = Caller { from: Some(super::oracle::caller_of(call)), ..Caller::default() };
                to.frontend.force(CallId(call), lock.as_bytes().into(), now, caller);
            }
        }
        self.carry_out_at(node)
    }

    /// Carries out all outputs of the front end.
    fn carry_out_at(&mut self, node: NodeId) -> Result<(), String> {
        while let Some(output) = self.nodes[node].frontend.poll() {
            match output {
                Output::Propose { term, command } => self.propose(node, term, command),
                Output::BeginRound(round) => self.begin_round(node, round),
                Output::Say { stream, said } => self.answer(stream.0, said),
                Output::Close { stream, why } => {
                    self.judge_close(node, stream.0, &why)?;
                    self.end_stream(stream.0);
                }
                Output::Reply { call, reply: Reply::Forced(holders) } => {
                    self.oracle.forced(call, &holders)?;
                }
                // Simulated clients never fill a window, and the simulator makes no other calls.
                Output::Listen(_) | Output::Reply { .. } => {}
                Output::Note(note) => self.tell(|| format!("node {node}: {note:?}")),
            }
        }
        self.rearm(node);
        Ok(())
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

    /// A node that believes to lead proposes a command. Sometimes the engine refuses it although the node leads,
    /// because its leader lease has run out. Then the engine says so before it can apply any later proposal.
    fn propose(&mut self, node: NodeId, term: u64, command: Command) {
        let life = self.nodes[node].life;
        let leads = self.log.leads(node, term);
        let is_refused = !leads || (self.healed_at.is_none() && self.rng.u8(..=255) == 0);
        if is_refused {
            // Sometimes the engine says nothing, because the node is about to learn that it is deposed.
            if leads || self.rng.bool() {
                self.after(0, WorldEvent::ToNode { node, life, event: NodeEvent::Lost(term) });
            }
            return;
        }
        let id = self.log.propose(Proposal { id: 0, node, life, term, command });
        let delay = self.delay(5 * MS, 300 * MS);
        self.after(delay, WorldEvent::Commit(id));
    }

    fn begin_round(&mut self, node: NodeId, round: RoundId) {
        let life = self.nodes[node].life;
        if self.options.broken == Some(Broken::NoRound) {
            return self.after(0, WorldEvent::ToNode { node, life, event: NodeEvent::RoundDone { round, ok: true } });
        }
        let (before, takes) = (self.delay(3 * MS, 300 * MS), self.delay(3 * MS, 300 * MS));
        self.after(before, WorldEvent::RoundCheck { node, life, round, takes });
    }

    fn apply(&mut self, node: NodeId) -> Result<(), String> {
        if self.nodes[node].is_cut_off {
            return Ok(());
        }
        while let Some(proposal) = self.log.committed.get(self.nodes[node].applied).cloned() {
            let to = &mut self.nodes[node];
            let mut now_ms = to.clock.read_ms(self.now);
            let mut outcome = Outcome::default();
            to.state.apply(to.applied as u64, self.now / MS, &proposal.command, &mut outcome);
            to.applied += 1;
            if let Command::Sessions(sessions::Command::Lead { .. }) = proposal.command
                && self.options.broken == Some(Broken::LeasesNotAnew)
            {
                // As if three quarters of every lease were over.
                now_ms = now_ms.saturating_sub(self.ttl_ms * 3 / 4);
            }
            to.frontend.applied(now_ms, &to.state, proposal.term, &proposal.command, &outcome);
            // Carry out the outputs after each entry.
            self.carry_out_at(node)?;
        }
        Ok(())
    }

    fn answer(&mut self, connection: ConnectionId, said: ToClient) {
        let delay = self.delay(3 * MS, 400 * MS);
        let now = self.now;
        let Some(on) = self.connections.get_mut(&connection) else { return };
        on.down_at = on.down_at.max(now + delay);
        let (client, at) = (on.client, on.down_at);
        if on.cut_down.is_none_or(|cut| at < cut) {
            self.at(at, WorldEvent::ToClient { client, event: ClientEvent::Hears { connection, said } });
        }
    }

    /// A stream may be replaced by a later one of its session, never by an earlier one.
    fn judge_close(&mut self, node: NodeId, connection: ConnectionId, why: &Closing) -> Result<(), String> {
        self.tell(|| format!("node {node} ends stream {connection}: {why}"));
        let Some(on) = self.connections.get(&connection) else { return Ok(()) };
        let Some(client) = self.clients.get(on.client) else { return Ok(()) };
        if *why == Closing::Replaced && client.connection == Some(connection) {
            return Err(format!("the live stream {connection} of client {} gives way to an earlier one", client.id));
        }
        Ok(())
    }

    /// The client learns of the end after all frames that were sent before.
    fn end_stream(&mut self, connection: ConnectionId) {
        let delay = self.delay(3 * MS, 400 * MS);
        let now = self.now;
        let Some(on) = self.connections.get_mut(&connection) else { return };
        on.down_at = on.down_at.max(now + delay);
        let (client, at) = (on.client, on.down_at);
        self.at(at, WorldEvent::ToClient { client, event: ClientEvent::Disconnected(connection) });
    }

    /// Asks the leader to force the release of a lock.
    pub(super) fn force(&mut self, lock: &str, now: bool) {
        if let Some((node, _)) = self.log.leader {
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
