//! The engine that ships: each node of the world is the node of the service, with openraft, its log and its snapshots on a
//! disk in memory, and its connections to the others. They run in a simulation of their own, in the same thread and with the
//! same clocks. What a node tells its host is told to the front end here.

mod courses;
mod durable;
mod faults;
mod folders;
mod limits;
mod minority;
mod operator;
mod reads;
mod snapshots;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_runtime::simulation::{HostId, Ran, Simulation, Suffered, call};
use baton_server::raft::simulated::{Flags, Loss, Seat};
use baton_server::raft::{self, Applied, Keep, Node};
use baton_server::replica::{self, ChangeError, Replica};
use baton_state::state::{Command, Entry, Outcome, State};

use super::clock::{Clock, Micros};
use super::effects::{Effect, Effects};
use super::model::{Leadership, NodeId};
use super::world::{MS, NodeEvent, World, WorldEvent};
pub(super) use courses::Course;
use durable::Electorates;
use folders::Folders;
pub use limits::Most;
use operator::{Step, Work};
use reads::{LOOKS_EVERY, Read};
use snapshots::AtSnapshot;

/// How long bytes between nodes are on their way: usually, and seldom.
const DELAYS: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(300));
/// How long an operation of a disk takes.
const DISK: (Duration, Duration) = (Duration::from_micros(10), Duration::from_millis(3));
/// How much longer it takes to write a snapshot, at most.
const LARGE_MAX: Duration = Duration::from_millis(300);

/// What a node says to its host.
enum Heard {
    Applied {
        node: NodeId,
        life: u32,
        applied: Applied,
        entry: Entry,
        /// The state after the entry.
        state: Box<State>,
    },
    Lost {
        node: NodeId,
        life: u32,
        term: u64,
        is_lead: bool,
    },
    RoundDone {
        node: NodeId,
        life: u32,
        round: u64,
        led: bool,
    },
    /// Somebody has read at this node.
    Read {
        node: NodeId,
        read: Box<Read>,
    },
    /// The operator's command with this number about a node is answered.
    Changed {
        node: NodeId,
        number: u64,
        changed: Result<(), ChangeError>,
    },
    /// A node begins to receive a snapshot that is to be held for so long.
    Receives {
        node: NodeId,
        duration: Micros,
    },
    /// A node has written often enough to a snapshot, so it dies, or the leader does.
    WritesSnapshot {
        node: NodeId,
        is_received: bool,
        kills_leader: bool,
    },
    /// The process has ended as it was told.
    Down {
        node: NodeId,
        life: u32,
    },
}

/// What nodes have said and the world has not heard yet.
#[derive(Clone, Default)]
struct Ears(Arc<Mutex<VecDeque<Heard>>>);

impl Ears {
    fn heard(&self) -> MutexGuard<'_, VecDeque<Heard>> {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, heard: Heard) {
        self.heard().push_back(heard);
        call();
    }
}

/// A node that is about to die.
#[derive(Clone, Copy, Debug)]
struct Dying {
    loss: Loss,
    down_for: Micros,
    /// It was told to stop, and does so by itself.
    is_clean: bool,
}

/// Some runs have no faults except slow disks, so they have a promise of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calm {
    /// An ordinary run.
    No,
    /// The disks are not slow yet, or not any more.
    Before,
    /// All disks are slow. This node leads all the time, in this term, no session expires, and clients are served.
    SlowDisks { node: NodeId, term: u64 },
    /// One node is cut off from all others.
    CutOff { node: NodeId },
}

/// What the first node that applied an entry has applied.
struct Judged {
    term: u64,
    entry: Entry,
    /// After the entry.
    state: State,
}

