//! Read-index rounds: what counts as a confirmation that this node leads, and what does not.

use std::time::Duration;

use baton_runtime::{sleep, timeout};
use openraft::async_runtime::WatchReceiver;

use super::cluster::{
    LONG, MOMENT, agree_at, all, began, cut_one_way, fill_sessions, heal, leader, seats, simulated, simulation, stop,
};
use super::*;

/// Longer than `commits::HOLD`, so that the leader sends a new commit index.
const COMMIT_IS_SENT: Duration = Duration::from_millis(30);

const SHORT: Timing = Timing {
    heartbeat: Duration::from_millis(20),
    election_min: Duration::from_millis(100),
    election_max: Duration::from_millis(200),
};

/// A deposed leader begins a round. Then it gets answers that its followers gave before they elected another leader. An
/// old answer has the same last log id as a request of the leader that is still on its way.
async fn old_answers_confirm_no_round(timing: Timing) {
    let mut seats = seats(3);
    seats.iter_mut().for_each(|seat| seat.timing = timing);
    let nodes = began(&seats).await;
    fill_sessions(&all(&nodes), 1..20).await;
    let old = leader(&all(&nodes)).await;
    agree_at(&nodes[old], &all(&nodes), 19).await;
    let [one, other] = [(old + 1) % 3, (old + 2) % 3];

    [one, other].into_iter().for_each(|follower| cut_one_way(&seats[follower], &seats[old]));
    let received = |follower: usize| nodes[follower].raft.metrics().borrow_watched().last_log_index;
    let before = received(old);
    let pending = nodes[old].propose(open_session(20));
    let last = timeout(LONG, async {
        loop {
            let last = received(old);
            if last > before && received(one) == last && received(other) == last {
                return last;
            }
            sleep(MOMENT).await;
        }
    });
    let last = last.await.unwrap();
    // The followers answer.
    sleep(Duration::from_millis(12)).await;
    [one, other].into_iter().for_each(|follower| cut_one_way(&seats[old], &seats[follower]));
    let others = [&nodes[one], &nodes[other]];
    fill_sessions(&others, 21..22).await;

    let round = async {
        let read = nodes[old].read_index().await;
        assert!(read.is_err(), "another node leads, and has acknowledged an entry: {read:?}");
    };
    let release = async {
        // The round begins first.
        sleep(Duration::from_millis(5)).await;
        let answers = |follower: usize| simulation().network().join(seats[follower].host, seats[old].host);
        answers(one);
        let committed = async {
            while nodes[old].status().commit < last.unwrap() {
                sleep(MOMENT).await;
            }
        };
        // The old answer may commit the old leader's entry, as far as it knows.
        let _ = timeout(timing.election_max, committed).await;
        sleep(COMMIT_IS_SENT).await;
        answers(other);
    };
    futures::future::join(round, release).await;
    drop(pending);
    heal();
    stop(nodes).await;
}

#[test]
fn old_answers_confirm_no_round_with_default_timing() {
    simulated(async || {
        old_answers_confirm_no_round(Timing::default()).await;
    });
}

#[test]
fn old_answers_confirm_no_round_with_short_timing() {
    simulated(async || {
        old_answers_confirm_no_round(SHORT).await;
    });
}
