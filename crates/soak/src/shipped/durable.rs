//! What nodes have acknowledged is on the disks of a majority, even if the power of all of them is cut at that moment.

use std::collections::{BTreeMap, BTreeSet};

use baton_server::raft::simulated::{OnDisk, Seat, Voters};
use baton_server::replica::Role;

use super::super::effects::Effect;
use super::super::model::NodeId;
use super::super::world::World;
use super::Shipped;

/// One of so many entries is judged, because each disk is read for it.
const EVERY: u64 = 8;

/// The term and the index of an entry that names voters, and the voters: two sets while they change.
type Named = ((u64, u64), Vec<BTreeSet<u64>>);

/// The voters, as the logs of the nodes name them.
#[derive(Default)]
pub(super) struct Electorates {
    /// What the log of each node says, in order.
    of_nodes: BTreeMap<NodeId, Vec<Named>>,
    /// Nodes whose folder is gone. Nobody knows what was on it.
    lost: BTreeSet<u64>,
}

impl Electorates {
    /// The term and the index of the newest entry that names voters.
    pub fn newest(&self, node: NodeId) -> Option<(u64, u64)> {
        Some(self.of_nodes.get(&node)?.last()?.0)
    }

    pub fn add(&mut self, node: NodeId, Voters { at, halves }: Voters) {
        let known = self.of_nodes.entry(node).or_default();
        // Later ones were truncated.
        known.truncate(known.partition_point(|((_, index), _)| *index < at.1));
        known.push((at, halves));
    }

    /// The folder of a node is gone: what it had, under these ids.
    pub fn lose(&mut self, node: NodeId, ids: impl Iterator<Item = u64>) {
        self.of_nodes.remove(&node);
        self.lost.extend(ids);
    }

    /// The newest of these entries that a node had before it led in this term.
    fn before(&self, node: NodeId, term: u64) -> u64 {
        let known = self.of_nodes.get(&node).into_iter().flatten();
        known.rev().find(|((known, _), _)| *known < term).map_or(0, |((_, index), _)| *index)
    }

    /// Those that may have decided about an entry, as the logs of these nodes say: the last ones up to it, and all later ones,
    /// because a leader goes by the newest voters in its log.
    fn of(&self, nodes: impl Iterator<Item = NodeId>, index: u64) -> Vec<&[BTreeSet<u64>]> {
        let named = nodes.filter_map(|node| self.of_nodes.get(&node)).flat_map(|known| {
            let later = known.partition_point(|((_, at), _)| *at <= index);
            &known[later.saturating_sub(1)..]
        });
        named.map(|(_, halves)| halves.as_slice()).collect()
    }

    /// True if these are a majority of each half.
    fn is_majority(&self, halves: &[BTreeSet<u64>], have: &BTreeSet<u64>) -> bool {
        let has = |id: &&u64| have.contains(id) || self.lost.contains(id);
        halves.iter().all(|half| 2 * half.iter().filter(has).count() > half.len())
    }
}

impl Shipped {
    /// Which disks have it, as a sentence, if they are a majority of no voters that may have decided it, as the logs of these
    /// nodes say. `judged`: counted if this was judged.
    fn too_few(
        &self,
        nodes: impl Iterator<Item = NodeId>,
        index: u64,
        judged: Effect,
        has: impl Fn(&OnDisk) -> bool,
    ) -> Option<String> {
        let voters = self.electorates.of(nodes, index);
        if voters.is_empty() || self.folders.are_misused() {
            return None;
        }
        let disks = self.seats.iter().filter_map(Seat::on_disk);
        let have: BTreeSet<u64> = disks.filter(|disk| has(disk)).map(|disk| disk.node()).collect();
        self.effects.add(judged);
        if voters.iter().any(|halves| halves.len() > 1) {
            self.effects.add("what is durable is judged while voters change");
        }
        let is_enough = voters.iter().any(|halves| self.electorates.is_majority(halves, &have));
        (!is_enough).then(|| {
            let names = |ids: &BTreeSet<u64>| ids.iter().filter_map(|id| self.ids.get(id)).collect::<Vec<_>>();
            let voters: Vec<Vec<_>> = voters.iter().map(|halves| halves.iter().map(names).collect()).collect();
            let (count, all) = (have.len(), self.seats.len());
            format!("{count} of {all} disks, those of {:?}; the voters were {voters:?}", names(&have))
        })
    }
}

impl World {
    /// A node has applied this entry, as the first one.
    pub(super) fn judge_durable(&self, node: NodeId, index: u64, term: u64) -> Result<(), String> {
        let Some(shipped) = self.shipped.as_ref().filter(|_| index.is_multiple_of(EVERY)) else { return Ok(()) };
        let (judged, has) = ("a majority of disks has an applied entry", |disk: &OnDisk| disk.has(index, term));
        match shipped.too_few([node].into_iter().chain(self.shipped_leader()), index, judged, has) {
            Some(where_it_is) => Err(format!("entry {index} is applied, and is on {where_it_is}")),
            None => Ok(()),
        }
    }

    /// A node leads only with votes that are on disk.
    pub(super) fn judge_election(&mut self, node: NodeId) -> Result<(), String> {
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        let Some(running) = shipped.node(node) else { return Ok(()) };
        if let Some(voters) = running.voters_since(shipped.electorates.newest(node)) {
            shipped.electorates.add(node, voters);
        }
        let status = running.status();
        if status.role != Role::Leader || status.term <= shipped.elected {
            return Ok(());
        }
        shipped.elected = status.term;
        let votes = |disk: &OnDisk| disk.votes_for(status.node, status.term);
        let (judged, before) =
            ("a majority of disks has the votes for a leader", shipped.electorates.before(node, status.term));
        match shipped.too_few([node].into_iter(), before, judged, votes) {
            Some(where_it_is) => {
                Err(format!("node {node} leads in term {}, and the votes for it are on {where_it_is}", status.term))
            }
            None => Ok(()),
        }
    }
}
