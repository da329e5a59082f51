//! Changes that would stop the group, records that are wrong, and a folder that was set back.

use std::collections::BTreeMap;

use baton_runtime::{Instant, timeout};

use super::cluster::{
    LONG, Seat, agree, all, applied, at_leader, fill_sessions, heal, leader, promote, seats, simulated, stop, trio,
    unplug,
};
use super::forming::{formed, until};
use super::*;
use crate::replica::{ChangeError, MemberChange, Replica};

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
#[test]
fn a_learner_that_died_a_moment_ago_is_not_promoted() {
    simulated(async || {
        let seats = seats(2);
        let (lead, learner) = with_learner(&seats).await;
        let id = learner.id();
        stop([learner]).await;
        let refused = lead.promote(id).await.unwrap_err();
        assert!(matches!(refused, MemberError::Silent { .. }), "{refused}");
        fill_sessions(&[&lead], 10..12).await;
        lead.remove(id).await.unwrap();
        stop([lead]).await;
    });
}

#[test]
fn a_learner_that_stands_still_is_not_promoted_before_it_has_what_the_leader_has() {
    simulated(async || {
        let seats = seats(2);
        let (lead, learner) = with_learner(&seats).await;
        unplug(&seats, 1);
        let asked = fill_sessions(&[&lead], 10..30).await;
        let refused = lead.promote(learner.id()).await.unwrap_err();
        assert!(matches!(refused, MemberError::Silent { .. }), "{refused}");
        assert!(lead.members().await.iter().all(|member| member.is_voter == (member.id == lead.id())));
        heal();
        promote(&lead, learner.id()).await;
        assert!(learner.group.metrics().last_log_index >= Some(asked));
        agree(&[&lead, &learner], 29).await;
        stop([lead, learner]).await;
    });
}

fn elsewhere() -> NodeRecord {
    NodeRecord { peer_address: "127.0.0.1:1".to_owned(), ..NodeRecord::default() }
}

/// A majority has answered long before the leader gives up on the dead voter.
#[test]
fn a_dead_voter_is_removed_without_waiting_for_its_answer() {
    simulated(async || {
        let (_seats, mut nodes) = trio().await;
        agree(&all(&nodes), 0).await;
        let leads = leader(&all(&nodes)).await;
        let dead = nodes.remove((leads + 1) % 3);
        let id = dead.id();
        stop([dead]).await;
        let lead = &nodes[leader(&all(&nodes)).await];
        let asked = Instant::now();
        lead.remove(id).await.unwrap();
        assert!(asked.elapsed() < Timing::default().election_max, "{:?}", asked.elapsed());
        stop(nodes).await;
    });
}

/// The leader calls it at a wrong address, so it cannot learn from the log that its record is wrong.
#[test]
fn a_node_that_starts_has_its_record_put_right_although_its_own_copy_is_old() {
    simulated(async || {
        let mut seats = seats(3);
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
    });
}

#[test]
fn a_member_gets_no_address_at_which_it_does_not_answer() {
    simulated(async || {
        let mut seats = seats(4);
        let alias = |number: usize| format!("localhost:{}", 7500 + number);
        let routes = BTreeMap::from_iter((0..3).map(|number| (alias(number), seats[number].address.to_string())));
        seats.iter_mut().for_each(|seat| seat.routes = routes.clone());
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
        let moved = NodeRecord { peer_address: alias(other), ..NodeRecord::default() };
        lead.update(nodes[other].id(), moved).await.unwrap();
        agree(&all(&nodes), 0).await;
        stop(nodes.into_iter().chain([stranger])).await;
    });
}

#[test]
fn a_node_that_was_set_back_is_shown_and_goes_on_when_its_folder_is_whole_again() {
    simulated(async || {
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
    });
}

