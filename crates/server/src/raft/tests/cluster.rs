//! Several nodes in one process, in a simulation.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use baton_runtime::simulation::{Clock, HostId, Simulation, current, listen};
use baton_runtime::{sleep, timeout};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use openraft::async_runtime::WatchReceiver;

use super::*;
use crate::store::fake::Operation as DiskOperation;

/// Longer than any wait in these tests, unless the event never comes.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// A pause before the test looks again.
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// Each test runs with this many seeds.
const SEEDS: u64 = 3;

/// Runs a test in simulations with several seeds. All waiting is in virtual time. Whatever the test calls runs on the first
/// machine. Each [`Seat`] has a machine of its own for its node.
pub(super) fn simulated(test: impl AsyncFn()) {
    (0..SEEDS).for_each(|seed| simulate(seed, test()));
}

pub(super) fn simulate(seed: u64, test: impl Future<Output = ()>) {
    // Shown only if the test fails.
    println!("seed {seed}");
    let simulation = Simulation::new(seed);
    let host = simulation.add_host(Clock::default());
    let ended = simulation.block_on(host, 60 * LONG, test);
    assert_eq!(simulation.panics(), Vec::<String>::new(), "no task panics");
    assert!(ended.is_some(), "the test ends within an hour of its time");
}

pub(super) fn simulation() -> Simulation {
    current().expect("the test runs in a simulation")
}

/// A machine for a node: a disk and an address, which outlive the node.
pub(super) struct Seat {
    pub(super) name: String,
    pub(super) disk: FakeDisk,
    pub(super) host: HostId,
    pub(super) address: SocketAddr,
    pub(super) routes: BTreeMap<String, String>,
    /// The node is started with its peer address. Otherwise it keeps the one in its record.
    pub(super) advertises: bool,
    pub(super) timing: Timing,
    pub(super) formats: (u8, u8),
    pub(super) warned: Arc<Mutex<Vec<String>>>,
    /// Without it, a fatal error fails the test.
    pub(super) fatal: Option<Fatal>,
}

/// Dials from this machine, also for a task of the test.
struct Dials(HostId);

impl Transport for Dials {
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Stream>> {
        let mut dialled = Simulated.dial(address);
        poll_fn(move |cx| simulation().on(self.0, || dialled.poll_unpin(cx))).boxed()
    }
}

impl Seat {
    pub(super) fn new(name: &str) -> Seat {
        let host = simulation().add_host(Clock::default());
        Seat {
            name: name.to_owned(),
            disk: FakeDisk::default(),
            host,
            address: SocketAddr::from(([10, 0, 0, host.0 as u8], 7500)),
            routes: BTreeMap::new(),
            advertises: true,
            timing: Timing::default(),
            formats: Options::default().formats,
            warned: Arc::default(),
            fatal: None,
        }
    }

    pub(super) fn record(&self) -> NodeRecord {
        let (name, peer_address) = (self.name.clone(), self.address.to_string());
        NodeRecord { name, peer_address, client_address: String::new() }
    }

    /// From the next start on, a fatal error is told to the receiver, and does not fail the test.
    pub(super) fn catches_fatal(&mut self) -> mpsc::Receiver<String> {
        let (fatal, told) = hook();
        self.fatal = Some(fatal);
        told
    }

    /// Listens at an address of the machine.
    pub(super) fn listen(&self, address: SocketAddr) -> Option<Box<dyn Listener>> {
        let listener = simulation().on(self.host, || listen(address)).unwrap();
        Some(Box::new(listener))
    }

    /// What a node of this machine is started with.
    pub(super) fn options(&self) -> Options {
        let log = self.warned.clone();
        let warn: Warn = Arc::new(move |what: &str| log.lock().unwrap().push(what.to_owned()));
        let mut record = self.record();
        if !self.advertises {
            record.peer_address.clear();
        }
        Options {
            record,
            listener: self.listen(self.address),
            transport: Arc::new(Dials(self.host)),
            beginning: Beginning::Waits,
            routes: self.routes.clone(),
            timing: self.timing,
            formats: self.formats,
            warn,
            keep: Keep { newer_than: Duration::from_secs(3600), ..Keep::default() },
            segment_bytes: 64 << 10,
            fatal: self.fatal.clone().unwrap_or(options().fatal),
            ..options()
        }
    }

