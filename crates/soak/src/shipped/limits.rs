//! What a node has in memory stays within its limits: tasks, connections, and entries that wait for a place.

use super::super::world::World;

/// The most tasks of a node: those of the node and of openraft, two for each other node, one for each connection, one
/// for each request that waits for the disk, and those of the host and the operator here.
const TASKS_MAX: usize = 100;
/// The most open connections of all nodes, for each node. A node has two to each other node, and some that have just
/// broken or are an introduction.
const CONNECTIONS_MAX: usize = 20;
/// The most entries that wait for a place in openraft's queue. There is a place unless tens of thousands wait.
const WAITING_MAX: usize = 0;

/// The most that a run had at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    pub tasks: usize,
    pub connections: usize,
    pub waiting: usize,
}

impl Most {
    pub fn max(self, other: Most) -> Most {
        Most {
            tasks: self.tasks.max(other.tasks),
            connections: self.connections.max(other.connections),
            waiting: self.waiting.max(other.waiting),
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
            let now = Most { tasks, connections, waiting };
            shipped.most = shipped.most.max(now);
            if tasks > TASKS_MAX || connections > CONNECTIONS_MAX || waiting > WAITING_MAX {
                return Err(format!("node {node} has more than the limits allow: {now:?}"));
            }
        }
        Ok(())
    }
}
