//! A node of the service: what the desk of the real one does with streams, leases and the log.

use baton_proto::v1;
use baton_service::leases::KeepAlive;
use baton_service::state::{Command, Effect, Outcome, SessionId, sessions};

use super::Broken;
use super::log::{ConnectionId, NodeId, Proposal};
use super::wire::{self, Asked};
use super::world::{ClientEvent, Happening, MS, NodeEvent, World};

impl World {
    pub(super) fn node_hears(&mut self, node: NodeId, event: NodeEvent) {
        match event {
            NodeEvent::Elected(term) => {
                if self.nodes[node].leads.is_none_or(|leads| leads < term) {
                    // It may lead again without having noticed that it did not: what it proposed before may be lost, and a
                    // client would wait for the answer as long as its stream lives. So no stream outlives its term.
                    self.end_streams(node);
                    self.nodes[node].leads = Some(term);
                    self.nodes[node].leases.step_down();
                    self.propose(node, sessions::Command::Lead { term }.into(), None);
                }
            }
            NodeEvent::Deposed(term) => {
                if self.nodes[node].leads == Some(term) {
                    self.nodes[node].leads = None;
                    self.nodes[node].leases.step_down();
                    self.end_streams(node);
                }
            }
            NodeEvent::Propose(command) => self.propose(node, command, None),
            NodeEvent::Apply => self.apply(node),
            NodeEvent::Alarm => self.propose_what_is_due(node),
            NodeEvent::BeginRound => self.begin_rounds(node),
            NodeEvent::RoundDone { round, ok } => {
                for (session, number) in self.nodes[node].leases.round_done(round, ok) {
                    self.answer(node, session, wire::alive(number));
                }
                // One that failed would fail again at once.
                let pause = if ok { 0 } else { 50 * MS };
                let life = self.nodes[node].life;
                self.after(pause, Happening::ToNode { node, life, event: NodeEvent::BeginRound });
            }
            NodeEvent::Frame { connection, frame } => self.frame(node, connection, frame),
            NodeEvent::Detach(connection) => self.nodes[node].streams.retain(|_, stream| *stream != connection),
        }
        self.rearm(node);
    }

    fn rearm(&mut self, node: NodeId) {
        let to = &mut self.nodes[node];
        let Some(wake) = to.leases.next_wake().map(|wake_ms| to.clock.when(wake_ms)) else { return };
        if to.alarm_at.is_none_or(|alarm_at| wake < alarm_at) {
            to.alarm_at = Some(wake);
            let life = to.life;
            self.at(wake, Happening::ToNode { node, life, event: NodeEvent::Alarm });
        }
    }

    fn propose_what_is_due(&mut self, node: NodeId) {
        let to = &mut self.nodes[node];
        to.alarm_at = None;
        let now_ms = to.clock.read_ms(self.now);
        for command in to.leases.due(now_ms) {
            // Sometimes it seems to have failed, and is applied all the same.
            if self.healed_at.is_none() && self.rng.u8(..8) == 0 {
                self.nodes[node].leases.outcome(now_ms, &command, false);
            }
            self.propose(node, command, None);
        }
    }

    fn begin_rounds(&mut self, node: NodeId) {
        let Some(term) = self.nodes[node].leads else { return };
        while let Some(round) = self.nodes[node].leases.begin_round() {
            let (before, takes) = (self.delay(3 * MS, 300 * MS), self.delay(3 * MS, 300 * MS));
            let life = self.nodes[node].life;
            self.after(before, Happening::RoundCheck { node, life, term, round, takes });
        }
    }

    fn frame(&mut self, node: NodeId, connection: ConnectionId, frame: v1::ClientFrame) {
        let Some(on) = self.connections.get(&connection) else { return };
        if on.cut_up.is_some_and(|cut| self.now >= cut) {
            return;
        }
        let session = on.session;
        let opens = matches!(frame.frame, Some(v1::client_frame::Frame::Open(_)));
        if self.nodes[node].leads.is_none() {
            return self.end_stream(connection);
        }
        if opens {
            self.nodes[node].streams.insert(session, connection);
        } else if self.nodes[node].streams.get(&session) != Some(&connection) {
            return;
        }
        match wire::asked(session, frame) {
            Asked::Command(command) => {
                self.propose_again_later(node, &command);
                self.propose(node, command, Some(connection));
            }
            Asked::KeepAlive(number) => self.keep_alive(node, session, number),
        }
    }

