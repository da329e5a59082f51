//! The simulated world: virtual time, and the events.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_state::frontend::Frontend;
use baton_state::state::{Command, Outcome, State, sessions};
use baton_types::cluster_id::ClusterId;
use baton_types::frames::{Open, ToClient, ToServer};
use baton_types::limits::ServerLimits;

use super::agenda::Agenda;
use super::client::{LockKind, SimulatedClient};
use super::clock::{Clock, Micros};
use super::diagram::Diagram;
use super::effects::Effect;
use super::faults::{Fault, Which};
use super::model::{Entry, Leadership, Message, NodeId, Raft, Sync};
use super::modules::Modules;
use super::oracle::Oracle;
use super::peers::Links;
use super::shipped::{Course, Shipped};
use super::{CLIENTS_MAX, Engine, NODES_MAX, Options, story};

/// All times here are in microseconds.
pub(super) const MS: Micros = 1_000;
/// A node with less free space than this many bytes accepts nothing new.
pub(super) const MIN_BYTES: u64 = 1_000;
/// The run must end within this time after healing. It is enough for some leases and some turns with every lock.
const SERVED_WITHIN: Micros = 60_000 * MS;
/// Upper limit for the events per client. Some hundreds are usual.
const EVENTS_PER_CLIENT_MAX: u64 = 50_000;

#[derive(Debug)]
pub(super) enum WorldEvent {
    ToNode {
        node: NodeId,
        life: u32,
        event: NodeEvent,
    },
    ToClient {
        client: usize,
        event: ClientEvent,
    },
    /// Tasks of the shipped engine go on.
    Tasks,
    /// A node of the shipped engine dies now, if it has not died yet.
    Kill {
        node: NodeId,
        life: u32,
    },
    /// A disk of the shipped engine is as fast as usual again.
    DiskRecovers(NodeId),
    /// The operator goes on with his work on a node of the shipped engine.
    Operate(NodeId),
    /// A copy of a node's folder of the shipped engine is no longer used.
    EndCopy,
    /// Some time after healing. `entries`: how many entries were applied before.
    MustBeLed {
        entries: u64,
    },
    /// The shipped engine only: a node is cut off, in a run without other faults.
    CutOff {
        which: Which,
        how: u8,
        duration: Micros,
    },
    /// Some time after that. `entries`: how many entries were applied when this was asked for the first time.
    MajorityLeads {
        entries: Option<u64>,
    },
    /// The shipped engine only: faults in a certain order go on.
    Course(Course),
    /// Somebody reads at a node of the shipped engine.
    Look,
    ResumeNode(NodeId),
    ResumeClient(usize),
    NodeUp(NodeId),
    /// A partition ends: messages pass these links again. `waited`: see [`World::waited`], as of its beginning.
    Join {
        links: Vec<(NodeId, NodeId)>,
        effect: Effect,
        waited: u64,
    },
    Fault(Fault),
    Heal,
}

impl WorldEvent {
    /// True unless it is about clients and front ends.
    fn is_of_machines(&self) -> bool {
        !matches!(self, WorldEvent::ToNode { .. } | WorldEvent::ToClient { .. } | WorldEvent::Look)
    }
}

#[derive(Debug)]
pub(super) enum NodeEvent {
    /// A message of another node's Raft.
    Raft {
        from: NodeId,
        message: Message,
    },
    Synced(Sync),
    RaftAlarm,
    /// The front end hears of the leadership.
    Leadership,
    /// A proposal of this term was refused, or may be lost.
    Lost {
        term: u64,
        is_lead: bool,
    },
    Apply,
    Alarm,
    RoundDone {
        round: u64,
        led: bool,
    },
    StreamOpens(ConnectionId),
    Says {
        connection: ConnectionId,
        said: ToServer,
    },
    Gone(ConnectionId),
    /// The client does not read the frames that the node sends.
    Slow(ConnectionId),
    /// A frame of the leader for a stream that this node carries.
    CarriesDown {
        carrier: ConnectionId,
        said: ToClient,
    },
    /// The leader ended a stream that this node carries, or the link to the leader is dead.
    CarrierEnded(ConnectionId),
    /// The number of free bytes.
    Space(u64),
    /// An operator forces the release of a lock. With `now`, the holders lose it at once.
    Force {
        call: u64,
        lock: String,
        now: bool,
    },
}

#[derive(Debug)]
pub enum ClientEvent {
    /// It is time to connect.
    Dial,
    /// The connection is broken.
    Disconnected(ConnectionId),
    Hears {
        connection: ConnectionId,
        said: ToClient,
    },
    /// It is time to look at the clock.
    Alarm,
    /// The client does what it planned.
    Act {
        /// The event is void if the client has made a newer plan.
        plan: u64,
    },
}

