//! The other nodes of the group: the wire, the connections to them, and the listener for theirs.
//!
//! Of two nodes each dials the other when it has something to ask. A connection carries the requests of the dialling
//! side and the answers of the other. Several requests are on their way at a time. Requests of one connection reach
//! Raft in the order in which they were made. A snapshot has a connection of its own, so that no heartbeat waits for it.

mod announced;
mod check;
mod commits;
mod guard;
mod heard;
pub(super) mod link;
mod listener;
mod network;
mod peer;
mod progress;
mod snapshots;
mod transport;
pub(super) mod wire;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use announced::Announced;
use baton_runtime::Instant;
use heard::Heard;
use link::Link;
use tokio::sync::mpsc;

use crate::format::record::{LogId, NodeRecord};
use crate::raft::copies::Meeting;
use crate::raft::freshness::Freshness;
use crate::raft::log::Fingerprint;
use crate::raft::log_store::Warn;
use crate::raft::rounds::Rounds;
use crate::store::Identity;

pub(super) use check::is_acceptable;
pub(super) use guard::Guard;
pub(super) use listener::{Door, listen};
pub(super) use peer::Peer;
pub use transport::{Listener, Simulated, Stream, Tcp, Transport};
use wire::Appended;
pub(super) use wire::{
    APPEND_ENTRIES_MAX, Announcement, Answer, Confirmed, FORMATS, Purpose, Request, have_common_format,
};
#[cfg(test)]
pub(super) use wire::{Append, Candidacy};
pub use wire::{Hello, LinkError, NodeStatus, Refusal};

/// A cluster has this many members at most: a Hello names them all.
pub(super) const MEMBERS_MAX: usize = 64;

/// The most meetings with other processes of this id that wait to be judged.
const MEETINGS_MAX: usize = 4;

/// What a node without data waits for. It says so in its Hello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Intent {
    #[default]
    None,
    /// For the other nodes of this list: names and peer addresses.
    Forms(Vec<(String, String)>),
    /// To be added to a cluster.
    Joins,
}

/// None if this node does not lead.
type AskConfirmed = Box<dyn Fn() -> Option<Confirmed> + Send + Sync>;

/// The last entry with commands up to an index.
type FindCommands = Box<dyn Fn(u64) -> Option<(LogId, Fingerprint)> + Send + Sync>;
type AskLogEnd = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// The other nodes, as far as this one has called them. Clones share the same table.
#[derive(Clone)]
pub struct Peers(Arc<Shared>);

/// The same table for its own entries, which must not keep it alive.
pub(super) struct Table(Weak<Shared>);

impl Table {
    /// None if nobody else has the table any more.
    fn peers(&self) -> Option<Peers> {
        self.0.upgrade().map(Peers)
    }
}

struct Shared {
    identity: Mutex<Identity>,
    transport: Arc<dyn Transport>,
    /// The random number of this start of the process.
    start_number: u64,
    /// Name and addresses of this node, as it was started. Empty fields are as the membership says.
    record: Mutex<NodeRecord>,
    /// Addresses that are reached at another address from here.
    routes: BTreeMap<String, String>,
    /// The oldest and the newest data format that this node reads.
    formats: (u8, u8),
    peers: Mutex<BTreeMap<u64, Arc<Peer>>>,
    members: Mutex<BTreeMap<u64, NodeRecord>>,
    intent: Mutex<Intent>,
    /// For what this node waits before it is part of a cluster, as a sentence without a subject. Empty if it does not wait.
    waits: Mutex<String>,
    announced: Mutex<Announced>,
    start: Instant,
    heard: Mutex<BTreeMap<u64, Arc<Heard>>>,
    freshness: Mutex<Freshness>,
    confirmed: OnceLock<AskConfirmed>,
    last_commands: OnceLock<FindCommands>,
    log_end: OnceLock<AskLogEnd>,
    rounds: Rounds,
    election_max: Duration,
    /// This node cannot read its entries before this index any more; 0 if it can read all.
    readable_from: AtomicU64,
    warn: Warn,
    met: mpsc::Sender<Meeting>,
    /// Taken once.
    meetings: Mutex<Option<mpsc::Receiver<Meeting>>>,
}

impl Peers {
    pub(super) fn new(
        identity: Identity,
        start_number: u64,
        record: NodeRecord,
        (routes, transport): (BTreeMap<String, String>, Arc<dyn Transport>),
        formats: (u8, u8),
        (rounds, election_max): (Rounds, Duration),
        warn: Warn,
    ) -> Peers {
        let (met, meetings) = mpsc::channel(MEETINGS_MAX);
        Peers(Arc::new(Shared {
            transport,
            identity: Mutex::new(identity),
            start_number,
            record: Mutex::new(record),
            routes,
            formats,
            peers: Mutex::default(),
            members: Mutex::default(),
            intent: Mutex::default(),
            waits: Mutex::default(),
            announced: Mutex::default(),
            start: Instant::now(),
            heard: Mutex::default(),
            freshness: Mutex::default(),
            confirmed: OnceLock::new(),
            last_commands: OnceLock::new(),
            log_end: OnceLock::new(),
            rounds,
            election_max,
            readable_from: AtomicU64::new(0),
            warn,
            met,
            meetings: Mutex::new(Some(meetings)),
        }))
    }

