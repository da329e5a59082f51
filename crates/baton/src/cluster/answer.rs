//! Which of several servers `baton status` and `baton member list` believe: a node that was removed may not know it yet, and
//! shows the members of before.

use baton_types::views::{Cluster, Status};
use tokio::task::JoinSet;

use crate::output::Failure;
use crate::service_args::{ServerArgs, no_server};

/// Asks all servers, and returns the status of the best one.
pub async fn answer(server: &ServerArgs) -> Result<Status, Failure> {
    let mut asked = JoinSet::new();
    let addresses = server.addresses();
    for (turn, address) in addresses.iter().enumerate().filter(|_| addresses.len() > 1) {
        let client = server.client_to(vec![address.clone()])?;
        asked.spawn(async move { client.status().await.ok().map(|status| (turn, status)) });
    }
    let mut answers: Vec<(usize, Status)> = asked.join_all().await.into_iter().flatten().collect();
    answers.sort_unstable_by_key(|(turn, _)| *turn);
    match best(answers.into_iter().map(|(_, status)| status).collect()) {
        Some(status) => Ok(status),
        // If all are silent, the error names them all.
        None => server.connect().await?.status().await.map_err(no_server),
    }
}

/// The first node that is a member of its cluster and knows the leader; or else the first of all.
fn best(mut answers: Vec<Status>) -> Option<Status> {
    let best = answers.iter().position(|status| is_part(status, &answers)).unwrap_or(0);
    (best < answers.len()).then(|| answers.swap_remove(best))
}

/// Whether a node is a member and knows the leader. The node of its cluster decides that has the newest entries and knows
/// the leader: a removed node never learns the entry that removed it.
fn is_part(status: &Status, answers: &[Status]) -> bool {
    // A server that runs alone, or a member of a peer group, has no cluster.
    let Some(own) = &status.cluster else { return true };
    let has = |cluster: &Cluster| cluster.members.iter().any(|member| member.id == status.node);
    let others = answers.iter().filter(|other| other.cluster_id == status.cluster_id);
    let views = others.filter_map(|other| {
        let cluster = other.cluster.as_ref().filter(|cluster| cluster.leader.is_some());
        cluster.map(|cluster| ((other.term, other.commit), cluster))
    });
    let newest = views.max_by_key(|(newness, _)| *newness);
    own.leader.is_some() && newest.is_none_or(|(_, cluster)| has(cluster))
}

#[cfg(test)]
mod tests {
    use baton_types::cluster_id::ClusterId;
    use baton_types::views::Member;

    use super::*;

    /// Of a node with all entries up to this one.
    fn status(node: u64, commit: u64, leader: Option<u64>, members: &[u64]) -> Status {
        let members = members.iter().map(|id| Member { id: *id, ..Member::default() }).collect();
        let cluster = Some(Cluster { leader, members, ..Cluster::default() });
        Status { node, term: 4, commit, cluster, cluster_id: ClusterId::new(0xa), ..Status::default() }
    }

    fn shown(answers: &[Status]) -> Option<u64> {
        best(answers.to_vec()).map(|status| status.node)
    }

    #[test]
    fn a_node_is_shown_that_is_a_member_for_the_newest() {
        let removed = status(3, 8, Some(1), &[1, 2, 3]);
        let (leads, follows) = (status(1, 9, Some(1), &[1, 2]), status(2, 9, Some(1), &[1, 2]));
        assert_eq!(shown(&[removed.clone(), follows.clone(), leads.clone()]), Some(2));
        assert_eq!(shown(&[leads.clone(), removed.clone()]), Some(1));
        assert_eq!(shown(&[removed.clone(), follows.clone()]), Some(2), "the leader is not on the list");
        // Nobody knows better.
        assert_eq!(shown(std::slice::from_ref(&removed)), Some(3));
        assert_eq!(shown(&[status(3, 9, None, &[1, 2, 3]), follows.clone()]), Some(2));
        assert_eq!(shown(&[status(3, 9, None, &[]), status(2, 9, None, &[])]), Some(3));
        // A slow member is a member. What a leader of before has written may never be committed.
        assert_eq!(shown(&[status(2, 5, Some(1), &[1, 2]), leads]), Some(2));
        let deposed = Status { term: 3, ..status(1, 99, Some(1), &[1]) };
        assert_eq!(shown(&[follows, deposed]), Some(2));
        assert_eq!(shown(&[]), None);
    }

    #[test]
    fn a_server_of_another_cluster_or_without_one_is_judged_by_itself() {
        let other = Status { cluster_id: ClusterId::new(0xb), ..status(3, 1, Some(3), &[3]) };
        assert_eq!(shown(&[other.clone(), status(1, 9, Some(1), &[1, 2])]), Some(3));
        assert_eq!(shown(&[Status { node: 9, ..Status::default() }, other]), Some(9));
    }
}