pub(super) struct Node {
    pub clock: Clock,
    pub life: u32,
    pub is_up: bool,
    pub paused: Option<Vec<NodeEvent>>,
    pub raft: Raft,
    pub raft_alarm_at: Option<Micros>,
    /// Whether an [`NodeEvent::Apply`] is on its way.
    pub applies_soon: bool,
    /// What Raft tells. The front end hears of it a little later.
    pub leadership: Leadership,
    pub hears_leadership_soon: bool,
    /// The term in which the front end leads, as far as it has heard.
    pub leads_in: Option<u64>,
    pub state: State,
    pub frontend: Frontend,
    pub alarm_at: Option<Micros>,
}

/// Unique for each connection.
pub type ConnectionId = u64;

/// The end of a connection that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client(usize),
    Thief,
    /// This node, in this life, carries the stream of another connection.
    Carrier {
        node: NodeId,
        life: u32,
        of: ConnectionId,
    },
}

/// Where a follower carries a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub to: ConnectionId,
    pub leader: NodeId,
    pub term: u64,
}

pub(super) struct Connection {
    pub from: End,
    pub node: NodeId,
    pub life: u32,
    /// When the last frame arrives, for each direction. Frames keep their order.
    pub up_at: Micros,
    pub down_at: Micros,
    /// Frames that would arrive later than this are lost.
    pub cut_up: Option<Micros>,
    pub cut_down: Option<Micros>,
    pub carried: Option<Carried>,
    /// The leader that spoke on the stream, and its term.
    pub spoken_in: Option<(NodeId, u64)>,
    /// The Open that a follower remembers, if that is the mistake of this run.
    pub open: Option<Open>,
}

/// The nodes with their log, the clients, and the oracle.
pub struct World {
    pub(super) options: Options,
    pub(super) rng: fastrand::Rng,
    pub(super) now: Micros,
    agenda: Agenda<WorldEvent>,
    pub(super) ttl_ms: u64,
    pub(super) locks: Vec<LockKind>,
    pub(super) limits: ServerLimits,
    pub(super) nodes: Vec<Node>,
    pub(super) clients: Vec<SimulatedClient>,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) connections_ever: u64,
    /// Forced releases so far.
    pub(super) forces: u64,
    /// Thieves that were refused so far.
    pub(super) thefts: u64,
    /// Streams that followers carried so far.
    pub(super) carried: u64,
    /// The commands of all log entries.
    pub(super) commands: Vec<Command>,
    /// The committed entries of the model, in order.
    pub(super) committed: Vec<Entry>,
    /// How many entries are committed.
    pub(super) entries: u64,
    /// The engine that ships, unless the model runs.
    pub(super) shipped: Option<Shipped>,
    /// The leader of each term.
    pub(super) leaders: BTreeMap<u64, NodeId>,
    pub(super) links: Links,
    /// Whether a leader refuses proposals while no majority confirms it.
    pub(super) needs_lease: bool,
    /// Whether front ends may hear of a change of leadership very late.
    pub(super) has_slow_watches: bool,
    /// The state after all committed entries, updated at the moment of each commit.
    pub(super) truth: State,
    pub(super) oracle: Oracle,
    pub(super) modules: Modules,
    pub(super) healed_at: Option<Micros>,
    pub(super) events: u64,
    pub(super) story: Option<Vec<String>>,
    pub(super) diagram: Option<Diagram>,
}

/// The cluster of all nodes.
pub(super) const CLUSTER: ClusterId = ClusterId::MIN;

/// The front end of a node that has just started.
pub(super) fn frontend(limits: ServerLimits) -> Frontend {
    let mut frontend = Frontend::new(limits);
    frontend.belongs_to(CLUSTER);
    frontend
}