    fn table(&self) -> Table {
        Table(Arc::downgrade(&self.0))
    }

    /// The address at which this node reaches another address.
    pub(super) fn route<'a>(&'a self, address: &'a str) -> &'a str {
        self.0.routes.get(address).map_or(address, String::as_str)
    }

    pub(super) fn identity(&self) -> Identity {
        *lock(&self.0.identity)
    }

    /// The random number of this start of the process.
    pub(super) fn start_number(&self) -> u64 {
        self.0.start_number
    }

    /// The node has become part of this cluster.
    fn set_cluster(&self, cluster: u64) {
        lock(&self.0.identity).cluster = cluster;
    }

    pub(super) fn formats(&self) -> (u8, u8) {
        self.0.formats
    }

    pub(super) fn warn(&self, what: &str) {
        (self.0.warn)(what);
    }

    /// Name and addresses of this node. An empty field is as the membership says.
    pub(super) fn record(&self) -> NodeRecord {
        lock(&self.0.record).clone()
    }

    pub(super) fn set_record(&self, record: NodeRecord) {
        *lock(&self.0.record) = record;
    }

    pub(super) fn intent(&self) -> Intent {
        lock(&self.0.intent).clone()
    }

    pub(super) fn set_intent(&self, intent: Intent) {
        *lock(&self.0.intent) = intent;
    }

    pub(super) fn waits(&self) -> String {
        lock(&self.0.waits).clone()
    }

    /// Returns true if the sentence is another one than before.
    pub(super) fn set_waits(&self, sentence: &str) -> bool {
        let mut waits = lock(&self.0.waits);
        let is_other = *waits != sentence;
        *waits = sentence.to_owned();
        is_other
    }

    /// The Hello of this node to the node `to`; 0 if this node does not know its id yet.
    pub(super) fn hello(&self, to: u64, purpose: Purpose, is_empty: bool) -> Hello {
        let Identity { cluster, node } = self.identity();
        let (mut record, formats) = (self.record(), self.formats());
        let members = {
            let members = lock(&self.0.members);
            if let Some(known) = members.get(&node) {
                record = record.or(known);
            }
            members.iter().take(MEMBERS_MAX).map(|(id, known)| (*id, known.peer_address.clone())).collect()
        };
        let (list, joins) = match self.intent() {
            Intent::None => (Vec::new(), false),
            Intent::Forms(list) => (list, false),
            Intent::Joins => (Vec::new(), true),
        };
        let start = self.start_number();
        Hello { cluster, node, to, purpose, record, formats, is_empty, list, members, joins, start }
    }

    /// Notes a node that waits to be added. A node that was just added announces itself until it has heard of it.
    fn announce(&self, theirs: &Hello) {
        let Hello { node, record, formats, .. } = theirs;
        if lock(&self.0.members).contains_key(node) {
            return;
        }
        let announcement = Announcement { node: *node, record: record.clone(), formats: *formats };
        lock(&self.0.announced).add(announcement, Instant::now());
    }

    /// The nodes that have announced themselves to this one, and wait to be added.
    pub(super) fn announced(&self) -> Vec<Announcement> {
        lock(&self.0.announced).list(Instant::now())
    }

    /// The peer with this id. Makes it if it is new.
    pub(super) fn get(&self, id: u64, record: &NodeRecord) -> Arc<Peer> {
        let address = self.route(&record.peer_address);
        let make = || Arc::new(Peer::start(id, address.to_owned(), self.heard(id), self.table()));
        let peer = lock(&self.0.peers).entry(id).or_insert_with(make).clone();
        peer.set_address(address);
        peer
    }

