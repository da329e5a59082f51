//! Faults in an order that has broken a cluster once, of the shipped engine only. Faults that are drawn one by one hardly
//! ever meet in such an order.

use baton_runtime::simulation::Connection;

use super::super::clock::Micros;
use super::super::faults::{Fault, Which};
use super::super::model::NodeId;
use super::super::world::{MS, World, WorldEvent};
use super::Shipped;

/// How often it is seen whether another node leads, and how many times at most.
const LOOK_EVERY: Micros = 5 * MS;
const LOOKS_MAX: u32 = 800;
/// The old leader hears the next node within this time, and the others hear the old leader after that.
const NEXT_AFTER: Micros = 100 * MS;
const ALL_AFTER: Micros = 700 * MS;

/// How often it is seen whether a majority has unsynced bytes, and how many times at most.
const UNSYNCED_LOOK_EVERY: Micros = MS / 5;
const UNSYNCED_LOOKS_MAX: u32 = 5_000;

/// The clients propose nothing within this time after the old leader is muted.
const CLIENTS_PAUSE: Micros = 1_500 * MS;

/// What happens next in a course.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Course {
    /// Nobody hears this node any more. It has heard nobody for a moment.
    Mute(Old),
    /// Another node leads soon, and applies entries. `before`: how many were applied when it began to lead.
    Awaits { old: Old, before: Option<u64>, looks: u32 },
    /// A node hears another one again, and at once all that was held.
    Hears { to: NodeId, from: NodeId },
    /// A folder is copied, as soon as it can be.
    Copies { of: Which, duration: Micros },
    /// The power of all nodes is cut as soon as a majority of them has unsynced bytes.
    CutsPower { looks: u32 },
    /// A snapshot is on its way on this connection, and its sender loses it. Its receiver does not notice.
    Lost(Connection),
}

/// A life of a node that has led.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Old {
    node: NodeId,
    life: u32,
}

impl World {
    pub(super) fn plan_courses(&mut self, until: Micros) {
        if self.nodes.len() < 2 {
            return;
        }
        if self.nodes.len() > 2 && self.rng.u8(..3) == 0 {
            let at = self.rng.u64(1_000 * MS..until);
            self.at(at, WorldEvent::Fault(Fault::HoldAnswers));
        }
        if self.rng.u8(..3) == 0 {
            self.plan_snapshot(until);
        }
        if self.rng.u8(..8) == 0 {
            let at = self.rng.u64(1_000 * MS..until);
            self.at(at, WorldEvent::Course(Course::CutsPower { looks: 0 }));
        }
    }

    /// The answers of all other nodes to the leader are held, and a moment later nobody hears it. When another node leads, the
    /// old leader begins a round, and only then hears the old answers, one after the other.
    pub(in super::super) fn hold_answers(&mut self) {
        let Some(node) = self.leader().filter(|_| self.nodes.len() > 2) else { return };
        let links: Vec<_> = self.others(node).map(|other| (other, node)).collect();
        self.cut_links(&links, LOOKS_MAX as Micros * LOOK_EVERY);
        let (lock, muted_after) = (self.rng.usize(..self.locks.len()), self.rng.u64(10 * MS..40 * MS));
        let proposed_after = self.rng.u64(..4 * MS);
        // Something is proposed, and the others get it, so that there are answers.
        self.after(proposed_after, WorldEvent::Fault(Fault::Force { lock, now: false }));
        let old = Old { node, life: self.nodes[node].life };
        self.after(muted_after, WorldEvent::Course(Course::Mute(old)));
    }

    fn others(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).filter(move |other| *other != node)
    }

    pub(in super::super) fn goes_on(&mut self, course: Course) {
        match course {
            Course::Mute(old) => {
                let links: Vec<_> = self.others(old.node).map(|other| (old.node, other)).collect();
                self.cut_links(&links, LOOKS_MAX as Micros * LOOK_EVERY);
                // What they propose now would come behind the answers that are held: then no later append is like an earlier one.
                for client in 0..self.clients.len() {
                    self.after(0, WorldEvent::Fault(Fault::PauseClient(client, CLIENTS_PAUSE)));
                }
                let awaits = Course::Awaits { old, before: None, looks: 0 };
                self.after(LOOK_EVERY, WorldEvent::Course(awaits));
            }
            Course::Awaits { old, before, looks } => self.awaits(old, before, looks),
            Course::Hears { to, from } => {
                self.links.join(&[(from, to)]);
                if let Some(shipped) = &self.shipped {
                    shipped.simulation.network().release(shipped.seats[from].host, shipped.seats[to].host);
                }
            }
            Course::Copies { of, duration } => self.copy(of, duration),
            Course::CutsPower { looks } => self.cuts_power(looks),
            Course::Lost(connection) => {
                if let Some(shipped) = &self.shipped {
                    shipped.simulation.network().break_after(connection, false, 0, true);
                }
            }
        }
    }

    fn cuts_power(&mut self, looks: u32) {
        let is_mostly_unsynced = self.shipped.as_ref().is_some_and(Shipped::is_mostly_unsynced);
        if self.healed_at.is_some() || looks == UNSYNCED_LOOKS_MAX {
            return;
        }
        match is_mostly_unsynced {
            true => self.power_cut(),
            false => self.after(UNSYNCED_LOOK_EVERY, WorldEvent::Course(Course::CutsPower { looks: looks + 1 })),
        }
    }

    fn awaits(&mut self, old: Old, before: Option<u64>, looks: u32) {
        let has_other = self.leader().is_some_and(|leader| leader != old.node);
        let is_there = self.nodes[old.node].is_up && self.nodes[old.node].life == old.life && self.healed_at.is_none();
        let before = before.or_else(|| has_other.then_some(self.entries));
        let has_applied = before.is_some_and(|before| self.entries > before);
        if is_there && !has_applied && looks < LOOKS_MAX {
            let awaits = Course::Awaits { old, before, looks: looks + 1 };
            return self.after(LOOK_EVERY, WorldEvent::Course(awaits));
        }
        if is_there && has_applied {
            self.takes_effect("a leader hears held answers after another node leads");
            self.read_at(old.node);
        }
        let mut others: Vec<NodeId> = self.others(old.node).collect();
        self.rng.shuffle(&mut others);
        let mut delay = 0;
        for from in others {
            // Meanwhile the old leader sends what it has learnt from the answers before.
            delay += self.rng.u64(MS..NEXT_AFTER);
            self.after(delay, WorldEvent::Course(Course::Hears { to: old.node, from }));
            self.after(ALL_AFTER, WorldEvent::Course(Course::Hears { to: from, from: old.node }));
        }
    }
}