impl World {
    /// The world of this seed, at its beginning.
    pub fn new(options: Options) -> Self {
        let mut rng = fastrand::Rng::with_seed(options.seed);
        let mut ttl_ms = [1_000, 1_500, 3_000][rng.usize(..3)];
        let drawn = [1, 3, 3, 3, 5][rng.usize(..5)];
        let count = options.nodes.unwrap_or(drawn).clamp(1, NODES_MAX);
        let drawn = rng.usize(2..5);
        let clients = options.clients.unwrap_or(drawn).clamp(1, CLIENTS_MAX);
        let lock = |index: usize| LockKind { name: format!("l{index}"), permits: (index == 2).then_some(2) };
        let locks: Vec<LockKind> = (0..rng.usize(1..4)).map(lock).collect();
        let limits = limits(&mut rng, clients);
        let node = |rng: &mut fastrand::Rng, id: NodeId| Node {
            clock: Clock::random(rng, options.drift()),
            life: 0,
            is_up: true,
            paused: None,
            raft: Raft::new(id, count, rng.u64(..)),
            raft_alarm_at: None,
            applies_soon: false,
            leadership: Leadership::DoesNotLead { term: 0, leader: None },
            hears_leadership_soon: false,
            leads_in: None,
            state: State::default(),
            frontend: frontend(limits),
            alarm_at: None,
        };
        let nodes: Vec<Node> = (0..count).map(|id| node(&mut rng, id)).collect();
        let links = Links::new(count, [0, 0, 4, 24][rng.usize(..4)]);
        let has_slow_watches = rng.u8(..3) == 0;
        let needs_lease = rng.bool();
        let shipped =
            (options.engine == Engine::Raft).then(|| Shipped::new(&mut rng, nodes.iter().map(|node| node.clock)));
        if let Some(shipped) = shipped.as_ref().filter(|_| options.trace) {
            shipped.trace();
        }
        if shipped.as_ref().is_some_and(Shipped::is_calm) {
            // A client that connects again needs some syncs to resume its session.
            ttl_ms = 3_000;
        }
        let clients = (0..clients)
            .map(|id| SimulatedClient::new(id, Clock::random(&mut rng, options.drift()), rng.usize(..8)))
            .collect();
        World {
            options,
            rng,
            now: 0,
            agenda: Agenda::default(),
            ttl_ms,
            locks,
            limits,
            nodes,
            clients,
            connections: BTreeMap::new(),
            connections_ever: 0,
            forces: 0,
            thefts: 0,
            carried: 0,
            commands: Vec::new(),
            committed: Vec::new(),
            entries: 0,
            shipped,
            leaders: BTreeMap::new(),
            links,
            has_slow_watches,
            needs_lease,
            truth: State::default(),
            oracle: Oracle::new(options.drift()),
            modules: Modules::default(),
            healed_at: None,
            events: 0,
            story: options.story.then(Vec::new),
            diagram: options.diagram.then(Diagram::default),
        }
    }

