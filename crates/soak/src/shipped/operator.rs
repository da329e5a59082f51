//! An operator who changes the members of the cluster, of the shipped engine only: takes nodes out, empties their folders
//! and adds them again. The operator repeats each command until it succeeds.

use baton_server::raft::simulated::{Flags, Loss};
use baton_server::replica::{ChangeError, MemberChange, Replica};
use baton_store::fake::FakeDisk;

use super::super::clock::Micros;
use super::super::faults::{Fault, Partition, Which};
use super::super::model::NodeId;
use super::super::world::{MS, World, WorldEvent};
use super::{Dying, Heard};

/// The pause before a command that was refused is repeated, at least and at most. Two commands in step might refuse each
/// other for ever.
const AGAIN: (Micros, Micros) = (300 * MS, 1_500 * MS);

/// What the operator has to do for a node, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    #[default]
    Remove,
    Add,
    Promote,
}

/// A node that is to come back with an empty folder.
#[derive(Default)]
pub(super) struct Work {
    pub step: Step,
    asked: Option<Asked>,
}

/// A command that has no answer yet.
#[derive(Clone, Copy)]
struct Asked {
    number: u64,
    leader: NodeId,
    life: u32,
    /// Which life of the node the command is about, and whether it was there.
    about: (u32, bool),
    /// The leader counts the node as a voter already: an earlier promotion was made, although its answer was lost.
    is_voter: bool,
    /// All entries up to this one were applied somewhere before.
    since: u64,
}

impl World {
    /// The operator takes a node out, empties its folder, and adds it again.
    pub(in super::super) fn replace(&mut self, node: NodeId) {
        let Some(shipped) = &mut self.shipped else { return };
        if self.nodes.len() > 1 && !shipped.works.contains_key(&node) {
            shipped.works.insert(node, Work::default());
            self.after(0, WorldEvent::Operate(node));
        }
    }

    /// The folder of a voter is lost while it is a member. It comes back with an empty one, as a node of the same list or as
    /// a node that joins. All others must have theirs, and no change of members may be half made: then nothing that was
    /// acknowledged is lost, and the others can go on.
    pub(in super::super) fn wipe(&mut self, node: NodeId, joins: bool) -> Result<(), String> {
        let down_for = self.rng.u64(10 * MS..1_500 * MS);
        let operator_after = self.rng.u64(..2_000 * MS);
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        let Some(id) = shipped.node(node).map(|node| node.id()) else { return Ok(()) };
        let all = 0..self.nodes.len();
        let is_settled = shipped.works.is_empty()
            && all.clone().filter_map(|node| shipped.node(node)).all(|running| !running.is_changing());
        // A node that has just begun the cluster may be the only one that knows of it.
        let knows = |other: NodeId| shipped.node(other).is_some_and(|other| other.knows(id) == Some(true));
        let has_cluster = all.clone().filter(|other| *other != node).all(knows);
        if self.nodes.len() < 3 || !is_settled || !has_cluster || !self.nodes[node].is_up {
            return Ok(());
        }
        shipped.works.insert(node, Work::default());
        shipped.dying.insert(node, Dying { loss: Loss::Nothing, down_for, is_clean: false });
        self.kill(node);
        self.empty(node, joins);
        self.takes_effect(match joins {
            true => "a member loses its folder and joins",
            false => "a member loses its folder and begins with the list",
        });
        self.after(operator_after, WorldEvent::Operate(node));
        Ok(())
    }

    /// The node, which does not run, starts next time with an empty folder.
    fn empty(&mut self, node: NodeId, joins: bool) {
        let how = if joins { "joins" } else { "begins with the list" };
        self.tell(|| format!("operator: the folder of node {node} is empty; it {how}"));
        let Some(shipped) = &mut self.shipped else { return };
        let ids = shipped.ids.iter().filter(|(_, at)| **at == node).map(|(id, _)| *id);
        shipped.electorates.lose(node, ids);
        shipped.seats[node].disk = FakeDisk::default();
        shipped.emptied.insert(node);
        let list: Vec<(String, String)> = shipped.seats.iter().map(|seat| seat.in_list()).collect();
        let other = list[(node + 1) % list.len()].1.clone();
        shipped.flags[node] = if joins { Flags::Join(other) } else { Flags::Cluster(list) };
    }

