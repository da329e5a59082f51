//! Read-index rounds: what counts as a confirmation that this node leads, and what does not.

use std::time::Duration;

use baton_proxy::{Conditions, Mesh};
use openraft::async_runtime::WatchReceiver;
use tokio::time::timeout;

use super::cluster::{LONG, Seat, agree_at, all, began, fill_sessions, leader, seats, stop};
use super::*;

/// Longer than `commits::HOLD`, so that the leader sends a new commit index.
const COMMIT_IS_SENT: Duration = Duration::from_millis(30);

const SHORT: Timing = Timing {
    heartbeat: Duration::from_millis(20),
    election_min: Duration::from_millis(100),
    election_max: Duration::from_millis(200),
};

/// Seats whose nodes reach each other through proxies.
async fn meshed(timing: Timing) -> (Vec<Seat>, Mesh) {
    let mut seats = seats(3).await;
    let addresses: Vec<String> = seats.iter().map(|seat| seat.address.to_string()).collect();
    let mesh = Mesh::start(&addresses, 1).unwrap();
    for (number, seat) in seats.iter_mut().enumerate() {
        seat.routes = addresses.iter().cloned().zip(mesh.addresses(number)).collect();
        seat.timing = timing;
    }
    (seats, mesh)
}

/// A deposed leader begins a round. Then it gets answers that its followers gave before they elected another leader. An
/// old answer has the same last log id as a request of the leader that is still on its way.
async fn old_answers_confirm_no_round(timing: Timing) {
    let (seats, mesh) = meshed(timing).await;
    let nodes = began(&seats).await;
    fill_sessions(&all(&nodes), 1..20).await;
    let old = leader(&all(&nodes)).await;
    agree_at(&nodes[old], &all(&nodes), 19).await;
    let [one, other] = [(old + 1) % 3, (old + 2) % 3];

    [one, other].into_iter().for_each(|follower| mesh.cut_one_way(follower, old));
    let received = |follower: usize| nodes[follower].raft.metrics().borrow_watched().last_log_index;
    let before = received(old);
    let pending = nodes[old].propose(open_session(20)).await.unwrap();
    let last = timeout(LONG, async {
        loop {
            let last = received(old);
            if last > before && received(one) == last && received(other) == last {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let last = last.await.unwrap();
    // The answers get as far as the proxies.
    tokio::time::sleep(Duration::from_millis(12)).await;
    [one, other].into_iter().for_each(|follower| mesh.cut_one_way(old, follower));
    let others = [&nodes[one], &nodes[other]];
    fill_sessions(&others, 21..22).await;

    let round = async {
        let read = nodes[old].read_index().await;
        assert!(read.is_err(), "another node leads, and has acknowledged an entry: {read:?}");
    };
    let release = async {
        // The round begins first.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let only_forward = Conditions { hold_forward: true, ..Conditions::default() };
        let answers = |follower| mesh.link(old, follower).set(only_forward);
        answers(one);
        let committed = async {
            while nodes[old].status().commit < last.unwrap() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // The old answer may commit the old leader's entry, as far as it knows.
        let _ = timeout(timing.election_max, committed).await;
        tokio::time::sleep(COMMIT_IS_SENT).await;
        answers(other);
    };
    futures::future::join(round, release).await;
    drop(pending);
    mesh.heal();
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_answers_confirm_no_round_with_default_timing() {
    old_answers_confirm_no_round(Timing::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_answers_confirm_no_round_with_short_timing() {
    old_answers_confirm_no_round(SHORT).await;
}
