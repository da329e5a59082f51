//! Nodes of different versions, and half-made changes of the members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_runtime::{sleep, timeout};
use futures::FutureExt;
use openraft::ChangeMembers;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};

use super::cluster::{LONG, MOMENT, Seat, agree, all, fill_sessions, leader, seats, simulated, stop};
use super::forming::{formed, list, until, waiting};
use super::*;
use crate::format::record;
use crate::raft::peers::{Answer, Append, Peer, Request};
use crate::raft::snapshot::Chunks;
use crate::raft::types::{Membership, Snapshot, SnapshotMeta};

#[test]
fn adjacent_versions_work_together_with_what_both_read() {
    simulated(async || {
        let mut seats = seats(3);
        seats[0].formats = (2, 3);
        seats[1].formats = (1, 2);
        let nodes = formed(&seats).await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        let lead = &nodes[leader(&all(&nodes)).await];
        until("the leader knows what all read", async || lead.format() == 2).await;
        stop(nodes).await;
    });
}

/// A cluster that is upgraded node by node.
#[test]
fn the_feed_begins_everywhere_at_once_when_all_members_read_it() {
    simulated(async || {
        let mut seats = seats(3);
        seats[2].formats = (2, 3);
        let mut nodes = formed(&seats).await;
        leads(&nodes[leader(&all(&nodes)).await]).await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        assert!(nodes.iter().all(|node| !node.state().feed().is_on()));
        stop(nodes.pop()).await;
        seats[2].formats = (2, 4);
        nodes.push(seats[2].open(Beginning::Waits).await);
        leads(&nodes[leader(&all(&nodes)).await]).await;
        until("the feed begins", async || nodes.iter().all(|node| node.state().feed().is_on())).await;
        fill_sessions(&all(&nodes), 20..30).await;
        agree(&all(&nodes), 29).await;
        let feeds = nodes.iter().map(|node| node.state().feed().clone()).collect::<Vec<_>>();
        assert!(feeds.iter().all(|feed| *feed == feeds[0] && feed.len() >= 10 && feed.members().is_some()));
        stop(nodes).await;
    });
}

#[test]
fn versions_that_are_too_far_apart_are_refused() {
    simulated(async || {
        let mut seats = seats(2);
        seats[1].formats = (5, 6);
        let nodes = waiting(&seats).await;
        let both = async { tokio::join!(nodes[0].form(list(&seats)), nodes[1].form(list(&seats))) };
        let (first, second) = timeout(LONG, both).await.unwrap();
        let (first, second) = (first.unwrap_err().to_string(), second.unwrap_err().to_string());
        assert!(first.contains("reads data formats 5 to 6, and this node 2 to 4; start all nodes with"), "{first}");
        assert!(second.contains("reads data formats 2 to 4, and this node 5 to 6; start all nodes with"), "{second}");
        stop(nodes).await;

        let mut seats = super::cluster::seats(2);
        seats[1].formats = (5, 6);
        let nodes = [seats[0].open(Beginning::Alone).await, seats[1].open(Beginning::Waits).await];
        leads(&nodes[0]).await;
        let refused =
            timeout(LONG, nodes[1].join(seats[0].address.to_string())).await.unwrap().unwrap_err().to_string();
        assert!(refused.contains("it reads data formats 2 to 4, but this node reads 5 to 6; upgrade"), "{refused}");
        // An operator adds it all the same.
        nodes[0].add_learner(nodes[1].id(), seats[1].record()).await.unwrap();
        until("the two refuse to talk", async || {
            let members = nodes[0].members().await;
            let says = members.into_iter().find(|member| member.id == nodes[1].id()).unwrap().says;
            says.is_err_and(|why| why.contains("reads data formats 2 to 4, but this node reads 5 to 6"))
        })
        .await;
        assert!(nodes[1].is_empty().await);
        stop(nodes).await;
    });
}

