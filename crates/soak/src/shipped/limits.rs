//! What a node has in memory stays within its limits: tasks, connections, entries that wait for a place, bytes that other
//! nodes have not read, and bytes that the disk does not have yet.

use super::super::world::World;

/// The most tasks of a node: those of the node and of openraft, two for each other node, one for each connection, one
/// for each request that waits for the disk, and those of the host and the operator here.
const TASKS_MAX: usize = 100;
/// The most open connections of all nodes, for each node. A node has two to each other node, and some that have just
/// broken or are an introduction.
const CONNECTIONS_MAX: usize = 20;
/// The most entries that wait for a place in openraft's queue. There is a place unless tens of thousands wait.
const WAITING_MAX: usize = 0;

/// The most bytes that a node has sent and other nodes have not read. Appends that wait are few, and entries are small here.
const UNREAD_BYTES_MAX: usize = 64 << 10;

/// The most bytes of a node's log that wait for its disk. Clients of a run propose few entries while a disk is slow.
const UNSYNCED_BYTES_MAX: usize = 64 << 10;

/// The most that a run had at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    pub tasks: usize,
    pub connections: usize,
    pub waiting: usize,
    pub unread_bytes: usize,
    pub unsynced_bytes: usize,
}

impl Most {
    pub fn max(self, other: Most) -> Most {
        Most {
            tasks: self.tasks.max(other.tasks),
            connections: self.connections.max(other.connections),
            waiting: self.waiting.max(other.waiting),
            unread_bytes: self.unread_bytes.max(other.unread_bytes),
            unsynced_bytes: self.unsynced_bytes.max(other.unsynced_bytes),
        }
    }
}

impl World {
    pub(super) fn judge_limits(&mut self) -> Result<(), String> {
        let count = self.nodes.len();
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        let connections = shipped.simulation.network().connections().len().div_ceil(count);
        for node in 0..count {
            let tasks = shipped.simulation.tasks(shipped.seats[node].host);
            let waiting = shipped.node(node).map_or(0, |node| node.queued());
            let unread_bytes = shipped.simulation.network().unread_bytes(shipped.seats[node].host);
            let unsynced_bytes = shipped.node(node).map_or(0, |node| node.unsynced_bytes());
            let now = Most { tasks, connections, waiting, unread_bytes, unsynced_bytes };
            shipped.most = shipped.most.max(now);
            let has_too_much = unread_bytes > UNREAD_BYTES_MAX || unsynced_bytes > UNSYNCED_BYTES_MAX;
            if tasks > TASKS_MAX || connections > CONNECTIONS_MAX || waiting > WAITING_MAX || has_too_much {
                return Err(format!("node {node} has more than the limits allow: {now:?}"));
            }
        }
        Ok(())
    }
}
