//! What nodes have acknowledged is on the disks of a majority, even if the power of all of them is cut at that moment.

use baton_server::raft::simulated::{OnDisk, Seat};
use baton_server::replica::Role;

use super::super::model::NodeId;
use super::super::world::World;
use super::Shipped;

/// One of so many entries is judged, because each disk is read for it.
const EVERY: u64 = 8;

impl Shipped {
    /// How many disks have it, if that is no majority. None as well once the operator has asked to remove a node, or a node
    /// has lost its folder: then the members are not the nodes of the list.
    fn too_few(&self, has: impl Fn(&OnDisk) -> bool) -> Option<usize> {
        if self.has_other_members || self.folders.are_misused() {
            return None;
        }
        let count = self.seats.iter().filter_map(Seat::on_disk).filter(|disk| has(disk)).count();
        (count <= self.seats.len() / 2).then_some(count)
    }
}

impl World {
    /// A node has applied this entry, as the first one.
    pub(super) fn judge_durable(&self, index: u64, term: u64) -> Result<(), String> {
        let Some(shipped) = self.shipped.as_ref().filter(|_| index.is_multiple_of(EVERY)) else { return Ok(()) };
        match shipped.too_few(|disk| disk.has(index, term)) {
            Some(count) => Err(format!("entry {index} is applied, and {count} of {} disks have it", self.nodes.len())),
            None => Ok(()),
        }
    }

    /// A node leads only with votes that are on disk.
    pub(super) fn judge_election(&mut self, node: NodeId) -> Result<(), String> {
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        let Some(running) = shipped.node(node) else { return Ok(()) };
        let status = running.status();
        if status.role != Role::Leader || status.term <= shipped.elected {
            return Ok(());
        }
        shipped.elected = status.term;
        match shipped.too_few(|disk| disk.votes_for(status.node, status.term)) {
            Some(count) => Err(format!(
                "node {node} leads in term {}, and {count} of {} disks have a vote for it",
                status.term,
                self.nodes.len()
            )),
            None => Ok(()),
        }
    }
}
