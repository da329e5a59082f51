//! The connections and timers of a simulated client: what the driver of the real client does.

use baton_client::session::{Event, Output};
use baton_types::frames::{Answer, ToClient, ToServer};
use baton_types::refusal::{Refusal, RefusalCode};

use super::client::Next;
use super::model::NodeId;
use super::story;
use super::world::{ClientEvent, Connection, ConnectionId, End, MS, NodeEvent, World, WorldEvent};

/// The node refuses a request because its disk is full.
fn is_low_space(said: &ToClient) -> bool {
    let ToClient::Answer { answer: Answer::Refused(Refusal { code, .. }), .. } = said else { return false };
    *code == RefusalCode::LowSpace
}

impl World {
    pub(super) fn client_hears(&mut self, client: usize, event: ClientEvent) -> Result<(), String> {
        let now_ms = self.clients[client].now_ms(self.now);
        match event {
            ClientEvent::Act { plan } => self.act(client, plan),
            ClientEvent::Dial => self.dial(client),
            ClientEvent::Disconnected(connection) => {
                let to = &mut self.clients[client];
                if to.connection == Some(connection) {
                    to.connection = None;
                    to.session.iter_mut().for_each(|session| session.disconnected(now_ms));
                }
            }
            ClientEvent::Hears { connection, said } => {
                // The session may give up the connection at this moment. Then it does not get the frame.
                self.clients[client].session.iter_mut().for_each(|session| session.tick(now_ms));
                self.carry_out(client)?;
                let to = &mut self.clients[client];
                let session_id = to.session_id();
                if let Some(session) = to.session.as_mut().filter(|_| to.connection == Some(connection)) {
                    self.oracle.hears(session_id, &said)?;
                    let (leader, is_low_space) = (leader(&said), is_low_space(&said));
                    session.receive(now_ms, said);
                    self.go_to(client, leader);
                    if is_low_space {
                        self.takes_effect("a client is refused because a disk is full");
                    }
                }
            }
            ClientEvent::Alarm => {
                let to = &mut self.clients[client];
                to.alarm_at = None;
                to.session.iter_mut().for_each(|session| session.tick(now_ms));
            }
        }
        self.carry_out(client)?;
        self.arm(client);
        Ok(())
    }

    /// A follower has said where the leader is. Half of the clients go there, the others let the follower carry their
    /// streams.
    fn go_to(&mut self, client: usize, leader: Option<NodeId>) {
        let Some(leader) = leader.filter(|_| self.rng.bool()) else { return };
        self.hang_up(client);
        let now_ms = self.clients[client].now_ms(self.now);
        let to = &mut self.clients[client];
        to.goes_to = Some(leader);
        to.session.iter_mut().for_each(|session| session.disconnected(now_ms));
    }

    fn act(&mut self, client: usize, plan: u64) {
        if self.clients[client].plan != plan {
            return;
        }
        let now_ms = self.clients[client].now_ms(self.now);
        if let Some(session) = &mut self.clients[client].session {
            self.modules.acts(now_ms, session);
        }
        match self.clients[client].act(self.now, self.ttl_ms, &self.locks, &mut self.rng) {
            Next::ActsIn(delay) => self.plan(client, delay),
            Next::Waits => {}
        }
    }

    pub(super) fn plan(&mut self, client: usize, delay: u64) {
        self.clients[client].plan += 1;
        let event = ClientEvent::Act { plan: self.clients[client].plan };
        self.after(delay, WorldEvent::ToClient { client, event });
    }

    /// Sets an alarm for the time at which the session wants to tick, or a little later.
    fn arm(&mut self, client: usize) {
        let late = self.rng.u64(..2 * MS);
        let to = &mut self.clients[client];
        let Some(wake_ms) = to.session.as_ref().and_then(|session| session.next_wake()) else { return };
        let wake = to.clock.when(wake_ms) + late;
        if to.alarm_at.is_none_or(|alarm_at| wake + 2 * MS < alarm_at) {
            to.alarm_at = Some(wake);
            self.at(wake, WorldEvent::ToClient { client, event: ClientEvent::Alarm });
        }
    }