    /// Starts a node on this machine.
    pub(super) async fn start(&self, options: Options) -> Result<Node, OpenError> {
        let opening = Node::open(Arc::new(self.disk.clone()), options);
        let opened = simulation().on(self.host, || baton_runtime::spawn(opening));
        opened.await.unwrap()
    }

    pub(super) async fn open(&self, beginning: Beginning) -> Node {
        self.start(Options { beginning, ..self.options() }).await.unwrap()
    }
}

pub(super) fn seats(count: usize) -> Vec<Seat> {
    (0..count).map(|seat| Seat::new(&format!("node-{seat}"))).collect()
}

/// From now on, nothing of one machine reaches the other.
pub(super) fn cut_one_way(from: &Seat, to: &Seat) {
    simulation().network().cut(from.host, to.host);
}

/// Pulls the cable of a machine: its connections are silent, and stay open.
pub(super) fn unplug(seats: &[Seat], seat: usize) {
    for other in seats.iter().filter(|other| other.host != seats[seat].host) {
        cut_one_way(&seats[seat], other);
        cut_one_way(other, &seats[seat]);
    }
}

/// Like [`unplug`], and all connections end.
pub(super) fn cut_off(seats: &[Seat], seat: usize) {
    unplug(seats, seat);
    assert!(reset() > 0);
}

/// Resets all connections. Returns how many there were.
fn reset() -> usize {
    let (simulation, is_one_way) = (simulation(), false);
    let open = simulation.network().connections();
    open.iter().for_each(|connection| simulation.network().break_after(*connection, true, 0, is_one_way));
    open.len()
}

/// Ends all cuts.
pub(super) fn heal() {
    simulation().network().heal();
}

pub(super) async fn began(seats: &[Seat]) -> Vec<Node> {
    let nodes = join_all(seats.iter().map(|seat| seat.open(Beginning::Waits))).await;
    let members = nodes.iter().zip(seats).map(|(node, seat)| (node.id(), seat.record())).collect();
    nodes[0].initialize(members).await.unwrap();
    nodes
}

pub(super) async fn trio() -> (Vec<Seat>, Vec<Node>) {
    let seats = seats(3);
    let nodes = began(&seats).await;
    (seats, nodes)
}

