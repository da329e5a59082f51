//! The faults of the shipped engine.

use std::io;
use std::time::Duration;

use baton_runtime::simulation::HostId;
use baton_runtime::timeout;
use baton_server::raft::Node;
use baton_server::raft::simulated::Loss;
use baton_server::replica::{MemberChange, Replica};
use baton_state::state::SessionId;

use super::super::clock::Micros;
use super::super::faults::{Fault, Partition, Which};
use super::super::model::NodeId;
use super::super::world::{MS, World, WorldEvent};
use super::{Calm, DELAYS, DISK, Dying, Heard, Shipped, Step};

/// A node that is about to die does so within this time.
const DIES_WITHIN: Micros = 300 * MS;
/// A node that stops as it is told needs at most this long.
const STOPS_WITHIN: Micros = 3_000 * MS;
/// In a run with slow disks only: when they become slow, how slow, and when they recover.
const CALM_FROM: Micros = 4_000 * MS;
const SLOW_MAX: Duration = Duration::from_millis(1_000);
const CALM_UNTIL: Micros = 12_000 * MS;
/// The host gives the handing over this long.
const HAND_OVER_MAX: Duration = Duration::from_secs(1);

impl Shipped {
    /// True if a majority of the nodes has bytes that are not synced.
    pub(super) fn is_mostly_unsynced(&self) -> bool {
        2 * self.seats.iter().filter(|seat| seat.disk.unsynced() > 0).count() > self.seats.len()
    }
}

impl World {
    pub(in super::super) fn plan_shipped_faults(&mut self, until: Micros) {
        if self.shipped.is_none() {
            return;
        }
        self.plan_operator(until);
        self.plan_folders(until);
        self.plan_old_answers(until);
        self.plan_courses(until);
        for _ in 0..self.rng.usize(..7) {
            let at = self.rng.u64(200 * MS..until);
            let node = if self.rng.bool() { Which::Leader } else { Which::Node(self.rng.usize(..self.nodes.len())) };
            let fault = match self.rng.u8(..10) {
                0 => Fault::PowerCut,
                1 => {
                    let (node, duration) = (self.rng.usize(..self.nodes.len()), self.rng.u64(100 * MS..2_000 * MS));
                    // Much is not on disk yet when it dies.
                    if self.rng.bool() {
                        let (dies_at, down_for) = (at + self.rng.u64(..duration), self.rng.u64(10 * MS..500 * MS));
                        let dies = Fault::Restart { node: Which::Node(node), down_for, is_clean: false };
                        self.at(dies_at, WorldEvent::Fault(dies));
                    }
                    Fault::SlowDisk(node, duration)
                }
                2 => Fault::FailDisk(node),
                3 | 9 => {
                    let (node, kills_leader) = (self.rng.usize(..self.nodes.len()), self.rng.bool());
                    let after = self.rng.u32(..6);
                    Fault::DieInSnapshot { node, kills_leader, is_received: kills_leader, after }
                }
                4 | 5 => {
                    let down_for = self.rng.u64(10 * MS..1_500 * MS);
                    Fault::Restart { node, down_for, is_clean: self.rng.u8(..4) == 0 }
                }
                _ => Fault::BreakLink { bytes: self.rng.usize(..2_000), one_way: self.rng.bool() },
            };
            self.at(at, WorldEvent::Fault(fault));
        }
    }

    /// The leader hears nothing, and a little later nobody hears it. Then it hears the old answers, while another node leads.
    fn plan_old_answers(&mut self, until: Micros) {
        if self.nodes.len() < 3 || self.rng.u8(..4) > 0 {
            return;
        }
        let (at, later) = (self.rng.u64(500 * MS..until), self.rng.u64(MS..300 * MS));
        let (deaf, more) = (self.rng.u64(300 * MS..3_000 * MS), self.rng.u64(100 * MS..2_000 * MS));
        let (deafens, mutes) = (Partition::Deafens(Which::Leader), Partition::Mutes(Which::Leader));
        self.at(at, WorldEvent::Fault(Fault::Partition(deafens, deaf)));
        self.at(at + later, WorldEvent::Fault(Fault::Partition(mutes, deaf + more)));
    }

    fn plan_operator(&mut self, until: Micros) {
        let any = |world: &mut World| world.rng.usize(..world.nodes.len());
        if self.rng.u8(..3) == 0 {
            let (at, node) = (self.rng.u64(200 * MS..until), any(self));
            let which = if self.rng.bool() { Which::Leader } else { Which::Node(node) };
            self.at(at, WorldEvent::Fault(Fault::Replace(which)));
        }
        if self.rng.u8(..3) == 0 {
            let (at, node, joins) = (self.rng.u64(200 * MS..until), any(self), self.rng.bool());
            self.at(at, WorldEvent::Fault(Fault::Wipe { node, joins }));
            // The operator takes out a node just after another one was lost.
            if self.rng.bool() {
                let (at, node) = (at + self.rng.u64(..1_500 * MS), any(self));
                self.at(at, WorldEvent::Fault(Fault::Replace(Which::Node(node))));
            }
        }
    }

