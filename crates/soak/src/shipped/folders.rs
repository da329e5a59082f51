//! Folders that nobody may use, of the shipped engine only: an older copy of a node's own folder, and a copy of another
//! node's. Then entries that were acknowledged may be lost, as docs/cluster.md says, so most promises no longer hold. What
//! still holds is judged here:
//! - A node that follows a leader has no other state than the leader. If entries that it has applied are replaced, it ends.
//! - Of three nodes, a copy in place of another node and its original never lead in one term, while that other node is away.

use std::collections::BTreeMap;

use baton_server::raft::simulated::Loss;
use baton_store::fake::FakeDisk;

use super::super::clock::Micros;
use super::super::faults::{Fault, Partition, Which};
use super::super::model::{Leadership, NodeId};
use super::super::world::{MS, World, WorldEvent};
use super::Dying;
use super::courses::Course;
use super::operator::Work;

/// After healing, nodes have this long to find out what is wrong.
const FOUND_WITHIN: Micros = 15_000 * MS;

/// The pause before a folder is copied after all, if it could not be copied now.
const COPIES_AGAIN: Micros = 200 * MS;

/// What was done to folders in this run.
#[derive(Default)]
pub(super) struct Folders {
    backups: BTreeMap<NodeId, FakeDisk>,
    misuse: Option<Misuse>,
    /// A promise is broken that no longer holds. From now on there are only nodes and no clients.
    has_lost: bool,
}

enum Misuse {
    SetBack,
    /// The name and the folder that belong to the machine on which a copy runs.
    Copied {
        own: Option<(NodeId, String, FakeDisk)>,
    },
}

impl Folders {
    pub fn are_misused(&self) -> bool {
        self.misuse.is_some()
    }

    pub fn has_lost(&self) -> bool {
        self.has_lost
    }

    fn excuses(&self, why: &str) -> bool {
        match self.misuse {
            None => false,
            Some(_) if why.starts_with("a node panics") => false,
            // The node whose place the copy had may vote for the original in a term in which the copy has led.
            Some(Misuse::SetBack | Misuse::Copied { own: None }) => true,
            Some(Misuse::Copied { own: Some(_) }) => !why.contains(" lead in term "),
        }
    }
}

impl World {
    pub(super) fn plan_folders(&mut self, until: Micros) {
        let draw = self.rng.u8(..24);
        if draw > 2 || self.nodes.len() != 3 {
            return;
        }
        let at = self.rng.u64(1_500 * MS..until);
        let first = self.rng.usize(..3);
        let (node, other) = (first, (first + self.rng.usize(1..3)) % 3);
        let duration = self.rng.u64(100 * MS..2_500 * MS);
        if draw > 0 {
            // The copy of a leader, or of another node, may be elected while the original is cut off.
            let (of, duration) = (self.any_node(), self.rng.u64(100 * MS..3_000 * MS));
            return self.at(at, WorldEvent::Fault(Fault::Copy { of, duration }));
        }
        // One node misses what the other two have. Then one of these loses it, and the other one is cut off.
        let back_at = at + duration;
        let away = self.rng.u64(500 * MS..4_000 * MS);
        self.at(at, WorldEvent::Fault(Fault::Backup(node)));
        self.at(at, WorldEvent::Fault(Fault::Partition(Partition::Isolates(Which::Node(other)), duration)));
        self.at(back_at, WorldEvent::Fault(Fault::Partition(Partition::Isolates(Which::Node(3 - node - other)), away)));
        self.at(back_at, WorldEvent::Fault(Fault::SetBack(node)));
    }

    pub(in super::super) fn backup(&mut self, node: NodeId) {
        if let Some(shipped) = self.shipped.as_mut().filter(|shipped| shipped.works.is_empty()) {
            shipped.folders.backups.insert(node, shipped.seats[node].disk.copy());
        }
    }

    /// A node starts with an older copy of its folder. Later the operator replaces it.
    pub(in super::super) fn set_back(&mut self, node: NodeId) {
        let (down_for, operator_after) = (self.rng.u64(10 * MS..300 * MS), self.rng.u64(4_000 * MS..8_000 * MS));
        let Some(shipped) = self.shipped.as_mut().filter(|shipped| shipped.works.is_empty()) else { return };
        let Some(backup) = shipped.folders.backups.remove(&node).filter(|_| self.nodes[node].is_up) else { return };
        shipped.folders.misuse = Some(Misuse::SetBack);
        shipped.works.insert(node, Work::default());
        shipped.dying.insert(node, Dying { loss: Loss::Nothing, down_for, is_clean: false });
        self.kill(node);
        if let Some(shipped) = &mut self.shipped {
            shipped.effects.add("a folder is set back");
            shipped.seats[node].disk = backup;
        }
        self.after(operator_after, WorldEvent::Operate(node));
    }

