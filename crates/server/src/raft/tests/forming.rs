//! Nodes with empty folders become a cluster, join one, and keep their records right.

use super::cluster::{
    LONG, Seat, agree, all, at_leader, cut_off, cut_one_way, fill_sessions, heal, leader, seats, simulated, stop,
};
use super::*;

use std::collections::BTreeMap;
use std::time::Duration;

use baton_runtime::{sleep, timeout};
use futures::future::join_all;

use crate::raft::peers::{Answer, Request};

pub(super) fn list(seats: &[Seat]) -> Vec<(String, String)> {
    seats.iter().map(|seat| (seat.name.clone(), seat.address.to_string())).collect()
}

pub(super) async fn waiting(seats: &[Seat]) -> Vec<Node> {
    join_all(seats.iter().map(|seat| seat.open(Beginning::Waits))).await
}

pub(super) async fn formed(seats: &[Seat]) -> Vec<Node> {
    let nodes = waiting(seats).await;
    let formed = join_all(nodes.iter().map(|node| node.form(list(seats))));
    timeout(LONG, formed).await.unwrap().into_iter().collect::<Result<Vec<()>, _>>().unwrap();
    nodes
}

/// Waits until a condition holds.
pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = timeout(LONG, async {
        while !holds().await {
            sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[test]
fn three_empty_nodes_with_the_same_list_become_one_cluster() {
    simulated(async || {
        let seats = seats(3);
        let nodes = waiting(&seats).await;
        // Nothing begins as long as one is missing: the others do not even become part of a cluster.
        let mut reversed = list(&seats);
        reversed.reverse();
        let two = async { tokio::join!(nodes[0].form(list(&seats)), nodes[1].form(reversed)) };
        let third = async {
            until("the first knows the list of the second", async || {
                let hello = nodes[2].introduce(&list(&seats)[1].1).await;
                hello.is_ok_and(|hello| hello.list.len() == 3)
            })
            .await;
            assert!(nodes[0].is_empty().await && nodes[1].is_empty().await);
            nodes[2].form(list(&seats)).await
        };
        let ((first, second), third) = timeout(LONG, async { tokio::join!(two, third) }).await.unwrap();
        assert_eq!((first, second, third), (Ok(()), Ok(()), Ok(())));
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        assert!(nodes.iter().all(|node| node.cluster() == nodes[0].cluster()));

        let view = nodes[leader(&all(&nodes)).await].cluster_view().await;
        let names: Vec<&str> = view.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["node-0", "node-1", "node-2"]);
        assert!(view.leader.is_some() && view.no_leader.is_empty(), "{view:?}");
        assert_eq!(nodes[1].find("node-2"), Ok(nodes[2].id()));
        assert_eq!(nodes[1].find(&nodes[0].id().to_string()), Ok(nodes[0].id()));
        let unknown = nodes[1].find("node-9").unwrap_err().to_string();
        assert!(unknown.contains("no member with the name or id node-9; the members are node-"), "{unknown}");
        stop(nodes).await;
    });
}

#[test]
fn a_node_whose_folder_is_lost_is_refused_and_one_that_was_late_goes_on() {
    simulated(async || {
        let mut seats = seats(3);
        let mut nodes = formed(&seats).await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        let gone = nodes.remove(2);
        stop([gone]).await;
        let kept = std::mem::take(&mut seats[2].disk);
        let wiped = seats[2].open(Beginning::Waits).await;
        let refused = timeout(LONG, wiped.form(list(&seats))).await.unwrap().unwrap_err().to_string();
        assert!(refused.contains("belongs to a cluster already") && refused.contains("--join"), "{refused}");
        assert!(wiped.is_empty().await, "nothing was changed");
        stop([wiped]).await;
        // With its folder it is a member.
        seats[2].disk = kept;
        nodes.push(seats[2].open(Beginning::Waits).await);
        assert_eq!(timeout(LONG, nodes[2].form(list(&seats))).await.unwrap(), Ok(()));
        agree(&all(&nodes), 19).await;
        stop(nodes).await;
    });
}

#[test]
fn lists_that_differ_and_nodes_that_join_are_refused_before_anything_changes() {
    simulated(async || {
        let seats = seats(3);
        let nodes = waiting(&seats).await;
        let stranger = nodes[0].form(list(&seats[1..])).await.unwrap_err().to_string();
        assert!(
            stranger.contains("\"node-0\", which is not in the list of the cluster (node-1, node-2)"),
            "{stranger}"
        );
        let both = async { tokio::join!(nodes[0].form(list(&seats[..2])), nodes[1].form(list(&seats))) };
        let (first, second) = timeout(LONG, both).await.unwrap();
        let only = format!("node-2={}", seats[2].address);
        for refused in [first, second] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(&only), "{refused}");
        }
        assert!(nodes[0].is_empty().await && nodes[1].is_empty().await);
        stop(nodes).await;
    });
}

