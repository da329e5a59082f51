//! Members take turns in the critical section.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_peer::{MemberReport, MutexPeer, PeerGroup, RunError, Turns, run_turns};
use tokio::task::{JoinSet, yield_now};

use crate::{listeners, listening, messages, start, stats, within_a_minute};

const ENTRIES: u64 = 10;

/// Enters again and again, and increments the counter in a way that loses counts if another process is inside too.
async fn count(peer: MutexPeer, counter: Arc<AtomicU64>) -> (MutexPeer, Vec<(u64, u64)>) {
    let mut entries = Vec::new();
    for _ in 0..ENTRIES {
        let grant = peer.acquire().await.unwrap();
        let seen = counter.load(Ordering::Relaxed);
        for _ in 0..20 {
            yield_now().await;
        }
        counter.store(seen + 1, Ordering::Relaxed);
        entries.push((seen, grant.fence()));
        grant.release();
    }
    (peer, entries)
}

async fn clients_exclude_each_other(algorithm: &str, members: usize) {
    let (group, mut peers) = start(algorithm, members).await;
    let helpers = peers.split_off(group.clients());
    let counter = Arc::new(AtomicU64::new(0));
    let mut counting = JoinSet::new();
    for peer in peers {
        counting.spawn(count(peer, counter.clone()));
    }
    let (peers, entries): (Vec<_>, Vec<_>) = counting.join_all().await.into_iter().unzip();
    let mut entries = entries.concat();
    entries.sort_unstable();
    assert_eq!(counter.load(Ordering::Relaxed), group.clients() as u64 * ENTRIES);
    assert!(entries.iter().map(|(seen, _)| *seen).eq(0..group.clients() as u64 * ENTRIES), "{algorithm}");
    assert!(entries.windows(2).all(|pair| pair[0].1 < pair[1].1), "fences grow from entry to entry: {entries:?}");
    for peer in peers.into_iter().chain(helpers) {
        peer.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn clients_exclude_each_other_with_central() {
    within_a_minute(clients_exclude_each_other("central", 4)).await;
}

#[tokio::test]
async fn clients_exclude_each_other_with_ricart_agrawala() {
    within_a_minute(clients_exclude_each_other("ricart-agrawala", 3)).await;
}

#[tokio::test]
async fn clients_exclude_each_other_with_suzuki_kasami() {
    within_a_minute(clients_exclude_each_other("suzuki-kasami", 3)).await;
}

#[tokio::test]
async fn clients_exclude_each_other_with_voting() {
    within_a_minute(clients_exclude_each_other("voting", 6)).await;
}

/// Clients enter one after the other, and no two clients request at the same time.
async fn messages_solo_in_turns(algorithm: &str, members: usize, rounds: u64) -> u64 {
    let (group, peers) = start(algorithm, members).await;
    for _ in 0..rounds {
        for peer in &peers[..group.clients()] {
            peer.acquire().await.unwrap().release();
            // The answer shows that the driver has handled the release.
            stats(peer).await;
        }
    }
    messages(&peers).await
}

#[tokio::test]
async fn an_entry_costs_what_the_papers_say() {
    within_a_minute(async {
        assert_eq!(messages_solo_in_turns("ricart-agrawala", 3, 5).await, 15 * 2 * (3 - 1));
        assert_eq!(messages_solo_in_turns("central", 4, 5).await, 15 * 3);
        // The first requester has the token. After that the token is never at the requester.
        assert_eq!(messages_solo_in_turns("suzuki-kasami", 3, 5).await, 14 * 3);
    })
    .await;
}

/// Runs all members at once.
async fn runs(algorithm: &str, members: usize) -> Vec<MemberReport> {
    let (file, listeners) = listeners(algorithm, members).await;
    let group = PeerGroup::new(file).unwrap();
    let turns = Turns { entries: ENTRIES, hold: Duration::from_micros(100) };
    let mut running = JoinSet::new();
    for (id, listener) in listeners.into_iter().enumerate() {
        let group = group.clone();
        running.spawn(async move { run_turns(&group, id, turns, listening(listener)).await.unwrap() });
    }
    let mut reports = running.join_all().await;
    reports.sort_by_key(|report| report.id);
    reports
}

#[tokio::test]
async fn a_run_ends_for_all_when_all_are_done() {
    within_a_minute(async {
        // Voting may need several attempts, so its cost depends on chance.
        let groups = [("ricart-agrawala", 3, 3, Some(4)), ("central", 4, 3, Some(3)), ("voting", 4, 2, None)];
        for (algorithm, members, clients, cost) in groups {
            let reports = runs(algorithm, members).await;
            let entries: Vec<u64> = reports.iter().map(|report| report.entries).collect();
            assert!(entries.iter().enumerate().all(|(id, &count)| count == if id < clients { ENTRIES } else { 0 }));
            let mut fences: Vec<u64> = reports.iter().flat_map(|report| report.fences.clone()).collect();
            fences.sort_unstable();
            fences.dedup();
            assert_eq!(fences.len() as u64, entries.iter().sum::<u64>(), "no fence comes twice");
            if let Some(cost) = cost {
                let messages: u64 = reports.iter().map(|report| report.messages).sum();
                assert_eq!(messages, cost * entries.iter().sum::<u64>(), "{algorithm}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_member_that_leaves_too_early_ends_the_run_of_the_others() {
    within_a_minute(async {
        let (file, mut listeners) = listeners("suzuki-kasami", 3).await;
        let group = PeerGroup::new(file).unwrap();
        let leaver = listening(listeners.pop().unwrap());
        let mut running = JoinSet::new();
        for (id, listener) in listeners.into_iter().enumerate() {
            let group = group.clone();
            let turns = Turns { entries: u64::MAX, hold: Duration::ZERO };
            running.spawn(async move { run_turns(&group, id, turns, listening(listener)).await });
        }
        MutexPeer::join(&group, 2, leaver).await.unwrap().shutdown().await.unwrap();
        for outcome in running.join_all().await {
            // The first process that notices leaves too, so the other one may miss either of them.
            assert!(matches!(outcome, Err(RunError::Lost { algorithm: "suzuki-kasami", .. })), "{outcome:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn several_callers_of_one_member_queue() {
    within_a_minute(async {
        let (_, peers) = start("suzuki-kasami", 2).await;
        let peers = Arc::new(peers);
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let peers = peers.clone();
            callers.spawn(async move {
                let grant = peers[1].acquire().await.unwrap();
                yield_now().await;
                grant.fence()
            });
        }
        let mut fences = callers.join_all().await;
        fences.sort_unstable();
        assert_eq!(fences, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(stats(&peers[1]).await.entries, 8);
    })
    .await;
}
