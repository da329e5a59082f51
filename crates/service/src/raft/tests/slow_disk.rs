//! A group whose disks are slow: it commits slowly, and nothing else changes.

use std::time::Duration;

use futures::poll;
use tokio::time::{Instant, timeout};

use super::cluster::{LONG, agree_at, all, applied, began, fill_sessions, leader, seats, stop};
use super::writer::Gate;
use super::*;

/// Long enough for a busy machine, because the test waits for several election timeouts.
const TIMING: Timing = Timing {
    heartbeat: Duration::from_millis(50),
    election_min: Duration::from_millis(500),
    election_max: Duration::from_millis(1000),
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_stays_confirmed_while_all_disks_hang() {
    let mut seats = seats(3).await;
    seats.iter_mut().for_each(|seat| seat.timing = TIMING);
    let nodes = began(&seats).await;
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

    let gates: Vec<Gate> = seats.iter().map(|seat| Gate::hold(&seat.disk, |_| {})).collect();
    let (mut told, term) = (lead.leadership(), lead.status().term);
    told.borrow_and_update();
    let mut pending = lead.propose(open_session(60)).await.unwrap();
    gates.iter().for_each(Gate::begun);
    // Each purge is queued behind a sync that hangs.
    for node in &nodes {
        node.raft.trigger().purge_log(5).await.unwrap();
    }
    let began = Instant::now();
    while began.elapsed() < 3 * TIMING.election_max {
        lead.read_index().await.unwrap();
        tokio::time::sleep(TIMING.heartbeat).await;
    }
    assert!(!told.has_changed().unwrap(), "{:?}", *told.borrow());
    assert!(poll!(&mut pending).is_pending(), "no majority has it on disk");
    drop(gates);
    timeout(LONG, pending).await.unwrap().unwrap();
    agree_at(lead, &all(&nodes), 60).await;
    assert_eq!(lead.status().term, term);
    for node in &nodes {
        let purged = |metrics: &openraft::RaftMetrics<TypeConfig>| metrics.purged.is_some();
        node.raft.wait(Some(LONG)).metrics(purged, "purged").await.unwrap();
    }
    stop(nodes).await;
}
