//! A caller that gives up its request.

use std::sync::Arc;

use baton_peer::{AcquireError, CALLERS_MAX, MutexPeer};
use tokio::task::JoinSet;

use crate::{start, stats, within_a_minute};

/// Makes a request, waits until the protocol has it, and gives up.
pub async fn ask_and_give_up(peer: &MutexPeer) {
    tokio::select! {
        biased;
        grant = peer.acquire() => panic!("somebody else is inside, and yet {grant:?}"),
        stats = stats(peer) => assert_eq!(stats.requests, 1),
    }
}

#[tokio::test]
async fn a_dropped_request_is_released_when_it_is_granted() {
    within_a_minute(async {
        for (algorithm, members) in [("central", 4), ("ricart-agrawala", 3), ("suzuki-kasami", 3)] {
            let (_, peers) = start(algorithm, members).await;
            let grant = peers[0].acquire().await.unwrap();
            ask_and_give_up(&peers[1]).await;
            let fence = grant.fence();
            grant.release();
            // Whether P2's request comes before or after the dropped one, it is granted, and so is P0's next request.
            assert!(peers[2].acquire().await.unwrap().fence() > fence, "{algorithm}");
            assert!(peers[0].acquire().await.unwrap().fence() > fence, "{algorithm}");
            // P1's next request comes after its dropped request was granted and released.
            drop(peers[1].acquire().await.unwrap());
            let stats = stats(&peers[1]).await;
            assert_eq!((stats.requests, stats.entries, stats.cancelled), (2, 1, 1), "{algorithm}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_helper_may_not_ask() {
    within_a_minute(async {
        let (_, peers) = start("central", 3).await;
        assert_eq!(peers[2].acquire().await.unwrap_err(), AcquireError::NotAClient { id: 2, clients: 2 });
    })
    .await;
}

#[tokio::test]
async fn no_more_callers_may_wait_than_there_is_room_for() {
    within_a_minute(async {
        let (_, peers) = start("suzuki-kasami", 2).await;
        let peers = Arc::new(peers);
        let grant = peers[0].acquire().await.unwrap();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS_MAX + 1 {
            let peers = peers.clone();
            callers.spawn(async move { peers[0].acquire().await });
        }
        let refused = callers.join_next().await.unwrap().unwrap();
        assert_eq!(refused.unwrap_err(), AcquireError::TooManyCallers);
        // All other callers give up before the protocol has their requests, so the queue skips them.
        callers.shutdown().await;
        grant.release();
        peers[0].acquire().await.unwrap().release();
        let stats = stats(&peers[0]).await;
        assert_eq!((stats.requests, stats.entries, stats.cancelled), (2, 2, 0));
    })
    .await;
}