#[test]
fn a_leader_proposes_only_what_all_members_read() {
    simulated(async || {
        let mut seats = seats(2);
        (seats[0].formats, seats[1].formats) = ((1, 2), (1, 1));
        let lost = Arc::new(Mutex::new(Vec::new()));
        let told = lost.clone();
        let settings = Options {
            on_lost: Arc::new(move |term, is_lead| told.lock().unwrap().push((term, is_lead))),
            ..seats[0].options()
        };
        // The other node must not lead: this test asks this one.
        let patient = Duration::from_secs(3600);
        seats[1].timing = Timing { election_min: patient, election_max: patient * 2, ..seats[1].timing };
        let node = seats[0].start(settings).await.unwrap();
        let mut other = seats[1].open(Beginning::Waits).await;
        let members = BTreeMap::from([(node.id(), seats[0].record()), (other.id(), seats[1].record())]);
        node.initialize(members).await.unwrap();
        let mut leadership = node.leadership();
        let now = *leadership.wait_for(|now| matches!(now, Leadership::Leads { .. })).await.unwrap();
        let Leadership::Leads { term } = now else { unreachable!("waited for") };
        assert!(term > 0, "no node leads in term 0");
        assert_eq!(node.format(), 1);
        node.submit(term, open_session(1));
        until("the entry is told as lost", async || *lost.lock().unwrap() == [(term, false)]).await;
        let lead = |term| entry_of(sessions::Command::Lead { term });
        node.submit(term, lead(term));
        until("the Lead is told as lost", async || *lost.lock().unwrap() == [(term, false), (term, true)]).await;
        // The other node is upgraded.
        stop([other]).await;
        seats[1].formats = (1, 2);
        other = seats[1].open(Beginning::Waits).await;
        until("the leader knows that all read it", async || node.format() == 2).await;
        // Raft itself refuses an entry of a term in which this node does not lead.
        node.submit(term + 9, lead(term + 9));
        until("that Lead is told as lost", async || lost.lock().unwrap().contains(&(term + 9, true))).await;
        agree(&[&node, &other], 0).await;
        stop([node, other]).await;
    });
}

/// An append of one entry without content. `spoil` changes its bytes.
async fn send_entry(peer: &Peer, spoil: fn(&mut [u8])) -> Result<Answer, LinkError> {
    let mut records = Vec::new();
    let payload = record::Payload::Blank.encode();
    record::Record::Entry { id: record::LogId { term: 1, index: 0 }, payload: &payload }.encode_to(&mut records);
    spoil(&mut records);
    let vote = record::Vote { term: 1, node: 99, committed: true };
    let append =
        Append { vote, previous: None, commit: None, confirmed: None, answered: None, known: None, records: &records };
    peer.call(Request::Append(append), LONG).await
}

#[test]
fn an_entry_of_a_newer_version_stops_a_node_and_a_malformed_one_does_not() {
    simulated(async || {
        let ((fatal, stopped), (warn, warned)) = (hook(), hook());
        let seat = Seat::new("called");
        let node = seat.start(Options { fatal, warn, ..seat.options() }).await.unwrap();
        let leader = nobody(Identity { cluster: 9, node: 99 });
        let peer = leader.get(node.id(), &seat.record());
        // The last byte is the kind of the payload.
        let ended = send_entry(&peer, |records| *records.last_mut().unwrap() = 99).await.unwrap_err();
        assert!(matches!(ended, LinkError::Closed | LinkError::Broken(_)), "{ended}");
        let says = told(&warned).await;
        assert!(says.contains("it sent entries that cannot be read: entry 0: it contains no valid payload"), "{says}");
        assert!(stopped.try_recv().is_err(), "the node goes on");
        // A leader of a newer version calls it.
        let answer = send_entry(&peer, |records| records[0] = 9).await.unwrap();
        assert!(matches!(answer, Answer::Failed(_)), "{answer:?}");
        assert_eq!(
            told(&stopped).await,
            "an entry of the leader cannot be read: a newer version wrote it, with data format 9; start this node with the \
         version of the leader"
        );
        leader.clear();
        drop(peer);
        stop([node]).await;
    });
}

