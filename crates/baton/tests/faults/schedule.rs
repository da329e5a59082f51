//! The faults of a round, drawn from its seed. Pure.

use std::fmt;
use std::time::Duration;

/// One round: a cluster is started, has its faults one after the other under load, is healed and judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    pub seed: u64,
    pub story: Story,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Story {
    Faults {
        /// Number of nodes.
        size: usize,
        faults: Vec<Fault>,
        /// Besides the faults, connections between the nodes are cut, reset and held for moments.
        is_stormy: bool,
    },
    /// From one node to three, to five, to three and to one.
    Growth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    /// How long the cluster has no fault before this one.
    pub calm: Duration,
    /// How long the fault lasts. Without meaning for faults that end by themselves.
    pub lasts: Duration,
    /// Chooses among the nodes where the kind leaves a choice.
    pub draw: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// SIGKILL, and a start on the same folder when the fault is over.
    KillLeader,
    /// SIGSTOP for longer than the short lease.
    StopLeader,
    /// The connections of the leader to the other nodes are closed, and new ones are refused.
    CutOffLeader,
    /// The machine of the leader loses its cable: connections to nodes and clients stay open and are silent.
    UnplugLeader,
    /// The leader can send, and hears nothing.
    DeafLeader,
    /// The leader hears everything, and cannot send.
    DumbLeader,
    /// SIGTERM, and a start at once.
    RestartLeader,
    TransferLeader,
    KillFollower,
    /// A follower loses its folder, and comes back by remove, add and promote.
    WipeFollower,
    /// SIGKILL for all nodes at once.
    KillAll,
    /// Each node is restarted, one after the other.
    RollingRestart,
}

pub const KINDS: [Kind; 12] = [
    Kind::KillLeader,
    Kind::StopLeader,
    Kind::CutOffLeader,
    Kind::UnplugLeader,
    Kind::DeafLeader,
    Kind::DumbLeader,
    Kind::RestartLeader,
    Kind::TransferLeader,
    Kind::KillFollower,
    Kind::WipeFollower,
    Kind::KillAll,
    Kind::RollingRestart,
];

/// How many kinds of faults one round has.
const FAULTS_PER_ROUND: usize = 4;
/// Every so many rounds, a cluster grows and shrinks.
const GROWTH_EVERY: u64 = 5;

impl Round {
    /// The same seed gives the same round. Consecutive seeds go through all kinds of faults, in three and in five
    /// nodes.
    pub fn from_seed(seed: u64) -> Round {
        let mut random = fastrand::Rng::with_seed(seed);
        if seed.is_multiple_of(GROWTH_EVERY) {
            return Round { seed, story: Story::Growth };
        }
        // Three consecutive rounds share a deck, so that they have all kinds together.
        let mut deck = KINDS;
        let hands = (KINDS.len() / FAULTS_PER_ROUND) as u64;
        fastrand::Rng::with_seed(seed / hands).shuffle(&mut deck);
        let hand = usize::try_from(seed % hands).expect("a small number") * FAULTS_PER_ROUND;
        let faults = deck[hand..hand + FAULTS_PER_ROUND].iter().map(|&kind| Fault::draw(kind, &mut random)).collect();
        let size = if random.bool() { 3 } else { 5 };
        Round { seed, story: Story::Faults { size, faults, is_stormy: random.u8(..4) == 0 } }
    }
}

impl Fault {
    pub fn draw(kind: Kind, random: &mut fastrand::Rng) -> Fault {
        let calm = Duration::from_millis(random.u64(300..1_000));
        let lasts = match kind {
            // Longer than the short lease.
            Kind::StopLeader | Kind::UnplugLeader => Duration::from_millis(random.u64(3_000..4_500)),
            _ => Duration::from_millis(random.u64(500..4_000)),
        };
        Fault { kind, calm, lasts, draw: random.usize(..1_000) }
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Story::Growth => f.write_str("from one node to five and back"),
            Story::Faults { size, faults, is_stormy } => {
                let kinds: Vec<Kind> = faults.iter().map(|fault| fault.kind).collect();
                write!(f, "{size} nodes{}, {kinds:?}", if *is_stormy { " in a storm" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_round_again_and_another_seed_gives_another_one() {
        assert_eq!(Round::from_seed(7), Round::from_seed(7));
        assert_ne!(Round::from_seed(7).story, Round::from_seed(8).story);
    }

    #[test]
    fn twenty_rounds_have_every_kind_of_fault_with_three_and_with_five_nodes_and_every_weather() {
        let (mut seen, mut weathers, mut growths) = (BTreeSet::new(), BTreeSet::new(), 0);
        for seed in 1..=20 {
            match Round::from_seed(seed).story {
                Story::Growth => growths += 1,
                Story::Faults { size, faults, is_stormy } => {
                    assert_eq!(faults.len(), FAULTS_PER_ROUND);
                    weathers.insert(is_stormy);
                    seen.extend(faults.iter().map(|fault| (size, fault.kind)));
                }
            }
        }
        assert_eq!((growths, weathers.len(), seen.len()), (4, 2, 2 * KINDS.len()));
    }
}