/// Waits until one of the nodes leads, and returns its place in the list.
pub(super) async fn leader(nodes: &[&Node]) -> usize {
    let lead = nodes.iter().map(|node| {
        Box::pin(async move {
            let mut leadership = node.leadership();
            if leadership.wait_for(|now| matches!(now, Leadership::Leads { .. })).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    });
    timeout(LONG, futures::future::select_all(lead)).await.expect("one of them leads").1
}

/// Proposes an entry wherever the leader is, until it is applied.
async fn apply(nodes: &[&Node], entry: Entry) -> Applied {
    timeout(LONG, async {
        loop {
            let node = nodes[leader(nodes).await];
            if let Ok(applied) = node.propose(entry.clone()).await {
                return applied;
            }
            // The leadership is just changing.
            sleep(MOMENT).await;
        }
    })
    .await
    .expect("the entry is applied in the end")
}

/// Opens sessions `from..to`; returns the index of the last entry.
pub(super) async fn fill_sessions(nodes: &[&Node], sessions: std::ops::Range<u64>) -> u64 {
    let mut last = 0;
    for session in sessions {
        last = apply(nodes, open_session(session)).await.index;
    }
    last
}

/// Waits until all nodes have applied this entry.
pub(super) async fn applied(nodes: &[&Node], index: u64) {
    for node in nodes {
        node.raft.wait(Some(LONG)).applied_index_at_least(Some(index), "applied").await.unwrap();
    }
}

/// All nodes have the same state in the end, with at least these sessions.
pub(super) async fn agree(nodes: &[&Node], sessions: u64) {
    let index = apply(nodes, entry_of(sessions::Command::Lead { term: 0 })).await.index;
    applied(nodes, index).await;
    let states: Vec<State> = nodes.iter().map(|node| node.state()).collect();
    assert!(states[0].counts().sessions as u64 >= sessions, "{:?}", states[0].counts());
    assert!(states.iter().all(|state| *state == states[0]));
}

/// Like [`agree`], with a leader that is known.
pub(super) async fn agree_at(lead: &Node, nodes: &[&Node], sessions: u64) {
    let index = apply(&[lead], entry_of(sessions::Command::Lead { term: 0 })).await.index;
    applied(nodes, index).await;
    assert!(nodes.iter().all(|node| node.state() == lead.state()));
    assert!(lead.state().counts().sessions as u64 >= sessions);
}

pub(super) async fn stop(nodes: impl IntoIterator<Item = Node>) {
    for node in nodes {
        timeout(LONG, node.shutdown()).await.unwrap();
    }
}

pub(super) fn all(nodes: &[Node]) -> Vec<&Node> {
    nodes.iter().collect()
}

#[test]
#[should_panic(expected = "no task panics")]
fn a_panic_of_any_task_fails_a_test() {
    simulated(async || {
        drop(baton_runtime::spawn(async { panic!("a task of the test panics") }));
        sleep(MOMENT).await;
    });
}

#[test]
#[should_panic(expected = "the test ends within an hour of its time")]
fn a_test_that_waits_for_ever_fails() {
    simulated(async || std::future::pending().await);
}

#[test]
fn three_nodes_have_every_entry_and_say_how_they_are() {
    simulated(async || {
        let (_seats, nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..200).await;
        agree(&all(&nodes), 199).await;
        let clusters: Vec<u64> = nodes.iter().map(Node::cluster).collect();
        assert_eq!(clusters, [nodes[0].cluster(); 3], "the others have become part of the cluster of the first");

        let leads = leader(&all(&nodes)).await;
        let members = nodes[leads].members().await;
        assert_eq!(members.len(), 3);
        for member in &members {
            let says = member.says.as_ref().unwrap();
            assert!(member.is_voter);
            assert_eq!(says.leader, Some(nodes[leads].id()));
            assert_eq!(says.role == Role::Leader, member.id == nodes[leads].id());
        }
        for (node, _) in nodes.iter().enumerate().filter(|(node, _)| *node != leads) {
            let refused = nodes[node].remove(members[0].id).await.unwrap_err();
            assert!(matches!(refused, MemberError::NotLeader { .. }), "{refused}");
        }
        stop(nodes).await;
    });
}

#[test]
fn a_leader_that_stops_is_replaced_and_nothing_acknowledged_is_lost() {
    simulated(async || {
        let (seats, mut nodes) = trio().await;
        let mut next = 1;
        for _ in 0..3 {
            fill_sessions(&all(&nodes), next..next + 50).await;
            next += 50;
            let leads = leader(&all(&nodes)).await;
            let stopped = nodes.remove(leads);
            stop([stopped]).await;
            fill_sessions(&all(&nodes), next..next + 50).await;
            next += 50;
            agree(&all(&nodes), next - 1).await;
            nodes.insert(leads, seats[leads].open(Beginning::Waits).await);
        }
        agree(&all(&nodes), next - 1).await;
        // All of them stop, and start again.
        let ids: Vec<u64> = nodes.iter().map(Node::id).collect();
        stop(nodes).await;
        let nodes = join_all(seats.iter().map(|seat| seat.open(Beginning::Waits))).await;
        assert_eq!(nodes.iter().map(Node::id).collect::<Vec<_>>(), ids);
        agree(&all(&nodes), next - 1).await;
        stop(nodes).await;
    });
}

#[test]
fn leadership_is_handed_over() {
    simulated(async || {
        let (_seats, nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        let leads = leader(&all(&nodes)).await;
        let to = nodes[(leads + 1) % 3].id();
        assert_eq!(
            nodes[leads].transfer(nodes[leads].id()).await,
            Err(MemberError::Leads { name: format!("node-{leads}") })
        );
        assert_eq!(nodes[leads].transfer(7).await, Err(MemberError::NoSuchMember { id: 7 }));
        nodes[leads].transfer(to).await.unwrap();
        fill_sessions(&all(&nodes), 20..40).await;
        agree(&all(&nodes), 39).await;
        let leads = leader(&all(&nodes)).await;
        let knows_its_age = async {
            while nodes[leads].age_ms().is_none() {
                sleep(MOMENT).await;
            }
        };
        timeout(LONG, knows_its_age).await.expect("a round confirms it after its first entry");
        nodes[leads].hand_over().await.unwrap();
        assert!(matches!(nodes[leads].hand_over().await, Err(MemberError::NotLeader { .. })));
        fill_sessions(&all(&nodes), 40..60).await;
        stop(nodes).await;
    });
}

#[test]
fn a_wiped_node_comes_back_only_under_a_new_id() {
    simulated(async || {
        let (mut seats, mut nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..60).await;
        let leads = leader(&all(&nodes)).await;
        let wiped = (leads + 1) % 3;
        let old = nodes[wiped].id();
        let gone = nodes.remove(wiped);
        stop([gone]).await;
        seats[wiped].disk = FakeDisk::default();
        let new = seats[wiped].open(Beginning::Waits).await;
        let (lead, new_id) = (nodes[leader(&all(&nodes)).await].id(), new.id());
        assert_ne!(new_id, old);

        let lead = nodes.iter().find(|node| node.id() == lead).unwrap();
        // Heartbeats go on, so the leader calls it within this time.
        let says = timeout(LONG, async {
            loop {
                let members = lead.members().await;
                let member = members.into_iter().find(|member| member.id == old).unwrap();
                let says = member.says.unwrap_err();
                if says.contains("expected another node") {
                    return says;
                }
            }
        });
        let says = says.await.unwrap();
        let expected = format!(
            "it expected another node at this address (id {old}, and this is id {new_id}); if the data folder of"
        );
        assert!(says.contains(&expected), "{says}");

        let taken = lead.add_learner(new_id, seats[wiped].record()).await.unwrap_err();
        assert!(matches!(taken, MemberError::NameTaken { id, .. } if id == old), "{taken}");
        lead.remove(old).await.unwrap();
        lead.add_learner(new_id, seats[wiped].record()).await.unwrap();
        promote(lead, new_id).await;
        nodes.insert(wiped, new);
        fill_sessions(&all(&nodes), 60..100).await;
        agree(&all(&nodes), 99).await;
        stop(nodes).await;
    });
}

/// Promotes a learner as soon as it has what it needs.
pub(super) async fn promote(lead: &Node, id: u64) {
    let promoted = timeout(LONG, async {
        loop {
            match lead.promote(id).await {
                Err(MemberError::Lags { .. } | MemberError::NeverHeard { .. } | MemberError::InProgress) => {
                    sleep(MOMENT).await;
                }
                promoted => return promoted,
            }
        }
    });
    promoted.await.unwrap().unwrap();
}

/// Opens sessions until it is told to stop. Counts those that were acknowledged.
struct Load {
    stopped: AtomicBool,
    acknowledged: AtomicU64,
}

impl Load {
    async fn run(&self, nodes: &[&Node]) {
        while !self.stopped.load(Ordering::SeqCst) {
            let session = self.acknowledged.load(Ordering::SeqCst) + 1;
            apply(nodes, open_session(session)).await;
            self.acknowledged.store(session, Ordering::SeqCst);
        }
    }

    /// Returns when `more` further sessions are open.
    async fn goes_on(&self, more: u64) {
        let target = self.acknowledged.load(Ordering::SeqCst) + more;
        while self.acknowledged.load(Ordering::SeqCst) < target {
            sleep(MOMENT).await;
        }
    }
}

/// Does something at the leader, wherever it is.
pub(super) async fn at_leader<'a, F: Future<Output = Result<(), MemberError>>>(
    nodes: &[&'a Node],
    act: impl Fn(&'a Node) -> F,
) {
    timeout(LONG, async {
        loop {
            let node = nodes[leader(nodes).await];
            match act(node).await {
                Err(MemberError::NotLeader { .. } | MemberError::InProgress) => sleep(MOMENT).await,
                Err(MemberError::Lags { .. } | MemberError::NeverHeard { .. }) => sleep(MOMENT).await,
                done => return done.unwrap(),
            }
        }
    })
    .await
    .expect("it is done in the end");
}

/// Otherwise the change could never be finished, and no lock would be granted until the dead node comes back. What a node
/// answered before it died does not count.
#[test]
fn a_voter_is_not_removed_if_no_majority_would_answer_without_it() {
    simulated(async || {
        let (_seats, mut nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..20).await;
        let lead = leader(&all(&nodes)).await;
        agree_at(&nodes[lead], &all(&nodes), 19).await;
        nodes.swap(0, lead);
        let dead = nodes.pop().unwrap();
        timeout(LONG, dead.shutdown()).await.unwrap();
        let (dead, live) = (dead.id(), nodes[1].id());
        let refused = nodes[0].remove(live).await.unwrap_err();
        assert!(matches!(&refused, MemberError::NoMajority { .. }), "{refused}");
        at_leader(&all(&nodes), |lead| lead.remove(dead)).await;
        // Of two voters both must agree, also to the removal of one.
        let refused = async |id: u64| nodes[0].remove(id).await.unwrap_err();
        timeout(LONG, nodes[1].shutdown()).await.unwrap();
        let name = nodes[0].group.metrics().membership_config.get_node(&live).unwrap().name.clone();
        assert_eq!(refused(live).await, MemberError::NeedsIt { name });
        stop(nodes).await;
    });
}

#[test]
fn a_group_grows_from_one_to_five_and_back_to_three_under_load() {
    simulated(async || {
        let seats = seats(5);
        let mut nodes = vec![seats[0].open(Beginning::Alone).await];
        leads(&nodes[0]).await;
        nodes.extend(join_all(seats[1..].iter().map(|seat| seat.open(Beginning::Waits))).await);
        assert_eq!(nodes[0].remove(nodes[0].id()).await, Err(MemberError::LastVoter { name: "node-0".to_owned() }));
        let load = Load { stopped: AtomicBool::new(false), acknowledged: AtomicU64::new(0) };
        let everybody = all(&nodes);
        let (running, everybody) = (load.run(&everybody), &everybody);
        let changes = async {
            for new in 1..5 {
                let (id, record) = (nodes[new].id(), seats[new].record());
                at_leader(everybody, |lead| lead.add_learner(id, record.clone())).await;
                load.goes_on(20).await;
                at_leader(everybody, |lead| lead.promote(id)).await;
                load.goes_on(20).await;
            }
            // The first one may lead; then another takes over.
            for gone in &nodes[..2] {
                let id = gone.id();
                at_leader(everybody, |lead| lead.remove(id)).await;
                timeout(LONG, load.goes_on(20)).await.unwrap();
            }
            load.stopped.store(true, Ordering::SeqCst);
        };
        timeout(LONG * 2, futures::future::join(running, changes)).await.unwrap();
        agree(&all(&nodes[2..]), load.acknowledged.load(Ordering::SeqCst)).await;
        let members = nodes[2 + leader(&all(&nodes[2..])).await].members().await;
        let ids: std::collections::BTreeSet<u64> = nodes[2..].iter().map(Node::id).collect();
        assert_eq!(members.iter().map(|member| member.id).collect::<std::collections::BTreeSet<_>>(), ids);
        stop(nodes).await;
    });
}

#[test]
fn a_new_node_gets_a_snapshot_when_the_log_is_gone() {
    simulated(async || {
        let seats = seats(2);
        let nodes = vec![seats[0].open(Beginning::Alone).await, seats[1].open(Beginning::Waits).await];
        leads(&nodes[0]).await;
        fill_sessions(&[&nodes[0]], 1..400).await;
        let purged =
            nodes[0].raft.wait(Some(LONG)).metrics(|metrics| metrics.purged.is_some(), "purged").await.unwrap();
        assert!(purged.purged.is_some());
        nodes[0].add_learner(nodes[1].id(), seats[1].record()).await.unwrap();
        fill_sessions(&[&nodes[0]], 400..500).await;
        let index = nodes[0].status().applied;
        applied(&all(&nodes), index).await;
        assert_eq!(nodes[0].state(), nodes[1].state());
        let installed = nodes[1].raft.metrics().borrow_watched().snapshot;
        assert!(installed >= purged.purged, "{installed:?}");
        let names = seats[1].disk.names();
        assert!(!names.iter().any(|name| name.contains("received")), "{names:?}");
        // The node starts from its snapshot.
        let mut nodes = nodes;
        let follower = nodes.remove(1);
        stop([follower]).await;
        nodes.push(seats[1].open(Beginning::Waits).await);
        agree(&all(&nodes), 499).await;
        stop(nodes).await;
    });
}

#[test]
fn a_snapshot_of_many_parts_arrives_although_its_connection_breaks_and_the_disk_is_full_once() {
    simulated(async || {
        let seats = seats(2);
        let nodes = vec![seats[0].open(Beginning::Alone).await, seats[1].open(Beginning::Waits).await];
        leads(&nodes[0]).await;
        let mut pending = Vec::new();
        for session in 1..3000 {
            pending.push(nodes[0].propose(open_labelled(session, "x".repeat(200))));
        }
        for pending in pending {
            pending.await.unwrap();
        }
        let purged = || nodes[0].raft.metrics().borrow_watched().purged.is_some_and(|purged| purged.index > 2500);
        timeout(LONG, async {
            while !purged() {
                // Nothing happens if a snapshot is being made.
                nodes[0].raft.trigger().snapshot().await.unwrap();
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
        let (mut writes, broken) = (0, Arc::new(AtomicUsize::new(0)));
        let breaks = broken.clone();
        seats[1].disk.before_each(move |_, operation| {
            if !matches!(operation, DiskOperation::Write(name) if name.contains("received")) {
                return Ok(());
            }
            writes += 1;
            match writes {
                5 => return Err(io::ErrorKind::StorageFull.into()),
                // In the middle of the second attempt.
                9 => breaks.store(reset(), Ordering::SeqCst),
                _ => {}
            }
            Ok(())
        });
        nodes[0].add_learner(nodes[1].id(), seats[1].record()).await.unwrap();
        // The load goes on meanwhile.
        fill_sessions(&[&nodes[0]], 3000..3100).await;
        agree_at(&nodes[0], &all(&nodes), 3099).await;
        assert!(broken.load(Ordering::SeqCst) > 0);
        let names = seats[1].disk.names();
        assert!(!names.iter().any(|name| name.contains("received")), "{names:?}");
        stop(nodes).await;
    });
}

#[test]
fn a_node_that_was_away_for_a_short_time_needs_no_snapshot() {
    simulated(async || {
        let (seats, mut nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        let leads = leader(&all(&nodes)).await;
        let away = (leads + 1) % 3;
        let gone = nodes.remove(away);
        stop([gone]).await;
        // Several snapshots are made meanwhile.
        fill_sessions(&all(&nodes), 20..500).await;
        for node in &nodes {
            let metrics = node.raft.metrics().borrow_watched().clone();
            assert!(metrics.snapshot.is_some_and(|snapshot| snapshot.index > 100), "{metrics}");
            assert_eq!(metrics.purged, None, "the options of these tests keep everything");
        }
        // So the entries that it needs are on disk only.
        nodes.insert(away, seats[away].open(Beginning::Waits).await);
        agree(&all(&nodes), 499).await;
        let received = seats[away].disk.names();
        assert!(!received.iter().any(|name| name.contains("received")), "{received:?}");
        stop(nodes).await;
    });
}

#[test]
fn the_group_goes_on_when_links_are_cut_and_agrees_when_they_are_healed() {
    simulated(async || {
        let seats = seats(3);
        let nodes = began(&seats).await;
        let mut next = 1;
        for round in 0..6 {
            fill_sessions(&all(&nodes), next..next + 20).await;
            next += 20;
            let leads = leader(&all(&nodes)).await;
            let others: Vec<&Node> = (0..3).filter(|node| *node != leads).map(|node| &nodes[node]).collect();
            match round % 3 {
                0 => cut_off(&seats, leads),
                1 => unplug(&seats, leads),
                // The leader speaks, and does not hear.
                _ => (0..3).filter(|node| *node != leads).for_each(|node| cut_one_way(&seats[node], &seats[leads])),
            }
            fill_sessions(&others, next..next + 20).await;
            next += 20;
            heal();
            agree(&all(&nodes), next - 1).await;
        }
        stop(nodes).await;
    });
}

#[test]
fn a_follower_that_was_set_back_is_refused() {
    simulated(async || {
        let (mut seats, mut nodes) = trio().await;
        let index = fill_sessions(&all(&nodes), 1..20).await;
        applied(&all(&nodes), index).await;
        let leads = leader(&all(&nodes)).await;
        let back = (leads + 1) % 3;
        let lead = nodes[leads].id();
        // A copy of an early moment, which is restored later.
        let early = seats[back].disk.copy();
        let index = fill_sessions(&all(&nodes), 20..40).await;
        applied(&all(&nodes), index).await;
        let stopped = nodes.remove(back);
        stop([stopped]).await;
        seats[back].disk = early;
        nodes.insert(back, seats[back].open(Beginning::Waits).await);
        let expected = format!("node node-{back} no longer has entries that it had acknowledged to the leader");
        let says = || seats[leads].warned.lock().unwrap().iter().any(|line| line.starts_with(&expected));
        let said = timeout(LONG, async {
            while !says() {
                sleep(MOMENT).await;
            }
        });
        said.await.unwrap();
        // The others go on, under the same leader.
        fill_sessions(&all(&nodes), 40..60).await;
        assert_eq!(nodes[leader(&all(&nodes)).await].id(), lead);
        assert!(nodes[back].state().counts().sessions < 39, "it got none of the rest");
        stop(nodes).await;
    });
}