    /// A run without other faults than slow disks, or than one node that is cut off. True if this is one.
    pub(in super::super) fn plan_calm(&mut self) -> bool {
        if self.shipped.as_ref().is_none_or(|shipped| shipped.calm == Calm::No) {
            return false;
        }
        if self.nodes.len() > 2 && self.rng.bool() {
            self.plan_minority();
            return true;
        }
        self.at(CALM_FROM, WorldEvent::Fault(Fault::SlowDisks));
        self.at(CALM_UNTIL, WorldEvent::Heal);
        true
    }

    /// The disks of all nodes are slow from now on, under a leader that was elected before.
    pub(in super::super) fn slow_disks(&mut self) {
        let least = Duration::from_micros(self.rng.u64(100 * MS..1_000 * MS));
        let leads = self.shipped_leader().and_then(|leader| Some((leader, self.nodes[leader].leads_in?)));
        let entries = Some(self.entries);
        self.at(CALM_UNTIL - MS, WorldEvent::MajorityLeads { entries });
        let (Some((node, term)), Some(shipped)) = (leads, &mut self.shipped) else { return };
        shipped.calm = Calm::SlowDisks { node, term };
        shipped.effects.add("all disks are slow under a leader");
        shipped.seats.iter().for_each(|seat| shipped.simulation.set_disk(seat.host, least, SLOW_MAX));
    }

    /// A session of a client expires.
    pub(in super::super) fn judge_expiry(&self, session: SessionId) -> Result<(), String> {
        match self.shipped.as_ref().map(|shipped| shipped.calm) {
            Some(Calm::SlowDisks { .. }) => Err(format!("{session:?} expires because disks are slow")),
            _ => Ok(()),
        }
    }

    /// A node begins to lead.
    pub(super) fn leads_after(&self, node: NodeId, term: u64) {
        let Some(shipped) = &self.shipped else { return };
        let before = self.leaders.range(..term).next_back().map(|(_, before)| *before);
        let Some(before) = before.filter(|before| *before != node && self.nodes[*before].is_up) else { return };
        if self.nodes[before].paused.is_some() {
            shipped.effects.add("a paused leader is replaced");
        } else if shipped.full.contains(&before) {
            shipped.effects.add("a leader with a full disk is replaced");
        }
    }

    pub(in super::super) fn restart_shipped(
        &mut self,
        node: NodeId,
        down_for: Micros,
        is_clean: bool,
    ) -> Result<(), String> {
        let is_paused = self.nodes[node].paused.is_some();
        let (polls, cuts_power, seed) = (self.rng.u64(1..300), self.rng.bool(), self.rng.u64(..8));
        let life = self.nodes[node].life;
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        let loss = if cuts_power && !is_clean { Loss::Unsynced(seed) } else { Loss::Nothing };
        if shipped.dying.contains_key(&node) {
            return Ok(());
        }
        shipped.dying.insert(node, Dying { loss, down_for, is_clean });
        let running = shipped.node(node);
        let Some(running) = running.filter(|_| is_clean && !is_paused) else {
            shipped.simulation.stop_after(shipped.seats[node].host, polls);
            self.after(DIES_WITHIN, WorldEvent::Kill { node, life });
            return Ok(());
        };
        let ears = shipped.ears.clone();
        shipped.spawn(node, async move {
            // It takes over or it does not: the process ends all the same.
            let _ = timeout(HAND_OVER_MAX, Replica::hand_over(&*running)).await;
            running.shutdown().await;
            ears.tell(Heard::Down { node, life });
        });
        self.after(STOPS_WITHIN, WorldEvent::Kill { node, life });
        self.nodes[node].frontend.stop();
        self.carry_out_at(node)
    }

    pub(in super::super) fn dies(&mut self, node: NodeId, life: u32) -> Result<(), String> {
        if self.is_this(node, life) {
            self.kill(node);
        }
        Ok(())
    }

