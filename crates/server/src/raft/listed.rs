//! Looks whether the nodes that the user has named belong to the cluster of this node.
//!
//! A node with the folder of another cluster would be a second lock table behind one list of servers. So a node with data
//! that was started with `--cluster` or `--join` asks the named nodes, first before it starts, and then until all of them
//! have said that they belong to its cluster. While it runs, a node ends only if another cluster has at least as many of the
//! named nodes as its own, and as many as a majority of its own voters. So nodes with wrong folders never end a cluster
//! that can still elect a leader, even if some of its members are silent for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_runtime::{sleep, timeout};
use futures::future::join_all;
use tracing::warn;

use super::errors::MemberError;
use super::node::Node;
use super::peers::{Hello, Peers, Purpose};
use crate::store::OpenError;

/// The time that the other nodes have to say which cluster is theirs. If all nodes of a cluster start together, none of
/// them answers yet.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// The pause between two rounds while the node runs.
const EVERY: Duration = Duration::from_secs(1);

/// The clusters of the named nodes that answer and have data, by their peer addresses.
type Clusters = BTreeMap<String, u64>;

/// What a running node does after a round.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// All belong to the cluster of this node.
    Done,
    /// Some do not answer, or belong to these other clusters, which are too small to end this node.
    AskAgain { others: Clusters },
    /// Too many belong to this other cluster. One of them is at this address.
    End { address: String, theirs: u64 },
}

/// `voters` counts the voters of this node's cluster, `named` the other nodes that the user has named.
fn decide(ours: u64, voters: usize, named: usize, answers: &Clusters) -> Step {
    let (same, others): (Clusters, Clusters) =
        answers.iter().map(|(address, cluster)| (address.clone(), *cluster)).partition(|(_, cluster)| *cluster == ours);
    let of = |cluster: u64| others.values().filter(|theirs| **theirs == cluster).count();
    // This node is one of its cluster, too.
    let too_many = |count: usize| count > same.len() && count > voters / 2;
    match others.iter().find(|(_, theirs)| too_many(of(**theirs))) {
        Some((address, theirs)) => Step::End { address: address.clone(), theirs: *theirs },
        None if same.len() == named => Step::Done,
        None => Step::AskAgain { others },
    }
}

async fn ask(peers: &Peers, named: &[String]) -> Clusters {
    let hello = peers.hello(0, Purpose::Introduction, false);
    let asked = join_all(named.iter().map(|address| {
        let introduced = timeout(ANSWER_MAX, peers.introduce(address, &hello));
        async move { (address.clone(), introduced.await) }
    }));
    let clusters = asked.await.into_iter().filter_map(|(address, introduced)| match introduced {
        Ok(Ok(Hello { cluster, is_empty: false, .. })) => Some((address, cluster)),
        _ => None,
    });
    clusters.collect()
}

/// Refuses to start a node that has data of another cluster than a node at one of these addresses. If none of them
/// answers, the node goes on with its data: it may be a member that was started again.
pub(super) async fn check_data(peers: &Peers, named: &[String]) -> Result<(), OpenError> {
    let ours = peers.identity().cluster;
    let other = ask(peers, named).await.into_iter().find(|(_, theirs)| *theirs != ours);
    other.map_or(Ok(()), |(address, theirs)| Err(OpenError::OtherCluster { ours, address, theirs }))
}

/// Refuses to leave a cluster whose other members still answer, because both clusters would grant the same locks.
/// `members` are their peer addresses.
pub(super) async fn check_silent(peers: &Peers, members: &[String]) -> Result<(), OpenError> {
    let ours = peers.identity().cluster;
    match ask(peers, members).await.into_iter().find(|(_, theirs)| *theirs == ours) {
        None => Ok(()),
        Some((address, _)) => Err(OpenError::Refused {
            why: format!(
                "the node at {address} still runs in cluster {ours:016x}, which this node would leave, and both would grant the \
                 same locks; stop it for good, and start this node again"
            ),
        }),
    }
}

impl Node {
    /// For a node with data. Returns when all nodes at these peer addresses have said that they belong to its cluster.
    /// Fails if this node must not go on, because it would be a second lock table beside theirs.
    pub async fn watch_named(&self, named: &[String]) -> Result<(), MemberError> {
        let mut warned = BTreeSet::new();
        loop {
            let answers = ask(&self.group.peers, named).await;
            let (ours, voters) = (self.cluster(), self.group.metrics().membership_config.voter_ids().count());
            match decide(ours, voters, named.len(), &answers) {
                Step::Done => return Ok(()),
                Step::End { address, theirs } => {
                    return Err(MemberError::Refused(format!(
                        "the data folder has another cluster than the others: {}",
                        OpenError::OtherCluster { ours, address, theirs }
                    )));
                }
                Step::AskAgain { others } => {
                    for (address, theirs) in others {
                        if warned.insert(address.clone()) {
                            warn!(
                                "this node belongs to cluster {ours:016x}, but the node at {address} belongs to cluster \
                                 {theirs:016x}, and has locks of its own; stop that node, or take it out of the lists of \
                                 servers"
                            );
                        }
                    }
                }
            }
            sleep(EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u64 = 7;

    fn clusters(answers: &[(&str, u64)]) -> Clusters {
        answers.iter().map(|(address, cluster)| ((*address).to_owned(), *cluster)).collect()
    }

    fn ask_again(others: &[(&str, u64)]) -> Step {
        Step::AskAgain { others: clusters(others) }
    }

    fn end(address: &str, theirs: u64) -> Step {
        Step::End { address: address.to_owned(), theirs }
    }

    #[test]
    fn a_lone_voter_ends_unless_its_cluster_has_more_of_the_named_nodes() {
        let step = |answers: &[(&str, u64)]| decide(OURS, 1, 2, &clusters(answers));
        assert_eq!(step(&[]), ask_again(&[]), "none answers");
        assert_eq!(step(&[("b:1", 7)]), ask_again(&[]), "one does not answer");
        assert_eq!(step(&[("b:1", 7), ("c:1", 7)]), Step::Done);
        assert_eq!(step(&[("b:1", 7), ("c:1", 9)]), ask_again(&[("c:1", 9)]), "two against one");
        assert_eq!(step(&[("c:1", 9)]), end("c:1", 9), "one against one");
        assert_eq!(step(&[("b:1", 9), ("c:1", 9)]), end("b:1", 9));
        assert_eq!(step(&[("b:1", 8), ("c:1", 9)]), end("b:1", 8), "three folders of three clusters");
    }

    #[test]
    fn a_minority_of_wrong_folders_ends_no_voter_even_if_the_other_voters_are_silent() {
        let three = |answers: &[(&str, u64)]| decide(OURS, 3, 2, &clusters(answers));
        assert_eq!(three(&[("c:1", 9)]), ask_again(&[("c:1", 9)]), "b is silent");
        assert_eq!(three(&[("b:1", 9), ("c:1", 9)]), end("b:1", 9), "no majority is left");
        let five = |answers: &[(&str, u64)]| decide(OURS, 5, 4, &clusters(answers));
        assert_eq!(five(&[("d:1", 9), ("e:1", 9)]), ask_again(&[("d:1", 9), ("e:1", 9)]));
        assert_eq!(five(&[("b:1", 7), ("c:1", 9), ("d:1", 9), ("e:1", 9)]), end("c:1", 9));
        let joined = decide(OURS, 3, 1, &clusters(&[("a:1", 9)]));
        assert_eq!(joined, ask_again(&[("a:1", 9)]), "--join names only a, which has lost its folder");
    }
}