pub(super) struct Shipped {
    effects: Effects,
    simulation: Simulation,
    seats: Vec<Seat>,
    ears: Ears,
    /// The ids that nodes have drawn.
    ids: BTreeMap<u64, NodeId>,
    dying: BTreeMap<NodeId, Dying>,
    /// Nodes whose disk fails: they may end by themselves.
    failing: BTreeSet<NodeId>,
    /// Nodes whose disk is full.
    full: BTreeSet<NodeId>,
    /// Nodes whose disk is slow.
    slow: BTreeSet<NodeId>,
    /// What happens to the next snapshot of a node.
    at_snapshot: BTreeMap<NodeId, AtSnapshot>,
    /// Nodes that have applied nothing since their folder was emptied.
    emptied: BTreeSet<NodeId>,
    /// The last entry that each node has applied in its present life.
    applied: BTreeMap<NodeId, (u32, u64)>,
    electorates: Electorates,
    /// The last term of which a leader was judged.
    elected: u64,
    /// How each node starts.
    flags: Vec<Flags>,
    /// What the operator does.
    works: BTreeMap<NodeId, Work>,
    /// The commands of the operator so far.
    asks: u64,
    calm: Calm,
    folders: Folders,
    most: Most,
    /// How many polls of its tasks each node had when it was last looked at.
    watched: Vec<u64>,
    /// The entries that some node has applied.
    judged: BTreeMap<u64, Judged>,
    segment_bytes: usize,
    snapshot_after_bytes: u64,
    keep: Keep,
}

impl Shipped {
    pub fn new(rng: &mut fastrand::Rng, clocks: impl Iterator<Item = Clock>) -> Shipped {
        let simulation = Simulation::new(rng.u64(..));
        let is_calm = rng.u8(..16) == 0;
        simulation.network().set_delays(DELAYS.0, if is_calm { DELAYS.0 } else { DELAYS.1 });
        let seats: Vec<Seat> =
            (0..).zip(clocks).map(|(number, clock)| Seat::new(&simulation, number, clock.of_machine())).collect();
        for seat in &seats {
            simulation.set_disk(seat.host, DISK.0, DISK.1);
            simulation.set_large_writes(seat.host, LARGE_MAX);
        }
        let list: Vec<(String, String)> = seats.iter().map(Seat::in_list).collect();
        Shipped {
            effects: Effects::default(),
            flags: vec![Flags::Cluster(list); seats.len()],
            works: BTreeMap::new(),
            electorates: Electorates::default(),
            elected: 0,
            asks: 0,
            calm: if is_calm { Calm::Before } else { Calm::No },
            simulation,
            watched: vec![0; seats.len()],
            seats,
            ears: Ears::default(),
            ids: BTreeMap::new(),
            dying: BTreeMap::new(),
            failing: BTreeSet::new(),
            full: BTreeSet::new(),
            slow: BTreeSet::new(),
            at_snapshot: BTreeMap::new(),
            emptied: BTreeSet::new(),
            applied: BTreeMap::new(),
            folders: Folders::default(),
            most: Most::default(),
            judged: BTreeMap::new(),
            segment_bytes: [2 << 10, 16 << 10][rng.usize(..2)],
            snapshot_after_bytes: [1 << 10, 4 << 10, 1 << 20][rng.usize(..3)],
            keep: Keep { newer_than: Duration::from_millis(rng.u64(..3_000)), bytes_max: 1 << rng.u32(10..20) },
        }
    }

    pub fn trace(&self) {
        self.simulation.network().trace();
    }

    /// All bytes between nodes.
    pub fn traced(&self) -> Vec<u8> {
        self.simulation.network().traced()
    }

    /// What faults have done, and how often.
    pub fn took_effect(&self) -> BTreeMap<Effect, u64> {
        let Suffered { late, overtook, waited, held, broken, broken_one_way } = self.simulation.network().suffered();
        let network = [
            ("bytes are late", late),
            ("bytes overtake those of another connection", overtook),
            ("bytes wait for the end of a cut", waited),
            ("a snapshot is held on its way", held),
            ("a connection breaks at a byte", broken),
            ("a connection breaks one way", broken_one_way),
        ];
        self.effects.all().into_iter().chain(network.into_iter().filter(|(_, count)| *count > 0)).collect()
    }

