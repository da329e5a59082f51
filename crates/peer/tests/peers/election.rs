//! Members elect a leader.

use baton_peer::{ElectionPeer, Leader, PeerGroup, run_election};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::{listeners, listening, within_a_minute};

async fn join_bullies(members: usize) -> Vec<ElectionPeer> {
    let (file, listeners) = listeners("bully", members).await;
    let group = PeerGroup::new(file).unwrap();
    let mut joining = JoinSet::new();
    for (id, listener) in listeners.into_iter().enumerate() {
        let group = group.clone();
        joining.spawn(async move { (id, ElectionPeer::join(&group, id, listening(listener)).await.unwrap()) });
    }
    let mut peers = joining.join_all().await;
    peers.sort_by_key(|(id, _)| *id);
    peers.into_iter().map(|(_, peer)| peer).collect()
}

async fn follows(peer: &ElectionPeer, leader: usize) {
    peer.watch_leader().wait_for(|now| now.id == Some(leader)).await.expect("it runs");
}

#[tokio::test]
async fn the_next_highest_leads_when_the_leader_has_left() {
    within_a_minute(async {
        let mut peers = join_bullies(3).await;
        for peer in &peers {
            follows(peer, 2).await;
        }
        peers.pop().unwrap().shutdown().await.unwrap();
        for peer in &peers {
            follows(peer, 1).await;
            assert!(peer.watch_status().borrow().lost.contains(&2));
        }
        // The lowest process starts an election, and the same leader wins again.
        let before = peers[1].stats().await.unwrap().messages_by_kind["COORDINATOR"];
        peers[0].elect().await;
        while peers[1].stats().await.unwrap().messages_by_kind["COORDINATOR"] == before {
            tokio::task::yield_now().await;
        }
        follows(&peers[0], 1).await;
    })
    .await;
}

#[tokio::test]
async fn a_run_tells_every_change_until_it_is_stopped() {
    within_a_minute(async {
        let (file, mut listeners) = listeners("bully", 2).await;
        let group = PeerGroup::new(file).unwrap();
        let highest = listening(listeners.pop().unwrap());
        let lowest = listening(listeners.pop().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let (change, mut changes) = mpsc::unbounded_channel();
        let run = {
            let group = group.clone();
            tokio::spawn(async move {
                let stop = async { drop(stopped.await) };
                let on_change = |leader| change.send(leader).expect("the test waits for it");
                run_election(&group, 0, lowest, stop, on_change).await.unwrap()
            })
        };
        let leader = ElectionPeer::join(&group, 1, highest).await.unwrap();
        while changes.recv().await.unwrap() != (Leader { id: Some(1), term: None }) {}
        leader.shutdown().await.unwrap();
        while changes.recv().await.unwrap() != (Leader { id: Some(0), term: None }) {}
        drop(stop);
        assert!(run.await.unwrap().messages_by_kind["ELECTION"] >= 1);
    })
    .await;
}