#[test]
fn a_snapshot_that_cannot_be_restored_is_refused_and_one_of_a_newer_version_stops_the_node() {
    simulated(async || {
        let ((fatal, stopped), (warn, warned)) = (hook(), hook());
        let seat = Seat::new("called");
        let node = seat.start(Options { fatal, warn, ..seat.options() }).await.unwrap();
        let mut leader = nobody(Identity { cluster: 9, node: 99 });
        let mut client = leader.new_client(node.id(), &seat.record()).await;
        let mut send = async |chunk: &[u8]| {
            let members = openraft::Membership::new(vec![[99].into()], BTreeMap::from([(99, NodeRecord::default())]));
            let last_membership = Membership::new(Some(LogId::new_term_index(1, 0)), members.unwrap());
            let meta = SnapshotMeta { last_log_id: Some(LogId::new_term_index(1, 5)), last_membership };
            let snapshot = Snapshot { meta, snapshot: Chunks::InMemory(vec![chunk.to_vec()]) };
            let (vote, never) = (Vote::new_committed(1, 99), std::future::pending());
            client.full_snapshot(vote, snapshot, never, RPCOption::new(LONG)).await.unwrap_err().to_string()
        };
        let refused = send(&[2, 0xff, 0xff]).await;
        let malformed = "a snapshot of the leader cannot be restored: it contains no valid part of the state";
        assert!(refused.contains(malformed), "{refused}");
        assert!(told(&warned).await.contains(malformed));
        assert!(stopped.try_recv().is_err() && node.is_empty().await, "the node goes on");
        let newer = "a snapshot of the leader cannot be restored: a newer version wrote it, with data format 9";
        let refused = send(&[9, 0]).await;
        assert!(refused.contains(newer), "{refused}");
        assert_eq!(stopped.try_recv().unwrap(), format!("{newer}; start this node with the version of the leader"));
        leader.clear();
        stop([node]).await;
    });
}

#[test]
fn the_next_leader_finishes_a_change_of_the_voters() {
    simulated(async || {
        let seats = seats(4);
        let mut nodes = formed(&seats[..3]).await;
        nodes.push(seats[3].open(Beginning::Waits).await);
        fill_sessions(&all(&nodes[..3]), 1..10).await;
        agree(&all(&nodes[..3]), 9).await;
        let leads = leader(&all(&nodes[..3])).await;
        let (lead, new) = (&nodes[leads], nodes[3].id());
        lead.add_learner(new, seats[3].record()).await.unwrap();
        // A change that ends after its first step, and a leader that does not finish it.
        let turn = lead.group.changing.clone().try_lock_owned().unwrap();
        let gone = nodes[(leads + 1) % 3].id();
        let change = ChangeMembers::ReplaceAllVoters(nodes.iter().map(Node::id).filter(|id| *id != gone).collect());
        let mut changing = Box::pin(lead.raft.change_membership(change, false));
        assert!((&mut changing).now_or_never().is_none());
        let half = |node: &Node| node.group.metrics().membership_config.get_joint_config().len() == 2;
        until("it is half done", async || {
            let metrics = lead.group.metrics();
            half(lead) && metrics.membership_config == metrics.committed_membership_config
        })
        .await;
        drop(changing);
        assert_eq!(lead.promote(new).await, Err(MemberError::InProgress));
        let next = &nodes[(leads + 2) % 3];
        timeout(LONG, async {
            // The new voter may not have heard of its promotion yet, and a leader hands over to a healthy node only.
            while lead.transfer(next.id()).await.is_err() && lead.group.leading().is_ok() {
                sleep(MOMENT).await;
            }
        })
        .await
        .unwrap();
        let members: BTreeSet<u64> = nodes.iter().map(Node::id).filter(|id| *id != gone).collect();
        until("the change is finished", async || {
            nodes.iter().filter(|node| node.id() != gone).all(|node| {
                let metrics = node.group.metrics();
                let all: BTreeSet<u64> = metrics.membership_config.nodes().map(|(id, _)| *id).collect();
                !half(node)
                    && all == members
                    && metrics.membership_config.voter_ids().collect::<BTreeSet<_>>() == members
            })
        })
        .await;
        drop(turn);
        let left: Vec<&Node> = nodes.iter().filter(|node| node.id() != gone).collect();
        agree(&left, 9).await;
        stop(nodes).await;
    });
}
