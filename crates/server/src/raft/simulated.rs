//! Nodes in a simulation: each is the node that ships, on a machine of its own with a disk in memory.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_runtime::simulation::{Clock, HostId, Simulation, listen, stop_now};

use openraft::async_runtime::WatchReceiver;

use super::group::is_joint;
use super::log::Image;
use super::members::is_voter;
use super::{Beginning, Fatal, MemberError, Node, NodeRecord, Options, Simulated, Warn};
use crate::format::FromOlder;
use crate::format::record::LogId;
use crate::replica::Leadership;
use crate::store::fake::FakeDisk;
use crate::store::{Journal, SEGMENT_BYTES, Store};

/// How a node becomes part of a cluster, as the flags of the server say it.
#[derive(Clone, Debug)]
pub enum Flags {
    /// It forms a cluster with the nodes of this list: names and peer addresses.
    Cluster(Vec<(String, String)>),
    /// It waits until it is added to the cluster of the node at this address.
    Join(String),
}

/// What the simulation asks a node, besides what its host asks.
impl Node {
    /// The index of the last entry of its log.
    pub fn last_log(&self) -> u64 {
        self.group.metrics().last_log_index.unwrap_or(0)
    }

    /// Whether a member is a voter. None if it is no member.
    pub fn knows(&self, id: u64) -> Option<bool> {
        let metrics = self.group.metrics();
        metrics.membership_config.get_node(&id).map(|_| is_voter(&metrics, id))
    }

    /// The voters that the newest entry about them in its log names, unless that is the entry with this term and index.
    pub fn voters_since(&self, known: Option<(u64, u64)>) -> Option<Voters> {
        let receiver = self.group.raft.metrics();
        let metrics = receiver.borrow_watched();
        let at = metrics.membership_config.log_id().as_ref().map(|at| (at.leader_id.term, at.index))?;
        let halves = || metrics.membership_config.get_joint_config().clone();
        (known != Some(at)).then(|| Voters { at, halves: halves() })
    }

    /// How many entries wait for a place in openraft's queue.
    pub fn queued(&self) -> usize {
        self.overflowing()
    }

    /// The bytes of its log that wait for the disk.
    pub fn unsynced_bytes(&self) -> usize {
        self.group.backlog.bytes()
    }

    /// True if a change of the voters is half made.
    pub fn is_changing(&self) -> bool {
        is_joint(&self.group.metrics().membership_config)
    }
}

/// The voters that an entry names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voters {
    /// The term and the index of the entry.
    pub at: (u64, u64),
    /// Two sets while the voters change.
    pub halves: Vec<BTreeSet<u64>>,
}

/// A machine with a disk and an address, on which one node runs at a time.
pub struct Seat {
    pub host: HostId,
    pub name: String,
    pub address: SocketAddr,
    pub disk: FakeDisk,
    process: Option<Arc<Process>>,
}

/// One start of a node.
#[derive(Default)]
struct Process {
    node: Mutex<Option<Arc<Node>>>,
    ended: Mutex<Option<String>>,
    warned: Mutex<Vec<String>>,
}

/// What a machine loses when its node is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process ends. The system writes what it has.
    Nothing,
    /// The power is cut. Of what is not synced, the seed decides what survives: whole writes, pieces of writes, nothing.
    Unsynced(u64),
}

/// The log of a disk after a power cut that loses all that is not synced.
pub struct OnDisk {
    node: u64,
    image: Image,
}

impl OnDisk {
    /// The node to which the folder belongs.
    pub fn node(&self) -> u64 {
        self.node
    }

    /// True if it has this entry, or a snapshot instead.
    pub fn has(&self, index: u64, term: u64) -> bool {
        self.image.has(LogId { term, index })
    }

    /// True if the node has voted for this one in this term, or has voted in a later one.
    pub fn votes_for(&self, node: u64, term: u64) -> bool {
        self.image.head.vote.is_some_and(|vote| vote.term > term || (vote.term, vote.node) == (term, node))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: nothing panics while the lock is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// The process must end, for this reason.
    fn end(&self, why: &str) {
        lock(&self.ended).get_or_insert_with(|| why.to_owned());
        stop_now();
    }
}

impl Seat {
    /// The seat with this number, from 0 to 253.
    pub fn new(simulation: &Simulation, number: u8, clock: Clock) -> Seat {
        let address = SocketAddr::from(([10, 0, 0, number + 1], 7500));
        let (host, name) = (simulation.add_host(clock), format!("node-{number}"));
        Seat { host, name, address, disk: FakeDisk::default(), process: None }
    }