    /// Takes over the addresses of the members, and forgets other nodes that are no longer called.
    pub(super) fn follow<'a>(&self, members: impl Iterator<Item = (&'a u64, &'a NodeRecord)>) {
        let members: BTreeMap<u64, NodeRecord> = members.map(|(id, record)| (*id, record.clone())).collect();
        lock(&self.0.peers).retain(|id, peer| match members.get(id) {
            Some(record) => {
                peer.set_address(self.route(&record.peer_address));
                true
            }
            None => Arc::strong_count(peer) > 1,
        });
        forget_strangers(&mut lock(&self.0.heard), &members);
        let mut announced = lock(&self.0.announced);
        members.keys().for_each(|id| announced.remove(*id));
        *lock(&self.0.members) = members;
    }

    /// What is known of a node that this one talks to.
    fn heard(&self, id: u64) -> Arc<Heard> {
        let mut heard = lock(&self.0.heard);
        if !heard.contains_key(&id) {
            // A caller may name any id. So there are at most as many as members and open connections.
            forget_strangers(&mut heard, &lock(&self.0.members));
        }
        heard.entry(id).or_insert_with(|| Arc::new(Heard::new(self.0.start))).clone()
    }

    pub(super) fn last_heard(&self, id: u64) -> Option<Duration> {
        lock(&self.0.heard).get(&id)?.ago()
    }

    /// How long ago this node last sent an append, as a leader does.
    pub(super) fn last_append(&self, id: u64) -> Option<Duration> {
        lock(&self.0.heard).get(&id)?.append_ago()
    }

    /// True if the other node has said that this one is no member of its cluster. It may have said so long ago.
    pub(super) fn is_excluded_by(&self, id: u64) -> bool {
        lock(&self.0.heard).get(&id).is_some_and(|heard| heard.excludes())
    }

    /// Several answers of a node to rounds took this long lately, or longer.
    pub(super) fn round_trip(&self, id: u64) -> Option<Duration> {
        lock(&self.0.peers).get(&id).map(|peer| peer.round_trip())
    }

    /// What is wrong with a node that this leader sends nothing because it was set back.
    pub(super) fn set_back(&self, id: u64) -> Option<&'static str> {
        let is_set_back = |peer: &Arc<Peer>| peer.with_progress(|progress| progress.is_set_back());
        lock(&self.0.peers).get(&id).is_some_and(is_set_back).then_some(network::SET_BACK)
    }

    /// Why a node refuses the appends of this leader, as a sentence about this node.
    pub(super) fn refuses(&self, id: u64) -> Option<String> {
        lock(&self.0.peers).get(&id)?.refuses()
    }

    /// The newest data format that all members read. A member that has not said yet what it reads may be as old as this
    /// node allows.
    pub(super) fn common_format(&self) -> u8 {
        let (oldest, newest) = self.0.formats;
        let me = self.identity().node;
        let members: Vec<u64> = lock(&self.0.members).keys().copied().filter(|id| *id != me).collect();
        let heard = lock(&self.0.heard);
        let reads = |id| heard.get(&id).and_then(|heard| heard.formats()).map_or(oldest, |(_, newest)| newest);
        members.into_iter().map(reads).fold(newest, u8::min)
    }

    pub(super) fn set_confirmed(&self, confirmed: impl Fn() -> Option<Confirmed> + Send + Sync + 'static) {
        assert!(self.0.confirmed.set(Box::new(confirmed)).is_ok(), "set once, when openraft starts");
    }

    pub(super) fn set_last_commands(&self, find: impl Fn(u64) -> Option<(LogId, Fingerprint)> + Send + Sync + 'static) {
        assert!(self.0.last_commands.set(Box::new(find)).is_ok(), "set once, when the log is open");
    }

    pub(super) fn set_log_end(&self, ask: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        assert!(self.0.log_end.set(Box::new(ask)).is_ok(), "set once, when the log is open");
    }

    /// The index of the last entry of this node's log.
    fn log_end(&self) -> Option<u64> {
        self.0.log_end.get().and_then(|ask| ask())
    }

    /// The last entry with commands up to this one, if this node still has it.
    fn last_commands(&self, upto: u64) -> Option<(LogId, Fingerprint)> {
        self.0.last_commands.get().and_then(|find| find(upto))
    }

    fn confirmed(&self) -> Option<Confirmed> {
        self.0.confirmed.get().and_then(|confirmed| confirmed())
    }

    /// Whether this node sends appends now, if it leads in this term. See [`Rounds::may_append`].
    fn may_append(&self, term: u64) -> bool {
        self.0.rounds.may_append(term, self.0.election_max)
    }

    /// This node cannot read its entries up to this one any more.
    pub(super) fn set_unreadable(&self, upto: Option<u64>) {
        self.0.readable_from.store(upto.map_or(0, |upto| upto.saturating_add(1)), Ordering::Relaxed);
    }

    fn can_read(&self, index: u64) -> bool {
        index >= self.0.readable_from.load(Ordering::Relaxed)
    }

    /// An append was answered. `fresh`: when a majority had confirmed its leader, and what was committed then.
    fn received(&self, answer: &Answer, fresh: Option<(u64, u64)>) {
        if let (Answer::Appended(Appended::Success), Some((confirmed, commit))) = (answer, fresh) {
            self.with_freshness(|freshness| freshness.received(confirmed, commit));
        }
    }

    pub(super) fn with_freshness<T>(&self, look: impl FnOnce(&mut Freshness) -> T) -> T {
        look(&mut lock(&self.0.freshness))
    }

    /// A node for people: by its name if it is a member, else by its id.
    pub(super) fn label(&self, id: u64) -> String {
        let members = lock(&self.0.members);
        match members.get(&id).filter(|record| !record.name.is_empty()) {
            Some(record) => format!("node {}", record.name),
            None => format!("node {id}"),
        }
    }

    /// The peer address of a member.
    pub(super) fn recorded(&self, id: u64) -> Option<String> {
        let address = lock(&self.0.members).get(&id)?.peer_address.clone();
        (!address.is_empty()).then_some(address)
    }

    /// Asks the node at an address who it is.
    pub(super) async fn introduce(&self, address: &str, ours: &Hello) -> Result<Hello, LinkError> {
        Ok(self.dial(self.route(address), ours).await?.theirs)
    }

    /// Connects to a node. Notes it if that is another process with the id of this node.
    async fn dial(&self, address: &str, ours: &Hello) -> Result<Link, LinkError> {
        let dialled = link::dial(&*self.0.transport, address, ours).await;
        let is_copy = |theirs: &Hello| theirs.node == ours.node && theirs.start != ours.start;
        match &dialled {
            Ok(link) if is_copy(&link.theirs) => self.meet(Meeting::At(address.to_owned())),
            Err(LinkError::RefusedByPeer(Refusal::Copy { .. })) => self.meet(Meeting::At(address.to_owned())),
            // Only a member can know, and only about this node.
            Err(LinkError::RefusedByPeer(refusal @ Refusal::Second { node, .. }))
                if *node == ours.node && ours.purpose != Purpose::Introduction =>
            {
                self.meet(Meeting::Refused(refusal.clone()));
            }
            _ => {}
        }
        dialled
    }

    /// Notes another process with the id of this node.
    fn meet(&self, meeting: Meeting) {
        // If there are many meetings, the next ones are soon.
        let _ = self.0.met.try_send(meeting);
    }

    /// The meetings with other processes that have the id of this node. There is one reader.
    pub(super) fn meetings(&self) -> mpsc::Receiver<Meeting> {
        lock(&self.0.meetings).take().expect("only the task that judges them asks, once")
    }

    /// Closes all connections.
    pub(super) fn clear(&self) {
        lock(&self.0.peers).clear();
    }
}

