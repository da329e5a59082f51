//! A group whose disks are slow: it commits slowly, and nothing else changes.

use std::time::Duration;

use baton_runtime::{Instant, sleep, timeout};
use futures::poll;
use openraft::async_runtime::WatchReceiver;

use super::cluster::{LONG, agree_at, all, applied, fill_sessions, leader, simulated, simulation, stop, trio};
use super::forming::until;
use super::*;

#[test]
fn a_leader_stays_confirmed_while_all_disks_hang() {
    simulated(async || {
        let (seats, nodes) = trio().await;
        let index = fill_sessions(&all(&nodes), 1..60).await;
        applied(&all(&nodes), index).await;
        let lead = &nodes[leader(&all(&nodes)).await];
        agree_at(lead, &all(&nodes), 59).await;
        for node in &nodes {
            let has_snapshot =
                |metrics: &openraft::RaftMetrics<TypeConfig>| metrics.snapshot.is_some_and(|at| at.index > 5);
            node.raft.trigger().snapshot().await.unwrap();
            node.raft.wait(Some(LONG)).metrics(has_snapshot, "a snapshot").await.unwrap();
        }

        let Timing { heartbeat, election_max, .. } = Timing::default();
        let hangs = |time: Duration| seats.iter().for_each(|seat| simulation().set_disk(seat.host, time, time));
        hangs(4 * election_max);
        let last = |node: &Node| node.raft.metrics().borrow_watched().last_log_index;
        let before = last(lead);
        let (mut told, term) = (lead.leadership(), lead.status().term);
        told.borrow_and_update();
        let mut pending = lead.propose(open_session(60));
        until("all nodes write it", async || nodes.iter().all(|node| last(node) > before)).await;
        // Each purge is queued behind a sync that hangs.
        for node in &nodes {
            node.raft.trigger().purge_log(5).await.unwrap();
        }
        let began = Instant::now();
        while began.elapsed() < 3 * election_max {
            lead.read_index().await.unwrap();
            sleep(heartbeat).await;
        }
        assert!(!told.has_changed().unwrap(), "{:?}", *told.borrow());
        assert!(poll!(&mut pending).is_pending(), "no majority has it on disk");
        hangs(Duration::ZERO);
        timeout(LONG, pending).await.unwrap().unwrap();
        agree_at(lead, &all(&nodes), 60).await;
        assert_eq!(lead.status().term, term);
        for node in &nodes {
            let purged = |metrics: &openraft::RaftMetrics<TypeConfig>| metrics.purged.is_some();
            node.raft.wait(Some(LONG)).metrics(purged, "purged").await.unwrap();
        }
        stop(nodes).await;
    });
}
