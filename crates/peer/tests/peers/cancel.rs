//! A caller that gives up its request.

use baton_peer::{AcquireError, CALLERS_MAX, Member};
use tokio::task::JoinSet;

use crate::{requests, start, within_a_minute};

/// Makes a request, waits until the protocol has it, and gives up.
pub async fn ask_and_give_up(member: &Member) {
    let lock = member.lock(b"a").unwrap();
    tokio::select! {
        biased;
        grant = lock.acquire() => panic!("another process is inside, and yet {grant:?}"),
        () = requests(member, 1) => {}
    }
}

#[tokio::test]
async fn a_dropped_request_is_released_when_it_is_granted() {
    within_a_minute(async {
        for algorithm in ["central", "ricart-agrawala", "suzuki-kasami"] {
            let members = start(algorithm, 3).await;
            let acquire = async |id: usize| members[id].lock(b"a").unwrap().acquire().await.unwrap();
            let grant = acquire(0).await;
            ask_and_give_up(&members[1]).await;
            let fence = grant.fence();
            grant.release();
            // Whether P2's request comes before or after the dropped one, it is granted, and so is P0's next request.
            assert!(acquire(2).await.fence() > fence, "{algorithm}");
            assert!(acquire(0).await.fence() > fence, "{algorithm}");
            // P1's next request comes after its dropped request was granted and released.
            drop(acquire(1).await);
            let stats = members[1].stats();
            assert_eq!((stats.requests, stats.entries, stats.cancelled), (2, 1, 1), "{algorithm}");
        }
    })
    .await;
}

#[tokio::test]
async fn no_more_callers_may_wait_than_there_is_room_for() {
    within_a_minute(async {
        let members = start("suzuki-kasami", 2).await;
        let lock = members[0].lock(b"a").unwrap();
        let grant = lock.acquire().await.unwrap();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS_MAX + 1 {
            let lock = lock.clone();
            callers.spawn(async move { lock.acquire().await });
        }
        let refused = callers.join_next().await.unwrap().unwrap();
        assert_eq!(refused.unwrap_err(), AcquireError::TooManyCallers);
        // All other callers give up before the protocol has their requests, so the queue has room again and skips them.
        callers.shutdown().await;
        let next = {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await.map(drop) })
        };
        tokio::task::yield_now().await;
        grant.release();
        next.await.unwrap().unwrap();
        let stats = members[0].stats();
        assert_eq!((stats.requests, stats.entries, stats.cancelled), (2, 2, 0));
    })
    .await;
}