#[test]
fn a_node_announces_itself_until_it_is_added_by_name() {
    simulated(async || {
        let seats = seats(3);
        let nodes = vec![
            seats[0].open(Beginning::Alone).await,
            seats[1].open(Beginning::Waits).await,
            seats[2].open(Beginning::Waits).await,
        ];
        leads(&nodes[0]).await;
        let nobody = nodes[0].add("node-1").await.unwrap_err().to_string();
        assert!(
            nobody.starts_with("no node with the name node-1 waits to be added; start it with `baton serve"),
            "{nobody}"
        );
        let address = seats[0].address.to_string();
        let joins = async { tokio::join!(nodes[1].join(address.clone()), nodes[2].join(address.clone())) };
        let adds = async {
            let names = async |count| {
                until("they wait", async || nodes[0].cluster_view().await.joining.len() == count).await;
            };
            names(2).await;
            let refused = nodes[1].form(list(&seats)).await.unwrap_err().to_string();
            assert!(refused.starts_with("this node waits to be added to a cluster"), "{refused}");
            let other = nodes[0].add("else").await.unwrap_err().to_string();
            assert!(other.contains("(node-1, node-2 does)"), "{other}");
            assert_eq!(nodes[0].add("node-1").await, Ok(nodes[1].id()));
            let again = nodes[0].add("node-1").await.unwrap_err().to_string();
            assert_eq!(again, format!("node-1 is a member already (id {})", nodes[1].id()));
            at_leader(&[&nodes[0]], |lead| lead.promote(nodes[1].id())).await;
            // Any member knows the nodes that wait, so any leader can add them.
            at_leader(&all(&nodes[..2]), async |lead: &Node| lead.add("node-2").await.map(drop)).await;
        };
        let ((first, second), ()) = timeout(LONG, async { tokio::join!(joins, adds) }).await.unwrap();
        assert_eq!((first, second), (Ok(()), Ok(())));
        at_leader(&all(&nodes), |lead| lead.promote(nodes[2].id())).await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        stop(nodes).await;
    });
}

#[test]
fn nodes_that_wait_under_one_name_or_under_the_name_of_a_member_are_not_added() {
    simulated(async || {
        let mut seats = seats(3);
        (seats[1].name, seats[2].name) = ("twin".to_owned(), "twin".to_owned());
        let nodes = vec![
            seats[0].open(Beginning::Alone).await,
            seats[1].open(Beginning::Waits).await,
            seats[2].open(Beginning::Waits).await,
        ];
        leads(&nodes[0]).await;
        let address = seats[0].address.to_string();
        let adds = async {
            until("both wait", async || nodes[0].cluster_view().await.joining.len() == 2).await;
            let refused = nodes[0].add("twin").await.unwrap_err().to_string();
            assert!(refused.starts_with("2 nodes with the name twin wait to be added"), "{refused}");
            assert_eq!(nodes[0].members().await.len(), 1);
        };
        // Two futures that never end: no operator adds the nodes.
        tokio::select! {
            biased;
            joined = nodes[1].join(address.clone()) => panic!("{joined:?}"),
            joined = nodes[2].join(address.clone()) => panic!("{joined:?}"),
            done = timeout(LONG, adds) => done.unwrap(),
        }
        stop(nodes).await;
    });
}

#[test]
fn a_node_that_starts_with_other_addresses_has_its_record_changed() {
    simulated(async || {
        let mut seats = seats(3);
        let mut nodes = formed(&seats).await;
        agree(&all(&nodes), 0).await;
        let leads = leader(&all(&nodes)).await;
        // A follower, and later the leader itself, come back at other addresses.
        for moves in [(leads + 1) % 3, leads] {
            let gone = nodes.remove(moves);
            let id = gone.id();
            stop([gone]).await;
            let seat = Seat::new(&format!("moved-{moves}"));
            seats[moves] = Seat { disk: seats[moves].disk.clone(), ..seat };
            nodes.insert(moves, seats[moves].open(Beginning::Waits).await);
            until("all know the new record", async || {
                let record = seats[moves].record();
                let knows = |node: &Node| node.group.metrics().membership_config.get_node(&id) == Some(&record);
                nodes.iter().all(knows)
            })
            .await;
            agree(&all(&nodes), 0).await;
        }
        stop(nodes).await;
    });
}

