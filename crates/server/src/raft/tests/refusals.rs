//! Strangers, garbage, and changes that cannot be right.

use std::collections::BTreeMap;

use baton_runtime::simulation::{Reader, dial};
use baton_runtime::timeout;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::cluster::{LONG, Seat, agree, all, at_leader, fill_sessions, leader, promote, seats, simulated, stop, trio};
use super::forming::{formed, until, waiting};
use super::*;

async fn read_all(mut stream: Reader) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = timeout(LONG, stream.read_to_end(&mut bytes)).await.unwrap();
    bytes
}

#[test]
fn garbage_and_strangers_are_refused_and_the_group_goes_on() {
    simulated(async || {
        let (seats, nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..10).await;
        for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], b"batonR\x03\0\xff\xff\xff\xff", b"batonR\x09\0"] {
            let (reader, mut writer) = dial(seats[0].address).await.unwrap();
            writer.write_all(garbage).await.unwrap();
            writer.shutdown().await.unwrap();
            let answer = read_all(reader).await;
            assert!(answer.is_empty() || answer == b"batonR\x03\0", "{answer:?}");
        }
        let warned = seats[0].warned.lock().unwrap().clone();
        let garbage = "something that is no node of a cluster has called the peer address, from 127.1.0.0:";
        let refused = "a connection of another node is refused, from 127.1.0.0:";
        assert_eq!(warned.iter().filter(|line| line.starts_with(garbage)).count(), 1, "once a minute: {warned:?}");
        assert!(
            warned.iter().any(|line| line.starts_with(refused) && line.contains("version 9 of the wire")),
            "{warned:?}"
        );
        // A node of another cluster, which calls the right node.
        let strange = Seat::new("stranger");
        let stranger = strange.open(Beginning::Alone).await;
        leads(&stranger).await;
        stranger.add_learner(nodes[0].id(), seats[0].record()).await.unwrap();
        let members = stranger.members().await;
        let says = members.into_iter().find(|member| member.id == nodes[0].id()).unwrap().says.unwrap_err();
        let (theirs, ours) = (stranger.cluster(), nodes[0].cluster());
        let expected = format!(
            "refused by the other side, which says about this node: it belongs to cluster {theirs:016x}, but this node \
         belongs to cluster {ours:016x}; if one of the two has an old data folder, empty"
        );
        assert!(says.starts_with(&expected), "{says}");
        // Any node may ask who is there.
        let hello = stranger.introduce(&seats[0].address.to_string()).await.unwrap();
        assert_eq!((hello.node, hello.is_empty, hello.record), (nodes[0].id(), false, seats[0].record()));
        let nowhere = stranger.introduce("127.0.0.1:1").await.unwrap_err();
        assert!(matches!(nowhere, LinkError::Unreachable { .. }), "{nowhere}");
        fill_sessions(&all(&nodes), 10..20).await;
        agree(&all(&nodes), 19).await;
        stop(nodes.into_iter().chain([stranger])).await;
    });
}

#[test]
fn members_are_refused_with_a_reason_before_anything_changes() {
    simulated(async || {
        let seats = seats(2);
        let node = seats[0].open(Beginning::Alone).await;
        leads(&node).await;
        let members = BTreeMap::from([(node.id(), seats[0].record())]);
        assert_eq!(node.initialize(members).await, Err(MemberError::NotEmpty));
        // No node answers at this address, so the learner stays behind.
        node.add_learner(7, NodeRecord { peer_address: "127.0.0.1:1".to_owned(), ..seats[1].record() }).await.unwrap();
        let refused = node.promote(7).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "node-1 has not answered this leader yet; start it, or remove it if its address is wrong"
        );
        assert_eq!(node.promote(8).await, Err(MemberError::NoSuchMember { id: 8 }));
        assert_eq!(node.transfer(7).await, Err(MemberError::NotVoter { name: "node-1".to_owned() }));
        let again = node.add_learner(7, seats[1].record()).await.unwrap_err();
        assert!(matches!(again, MemberError::IsMember { id: 7, .. }), "{again}");
        let taken = node.update(7, NodeRecord { name: "else".to_owned(), ..seats[0].record() }).await.unwrap_err();
        assert!(matches!(taken, MemberError::AddressTaken { .. }), "{taken}");

        // With the right address it catches up. (Its id is not 7, so it is refused; then it is replaced.)
        node.remove(7).await.unwrap();
        let other = seats[1].open(Beginning::Waits).await;
        let elsewhere = NodeRecord { peer_address: "127.0.0.1:1".to_owned(), ..seats[1].record() };
        node.add_learner(other.id(), elsewhere).await.unwrap();
        node.update(other.id(), seats[1].record()).await.unwrap();
        promote(&node, other.id()).await;
        agree(&[&node, &other], 0).await;
        stop([node, other]).await;
    });
}

#[test]
fn a_node_with_too_many_connections_says_so() {
    simulated(async || {
        let seats = seats(2);
        let nodes = waiting(&seats).await;
        let address = seats[0].address.to_string();
        let mut idle = Vec::new();
        for _ in 0..64 {
            idle.push(dial(seats[0].address).await.unwrap());
        }
        // The listener takes the connections one after the other.
        until("there is no place left", async || {
            matches!(nodes[1].introduce(&address).await, Err(LinkError::RefusedByPeer(Refusal::Busy)))
        })
        .await;
        drop(idle);
        until("there is a place again", async || nodes[1].introduce(&address).await.is_ok()).await;
        let warned = seats[0].warned.lock().unwrap().clone();
        assert_eq!(warned.iter().filter(|line| line.contains("too many connections")).count(), 1, "{warned:?}");
        stop(nodes).await;
    });
}

#[test]
fn a_removed_node_that_comes_back_says_what_to_do() {
    simulated(async || {
        let seats = seats(3);
        let mut nodes = formed(&seats).await;
        fill_sessions(&all(&nodes), 1..10).await;
        agree(&all(&nodes), 9).await;
        let leads = leader(&all(&nodes)).await;
        let removed = (leads + 1) % 3;
        let gone = nodes.remove(removed);
        let id = gone.id();
        stop([gone]).await;
        at_leader(&all(&nodes), |lead| lead.remove(id)).await;
        let index = fill_sessions(&all(&nodes), 10..20).await;
        super::cluster::applied(&all(&nodes), index).await;
        let old = seats[removed].open(Beginning::Waits).await;
        let mut says = String::new();
        until("it says why it has no leader", async || {
            says = old.cluster_view().await.no_leader;
            says.contains("this node is no member of the cluster any more")
        })
        .await;
        assert!(says.contains("empty its data folder") && says.contains("--join"), "{says}");
        stop(nodes.into_iter().chain([old])).await;
    });
}
