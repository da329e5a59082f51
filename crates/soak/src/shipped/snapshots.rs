//! Faults while a snapshot is written or on its way, of the shipped engine only.

use std::time::Duration;

use baton_server::raft::Keep;
use baton_store::fake::Operation;

use super::super::clock::Micros;
use super::super::faults::{Fault, Which};
use super::super::model::NodeId;
use super::super::world::{MS, World, WorldEvent};
use super::courses::Course;
use super::{Heard, Shipped};

/// What happens to the next snapshot of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum AtSnapshot {
    /// It is of another node, and held on its way for so long.
    Held(Micros),
    /// The node dies, or the leader does, when the node has written so often to the snapshot. If it `is_received`, only a
    /// snapshot of another node counts.
    Dies { kills_leader: bool, is_received: bool, after: u32 },
}

impl World {
    /// A node misses much, so it needs a snapshot. The snapshot is late, or its sender or receiver dies.
    pub(super) fn plan_snapshot(&mut self, until: Micros) {
        if let Some(shipped) = &mut self.shipped {
            // Nodes soon have snapshots, and keep hardly any entries behind them.
            shipped.snapshot_after_bytes = 1 << 9;
            shipped.keep = Keep { newer_than: Duration::ZERO, bytes_max: 1 };
        }
        // Early, so that the snapshot comes before the healing.
        let (at, node) = (self.rng.u64(500 * MS..until / 2), self.rng.usize(..self.nodes.len()));
        let (away, duration) = (self.rng.u64(1_000 * MS..3_500 * MS), self.rng.u64(300 * MS..2_500 * MS));
        let (draw, after) = (self.rng.u8(..6), self.rng.u32(..3));
        let fault = match draw {
            0..3 => Fault::DieInSnapshot { node, kills_leader: draw > 0, is_received: true, after },
            _ => Fault::HoldSnapshot { node, duration },
        };
        self.at(at, WorldEvent::Fault(fault));
        let misses = match self.rng.bool() {
            true => Fault::Replace(Which::Node(node)),
            false => Fault::Restart { node: Which::Node(node), down_for: away, is_clean: false },
        };
        self.at(at, WorldEvent::Fault(misses));
    }

    /// The next snapshot that this node receives is late, although all that is sent later arrives. Its sender gives up waiting,
    /// and sends another one.
    pub(in super::super) fn hold_snapshot(&mut self, node: NodeId, duration: Micros) {
        self.at_snapshot(node, AtSnapshot::Held(duration));
    }

    pub(in super::super) fn die_in_snapshot(
        &mut self,
        node: NodeId,
        kills_leader: bool,
        is_received: bool,
        after: u32,
    ) {
        self.at_snapshot(node, AtSnapshot::Dies { kills_leader, is_received, after });
    }

    fn at_snapshot(&mut self, node: NodeId, what: AtSnapshot) {
        if let Some(shipped) = &mut self.shipped {
            shipped.at_snapshot.insert(node, what);
            shipped.wait_for_snapshot(node);
        }
    }

    /// A node has begun to receive a snapshot that is to be held.
    pub(super) fn receives(&mut self, node: NodeId, duration: Micros) {
        let lost_after = self.rng.u64(10 * MS..100 * MS);
        let Some((leader, shipped)) = self.leader().zip(self.shipped.as_mut()) else { return };
        shipped.at_snapshot.remove(&node);
        let network = shipped.simulation.network();
        let Some(connection) = network.newest(shipped.seats[leader].host, shipped.seats[node].host) else { return };
        network.hold(connection, Duration::from_micros(duration));
        self.after(lost_after, WorldEvent::Course(Course::Lost(connection)));
    }

    /// A node has written so often to a snapshot, so it dies, or the leader does.
    pub(super) fn dies_in_snapshot(&mut self, node: NodeId, is_received: bool, kills_leader: bool) {
        let dies = if kills_leader { self.shipped_leader() } else { Some(node) };
        let Some(shipped) = &mut self.shipped else { return };
        shipped.at_snapshot.remove(&node);
        let Some(dies) = dies.filter(|dies| self.nodes[*dies].is_up) else { return };
        shipped.effects.add(match (kills_leader, is_received) {
            (true, _) => "the leader dies while another node receives a snapshot",
            (false, true) => "a node dies while it receives a snapshot",
            (false, false) => "a node dies while it writes its snapshot",
        });
        self.kill(dies);
    }
}

impl Shipped {
    /// Waits for a snapshot of the node, if something is to happen to it. Each start of a node has another disk.
    pub(super) fn wait_for_snapshot(&self, node: NodeId) {
        let (Some(what), false) = (self.at_snapshot.get(&node).copied(), self.failing.contains(&node)) else { return };
        let (ears, mut writes) = (self.ears.clone(), 0);
        self.seats[node].disk.before_each(move |_, operation| {
            let name = operation.name().unwrap_or_default();
            let is_received = name.starts_with("snapshot-received-");
            let counts = match what {
                AtSnapshot::Held(_) => is_received && matches!(operation, Operation::Create(_)),
                AtSnapshot::Dies { is_received: must_be, .. } => {
                    is_received || (name.starts_with("snapshot-") && !must_be)
                }
            };
            writes += u32::from(counts);
            match what {
                AtSnapshot::Held(duration) if counts && writes == 1 => ears.tell(Heard::Receives { node, duration }),
                AtSnapshot::Dies { kills_leader, after, .. } if counts && writes == after + 1 => {
                    ears.tell(Heard::WritesSnapshot { node, is_received, kills_leader });
                }
                _ => {}
            }
            Ok(())
        });
    }
}