    pub fn in_list(&self) -> (String, String) {
        (self.name.clone(), self.address.to_string())
    }

    /// Starts the node, which opens its disk a little later. Sets the options that the simulation decides.
    pub fn start(&mut self, simulation: &Simulation, flags: Flags, options: Options) {
        let process = Arc::new(Process::default());
        self.process = Some(process.clone());
        let record = NodeRecord {
            name: self.name.clone(),
            peer_address: self.address.to_string(),
            client_address: self.address.to_string(),
        };
        // The process has the node, and the node has these.
        let (ends, warns) = (Arc::downgrade(&process), Arc::downgrade(&process));
        let fatal: Fatal = Arc::new(move |why| {
            if let Some(process) = ends.upgrade() {
                process.end(why);
            }
        });
        let warn: Warn = Arc::new(move |what| {
            if let Some(process) = warns.upgrade() {
                lock(&process.warned).push(what.to_owned());
            }
        });
        let others = match &flags {
            Flags::Cluster(list) => {
                list.iter().filter(|(name, _)| *name != self.name).map(|(_, at)| at.clone()).collect()
            }
            Flags::Join(address) => vec![address.clone()],
        };
        let (beginning, transport) = (Beginning::Waits, Arc::new(Simulated));
        let options = Options { record, fatal, warn, beginning, transport, others, ..options };
        drop(simulation.spawn(self.host, run(process, self.disk.clone(), self.address, flags, options)));
    }

    /// The node, once it is open.
    pub fn node(&self) -> Option<Arc<Node>> {
        lock(&self.process.as_ref()?.node).clone()
    }

    /// The term in which the node says that it leads.
    pub fn leads_in(&self) -> Option<u64> {
        match *self.node()?.leadership().borrow() {
            Leadership::Leads { term } => Some(term),
            Leadership::DoesNotLead { .. } => None,
        }
    }

    /// What the disk has if its power is cut now. None if it does not have a log yet.
    pub fn on_disk(&self) -> Option<OnDisk> {
        let store = Store::open(Arc::new(self.disk.after_power_cut(0)), &FromOlder).ok()?;
        let mut image = Image::default();
        let visit = |frame: &[u8]| Ok(image.replay(frame)?.map(|span| span.marks));
        Journal::open(&store, SEGMENT_BYTES, visit).ok()?;
        Some(OnDisk { node: store.identity().node, image })
    }

    /// Why the process must end, by its own decision. The caller then kills it.
    pub fn ended(&self) -> Option<String> {
        lock(&self.process.as_ref()?.ended).clone()
    }

    pub fn warned(&self) -> Vec<String> {
        self.process.as_ref().map(|process| lock(&process.warned).clone()).unwrap_or_default()
    }

    /// Ends the process wherever its tasks wait.
    pub fn kill(&mut self, simulation: &Simulation, loss: Loss) {
        // First, because what is dropped may still write.
        self.disk = match loss {
            Loss::Nothing => self.disk.fork(),
            Loss::Unsynced(seed) => self.disk.after_power_cut(seed),
        };
        let process = self.process.take();
        simulation.kill(self.host, loss != Loss::Nothing);
        // The node belongs to the machine: dropping it ends tasks.
        simulation.on(self.host, || drop(process));
    }
}

async fn run(process: Arc<Process>, disk: FakeDisk, address: SocketAddr, flags: Flags, options: Options) {
    let listener = match listen(address) {
        Ok(listener) => Some(Box::new(listener) as Box<dyn super::Listener>),
        Err(error) => return process.end(&error.to_string()),
    };
    let named = options.others.clone();
    let node = match Node::open(Arc::new(disk), Options { listener, ..options }).await {
        Ok(node) => Arc::new(node),
        Err(error) => return process.end(&error.to_string()),
    };
    *lock(&process.node) = Some(node.clone());
    if let Err(refused) = begin(&node, flags, &named).await {
        process.end(&refused.to_string());
    }
}

/// As the server does it.
async fn begin(node: &Node, flags: Flags, named: &[String]) -> Result<(), MemberError> {
    let is_empty = node.is_empty().await;
    let begins = async {
        match (flags, is_empty) {
            (Flags::Cluster(list), true) => node.form(list).await,
            (Flags::Join(address), true) => node.join(address).await,
            (Flags::Cluster(_), false) => {
                node.check_own_address().await;
                node.watch_named(named).await
            }
            (Flags::Join(_), false) => futures::try_join!(node.rejoin(), node.watch_named(named)).map(drop),
        }
    };
    let copied = async { Err(MemberError::Refused(node.copied().await)) };
    futures::try_join!(begins, copied).map(|((), ())| ())
}
