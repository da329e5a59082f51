//! A run whose only fault is that one node is cut off from all others: it hears nothing, or is not heard, or both. The
//! others are a majority, so one of them leads soon, and clients are served.

use super::super::clock::Micros;
use super::super::faults::{Fault, Partition, Which};
use super::super::model::NodeId;
use super::super::world::{MS, World, WorldEvent};
use super::Calm;

const CUT_AT: Micros = 4_000 * MS;
/// Within this time after the cut, one of the others leads.
const LED_WITHIN: Micros = 6_000 * MS;
/// Within this time after that, an entry is applied.
const SERVED_WITHIN: Micros = 3_000 * MS;

impl World {
    /// Plans the cut. The node that leads is cut off as often as another one.
    pub(super) fn plan_minority(&mut self) {
        let duration = LED_WITHIN + SERVED_WITHIN;
        // A front end that hears late that its node leads is another fault.
        self.has_slow_watches = false;
        let which = if self.rng.bool() { Which::Leader } else { Which::Node(self.rng.usize(..self.nodes.len())) };
        let how = self.rng.u8(..3);
        self.at(CUT_AT, WorldEvent::CutOff { which, how, duration });
        self.at(CUT_AT + duration + MS, WorldEvent::Heal);
    }

    pub(in super::super) fn cut_off(&mut self, which: Which, how: u8, duration: Micros) -> Result<(), String> {
        let Some(node) = self.which(which) else { return Err("no node leads without any fault".to_owned()) };
        let which = Which::Node(node);
        let partition = match how {
            0 => Partition::Isolates(which),
            1 => Partition::Deafens(which),
            _ => Partition::Mutes(which),
        };
        if let Some(shipped) = &mut self.shipped {
            shipped.calm = Calm::CutOff { node };
            shipped.effects.add("a majority goes on without a node");
        }
        self.after(LED_WITHIN, WorldEvent::MajorityLeads { entries: None });
        self.strike(Fault::Partition(partition, duration))
    }

    /// Some time after the cut, and then again.
    pub(in super::super) fn judge_majority(&mut self, before: Option<u64>) -> Result<(), String> {
        let node = match self.shipped.as_ref().map(|shipped| shipped.calm) {
            Some(Calm::CutOff { node }) => node,
            Some(Calm::SlowDisks { .. }) if before == Some(self.entries) => {
                return Err("all disks are slow, and nothing is applied".to_owned());
            }
            _ => return Ok(()),
        };
        let leader = self.shipped_leader();
        let is_other = |leader: &NodeId| *leader != node;
        match (leader.filter(is_other), before) {
            (None, _) => Err(format!("node {node} was cut off, and none of the others leads: {leader:?} does")),
            (_, Some(before)) if self.entries == before => {
                Err(format!("node {node} was cut off, and the others apply nothing"))
            }
            (_, Some(_)) => Ok(()),
            (Some(_), None) => {
                let entries = Some(self.entries);
                self.after(SERVED_WITHIN, WorldEvent::MajorityLeads { entries });
                Ok(())
            }
        }
    }
}