    pub fn is_calm(&self) -> bool {
        self.calm != Calm::No
    }

    /// When a task of a node goes on.
    pub fn next_alarm(&self) -> Option<Micros> {
        // Rounded up: then the alarm rings.
        self.simulation.next_alarm().map(|at| u64::try_from(at.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX))
    }

    pub fn advance_to(&self, now: Micros) {
        self.simulation.advance_to(Duration::from_micros(now));
    }

    fn node(&self, node: NodeId) -> Option<Arc<Node>> {
        self.seats[node].node()
    }

    fn place(&self, host: HostId) -> Option<NodeId> {
        self.seats.iter().position(|seat| seat.host == host)
    }

    fn options(&self, node: NodeId, life: u32) -> raft::Options {
        let (applies, loses) = (self.ears.clone(), self.ears.clone());
        raft::Options {
            segment_bytes: self.segment_bytes,
            snapshot_after_bytes: self.snapshot_after_bytes,
            keep: self.keep,
            on_apply: Box::new(move |entry, applied, state| {
                let (applied, entry, state) = (applied.clone(), entry.clone(), Box::new(state.clone()));
                applies.tell(Heard::Applied { node, life, applied, entry, state });
            }),
            on_lost: Arc::new(move |term, is_lead| loses.tell(Heard::Lost { node, life, term, is_lead })),
            ..raft::Options::default()
        }
    }

    /// Runs a task on the machine of a node.
    fn spawn(&self, node: NodeId, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.simulation.spawn(self.seats[node].host, task));
    }

    /// What a node tells about the leadership.
    fn leadership(&self, place: NodeId) -> Option<Leadership> {
        let node = self.node(place)?;
        let term = node.status().term;
        Some(match *node.leadership().borrow() {
            replica::Leadership::Leads { term } => Leadership::Leads { term },
            replica::Leadership::DoesNotLead { leader } => {
                Leadership::DoesNotLead { term, leader: leader.and_then(|leader| self.ids.get(&leader).copied()) }
            }
        })
    }
}

impl World {
    pub(super) fn start_shipped(&mut self) {
        if self.shipped.is_none() {
            return;
        }
        for node in 0..self.nodes.len() {
            // Some are late.
            self.nodes[node].is_up = false;
            let delay = if self.rng.bool() { 0 } else { self.rng.u64(..1_500 * MS) };
            if delay > 0 {
                self.takes_effect("a node begins late");
            }
            self.after(delay, WorldEvent::NodeUp(node));
        }
        self.after(LOOKS_EVERY, WorldEvent::Look);
    }

    pub(super) fn start_node(&mut self, node: NodeId) {
        let life = self.nodes[node].life;
        let Some(shipped) = &mut self.shipped else { return };
        let (flags, options) = (shipped.flags[node].clone(), shipped.options(node, life));
        shipped.seats[node].start(&shipped.simulation, flags, options);
        shipped.wait_for_snapshot(node);
    }

    /// Runs all tasks of the shipped engine that are ready, and tells the front ends what they say.
    pub(super) fn run_tasks(&mut self) -> Result<(), String> {
        loop {
            let Some(shipped) = &self.shipped else { return Ok(()) };
            let ran = shipped.simulation.run_ready();
            if let Some(said) = shipped.simulation.panics().first() {
                return Err(format!("a node panics: {said}"));
            }
            let ears = shipped.ears.clone();
            let mut has_heard = false;
            loop {
                let heard = ears.heard().pop_front();
                let Some(heard) = heard else { break };
                has_heard = true;
                self.hear_node(heard)?;
            }
            if let Ran::Stopped(host) = ran {
                self.stopped(host)?;
            }
            if ran == Ran::Idle && !has_heard {
                break;
            }
        }
        for node in 0..self.nodes.len() {
            self.watch_shipped(node)?;
        }
        Ok(())
    }

    /// A fault has done this.
    pub(super) fn takes_effect(&self, effect: Effect) {
        if let Some(shipped) = &self.shipped {
            shipped.effects.add(effect);
        }
    }

