//! Faults in words, for the story and the diagram of a run.

use std::fmt::{self, Display, Formatter};

use super::clock::Micros;
use super::faults::{Fault, Partition, Which};
use super::model::NodeId;
use super::world::MS;

/// A duration in seconds, or in milliseconds.
struct For(Micros);

impl Display for For {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 / MS {
            ms @ 0..1_000 => write!(f, "{ms} ms"),
            ms => write!(f, "{:.1} s", ms as f64 / 1_000.0),
        }
    }
}

impl Display for Which {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Which::Leader => f.write_str("the leader"),
            Which::Node(node) => write!(f, "node {node}"),
        }
    }
}

/// The nodes whose bit has this value.
fn side(sides: u8, is_set: bool, nodes: usize) -> String {
    let of_side = (0..nodes).filter(|node| (sides >> node & 1 == 1) == is_set);
    of_side.map(|node| node.to_string()).collect::<Vec<_>>().join(", ")
}

impl Partition {
    fn words(self, nodes: usize) -> String {
        match self {
            Partition::Isolates(which) => format!("{which} is cut off"),
            Partition::Deafens(which) => format!("{which} hears no other node"),
            Partition::Mutes(which) => format!("no other node hears {which}"),
            Partition::Splits(sides) => match [side(sides, false, nodes), side(sides, true, nodes)] {
                [one, other] if one.is_empty() || other.is_empty() => "a split with all nodes on one side".to_owned(),
                [one, other] => format!("the nodes are split into {one} and {other}"),
            },
            Partition::OneWay(from, to) if from == to => format!("a cut from node {from} to itself"),
            Partition::OneWay(from, to) => format!("node {to} does not hear node {from}"),
        }
    }
}

impl Fault {
    /// What the fault is to do, in a run with so many nodes.
    pub fn words(&self, nodes: usize) -> String {
        let lasts = |what: String, duration: Micros| format!("{what} for {}", For(duration));
        let snapshot = |node: NodeId| format!("a snapshot of node {node} is written");
        match *self {
            Fault::Pause(which, duration) => lasts(format!("{which} is paused"), duration),
            Fault::PauseClient(client, duration) => lasts(format!("client {client} is paused"), duration),
            Fault::Campaign(node) => format!("node {node} is to lead, for no good reason"),
            Fault::HandOver => "the leader hands over".to_owned(),
            Fault::Restart { node, down_for, is_clean: true } => lasts(format!("{node} is stopped cleanly"), down_for),
            Fault::Restart { node, down_for, is_clean: false } => lasts(format!("{node} is killed"), down_for),
            Fault::Partition(partition, duration) => lasts(partition.words(nodes), duration),
            Fault::BreakConnection(client) => format!("the connection of client {client} breaks"),
            Fault::Force { lock, now: true } => format!("lock l{lock} is released by force, at once"),
            Fault::Force { lock, now: false } => format!("lock l{lock} is released by force, in time"),
            Fault::Slow(client) => format!("client {client} does not read"),
            Fault::Full(node, duration) => lasts(format!("the disk of node {node} is full"), duration),
            Fault::PowerCut => "the power of all nodes is cut".to_owned(),
            Fault::SlowDisk(node, duration) => lasts(format!("the disk of node {node} is slow"), duration),
            Fault::FailDisk(which) => format!("the disk of {which} fails"),
            Fault::BreakLink { bytes, one_way } => {
                let ends = if one_way { "at one end" } else { "at both ends" };
                format!("a connection between nodes breaks {ends} after {bytes} bytes")
            }
            Fault::SlowDisks => "the disks of all nodes are slow".to_owned(),
            Fault::DieInSnapshot { node, kills_leader: true, .. } => {
                format!("the leader dies while {}", snapshot(node))
            }
            Fault::DieInSnapshot { node, kills_leader: false, .. } => {
                format!("node {node} dies while {}", snapshot(node))
            }
            Fault::Replace(which) => format!("the operator replaces {which}"),
            Fault::Wipe { node, joins: true } => format!("node {node} loses its folder, and joins"),
            Fault::Wipe { node, joins: false } => format!("node {node} loses its folder, and begins with the list"),
            Fault::Backup(node) => format!("the folder of node {node} is copied"),
            Fault::SetBack(node) => format!("node {node} starts with the older copy of its folder"),
            Fault::Copy { of, duration } => {
                lasts(format!("a copy of {of} runs elsewhere, and {of} is cut off"), duration)
            }
            Fault::HoldAnswers => "the answers to the leader are held until another node leads".to_owned(),
            Fault::HoldSnapshot { node, duration } => {
                lasts(format!("the next snapshot to node {node} is held"), duration)
            }
            Fault::Steal(client) => format!("a thief wants the session of client {client}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_sentences() {
        let words = |fault: Fault| fault.words(3);
        assert_eq!(words(Fault::Pause(Which::Leader, 20_500)), "the leader is paused for 20 ms");
        let split = |sides: u8| words(Fault::Partition(Partition::Splits(sides), 1_540 * MS));
        assert_eq!(split(0b1111_0010), "the nodes are split into 0, 2 and 1 for 1.5 s");
        assert_eq!(split(0b1111_1000), "a split with all nodes on one side for 1.5 s");
        let one_way = Fault::Partition(Partition::OneWay(2, 0), MS);
        assert_eq!(words(one_way), "node 0 does not hear node 2 for 1 ms");
    }
}