    /// Sometimes a request reaches the log twice, the second time when its answer may have been seen long ago.
    fn propose_again_later(&mut self, node: NodeId, command: &Command) {
        let is_request = matches!(command, Command::Request { .. });
        if is_request && self.healed_at.is_none() && self.rng.u8(..16) == 0 {
            let delay = self.rng.u64(..1_500 * MS);
            let (life, event) = (self.nodes[node].life, NodeEvent::Propose(command.clone()));
            self.after(delay, Happening::ToNode { node, life, event });
        }
    }

    fn keep_alive(&mut self, node: NodeId, session: SessionId, number: u64) {
        let to = &mut self.nodes[node];
        let now_ms = to.clock.read_ms(self.now);
        match to.leases.keep_alive(session, number, now_ms) {
            KeepAlive::Waits if self.options.broken == Some(Broken::NoRound) => {
                self.answer(node, session, wire::alive(number));
            }
            KeepAlive::Waits => self.begin_rounds(node),
            KeepAlive::Condemned | KeepAlive::Unknown | KeepAlive::NotLeading => {}
        }
    }

    fn apply(&mut self, node: NodeId) {
        while let Some(proposal) = self.log.committed.get(self.nodes[node].applied).cloned() {
            let to = &mut self.nodes[node];
            let now_ms = to.clock.read_ms(self.now);
            let mut outcome = Outcome::default();
            to.state.apply(to.applied as u64, self.now / MS, &proposal.command, &mut outcome);
            to.applied += 1;
            for effect in outcome.effects {
                if self.nodes[node].leases.observe(now_ms, &effect) {
                    self.pass_on(node, &proposal, &effect);
                }
            }
            let is_own = proposal.node == node && proposal.life == self.nodes[node].life;
            let to = &mut self.nodes[node];
            match proposal.command {
                Command::Sessions(sessions::Command::Lead { term }) if is_own && to.leads == Some(term) => {
                    let mut pending = to.state.pending_timers();
                    if self.options.broken == Some(Broken::LeasesNotAnew) {
                        pending.sessions.iter_mut().for_each(|(_, ttl_ms)| *ttl_ms /= 4);
                    }
                    to.leases.lead(now_ms, term, &pending);
                }
                ref command if is_own => to.leases.outcome(now_ms, command, true),
                _ => {}
            }
        }
    }

    /// That a session is open is also an acknowledgement, which its client counts from when it sent the Open: so it is only
    /// told to the stream whose Open this was. An earlier Open may have been committed long before that.
    fn pass_on(&mut self, node: NodeId, proposal: &Proposal, effect: &Effect) {
        let Some((session, frame)) = wire::told(effect) else { return };
        let stream = self.nodes[node].streams.get(&session).copied();
        let is_open = matches!(effect, Effect::Opened { .. });
        if is_open && proposal.asked_on != stream {
            return;
        }
        self.answer(node, session, frame);
        if let (Effect::Ended { .. }, Some(stream)) = (effect, stream) {
            self.nodes[node].streams.remove(&session);
            self.end_stream(stream);
        }
    }

    fn answer(&mut self, node: NodeId, session: SessionId, frame: v1::ServerFrame) {
        let Some(stream) = self.nodes[node].streams.get(&session).copied() else { return };
        let delay = self.delay(3 * MS, 400 * MS);
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&stream) else { return };
        connection.down_at = connection.down_at.max(now + delay);
        let (client, at) = (connection.client, connection.down_at);
        if connection.cut_down.is_none_or(|cut| at < cut) {
            self.at(at, Happening::ToClient { client, event: ClientEvent::Frame { connection: stream, frame } });
        }
    }

    /// The client hears of it after all that was sent before.
    pub(super) fn end_stream(&mut self, connection: ConnectionId) {
        let delay = self.delay(3 * MS, 400 * MS);
        let now = self.now;
        let Some(on) = self.connections.get_mut(&connection) else { return };
        on.down_at = on.down_at.max(now + delay);
        let (client, at) = (on.client, on.down_at);
        self.at(at, Happening::ToClient { client, event: ClientEvent::Disconnected(connection) });
    }

    pub(super) fn end_streams(&mut self, node: NodeId) {
        for connection in std::mem::take(&mut self.nodes[node].streams).into_values() {
            self.end_stream(connection);
        }
    }
}