    /// How often somebody had to wait for bytes because of a cut.
    pub(super) fn waited(&self) -> u64 {
        self.shipped.as_ref().map_or(0, |shipped| shipped.simulation.network().suffered().waited)
    }

    pub(super) fn most(&self) -> Most {
        self.shipped.as_ref().map(|shipped| shipped.most).unwrap_or_default()
    }

    pub(super) fn took_effect(&self) -> BTreeMap<Effect, u64> {
        self.shipped.as_ref().map(Shipped::took_effect).unwrap_or_default()
    }

    fn is_this(&self, node: NodeId, life: u32) -> bool {
        self.nodes[node].is_up && self.nodes[node].life == life
    }

    fn hear_node(&mut self, heard: Heard) -> Result<(), String> {
        if self.has_lost_entries() && !matches!(heard, Heard::Changed { .. } | Heard::Down { .. }) {
            return Ok(());
        }
        match heard {
            Heard::Applied { node, life, applied, entry, state } => {
                let Applied { index, term, outcome } = applied;
                self.tell(|| format!("node {node} applies entry {index} of term {term}"));
                self.judge_applied(node, (index, term), &entry, &state)?;
                if !self.is_this(node, life) {
                    return Ok(());
                }
                self.note_applied(node, index);
                let to = &mut self.nodes[node];
                to.state = *state;
                if let Some(command) = entry.of_frontend() {
                    self.applied(node, term, command, &outcome);
                    return self.carry_out_at(node);
                }
            }
            Heard::Lost { node, life, term, is_lead } => {
                if self.is_this(node, life) {
                    return self.node_hears(node, NodeEvent::Lost { term, is_lead });
                }
            }
            Heard::RoundDone { node, life, round, led } => {
                if self.is_this(node, life) {
                    return self.node_hears(node, NodeEvent::RoundDone { round, led });
                }
            }
            Heard::Read { node, read } => return self.judge_read(node, &read),
            Heard::Changed { node, number, changed } => return self.changed(node, number, changed),
            Heard::Receives { node, duration } => self.receives(node, duration),
            Heard::WritesSnapshot { node, is_received, kills_leader } => {
                self.dies_in_snapshot(node, is_received, kills_leader);
            }
            Heard::Down { node, life } => {
                if self.is_this(node, life) {
                    self.takes_effect("a node hands the leadership over and ends");
                    self.kill(node);
                }
            }
        }
        Ok(())
    }

    fn applied(&mut self, node: NodeId, term: u64, command: &Command, outcome: &Outcome) {
        let (now, ttl_ms, broken) = (self.now, self.ttl_ms, self.options.broken);
        let to = &mut self.nodes[node];
        let mut now_ms = to.clock.read_ms(now);
        if command.is_lead() && broken == Some(super::Broken::LeasesNotAnew) {
            // As if three quarters of every lease were over.
            now_ms = now_ms.saturating_sub(ttl_ms * 3 / 4);
        }
        to.frontend.applied(now_ms, &to.state, term, command, outcome);
    }

    /// Sees whether the node has got a snapshot of another one: it misses entries that others have applied, and did not
    /// start with a snapshot of its own.
    fn note_applied(&mut self, node: NodeId, index: u64) {
        let life = self.nodes[node].life;
        let Some(shipped) = &mut self.shipped else { return };
        let last = match shipped.applied.insert(node, (life, index)) {
            Some((before, last)) if before == life => Some(last),
            _ => shipped.emptied.remove(&node).then_some(0),
        };
        if last.is_some_and(|last| last + 1 < index && shipped.judged.range(last + 1..index).next().is_some()) {
            shipped.effects.add("a snapshot of another node arrives");
        }
    }