    /// The node whose folder is copied, and the node in whose place the copy runs, if both run and the operator does nothing.
    fn copies(&mut self, of: Which) -> Option<(NodeId, NodeId)> {
        let of = self.which(of)?;
        let to = (of + self.rng.usize(1..self.nodes.len())) % self.nodes.len();
        let shipped = self.shipped.as_ref().filter(|shipped| shipped.works.is_empty())?;
        let runs = |node: NodeId| self.nodes[node].is_up && shipped.node(node).is_some();
        (runs(of) && runs(to)).then_some((of, to))
    }

    /// A machine starts with a copy of another node's folder and its name, in place of its own. The other node is cut off
    /// for a while.
    pub(in super::super) fn copy(&mut self, of: Which, duration: Micros) {
        if self.healed_at.is_some() || self.shipped.as_ref().is_none_or(|shipped| shipped.folders.are_misused()) {
            return;
        }
        let Some((of, to)) = self.copies(of) else {
            return self.after(COPIES_AGAIN, WorldEvent::Course(Course::Copies { of, duration }));
        };
        let (down_for, runs_for) = (self.rng.u64(1..300 * MS), self.rng.u64(3_000 * MS..8_000 * MS));
        let Some(shipped) = &mut self.shipped else { return };
        let copy = (shipped.seats[of].name.clone(), shipped.seats[of].disk.copy());
        shipped.dying.insert(to, Dying { loss: Loss::Nothing, down_for, is_clean: false });
        self.kill(to);
        if let Some(shipped) = &mut self.shipped {
            let seat = &mut shipped.seats[to];
            let name = std::mem::replace(&mut seat.name, copy.0);
            let disk = std::mem::replace(&mut seat.disk, copy.1);
            shipped.folders.misuse = Some(Misuse::Copied { own: Some((to, name, disk)) });
            shipped.effects.add("a copied folder runs");
        }
        let cut = Partition::Isolates(Which::Node(of));
        self.at(self.now, WorldEvent::Fault(Fault::Partition(cut, duration)));
        self.after(runs_for, WorldEvent::EndCopy);
    }

    /// The machine of a copy starts with its own folder again.
    pub(in super::super) fn end_copy(&mut self) {
        let Some(shipped) = &mut self.shipped else { return };
        let Some(Misuse::Copied { own }) = &mut shipped.folders.misuse else { return };
        let Some((node, name, disk)) = own.take() else { return };
        if self.nodes[node].is_up {
            self.kill(node);
        }
        if let Some(shipped) = &mut self.shipped {
            let seat = &mut shipped.seats[node];
            (seat.name, seat.disk) = (name, disk);
        }
    }

    pub(in super::super) fn has_lost_entries(&self) -> bool {
        self.shipped.as_ref().is_some_and(|shipped| shipped.folders.has_lost())
    }

    /// A promise is broken. It is no fault if the promise does not hold with such a folder.
    pub(in super::super) fn excuse(&mut self, why: String) -> Result<(), String> {
        let Some(shipped) = self.shipped.as_mut().filter(|shipped| shipped.folders.excuses(&why)) else {
            return Err(why);
        };
        shipped.folders.has_lost = true;
        self.tell(|| format!("a folder was misused, so: {why}"));
        Ok(())
    }

    /// True long after healing.
    pub(in super::super) fn is_found_out(&self) -> bool {
        self.healed_at.is_some_and(|healed_at| self.now > healed_at + FOUND_WITHIN)
    }

    /// A node that follows a leader has a state that the leader has, or had.
    pub(in super::super) fn judge_histories(&self) -> Result<(), String> {
        let Some(shipped) = &self.shipped else { return Ok(()) };
        for node in 0..self.nodes.len() {
            let Some(Leadership::DoesNotLead { term, leader: Some(leader) }) = shipped.leadership(node) else {
                continue;
            };
            let (Some(follows), Some(leads)) = (shipped.node(node), shipped.node(leader)) else { continue };
            if shipped.leadership(leader) != Some(Leadership::Leads { term }) {
                continue;
            }
            let (applied, theirs) = (follows.status().applied, leads.status().applied);
            if applied > leads.last_log() {
                return Err(format!(
                    "node {node} has applied entry {applied}, and follows node {leader}, whose last entry is {}",
                    leads.last_log()
                ));
            }
            if applied == theirs && follows.state() != leads.state() {
                return Err(format!("node {node} follows node {leader}, and has another state after entry {applied}"));
            }
        }
        Ok(())
    }
}