    /// Carries out all outputs of the session.
    fn carry_out(&mut self, client: usize) -> Result<(), String> {
        while let Some(output) = self.clients[client].poll() {
            match output {
                Output::Connect { another } => {
                    self.hang_up(client);
                    self.clients[client].dials = true;
                    self.clients[client].turn += usize::from(another);
                    let delay = self.delay(60 * MS, 400 * MS);
                    self.after(delay, WorldEvent::ToClient { client, event: ClientEvent::Dial });
                }
                Output::Disconnect => {
                    self.hang_up(client);
                    self.clients[client].dials = false;
                }
                Output::Send(said) => {
                    self.oracle.says(self.clients[client].session_id(), &said)?;
                    self.send(client, said);
                }
                Output::Event(event) => self.hear(client, &event)?,
            }
        }
        Ok(())
    }

    fn hear(&mut self, client: usize, event: &Event) -> Result<(), String> {
        self.tell(|| format!("client {client}: {}", story::event(event)));
        if let Event::Granted { acquire, fence } = *event {
            // The oracle checks the grant at the moment when the client begins to believe in it.
            if let Some(grant) = self.clients[client].granted(acquire, fence) {
                let (lock, mode, asked) = (grant.lock.to_owned(), grant.mode, grant.asked);
                let grant = super::oracle::Believed { client, lock: &lock, mode, fence, asked };
                self.oracle.granted(self.now, grant, &self.clients)?;
            }
        }
        if let Event::Answered { number, answer } = event {
            self.modules.answered(self.clients[client].session_id(), *number, answer)?;
        }
        if let Some(delay) = self.clients[client].heard(event, &mut self.rng) {
            self.plan(client, delay);
        }
        Ok(())
    }

    fn dial(&mut self, client: usize) {
        let to = &mut self.clients[client];
        if !to.dials || to.connection.is_some() {
            return;
        }
        let node = to.goes_to.take().unwrap_or(to.turn % self.nodes.len());
        if !self.nodes[node].is_up {
            // The node is down: the client tries the next node.
            to.turn += 1;
            let delay = self.delay(60 * MS, 400 * MS);
            return self.after(delay, WorldEvent::ToClient { client, event: ClientEvent::Dial });
        }
        let connection = self.connect(End::Client(client), node);
        let to = &mut self.clients[client];
        to.connection = Some(connection);
        to.dials = false;
        let now_ms = to.now_ms(self.now);
        to.session.iter_mut().for_each(|session| session.connected(now_ms));
        self.send_up(connection, 0, NodeEvent::StreamOpens);
    }

    /// Makes a connection to this node.
    pub(super) fn connect(&mut self, from: End, node: NodeId) -> ConnectionId {
        self.connections_ever += 1;
        let (now, life) = (self.now, self.nodes[node].life);
        let (cut_up, cut_down, carried, spoken_in, open) = (None, None, None, None, None);
        let on = Connection { from, node, life, up_at: now, down_at: now, cut_up, cut_down, carried, spoken_in, open };
        self.connections.insert(self.connections_ever, on);
        self.connections_ever
    }

    fn send(&mut self, client: usize, said: ToServer) {
        self.tell(|| format!("client {client} sends {}", story::said(&said)));
        let delay = self.delay(3 * MS, 400 * MS);
        let Some(connection) = self.clients[client].connection else { return };
        self.send_up(connection, delay, |connection| NodeEvent::Says { connection, said });
    }

    /// The server learns of the end after all frames that were sent before.
    fn hang_up(&mut self, client: usize) {
        if let Some(connection) = self.clients[client].connection.take() {
            let delay = self.delay(3 * MS, 400 * MS);
            self.send_up(connection, delay, NodeEvent::Gone);
        }
    }

    pub(super) fn send_up(
        &mut self,
        connection: ConnectionId,
        delay: u64,
        event: impl FnOnce(ConnectionId) -> NodeEvent,
    ) {
        let now = self.now;
        let Some(on) = self.connections.get_mut(&connection) else { return };
        on.up_at = on.up_at.max(now + delay);
        let (node, life, at) = (on.node, on.life, on.up_at);
        self.at(at, WorldEvent::ToNode { node, life, event: event(connection) });
    }
}

fn leader(said: &ToClient) -> Option<NodeId> {
    if let ToClient::Leader(leader) = said { Some(leader.node as NodeId) } else { None }
}