    /// Ends the process of a node, wherever its tasks wait.
    pub(super) fn kill(&mut self, node: NodeId) {
        let Some(shipped) = &mut self.shipped else { return };
        let loss = if self.rng.bool() { Loss::Unsynced(self.rng.u64(..8)) } else { Loss::Nothing };
        let usual = Dying { loss, down_for: self.rng.u64(100 * MS..2_000 * MS), is_clean: false };
        let Dying { loss, down_for, .. } = shipped.dying.remove(&node).unwrap_or(usual);
        let seat = &mut shipped.seats[node];
        seat.disk.ask_no_more();
        let unsynced = if let Loss::Unsynced(_) = loss { seat.disk.unsynced() } else { 0 };
        let nothing_survives = seat.disk.after_power_cut(0);
        seat.kill(&shipped.simulation, loss);
        if unsynced > 0 {
            shipped.effects.add("a node dies with unsynced bytes");
            if !seat.disk.has_the_files_of(&nothing_survives) {
                shipped.effects.add("pieces of unsynced bytes survive");
            }
        }
        if shipped.slow.contains(&node) {
            shipped.effects.add("a node dies while its disk is slow");
        }
        if shipped.judged.is_empty() {
            shipped.effects.add("a node dies before the cluster begins");
        }
        shipped.failing.remove(&node);
        self.tell(|| format!("node {node} is down: {loss:?}"));
        self.goes_down(node, down_for);
    }

    /// A node has reached the poll at which it dies, or wants to end.
    pub(super) fn stopped(&mut self, host: HostId) -> Result<(), String> {
        let Some(shipped) = &mut self.shipped else { return Ok(()) };
        let Some(node) = shipped.place(host) else { return Ok(()) };
        if let Some(why) = shipped.seats[node].ended() {
            let is_told = shipped.dying.get(&node).is_some_and(|dying| dying.is_clean);
            // A node that is no member, or has lost its folder, may say so and end.
            let is_out = shipped.works.get(&node).is_some_and(|work| work.step != Step::Promote);
            let may_end = is_told || is_out || shipped.folders.are_misused() || shipped.failing.contains(&node);
            if !may_end {
                return Err(format!("node {node} ends by itself: {why}"));
            }
            if shipped.failing.contains(&node) {
                shipped.effects.add("a node ends because its disk fails");
            } else if shipped.folders.are_misused() && !is_told && !is_out {
                shipped.effects.add("a process ends because of a misused folder");
            }
            self.tell(|| format!("node {node} ends: {why}"));
        } else if shipped.dying.contains_key(&node) {
            shipped.effects.add("a node dies at a poll");
        }
        self.kill(node);
        Ok(())
    }

    /// The power of all nodes is cut at once.
    pub(in super::super) fn power_cut(&mut self) {
        if let Some(shipped) = self.shipped.as_ref().filter(|_| self.nodes.iter().all(|node| node.is_up)) {
            shipped.effects.add("all nodes die at once");
            if shipped.is_mostly_unsynced() {
                shipped.effects.add("a majority dies at once with unsynced bytes");
            }
        }
        for node in 0..self.nodes.len() {
            if !self.nodes[node].is_up {
                continue;
            }
            let (seed, down_for) = (self.rng.u64(..8), self.rng.u64(10 * MS..1_500 * MS));
            if let Some(shipped) = &mut self.shipped {
                shipped.dying.insert(node, Dying { loss: Loss::Unsynced(seed), down_for, is_clean: false });
            }
            self.kill(node);
        }
    }

    pub(in super::super) fn slow_disk(&mut self, node: NodeId, duration: Micros) {
        let slow = Duration::from_micros(self.rng.u64(10 * MS..1_000 * MS));
        let is_up = self.nodes[node].is_up;
        if let Some(shipped) = &mut self.shipped {
            shipped.simulation.set_disk(shipped.seats[node].host, DISK.0, slow);
            shipped.slow.insert(node);
            if is_up {
                shipped.effects.add("a disk is slow");
            }
        }
        self.after(duration, WorldEvent::DiskRecovers(node));
    }