    /// Runs until the end or the first violation.
    pub fn run(&mut self) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            self.follow_raft(node)?;
        }
        self.start_shipped();
        for client in 0..self.clients.len() {
            let event = ClientEvent::Act { plan: 0 };
            let delay = self.rng.u64(..500 * MS);
            self.after(delay, WorldEvent::ToClient { client, event });
        }
        self.plan_faults();
        while let Some((at, event)) = self.next_event() {
            if self.options.stop_at.is_some_and(|stop_at| Duration::from_micros(at) > stop_at) {
                return Ok(());
            }
            self.now = at;
            self.events += u64::from(!matches!(event, WorldEvent::Tasks));
            if self.has_lost_entries() && !event.is_of_machines() {
                continue;
            }
            let happened = self.happen(event).and_then(|()| self.run_tasks());
            happened.or_else(|why| self.excuse(why))?;
            self.see();
            if self.has_lost_entries() && self.is_found_out() {
                return self.judge_histories();
            }
            if self.is_over() {
                return Ok(());
            }
            let too_much = self.events > EVENTS_PER_CLIENT_MAX * self.clients.len() as u64;
            if too_much || self.healed_at.is_some_and(|healed_at| at > healed_at + SERVED_WITHIN) {
                let why = self.unserved();
                return self.excuse(why).and_then(|()| self.judge_histories());
            }
        }
        Err(self.unserved())
    }

    pub(super) fn traced(&self) -> Vec<u8> {
        self.shipped.as_ref().map(Shipped::traced).unwrap_or_default()
    }

    /// The next event of the agenda, or the next alarm of the shipped engine.
    fn next_event(&mut self) -> Option<(Micros, WorldEvent)> {
        let alarm = self.shipped.as_ref().and_then(Shipped::next_alarm);
        let due = self.agenda.next_at();
        let next = match alarm.filter(|alarm| due.is_none_or(|due| *alarm < due)) {
            Some(alarm) => Some((alarm, WorldEvent::Tasks)),
            None => self.agenda.next(),
        };
        if let (Some((at, _)), Some(shipped)) = (&next, &self.shipped) {
            shipped.advance_to(*at);
        }
        next
    }

    fn is_over(&self) -> bool {
        self.healed_at.is_some()
            && self.clients.iter().all(SimulatedClient::is_done)
            && self.truth.counts().sessions == 0
            && self.has_all_members()
    }

    fn unserved(&self) -> String {
        let waits: Vec<String> = self
            .clients
            .iter()
            .filter(|client| !client.is_done())
            .map(|client| format!("client {} ({:?})", client.id, client.last_wish))
            .collect();
        let counts = self.truth.counts();
        format!(
            "it does not come to an end: {}; {} sessions, {} holders, {} waiters left{}",
            waits.join(", "),
            counts.sessions,
            counts.holders,
            counts.waiters,
            self.works_left()
        )
    }

    pub(super) fn after(&mut self, delay: Micros, event: WorldEvent) {
        self.at(self.now + delay, event);
    }

    pub(super) fn at(&mut self, at: Micros, event: WorldEvent) {
        self.agenda.plan(at.max(self.now), event);
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(story::line(self.now, &line()));
        }
    }

    /// A random duration: mostly `usual` or less; before healing sometimes up to `rare`.
    pub(super) fn delay(&mut self, usual: Micros, rare: Micros) -> Micros {
        if self.healed_at.is_none() && self.rng.u8(..16) == 0 {
            self.rng.u64(usual..rare)
        } else {
            self.rng.u64(usual / 10..usual)
        }
    }

    fn happen(&mut self, event: WorldEvent) -> Result<(), String> {
        match event {
            WorldEvent::ToNode { node, life, event } => {
                let to = &mut self.nodes[node];
                if to.life != life || !to.is_up {
                    return Ok(());
                }
                match &mut to.paused {
                    Some(waiting) => waiting.push(event),
                    None => return self.node_hears(node, event),
                }
            }
            WorldEvent::ToClient { client, event } => {
                match self.clients.get_mut(client).map(|client| &mut client.paused) {
                    Some(Some(waiting)) => waiting.push(event),
                    Some(None) => return self.client_hears(client, event),
                    None => return self.thief_hears(&event),
                }
            }
            WorldEvent::Tasks => {}
            WorldEvent::Kill { node, life } => return self.dies(node, life),
            WorldEvent::DiskRecovers(node) => self.disk_recovers(node),
            WorldEvent::CutOff { which, how, duration } => return self.cut_off(which, how, duration),
            WorldEvent::MajorityLeads { entries } => return self.judge_majority(entries),
            WorldEvent::Look => return self.look(),
            WorldEvent::Operate(node) => self.operate(node),
            WorldEvent::EndCopy => self.end_copy(),
            WorldEvent::Course(course) => self.goes_on(course),
            WorldEvent::MustBeLed { .. } if self.leader().is_none() => {
                return Err("no node leads long after healing".to_owned());
            }
            WorldEvent::MustBeLed { entries } if self.entries == entries => {
                return Err("a node leads long after healing, and nothing is applied".to_owned());
            }
            WorldEvent::MustBeLed { .. } => {}
            WorldEvent::ResumeNode(node) => {
                self.resume_shipped(node);
                for event in self.nodes[node].paused.take().unwrap_or_default() {
                    self.node_hears(node, event)?;
                }
            }
            WorldEvent::ResumeClient(client) => {
                for event in self.clients[client].paused.take().unwrap_or_default() {
                    self.client_hears(client, event)?;
                }
            }
            WorldEvent::NodeUp(node) => return self.node_up(node),
            WorldEvent::Join { links, effect, waited } => {
                if self.waited() > waited {
                    self.takes_effect(effect);
                }
                self.links.join(&links);
                self.join_shipped(&links);
            }
            WorldEvent::Fault(fault) => return self.strike(fault),
            WorldEvent::Heal => return self.heal(),
        }
        Ok(())
    }

    /// The oracle judges a committed entry at once. The entry reaches each node a little later.
    pub(super) fn judge_entry(&mut self, entry: Entry) -> Result<(), String> {
        self.entries += 1;
        let Some(command) = entry.command else { return Ok(()) };
        let command = self.commands[command as usize].clone();
        self.judge_command(self.committed.len() as u64, self.now / MS, &command)
    }

    pub(super) fn judge_command(&mut self, index: u64, now_ms: u64, command: &Command) -> Result<(), String> {
        let mut outcome = Outcome::default();
        let revision = self.truth.revision();
        self.truth.apply(index, now_ms, command, &mut outcome);
        if self.truth.revision() < revision {
            return Err(format!("the revision goes back from {revision} to {}", self.truth.revision()));
        }
        self.oracle.asked(command)?;
        if let Command::Sessions(sessions::Command::Expire { session, .. }) = command {
            self.judge_expiry(*session)?;
        }
        let call = World::forced_by(command);
        if let Some(story) = &mut self.story {
            let said = story::command(command);
            story.push(story::line(self.now, &format!("committed {said} -> {:?}", outcome.effects)));
        }
        self.modules.committed(now_ms, command, &outcome, &self.truth)?;
        for effect in outcome.effects {
            self.oracle.committed(self.now, &effect, call, &self.clients)?;
        }
        self.oracle.settled()?;
        self.oracle.within(&self.limits, &self.truth)
    }
}

/// Mostly the limits of the real service, sometimes low ones that are soon reached. Every client can be served under
/// each.
fn limits(rng: &mut fastrand::Rng, clients: usize) -> ServerLimits {
    let mut limits = ServerLimits::default();
    match rng.u8(..8) {
        0 => limits.sessions = clients,
        1 => limits.locks = rng.usize(1..3),
        2 => limits.waiters = rng.usize(..3),
        3 => limits.holds = rng.usize(1..3),
        _ => {}
    }
    limits
}
