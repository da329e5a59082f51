//! Changes that would stop the group, records that are wrong, and a folder that was set back.

use std::collections::BTreeMap;

use baton_proxy::Proxy;
use tokio::time::timeout;

use super::cluster::{LONG, Seat, agree, all, applied, at_leader, fill_sessions, leader, promote, seats, stop, trio};
use super::forming::{formed, until};
use super::*;

/// A group of one with a learner, which has all entries.
async fn with_learner(seats: &[Seat]) -> (Node, Node) {
    let (lead, learner) = (seats[0].open(Beginning::Alone).await, seats[1].open(Beginning::Waits).await);
    leads(&lead).await;
    lead.add_learner(learner.id(), seats[1].record()).await.unwrap();
    let index = fill_sessions(&[&lead], 1..10).await;
    applied(&[&learner], index).await;
    (lead, learner)
}

/// Otherwise the group of one would need the vote of a node that is gone, and could not even remove it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_died_a_moment_ago_is_not_promoted() {
    let seats = seats(2).await;
    let (lead, learner) = with_learner(&seats).await;
    let id = learner.id();
    stop([learner]).await;
    let refused = lead.promote(id).await.unwrap_err();
    assert!(matches!(refused, MemberError::Silent { .. }), "{refused}");
    fill_sessions(&[&lead], 10..12).await;
    lead.remove(id).await.unwrap();
    stop([lead]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_stands_still_is_not_promoted_before_it_has_what_the_leader_has() {
    let mut seats = seats(2).await;
    let address = seats[1].address.to_string();
    let proxy = Proxy::start(&address, 1).unwrap();
    seats[0].routes = BTreeMap::from([(address, proxy.address().to_string())]);
    let (lead, learner) = with_learner(&seats).await;
    proxy.hold();
    let asked = fill_sessions(&[&lead], 10..30).await;
    let refused = lead.promote(learner.id()).await.unwrap_err();
    assert!(matches!(refused, MemberError::Silent { .. }), "{refused}");
    assert!(lead.members().await.iter().all(|member| member.is_voter == (member.id == lead.id())));
    proxy.heal();
    promote(&lead, learner.id()).await;
    assert!(learner.group.metrics().last_log_index >= Some(asked));
    agree(&[&lead, &learner], 29).await;
    stop([lead, learner]).await;
}

fn elsewhere() -> NodeRecord {
    NodeRecord { peer_address: "127.0.0.1:1".to_owned(), ..NodeRecord::default() }
}

/// The leader calls it at a wrong address, so it cannot learn from the log that its record is wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_has_its_record_put_right_although_its_own_copy_is_old() {
    let mut seats = seats(3).await;
    let mut nodes = formed(&seats).await;
    fill_sessions(&all(&nodes), 1..5).await;
    for advertises in [true, false] {
        agree(&all(&nodes), 4).await;
        let moved = (leader(&all(&nodes)).await + 1) % 3;
        let gone = nodes.remove(moved);
        let id = gone.id();
        stop([gone]).await;
        at_leader(&all(&nodes), |lead| lead.group.update(id, elsewhere())).await;
        seats[moved].advertises = advertises;
        nodes.insert(moved, seats[moved].open(Beginning::Waits).await);
        let address = seats[moved].address.to_string();
        until("the leader knows where the node is", async || {
            let metrics = nodes[leader(&all(&nodes)).await].group.metrics();
            metrics.membership_config.get_node(&id).is_some_and(|record| record.peer_address == address)
        })
        .await;
        agree(&all(&nodes), 4).await;
        seats[moved].advertises = true;
    }
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_gets_no_address_at_which_it_does_not_answer() {
    let seats = seats(4).await;
    let nodes = formed(&seats[..3]).await;
    agree(&all(&nodes), 0).await;
    let leads = leader(&all(&nodes)).await;
    let (lead, other) = (&nodes[leads], (leads + 1) % 3);
    let refused = lead.update(nodes[other].id(), elsewhere()).await.unwrap_err().to_string();
    let expected = format!("node-{other} does not answer at 127.0.0.1:1 (");
    assert!(refused.starts_with(&expected), "{refused}");
    let stranger = seats[3].open(Beginning::Waits).await;
    let taken = NodeRecord { peer_address: seats[3].address.to_string(), ..NodeRecord::default() };
    let refused = lead.update(nodes[other].id(), taken).await.unwrap_err().to_string();
    assert!(refused.contains(&format!("node {} answers there", stranger.id())), "{refused}");
    // The same node, by another name of the machine.
    let same = format!("localhost:{}", seats[other].address.port());
    let moved = NodeRecord { peer_address: same.clone(), ..NodeRecord::default() };
    lead.update(nodes[other].id(), moved).await.unwrap();
    agree(&all(&nodes), 0).await;
    stop(nodes.into_iter().chain([stranger])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_set_back_is_shown_and_goes_on_when_its_folder_is_whole_again() {
    let (mut seats, mut nodes) = trio().await;
    let index = fill_sessions(&all(&nodes), 1..20).await;
    applied(&all(&nodes), index).await;
    let leads = leader(&all(&nodes)).await;
    let back = (leads + 1) % 3;
    let early = seats[back].disk.copy();
    let index = fill_sessions(&all(&nodes), 20..40).await;
    applied(&all(&nodes), index).await;
    let stopped = nodes.remove(back);
    let id = stopped.id();
    stop([stopped]).await;
    let whole = std::mem::replace(&mut seats[back].disk, early);
    nodes.insert(back, seats[back].open(Beginning::Waits).await);
    let lead = nodes[leads].id();
    let remark = async |node: &Node| {
        let members = node.cluster_view().await.members;
        members.into_iter().find(|member| member.id == id).unwrap().remark
    };
    let told = "remove the node, empty its folder";
    until("the leader shows it", async || remark(&nodes[leads]).await.contains(told)).await;
    let other = (leads + 2) % 3;
    until("a follower passes it on", async || remark(&nodes[other]).await.contains(told)).await;
    let gone = nodes.remove(back);
    stop([gone]).await;
    seats[back].disk = whole;
    nodes.insert(back, seats[back].open(Beginning::Waits).await);
    timeout(LONG, agree(&all(&nodes), 39)).await.unwrap();
    assert_eq!(nodes[leader(&all(&nodes)).await].id(), lead);
    assert_eq!((remark(&nodes[leads]).await, remark(&nodes[other]).await), (String::new(), String::new()));
    stop(nodes).await;
}
