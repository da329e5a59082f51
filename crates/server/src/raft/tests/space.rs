//! Nodes whose disks are nearly full.

use std::sync::atomic::{AtomicBool, Ordering};

use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;

use super::cluster::{agree, all, fill_sessions, leader, simulated, stop, trio};
use super::forming::until;
use super::*;

#[test]
fn a_leader_whose_disk_is_nearly_full_hands_over_until_a_node_with_room_leads() {
    simulated(async || {
        let (seats, nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        let first = leader(&all(&nodes)).await;
        let leads = |place: usize| matches!(*nodes[place].leadership().borrow(), Leadership::Leads { .. });
        seats[first].disk.set_full(true);
        until("another node leads", async || !leads(first) && (0..3).any(leads)).await;
        let second = leader(&all(&nodes)).await;
        seats[second].disk.set_full(true);
        let third = 3 - first - second;
        until("the last node with room leads", async || leads(third)).await;
        let refused = nodes[third].transfer(nodes[first].id()).await.unwrap_err();
        let says = format!(
            "node-{first} has 0 MiB of free space, and would hand the leadership back; free 128 MiB there, or name another member"
        );
        assert_eq!(refused.to_string(), says);
        let member = nodes[third].members().await.into_iter().find(|member| member.id == nodes[first].id()).unwrap();
        assert!(member.remark.starts_with("has 0 MiB of free space, so it does not lead while another"), "{member:?}");
        seats[third].disk.set_full(true);
        seats[first].disk.set_full(false);
        until("the node that has room again leads", async || leads(first)).await;
        fill_sessions(&all(&nodes), 20..40).await;
        agree(&all(&nodes), 39).await;
        stop(nodes).await;
    });
}

#[test]
fn a_node_without_room_is_elected_only_if_no_voter_with_room_answers() {
    simulated(async || {
        let (seats, mut nodes) = trio().await;
        fill_sessions(&all(&nodes), 1..20).await;
        agree(&all(&nodes), 19).await;
        let full = leader(&all(&nodes)).await;
        seats[full].disk.set_full(true);
        until("another node leads", async || {
            let leadership = nodes.iter().map(|node| *node.leadership().borrow()).collect::<Vec<_>>();
            !matches!(leadership[full], Leadership::Leads { .. })
                && leadership.iter().any(|now| matches!(now, Leadership::Leads { .. }))
        })
        .await;
        fill_sessions(&all(&nodes), 20..30).await;
        agree(&all(&nodes), 29).await;
        // From now on it must not lead.
        let (has_led, mut metrics) = (Arc::new(AtomicBool::new(false)), nodes[full].raft.server_metrics());
        let seen = has_led.clone();
        let watching = baton_runtime::spawn(async move {
            while metrics.changed().await.is_ok() {
                seen.fetch_or(metrics.borrow_watched().state == ServerState::Leader, Ordering::SeqCst);
            }
        });
        let second = leader(&all(&nodes)).await;
        let stopped = nodes.remove(second);
        stop([stopped]).await;
        let leads = leader(&all(&nodes)).await;
        let full_id = nodes[if full > second { full - 1 } else { full }].id();
        assert_ne!(nodes[leads].id(), full_id);
        assert!(!has_led.load(Ordering::SeqCst), "the other voter has room");
        watching.abort();
        // Then no voter has room, and two of three must go on.
        seats.iter().for_each(|seat| seat.disk.set_full(true));
        let stopped = nodes.remove(leads);
        stop([stopped]).await;
        nodes.insert(0, seats[second].open(Beginning::Waits).await);
        leader(&all(&nodes)).await;
        fill_sessions(&all(&nodes), 30..40).await;
        stop(nodes).await;
    });
}