    /// The operator gives the next command, unless the last one may still be answered.
    pub(in super::super) fn operate(&mut self, node: NodeId) {
        let leader = self.shipped_leader();
        if !self.shipped.as_ref().is_some_and(|shipped| shipped.works.contains_key(&node)) {
            return;
        }
        let pause = self.rng.u64(AGAIN.0..AGAIN.1);
        self.after(pause, WorldEvent::Operate(node));
        let Some(shipped) = &mut self.shipped else { return };
        let since = shipped.judged.keys().next_back().copied().unwrap_or(0);
        let Some(leader) = leader else { return };
        let counts = |id: u64| shipped.node(leader).is_some_and(|leader| leader.knows(id) == Some(true));
        let is_voter = shipped.ids.iter().any(|(id, at)| *at == node && counts(*id));
        let Some(work) = shipped.works.get_mut(&node) else { return };
        let is_there = |at: NodeId, life: u32| self.nodes[at].is_up && self.nodes[at].life == life;
        if work.asked.is_some_and(|asked| is_there(asked.leader, asked.life)) {
            return;
        }
        shipped.asks += 1;
        let (number, life, step) = (shipped.asks, self.nodes[leader].life, work.step);
        let about = (self.nodes[node].life, self.nodes[node].is_up && self.nodes[node].paused.is_none());
        work.asked = Some(Asked { number, leader, life, about, is_voter, since });
        let name = shipped.seats[node].name.clone();
        let change = match step {
            Step::Remove => MemberChange::Remove { member: name },
            Step::Add => MemberChange::Add { name },
            Step::Promote => MemberChange::Promote { member: name },
        };
        let (Some(running), ears) = (shipped.node(leader), shipped.ears.clone()) else { return };
        shipped.spawn(leader, async move {
            let changed = Replica::change_members(&*running, change).await.map(drop);
            ears.tell(Heard::Changed { node, number, changed });
        });
    }

    pub(super) fn changed(
        &mut self,
        node: NodeId,
        number: u64,
        changed: Result<(), ChangeError>,
    ) -> Result<(), String> {
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        let Some(work) = shipped.works.get_mut(&node) else { return Ok(()) };
        let Some(asked) = work.asked.take_if(|asked| asked.number == number) else { return Ok(()) };
        let step = work.step;
        self.tell_changed(node, step, &changed);
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        // The leader may have made the change in an earlier answer that was lost.
        let added = shipped.node(node).and_then(|joins| shipped.node(asked.leader)?.knows(joins.id()));
        if changed.is_ok() {
            shipped.effects.add(match step {
                Step::Remove => "a member is removed",
                Step::Add => "a member is added",
                Step::Promote => "a member is promoted",
            });
        }
        let step = match (step, changed) {
            (Step::Remove, Ok(())) => {
                if self.nodes[node].is_up {
                    self.kill(node);
                }
                self.empty(node, true);
                Some(Step::Add)
            }
            (Step::Add, Ok(())) => {
                self.disturb_learner(node);
                Some(Step::Promote)
            }
            (Step::Add, Err(_)) if added.is_some() => Some(Step::Promote),
            (Step::Promote, Ok(())) => {
                self.judge_promotion(node, asked)?;
                None
            }
            (step, Err(_)) => Some(step),
        };
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        match (step, shipped.works.get_mut(&node)) {
            (Some(step), Some(work)) => work.step = step,
            (None, _) => drop(shipped.works.remove(&node)),
            _ => {}
        }
        Ok(())
    }

    /// Sometimes a learner cannot be reached just when it is to become a voter.
    fn disturb_learner(&mut self, node: NodeId) {
        if self.healed_at.is_some() || self.rng.u8(..4) == 0 {
            return;
        }
        let (at, duration) = (self.now + self.rng.u64(..500 * MS), self.rng.u64(500 * MS..2_500 * MS));
        let fault = match self.rng.bool() {
            true => Fault::Restart { node: Which::Node(node), down_for: duration, is_clean: false },
            false => Fault::Partition(Partition::Isolates(Which::Node(node)), duration),
        };
        self.takes_effect("a learner is disturbed");
        self.at(at, WorldEvent::Fault(fault));
    }

    /// A learner becomes a voter only if it answers after the command, and has all entries of that moment.
    fn judge_promotion(&self, node: NodeId, asked: Asked) -> Result<(), String> {
        let Some(shipped) = &self.shipped else { return Ok(()) };
        let (life, was_there) = asked.about;
        if asked.is_voter || self.nodes[node].life != life {
            return Ok(());
        }
        shipped.effects.add("a promotion is judged");
        match shipped.node(node).filter(|_| self.nodes[node].is_up) {
            Some(running) if running.last_log() < asked.since => Err(format!(
                "node {node} is a voter with entries up to {}, and entry {} was applied before it was promoted",
                running.last_log(),
                asked.since
            )),
            None if !was_there => Err(format!("node {node} was promoted, and was down all the time")),
            _ => Ok(()),
        }
    }

    fn tell_changed(&mut self, node: NodeId, step: Step, changed: &Result<(), ChangeError>) {
        self.tell(|| match changed {
            Ok(()) => format!("operator: {step:?} node {node}: done"),
            Err(why) => format!("operator: {step:?} node {node}: {why}"),
        });
    }

    pub(in super::super) fn replace_which(&mut self, which: Which) {
        if let Some(node) = self.which(which) {
            self.replace(node);
        }
    }

    /// True if the operator has finished.
    pub(in super::super) fn has_all_members(&self) -> bool {
        self.shipped.as_ref().is_none_or(|shipped| shipped.works.is_empty())
    }

    pub(in super::super) fn works_left(&self) -> String {
        let works = self.shipped.iter().flat_map(|shipped| &shipped.works);
        works.map(|(node, work)| format!("; the operator cannot {:?} node {node}", work.step)).collect()
    }
}