#[test]
fn a_node_that_moves_while_the_leader_changes_finds_the_new_leader() {
    simulated(async || {
        let mut seats = seats(3);
        let mut nodes = formed(&seats).await;
        agree(&all(&nodes), 0).await;
        let leads = leader(&all(&nodes)).await;
        let (moves, next) = ((leads + 1) % 3, nodes[(leads + 2) % 3].id());
        let gone = nodes.remove(moves);
        let id = gone.id();
        stop([gone]).await;
        at_leader(&all(&nodes), async |lead: &Node| match lead.id() == next {
            true => Ok(()),
            false => lead.transfer(next).await,
        })
        .await;
        agree(&all(&nodes), 0).await;
        // The new leader does not reach it, and it has never heard of the new leader.
        let seat = Seat::new("moved");
        seats[moves] = Seat { disk: seats[moves].disk.clone(), ..seat };
        nodes.insert(moves, seats[moves].open(Beginning::Waits).await);
        until("all know the new record", async || {
            let record = seats[moves].record();
            nodes.iter().all(|node| node.group.metrics().membership_config.get_node(&id) == Some(&record))
        })
        .await;
        agree(&all(&nodes), 0).await;
        stop(nodes).await;
    });
}

#[test]
fn a_lone_node_gets_its_addresses_into_its_record_and_can_grow() {
    simulated(async || {
        let mut seats = seats(2);
        let old = Node::open(Arc::new(seats[0].disk.clone()), options()).await.unwrap();
        leads(&old).await;
        let record = |node: &Node| node.group.metrics().membership_config.get_node(&node.id()).cloned();
        let expected = NodeRecord { name: "default".to_owned(), ..NodeRecord::default() };
        assert_eq!(record(&old), Some(expected));
        stop([old]).await;
        // Without a name it keeps the one that it has.
        seats[0].name = String::new();
        let node = seats[0].open(Beginning::Waits).await;
        leads(&node).await;
        let wanted = NodeRecord { name: "default".to_owned(), ..seats[0].record() };
        until("the record is changed", async || record(&node) == Some(wanted.clone())).await;
        let other = seats[1].open(Beginning::Waits).await;
        at_leader(&[&node], |lead| lead.add_learner(other.id(), seats[1].record())).await;
        agree(&[&node], 0).await;
        stop([node, other]).await;
    });
}

#[test]
fn a_lone_node_that_is_told_no_address_for_others_has_the_one_it_listens_on() {
    simulated(async || {
        let seat = Seat::new("a");
        let old = Node::open(Arc::new(seat.disk.clone()), options()).await.unwrap();
        leads(&old).await;
        stop([old]).await;
        let before = everything(&seat.disk).await.unwrap();
        let open = async |listen: &str| {
            let listener = seat.listen(listen.parse().unwrap());
            seat.start(Options { record: NodeRecord::default(), listener, ..seat.options() }).await
        };
        let refused = open("0.0.0.0:7500").await.err().unwrap().to_string();
        assert!(
            refused.ends_with("name an address at which they reach this node with `--peer-advertise`"),
            "{refused}"
        );
        assert_eq!(everything(&seat.disk).await.unwrap(), before, "nothing was changed");
        let address = async |node: &Node| node.members().await[0].record.peer_address.clone();
        let node = open("10.9.9.9:7500").await.unwrap();
        until("it has an address", async || !address(&node).await.is_empty()).await;
        let first = address(&node).await;
        assert_eq!(first, "10.9.9.9:7500");
        stop([node]).await;
        // The address in the record stays.
        let node = open("0.0.0.0:7500").await.unwrap();
        agree(&[&node], 0).await;
        assert_eq!(address(&node).await, first);
        stop([node]).await;
    });
}

#[test]
fn a_node_that_has_moved_is_warned_only_if_it_is_told_no_new_address() {
    simulated(async || {
        let seats = seats(3);
        let nodes = formed(&seats).await;
        agree(&all(&nodes), 0).await;
        stop(nodes).await;
        // The other nodes are stopped, so the membership keeps the old address.
        let moved = Seat { disk: seats[0].disk.copy(), ..Seat::new("node-0") };
        let node = moved.open(Beginning::Waits).await;
        assert_eq!(node.does_not_reach_itself().await, None);
        stop([node]).await;
        let elsewhere = Seat { disk: seats[0].disk.copy(), ..Seat::new("node-0") };
        let node = elsewhere.start(Options { record: NodeRecord::default(), ..elsewhere.options() }).await.unwrap();
        let warning = node.does_not_reach_itself().await.unwrap();
        let old = format!("other nodes look for this node at {}, where it does not reach itself", seats[0].address);
        assert!(warning.starts_with(&old), "{warning}");
        stop([node]).await;
    });
}

