//! Looks whether the nodes that the user has named belong to the cluster of this node.
//!
//! A node with the folder of another cluster would be a second lock table behind one list of servers. So a node with data
//! that was started with `--cluster` or `--join` asks the named nodes, first before it starts, and then until all of them
//! have said that they belong to its cluster. While it runs, a node ends only if its own cluster has no more of the named
//! nodes than another one: a single node with a wrong folder must not end the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::errors::MemberError;
use super::node::Node;
use super::peers::{self, Hello, Peers, Purpose};
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
    /// Some do not answer, or belong to the clusters here, of which this node's has more.
    AskAgain { others: Clusters },
    /// At least as many belong to this other cluster. One of them is at this address.
    End { address: String, theirs: u64 },
}

/// `named` counts the other nodes that the user has named.
fn decide(ours: u64, named: usize, answers: &Clusters) -> Step {
    let (same, others): (Clusters, Clusters) =
        answers.iter().map(|(address, cluster)| (address.clone(), *cluster)).partition(|(_, cluster)| *cluster == ours);
    let of = |cluster: u64| others.values().filter(|theirs| **theirs == cluster).count();
    // This node is one of its cluster.
    let strongest = others.iter().find(|(_, theirs)| of(**theirs) > same.len());
    match strongest {
        Some((address, theirs)) => Step::End { address: address.clone(), theirs: *theirs },
        None if same.len() == named => Step::Done,
        None => Step::AskAgain { others },
    }
}

async fn ask(peers: &Peers, named: &[String]) -> Clusters {
    let hello = peers.hello(0, Purpose::Introduction, false);
    let asked = join_all(named.iter().map(|address| {
        let introduced = timeout(ANSWER_MAX, peers::introduce(peers.route(address), &hello));
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

impl Node {
    /// For a node with data. Returns when all nodes at these peer addresses have said that they belong to its cluster.
    /// Fails if this node must not go on, because it would be a second lock table beside theirs.
    pub async fn watch_named(&self, named: &[String]) -> Result<(), MemberError> {
        let mut warned = BTreeSet::new();
        loop {
            let ours = self.cluster();
            match decide(ours, named.len(), &ask(&self.group.peers, named).await) {
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

    #[test]
    fn the_node_ends_whose_cluster_has_no_more_of_the_named_nodes() {
        let step = |answers: &[(&str, u64)]| {
            decide(7, 2, &answers.iter().map(|(address, cluster)| ((*address).to_owned(), *cluster)).collect())
        };
        let ask_again = |others: &[(&str, u64)]| Step::AskAgain {
            others: others.iter().map(|(address, cluster)| ((*address).to_owned(), *cluster)).collect(),
        };
        let end = |address: &str, theirs| Step::End { address: address.to_owned(), theirs };
        assert_eq!(step(&[]), ask_again(&[]), "none answers");
        assert_eq!(step(&[("b:1", 7)]), ask_again(&[]), "one does not answer");
        assert_eq!(step(&[("b:1", 7), ("c:1", 7)]), Step::Done);
        assert_eq!(step(&[("b:1", 7), ("c:1", 9)]), ask_again(&[("c:1", 9)]), "two against one");
        assert_eq!(step(&[("c:1", 9)]), end("c:1", 9), "one against one");
        assert_eq!(step(&[("b:1", 9), ("c:1", 9)]), end("b:1", 9));
        assert_eq!(step(&[("b:1", 8), ("c:1", 9)]), end("b:1", 8), "three folders of three clusters");
    }
}