    /// What is wrong with the disk of a node, if anything is.
    pub(in super::super) fn bad_disk(&self, node: NodeId) -> Option<&'static str> {
        let shipped = self.shipped.as_ref()?;
        let slows = matches!(shipped.calm, Calm::SlowDisks { .. }) || shipped.slow.contains(&node);
        match (shipped.failing.contains(&node), shipped.full.contains(&node)) {
            (true, _) => Some("the disk fails"),
            (false, true) => Some("the disk is full"),
            (false, false) => slows.then_some("the disk is slow"),
        }
    }

    pub(in super::super) fn disk_recovers(&mut self, node: NodeId) {
        if let Some(shipped) = &mut self.shipped {
            shipped.simulation.set_disk(shipped.seats[node].host, DISK.0, DISK.1);
            shipped.slow.remove(&node);
        }
    }

    /// One operation of a disk fails, and all after it. A node that notices ends. The disk works again when the node starts
    /// again.
    pub(in super::super) fn fail_disk(&mut self, node: Option<NodeId>) {
        let spared = self.rng.u64(..20);
        let Some((node, shipped)) = node.filter(|node| self.nodes[*node].is_up).zip(self.shipped.as_mut()) else {
            return;
        };
        shipped.failing.insert(node);
        let (mut left, effects) = (spared, shipped.effects.clone());
        shipped.seats[node].disk.before_each(move |_, _| {
            left = left.saturating_sub(1);
            if left > 0 {
                return Ok(());
            }
            effects.add("an operation of a disk fails");
            Err(io::Error::other("the disk fails"))
        });
        let life = self.nodes[node].life;
        self.after(STOPS_WITHIN, WorldEvent::Kill { node, life });
    }

    pub(in super::super) fn set_disk_full(&mut self, node: NodeId, is_full: bool) {
        if let Some(shipped) = &mut self.shipped {
            shipped.seats[node].disk.set_full(is_full);
            match is_full {
                true => shipped.full.insert(node),
                false => shipped.full.remove(&node),
            };
        }
    }

    pub(in super::super) fn break_link(&mut self, bytes: usize, one_way: bool) {
        let Some(shipped) = &self.shipped else { return };
        let connections = shipped.simulation.network().connections();
        if !connections.is_empty() {
            let connection = connections[self.rng.usize(..connections.len())];
            shipped.simulation.network().break_after(connection, self.rng.bool(), bytes, one_way);
        }
    }

    /// The leader asks this node to lead.
    pub(in super::super) fn transfer_to(&mut self, to: NodeId) {
        let Some((leader, shipped)) = self.shipped_leader().zip(self.shipped.as_ref()) else { return };
        let member = shipped.seats[to].name.clone();
        let (Some(running), effects) = (shipped.node(leader), shipped.effects.clone()) else { return };
        shipped.spawn(leader, async move {
            // It may be refused.
            if running.change_members(MemberChange::Transfer { member }).await.is_ok() {
                effects.add("another node leads after a transfer");
            }
        });
    }

    pub(in super::super) fn hand_over_shipped(&mut self) {
        let Some((leader, shipped)) = self.shipped_leader().zip(self.shipped.as_ref()) else { return };
        let Some(running) = shipped.node(leader) else { return };
        shipped.spawn(leader, async move { Replica::hand_over(&*running as &Node).await });
    }

    pub(in super::super) fn pause_shipped(&mut self, node: NodeId) {
        if let Some(shipped) = &self.shipped {
            shipped.simulation.pause(shipped.seats[node].host);
            shipped.effects.add("a node is paused");
        }
    }

    pub(in super::super) fn resume_shipped(&mut self, node: NodeId) {
        if let Some(shipped) = &self.shipped {
            shipped.simulation.resume(shipped.seats[node].host);
        }
    }

    pub(in super::super) fn cut_shipped(&mut self, links: &[(NodeId, NodeId)]) {
        let Some(shipped) = &self.shipped else { return };
        let host = |node: NodeId| shipped.seats[node].host;
        links.iter().for_each(|(from, to)| shipped.simulation.network().cut(host(*from), host(*to)));
    }

    pub(in super::super) fn join_shipped(&mut self, links: &[(NodeId, NodeId)]) {
        let Some(shipped) = &self.shipped else { return };
        let host = |node: NodeId| shipped.seats[node].host;
        links.iter().for_each(|(from, to)| shipped.simulation.network().join(host(*from), host(*to)));
    }

    pub(in super::super) fn heal_shipped(&mut self) {
        for node in 0..self.nodes.len() {
            self.disk_recovers(node);
        }
        if let Some(shipped) = &mut self.shipped {
            if shipped.calm != Calm::No {
                shipped.calm = Calm::Before;
            }
            // No node dies in a snapshot any more, and no snapshot is held. A disk that has failed stays so.
            shipped.at_snapshot.clear();
            let seats = shipped.seats.iter().enumerate().filter(|(node, _)| !shipped.failing.contains(node));
            seats.for_each(|(_, seat)| seat.disk.ask_no_more());
            shipped.simulation.network().heal();
            shipped.simulation.network().set_delays(DELAYS.0, DELAYS.0);
        }
        if self.drifted_ms() >= 10 {
            self.takes_effect("clocks drift 10 ms apart");
        }
    }

    /// How far the clocks of nodes have drifted apart since the beginning.
    fn drifted_ms(&self) -> u64 {
        let passed = self.nodes.iter().map(|node| node.clock.read_ms(self.now) - node.clock.read_ms(0));
        let (least, most) = passed.fold((u64::MAX, 0), |(least, most), passed| (least.min(passed), most.max(passed)));
        most.saturating_sub(least)
    }
}