/// It answers, but it gets no entries: if a change waited for it, the group could decide nothing any more.
#[test]
fn a_node_that_was_set_back_counts_in_no_change() {
    simulated(async || {
        let (mut seats, mut nodes) = trio().await;
        let index = fill_sessions(&all(&nodes), 1..20).await;
        applied(&all(&nodes), index).await;
        let leads = leader(&all(&nodes)).await;
        let (back, other) = ((leads + 1) % 3, (leads + 2) % 3);
        let early = seats[back].disk.copy();
        let index = fill_sessions(&all(&nodes), 20..40).await;
        applied(&all(&nodes), index).await;
        let stopped = nodes.remove(back);
        stop([stopped]).await;
        seats[back].disk = early;
        nodes.insert(back, seats[back].open(Beginning::Waits).await);
        let (id, other) = (nodes[back].id(), nodes[other].id());
        let lead = &nodes[leads];
        until("the leader shows it", async || lead.group.remarks().contains_key(&id)).await;
        for removed in [other, lead.id()] {
            let refused = lead.remove(removed).await.unwrap_err();
            assert!(matches!(refused, MemberError::NoMajority { .. }), "{refused}");
            let why = format!("node-{back} no longer has entries that it had acknowledged to the leader");
            assert!(refused.to_string().contains(&why), "{refused}");
        }
        let refused = lead.transfer(id).await.unwrap_err();
        assert!(matches!(refused, MemberError::GetsNothing { .. }), "{refused}");
        fill_sessions(&[lead], 40..50).await;
        lead.remove(id).await.unwrap();
        fill_sessions(&[lead], 50..60).await;
        stop(nodes).await;
    });
}

/// So those who ask it know that no lock is granted.
#[test]
fn a_leader_that_no_majority_confirms_names_no_leader() {
    simulated(async || {
        let (seats, nodes) = trio().await;
        agree(&all(&nodes), 0).await;
        let leads = leader(&all(&nodes)).await;
        let lead = &nodes[leads];
        let names = async || {
            let own = lead.members().await.into_iter().find(|member| member.id == lead.id()).unwrap();
            own.says.unwrap().leader
        };
        until("it is confirmed", async || names().await == Some(lead.id())).await;
        unplug(&seats, leads);
        until("nobody confirms it", async || names().await.is_none()).await;
        heal();
        stop(nodes).await;
    });
}

#[test]
fn a_name_that_no_member_has_is_removed_already_also_for_a_leader_that_did_not_see_it() {
    simulated(async || {
        let seats = seats(2);
        let (lead, learner) = with_learner(&seats).await;
        let remove = async |member: String| lead.change_members(MemberChange::Remove { member }).await;
        let (name, id) = (seats[1].record().name, learner.id().to_string());
        let again = lead.change_members(MemberChange::Add { name: name.clone() }).await.unwrap();
        assert_eq!(again, Some(format!("{name} is a member already (id {id})")));
        let typo = remove("zz".to_owned()).await.unwrap();
        assert_eq!(typo, Some("no member has the name or id zz now; the members are node-0, node-1".to_owned()));
        let follower = learner.change_members(MemberChange::Remove { member: "zz".to_owned() }).await;
        assert!(matches!(follower, Err(ChangeError::Unavailable(_))), "{follower:?}");
        assert_eq!(remove(name.clone()).await, Ok(None));
        let gone = |known: &str| Ok(Some(format!("no member has the name or id {known} now; the members are node-0")));
        for known in [&name, &id] {
            assert_eq!(remove(known.clone()).await, gone(known));
        }
        stop([lead]).await;
        let restarted = seats[0].open(Beginning::Waits).await;
        leads(&restarted).await;
        let again = restarted.change_members(MemberChange::Remove { member: name.clone() }).await;
        assert_eq!(again, gone(&name), "a node that did not see the removal itself");
        stop([restarted, learner]).await;
    });
}

#[test]
fn a_leader_that_has_removed_itself_says_that_it_is_removed() {
    simulated(async || {
        let (_seats, nodes) = trio().await;
        agree(&all(&nodes), 0).await;
        let gone = &nodes[leader(&all(&nodes)).await];
        gone.remove(gone.id()).await.unwrap();
        until("it says so", async || {
            gone.cluster_view().await.no_leader.contains("says that this node is no member of the cluster any more")
        })
        .await;
        stop(nodes).await;
    });
}