    /// All nodes apply the same entries in the same order, and then have the same state.
    fn judge_applied(
        &mut self,
        node: NodeId,
        (index, term): (u64, u64),
        entry: &Entry,
        state: &State,
    ) -> Result<(), String> {
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        if let Some(known) = shipped.judged.get(&index) {
            if (known.term, &known.entry) != (term, entry) {
                return Err(format!(
                    "node {node} applies another entry {index} than others: an applied entry was lost"
                ));
            }
            return match known.state == *state {
                true => Ok(()),
                false => Err(format!("node {node} has another state than others after entry {index}")),
            };
        }
        if let Some((last, _)) = shipped.judged.last_key_value().filter(|(last, _)| **last > index) {
            return Err(format!("node {node} applies entry {index}, which nodes that have entry {last} did not apply"));
        }
        self.judge_durable(node, index, term)?;
        self.entries += 1;
        for command in &entry.commands {
            self.judge_command(index, entry.now_ms, command)?;
        }
        if let Some(shipped) = &mut self.shipped {
            shipped.judged.insert(index, Judged { term, entry: entry.clone(), state: state.clone() });
        }
        // The model hears of no membership, so it keeps another feed. The feeds of the nodes are compared above.
        let is_same = self.truth.without_secret() == state.without_secret() && self.truth.cluster() == state.cluster();
        match is_same {
            true => Ok(()),
            false => Err(format!("node {node} has another state after entry {index}: an applied entry was lost")),
        }
    }

    /// Looks at what a node tells when it is asked, if it has done anything since the last time.
    fn watch_shipped(&mut self, node: NodeId) -> Result<(), String> {
        if !self.nodes[node].is_up {
            return Ok(());
        }
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        let polls = shipped.simulation.polls_of(shipped.seats[node].host);
        if std::mem::replace(&mut shipped.watched[node], polls) == polls {
            return Ok(());
        }
        if let Some(id) = shipped.node(node).map(|node| node.id()) {
            shipped.ids.insert(id, node);
        }
        self.judge_election(node)?;
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        let Some(leadership) = shipped.leadership(node) else { return Ok(()) };
        if let Calm::SlowDisks { node: leader, term } = shipped.calm
            && (node == leader) != (leadership == Leadership::Leads { term })
        {
            return Err(format!(
                "node {leader} leads in term {term}, and disks are slow: so node {node} says {leadership:?}"
            ));
        }
        if let Leadership::Leads { term } = leadership {
            match self.leaders.insert(term, node) {
                Some(other) if other != node => return Err(format!("nodes {node} and {other} lead in term {term}")),
                Some(_) => {}
                None => self.leads_after(node, term),
            }
        }
        self.knows_leadership(node, self.nodes[node].life, leadership);
        Ok(())
    }

    /// The state of a node may be that of a snapshot.
    pub(super) fn refresh_state(&mut self, node: NodeId) {
        if let Some(running) = self.shipped.as_ref().and_then(|shipped| shipped.node(node)) {
            self.nodes[node].state = running.state();
        }
    }

    pub(super) fn submit(&mut self, node: NodeId, term: u64, command: Command) {
        let now_ms = self.nodes[node].clock.read_ms(self.now);
        let Some(shipped) = &self.shipped else { return };
        if let Some(running) = shipped.node(node) {
            let entry = Entry { now_ms, commands: vec![command] };
            shipped.simulation.on(shipped.seats[node].host, || running.submit(term, entry));
        }
    }

    pub(super) fn begin_shipped_round(&mut self, node: NodeId, round: u64) {
        let life = self.nodes[node].life;
        let Some(shipped) = &self.shipped else { return };
        let Some(running) = shipped.node(node) else { return };
        let ears = shipped.ears.clone();
        shipped.spawn(node, async move {
            let led = Replica::read_index(&*running).await;
            ears.tell(Heard::RoundDone { node, life, round, led });
        });
    }

    pub(super) fn shipped_leader(&self) -> Option<NodeId> {
        let shipped = self.shipped.as_ref()?;
        let leads = |node: NodeId| match shipped.leadership(node)? {
            Leadership::Leads { term } => Some((term, node)),
            Leadership::DoesNotLead { .. } => None,
        };
        (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up).filter_map(leads).max().map(|(_, node)| node)
    }
}