#[test]
fn a_leader_without_a_majority_is_told_as_none_and_goes_on_in_its_term() {
    simulated(async || {
        let seats = seats(3);
        let nodes = formed(&seats).await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        let leads = leader(&all(&nodes)).await;
        until("all know how old they are", async || nodes.iter().all(|node| node.age_ms().is_some())).await;
        let mut told = nodes[leads].leadership();
        assert!(matches!(*told.borrow_and_update(), Leadership::Leads { .. }));
        cut_off(&seats, leads);
        timeout(LONG, told.wait_for(|now| matches!(now, Leadership::DoesNotLead { leader: None })))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(nodes[leads].leader_record(), None);
        let view = nodes[leads].cluster_view().await;
        assert!(
            view.leader.is_none() && view.no_leader.starts_with("1 of 3 voters answer, and 2 are needed"),
            "{view:?}"
        );
        // The others have another leader.
        let others: Vec<&Node> = (0..3).filter(|node| *node != leads).map(|node| &nodes[node]).collect();
        fill_sessions(&others, 20..40).await;
        heal();
        agree(&all(&nodes), 39).await;
        until("all know the leader", async || nodes.iter().all(|node| node.leader_record().is_some())).await;
        stop(nodes).await;
    });
}

#[test]
fn a_leader_of_two_that_hears_again_leads_again_in_the_same_term() {
    simulated(async || {
        let mut seats = seats(2);
        // The follower does not want to lead, however long it hears nothing.
        let patient = Duration::from_secs(3600);
        seats[1].timing = Timing { election_min: patient, election_max: patient * 2, ..seats[1].timing };
        let nodes = formed(&seats).await;
        agree(&all(&nodes), 0).await;
        let mut told = nodes[0].leadership();
        let Leadership::Leads { term } = *told.borrow_and_update() else { panic!("only it can lead") };
        for _ in 0..3 {
            cut_one_way(&seats[1], &seats[0]);
            timeout(LONG, told.wait_for(|now| *now == Leadership::DoesNotLead { leader: None }))
                .await
                .unwrap()
                .unwrap();
            heal();
            timeout(LONG, told.wait_for(|now| *now == Leadership::Leads { term })).await.unwrap().unwrap();
            agree(&all(&nodes), 0).await;
        }
        stop(nodes).await;
    });
}

#[test]
fn a_node_that_another_cluster_takes_in_begins_none() {
    simulated(async || {
        let seat = Seat::new("a");
        let node = seat.open(Beginning::Waits).await;
        let leader = nobody(Identity { cluster: 9, node: 99 });
        let peer = leader.get(node.id(), &seat.record());
        peer.call(Request::Status, LONG).await.unwrap();
        let begun = node.initialize(BTreeMap::from([(node.id(), seat.record())])).await;
        assert_eq!(begun, Err(MemberError::Adopted { cluster: 9 }));
        assert!(node.is_empty().await);
        leader.clear();
        drop(peer);
        stop([node]).await;
    });
}

#[test]
fn a_node_that_another_cluster_took_in_without_data_never_begins_under_that_cluster_s_id() {
    simulated(async || {
        let seat = Seat::new("a");
        let members = |node: &Node| BTreeMap::from([(node.id(), seat.record())]);
        let leader = nobody(Identity { cluster: 9, node: 99 });
        // Before a restart and after it, as long as the other cluster calls.
        for _ in 0..2 {
            let node = seat.open(Beginning::Waits).await;
            let peer = leader.get(node.id(), &seat.record());
            until("it is called", async || peer.call(Request::Status, LONG).await.is_ok()).await;
            assert_eq!(node.cluster(), 9);
            assert_eq!(node.initialize(members(&node)).await, Err(MemberError::Adopted { cluster: 9 }));
            stop([node]).await;
        }
        leader.clear();
        let alone = Seat { disk: seat.disk.copy(), ..Seat::new("alone") };
        let node = alone.open(Beginning::Alone).await;
        assert_ne!(node.cluster(), 9);
        stop([node]).await;
        let node = seat.open(Beginning::Waits).await;
        node.initialize(members(&node)).await.unwrap();
        let cluster = node.cluster();
        assert_ne!(cluster, 9);
        stop([node]).await;
        let node = seat.open(Beginning::Waits).await;
        assert_eq!(node.cluster(), cluster);
        stop([node]).await;
    });
}

