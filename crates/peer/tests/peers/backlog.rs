//! What one member has not acknowledged is bounded: first new acquires are refused, then the member stops.

use std::time::Duration;

use baton_peer::{AcquireError, GroupFile, Lock, Options, PeerError};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cuts::Field;
use crate::within_a_minute;

/// More than a member that is not held ever leaves unacknowledged here: it acknowledges every 256 items.
const BACKLOG_MAX: usize = 40_000;

/// Three members, of which the last two talk to each other as usual. Member 0 asks all others for the token whenever it
/// has it not, and so sends much to member 1, whose link is held.
async fn held() -> (Field, [Lock; 2]) {
    let option = |id, options| Options { backlog_max: if id == 0 { BACKLOG_MAX } else { 16 << 20 }, ..options };
    let field = Field::with("suzuki-kasami", 3, 0, |_| {}, option).await;
    field.mesh.hold(0, 1);
    let locks = [0, 2].map(|id| field.members[id].lock(b"a").unwrap());
    (field, locks)
}

fn backlog(field: &Field) -> usize {
    field.members[0].health().iter().find(|health| health.id == 1).unwrap().backlog_bytes
}

#[tokio::test]
async fn from_half_of_the_backlog_on_acquires_are_refused_until_the_peer_is_back() {
    within_a_minute(async {
        let (field, [ours, other]) = held().await;
        let refused = loop {
            match ours.acquire().await {
                Ok(grant) => grant.release(),
                Err(error) => break error,
            }
            // The token goes away, so that the next acquire has to ask for it.
            other.acquire().await.unwrap().release();
        };
        assert_eq!(refused, AcquireError::Congested { peer: 1 });
        assert!(refused.to_string().starts_with("process 1 is too far behind"), "{refused}");
        assert!((BACKLOG_MAX / 2..BACKLOG_MAX).contains(&backlog(&field)));
        assert_eq!(field.members[0].lock(b"new").unwrap_err(), refused, "a new name would be one item more");
        // The member itself goes on: the token is passed to others.
        other.acquire().await.unwrap().release();
        field.mesh.heal();
        while ours.acquire().await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
        assert!(backlog(&field) <= BACKLOG_MAX / 2);
    })
    .await;
}

#[tokio::test]
async fn at_the_limit_the_member_stops_and_whoever_waits_is_told() {
    within_a_minute(async {
        let (field, [ours, other]) = held().await;
        // All of them ask while there is room.
        let grant = other.acquire().await.unwrap();
        let mut callers = JoinSet::new();
        for _ in 0..5000 {
            let ours = ours.clone();
            callers.spawn(async move {
                let grant = ours.acquire().await?;
                tokio::task::yield_now().await;
                grant.release();
                Ok::<(), AcquireError>(())
            });
        }
        crate::requests(&field.members[0], 1).await;
        grant.release();
        let failed = loop {
            tokio::select! {
                failed = field.members[0].failed() => break failed,
                grant = other.acquire() => grant.unwrap().release(),
            }
        };
        let PeerError::Backlog { peer: 1, bytes } = &failed else { panic!("{failed}") };
        assert!(*bytes >= BACKLOG_MAX && *bytes < 2 * BACKLOG_MAX, "{bytes}");
        let outcomes = callers.join_all().await;
        let told = outcomes.iter().filter(|outcome| **outcome == Err(failed.clone().into())).count();
        let entered = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(told > 0 && entered > 0 && told + entered == outcomes.len(), "{told} told, {entered} entered");
        assert_eq!(ours.acquire().await.unwrap_err(), failed.into());
        // A member that serves no longer does not look alive to the others.
        while field.members[2].hopeless().is_none_or(|hopeless| hopeless.peer != 0) {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// The leader of an election announces itself again and again, also to a member that is dead.
#[tokio::test]
async fn a_dead_member_does_not_fill_the_backlog_of_an_election() {
    within_a_minute(async {
        let option = |_, options| Options { backlog_max: 4096, ..options };
        let guarded = |file: &mut GroupFile| (file.variant, file.delay_max_ms) = (Some("quorum".into()), 1);
        let mut field = Field::with("bully", 3, 0, guarded, option).await;
        let election = field.members[2].election(b"leader").unwrap();
        election.watch_leader().wait_for(|leader| leader.id == Some(2)).await.unwrap();
        drop(field.members.remove(0));
        let leader = &field.members[1];
        let sent = || leader.stats().messages_by_kind.get("COORDINATOR").copied().unwrap_or(0);
        // Each is sent to two members, in a frame of about 20 bytes.
        while sent() < 800 && leader.failure().is_none() {
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(leader.failure(), None);
    })
    .await;
}
