//! Files that are damaged while a node runs.

use baton_runtime::sleep;

use super::cluster::{MOMENT, Seat, agree, all, fill_sessions, leader, seats, simulated, stop};
use super::forming::{formed, until};
use super::*;

/// Overwrites all segments of the log but the last.
fn damage_log(seat: &Seat) {
    let mut segments: Vec<String> = seat.disk.names().into_iter().filter(|name| name.starts_with("log-")).collect();
    segments.sort();
    assert!(segments.len() > 1, "{segments:?}");
    for name in &segments[..segments.len() - 1] {
        let length = seat.disk.read(name).unwrap().len();
        seat.disk.put(name, vec![0; length]);
    }
}

/// Proposes large entries. About 30 of them fill a segment. The state refuses their long labels, and stays small.
async fn fill_large(nodes: &[&Node], sessions: Range<u64>) {
    for session in sessions {
        let entry = open_labelled(session, "x".repeat(1000));
        // The leadership may change.
        while nodes[leader(nodes).await].propose(entry.clone()).await.is_err() {
            sleep(MOMENT).await;
        }
    }
}

#[test]
fn a_follower_gets_a_snapshot_if_the_leader_cannot_read_its_old_log() {
    simulated(async || {
        let seats = seats(3);
        let mut nodes = formed(&seats).await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        let away = (leader(&all(&nodes)).await + 1) % 3;
        let gone = nodes.remove(away);
        stop([gone]).await;
        // A leader has one old segment in memory, so a snapshot must cover several.
        fill_large(&all(&nodes), 20..320).await;
        until("the snapshots are made", async || {
            nodes.iter().all(|node| node.group.metrics().snapshot.is_some_and(|snapshot| snapshot.index > 200))
        })
        .await;
        let others: Vec<&Seat> = (0..3).filter(|seat| *seat != away).map(|seat| &seats[seat]).collect();
        others.iter().for_each(|seat| damage_log(seat));
        nodes.insert(away, seats[away].open(Beginning::Waits).await);
        agree(&all(&nodes), 19).await;
        let metrics = nodes[away].group.metrics();
        assert!(metrics.purged.is_some(), "it has a snapshot instead of the log before it: {metrics}");
        let said =
            |seat: &Seat| seat.warned.lock().unwrap().iter().filter(|line| line.contains("cannot be read")).count();
        let lines: Vec<usize> = others.iter().map(|seat| said(seat)).collect();
        assert!(
            lines.iter().sum::<usize>() >= 1 && lines.iter().all(|lines| *lines <= 1),
            "once for a file: {lines:?}"
        );
        stop(nodes).await;
    });
}