#[test]
fn a_node_with_data_of_another_cluster_does_not_join() {
    simulated(async || {
        let seats = seats(2);
        let nodes = [seats[0].open(Beginning::Alone).await, seats[1].open(Beginning::Alone).await];
        leads(&nodes[0]).await;
        fill_sessions(&[&nodes[1]], 1..5).await;
        let [member, old] = nodes;
        let (address, clusters) = (seats[0].address.to_string(), (old.cluster(), member.cluster()));
        stop([old]).await;
        let before = everything(&seats[1].disk).await.unwrap();
        let joins = || Options { others: vec![address.clone()], ..seats[1].options() };
        let refused = seats[1].start(joins()).await.err().unwrap().to_string();
        let told = format!(
            "it belongs to cluster {:016x}, but the node at {address} belongs to cluster {:016x}; to join that cluster, start \
         this node with an empty data folder; to go on in its own cluster, start it without `--cluster` and \
         `--join`",
            clusters.0, clusters.1
        );
        assert_eq!(refused, told);
        assert_eq!(everything(&seats[1].disk).await.unwrap(), before, "nothing was changed");
        // It cannot know better if no node answers.
        stop([member]).await;
        let old = seats[1].start(joins()).await.unwrap();
        agree(&[&old], 4).await;
        stop([old]).await;
    });
}

#[test]
fn a_removed_node_is_told_so_when_it_should_join_again_with_its_data() {
    simulated(async || {
        let seats = seats(4);
        let mut nodes = formed(&seats).await;
        fill_sessions(&all(&nodes), 1..5).await;
        agree(&all(&nodes), 4).await;
        let gone = nodes.remove(3);
        let id = gone.id();
        stop([gone]).await;
        // A member with data goes on, whatever it was told.
        let back = seats[3].open(Beginning::Waits).await;
        assert_eq!(timeout(LONG, back.rejoin()).await.unwrap(), Ok(()));
        stop([back]).await;
        at_leader(&all(&nodes), |lead| lead.remove(id)).await;
        let back = seats[3].open(Beginning::Waits).await;
        let refused = timeout(LONG, back.rejoin()).await.unwrap().unwrap_err().to_string();
        assert!(
            refused.contains("says that this node is no member of the cluster any more; stop it, empty"),
            "{refused}"
        );
        nodes.push(back);
        stop(nodes).await;
    });
}

#[test]
fn a_node_that_the_leader_does_not_reach_has_its_record_changed_only_once() {
    simulated(async || {
        let seats = seats(2);
        let nodes = formed(&seats).await;
        agree(&all(&nodes), 0).await;
        let leads = leader(&all(&nodes)).await;
        let (lead, other) = (&nodes[leads], &nodes[1 - leads]);
        let renamed = NodeRecord { name: "renamed".to_owned(), ..NodeRecord::default() };
        at_leader(&[lead], |lead| lead.update(other.id(), renamed.clone())).await;
        let last = || lead.group.metrics().membership_config.log_id().map(|id| id.index);
        let before = last();
        lead.update(other.id(), renamed.clone()).await.unwrap();
        assert_eq!(last(), before);
        stop(nodes).await;
    });
}

#[test]
fn a_node_changes_no_record_but_its_own_and_is_told_when_that_is_not_done_yet() {
    simulated(async || {
        let seats = seats(2);
        let mut nodes = formed(&seats).await;
        agree(&all(&nodes), 0).await;
        let leads = leader(&all(&nodes)).await;
        let other = nodes.remove(1 - leads);
        let (id, lead) = (other.id(), &nodes[0]);
        let renamed = NodeRecord { name: "renamed".to_owned(), ..NodeRecord::default() };
        let start = other.group.peers.start_number();
        let ask = async |caller: u64| {
            let peers = another_start(Identity { cluster: lead.cluster(), node: caller }, start);
            let answer =
                peers.get(lead.id(), &seats[leads].record()).call(Request::Update { record: renamed.clone() }, LONG);
            let Answer::Updated(updated) = answer.await.unwrap() else { panic!("an answer to another question") };
            peers.clear();
            updated
        };
        let stranger = ask(99).await.unwrap_err();
        assert!(stranger.contains("there is no member with id 99"), "{stranger}");
        ask(id).await.unwrap();
        assert_eq!(lead.find("renamed"), Ok(id));
        // Without a majority nothing is changed.
        stop([other]).await;
        let again = NodeRecord { name: "again".to_owned(), ..NodeRecord::default() };
        let peers = another_start(Identity { cluster: lead.cluster(), node: id }, start);
        let answer = peers.get(lead.id(), &seats[leads].record()).call(Request::Update { record: again }, LONG).await;
        assert!(matches!(answer, Ok(Answer::Updated(Err(_)))), "{answer:?}");
        peers.clear();
        stop(nodes).await;
    });
}