/// Removes nodes that are no members and have no connection.
fn forget_strangers(heard: &mut BTreeMap<u64, Arc<Heard>>, members: &BTreeMap<u64, NodeRecord>) {
    heard.retain(|id, heard| members.contains_key(id) || Arc::strong_count(heard) > 1);
}

pub(super) fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: nothing panics while the lock is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody(identity: Identity) -> Peers {
        let rounds = (Rounds::default(), Duration::from_millis(500));
        let reaches: (_, Arc<dyn Transport>) = (BTreeMap::new(), Arc::new(Tcp));
        Peers::new(identity, 5, NodeRecord::default(), reaches, FORMATS, rounds, Arc::new(|_| {}))
    }

    #[test]
    fn a_member_does_not_wait_to_be_added_even_when_it_is_removed_again() {
        let identity = Identity { cluster: 7, node: 1 };
        let peers = nobody(identity);
        let theirs = Hello { node: 2, joins: true, ..peers.hello(0, Purpose::Introduction, true) };
        peers.announce(&theirs);
        assert_eq!(peers.announced().len(), 1);
        peers.follow([(&2, &NodeRecord::default())].into_iter());
        // It announces itself until it has heard that it is added.
        peers.announce(&theirs);
        peers.follow([].into_iter());
        assert_eq!(peers.announced(), []);
    }

    #[tokio::test]
    async fn a_table_is_gone_when_nobody_uses_it_although_it_has_entries() {
        let peers = nobody(Identity { cluster: 7, node: 1 });
        let entry = peers.get(2, &NodeRecord::default());
        let table = peers.table();
        drop(peers);
        assert!(table.peers().is_none());
        drop(entry);
    }

    #[test]
    fn only_members_and_nodes_with_a_connection_are_remembered() {
        let identity = Identity { cluster: 7, node: 1 };
        let peers = nobody(identity);
        peers.follow([(&2, &NodeRecord::default())].into_iter());
        peers.heard(2).now();
        let connected = peers.heard(3);
        connected.now();
        for id in 100..1000 {
            peers.heard(id).now();
        }
        assert!(peers.last_heard(2).is_some() && peers.last_heard(3).is_some());
        assert!(lock(&peers.0.heard).len() <= 3, "those two, and the last caller");
    }
}
