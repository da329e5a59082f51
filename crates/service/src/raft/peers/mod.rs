//! The other nodes of the group: the wire, the connections to them, and the listener for theirs.
//!
//! Of two nodes each dials the other when it has something to ask. A connection carries the requests of the dialling
//! side and the answers of the other. Several requests are on their way at a time. Requests of one connection reach
//! Raft in the order in which they were made. A snapshot has a connection of its own, so that no heartbeat waits for it.

mod link;
mod listener;
mod network;
mod peer;
mod progress;
mod snapshots;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::record::NodeRecord;
use crate::raft::log_store::Warn;
use crate::store::Identity;

pub(super) use listener::{Door, listen};
pub(super) use peer::Peer;
pub(super) use wire::{APPEND_ENTRIES_MAX, Answer, FORMATS, Purpose, Request};
pub use wire::{Hello, LinkError, NodeStatus, Refusal};

/// The other nodes, as far as this one has called them. Clones share the same table.
#[derive(Clone)]
pub struct Peers(Arc<Shared>);

struct Shared {
    identity: Mutex<Identity>,
    /// Name and addresses of this node.
    record: NodeRecord,
    /// Addresses that are reached at another address from here.
    routes: BTreeMap<String, String>,
    peers: Mutex<BTreeMap<u64, Arc<Peer>>>,
    warn: Warn,
}

impl Peers {
    pub(super) fn new(identity: Identity, record: NodeRecord, routes: BTreeMap<String, String>, warn: Warn) -> Peers {
        Peers(Arc::new(Shared { identity: Mutex::new(identity), record, routes, peers: Mutex::default(), warn }))
    }

    fn route<'a>(&'a self, record: &'a NodeRecord) -> &'a str {
        self.0.routes.get(&record.peer_address).unwrap_or(&record.peer_address)
    }

    pub(super) fn identity(&self) -> Identity {
        *lock(&self.0.identity)
    }

    /// The node has become part of this cluster.
    fn set_cluster(&self, cluster: u64) {
        lock(&self.0.identity).cluster = cluster;
    }

    /// The Hello of this node to the node `to`; 0 if nobody knows its id yet.
    pub(super) fn hello(&self, to: u64, purpose: Purpose, is_empty: bool) -> Hello {
        let Identity { cluster, node } = self.identity();
        Hello { cluster, node, to, purpose, record: self.0.record.clone(), formats: FORMATS, is_empty }
    }

    /// The peer with this id. Makes it if it is new.
    pub(super) fn get(&self, id: u64, record: &NodeRecord) -> Arc<Peer> {
        let make = || {
            let peers = self.clone();
            // A node that calls has a log or a vote.
            let hello = move |purpose| peers.hello(id, purpose, false);
            Arc::new(Peer::start(id, self.route(record).to_owned(), hello))
        };
        let peer = lock(&self.0.peers).entry(id).or_insert_with(make).clone();
        peer.set_address(self.route(record));
        peer
    }

    /// Takes over the addresses of the members, and forgets other nodes that nobody calls any more.
    pub(super) fn follow<'a>(&self, members: impl Iterator<Item = (&'a u64, &'a NodeRecord)>) {
        let members: BTreeMap<u64, &NodeRecord> = members.map(|(id, record)| (*id, record)).collect();
        lock(&self.0.peers).retain(|id, peer| match members.get(id) {
            Some(record) => {
                peer.set_address(self.route(record));
                true
            }
            None => Arc::strong_count(peer) > 1,
        });
    }

    /// Closes all connections.
    pub(super) fn clear(&self) {
        lock(&self.0.peers).clear();
    }
}

/// Asks the node at an address who it is.
pub(super) async fn introduce(address: &str, ours: &Hello) -> Result<Hello, LinkError> {
    Ok(link::dial(address, ours).await?.theirs)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: nothing panics while the lock is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
