//! Members take turns in the critical section.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_peer::{AcquireError, Member, NAME_BYTES_MAX, Names, Options, PeerGroup};
use baton_protocol::registry::{ALGORITHMS, Family};
use tokio::task::{JoinSet, yield_now};

use crate::{join_all, listeners, listening, start, start_with, sum, within_a_minute};

const ENTRIES: u64 = 10;

/// Enters again and again, and increments the counter in a way that loses counts if another process is inside too.
async fn count(member: Member, name: &'static [u8], counter: Arc<AtomicU64>) -> Vec<(u64, u64)> {
    let lock = member.lock(name).unwrap();
    let mut entries = Vec::new();
    for _ in 0..ENTRIES {
        let grant = lock.acquire().await.unwrap();
        let seen = counter.load(Ordering::Relaxed);
        for _ in 0..20 {
            yield_now().await;
        }
        counter.store(seen + 1, Ordering::Relaxed);
        entries.push((seen, grant.fence()));
        grant.release();
    }
    entries
}

/// Two callers at each member, and two locks that are used at the same time.
async fn members_exclude_each_other(algorithm: &str, count_of: usize) {
    // Short, since some algorithms wait so long before they try again.
    let members = start_with(algorithm, count_of, |file| file.delay_max_ms = 10).await;
    for name in [b"one".as_slice(), b"two"] {
        let counter = Arc::new(AtomicU64::new(0));
        let mut counting = JoinSet::new();
        for member in members.iter().chain(&members) {
            counting.spawn(count(member.clone(), if name == b"one" { b"one" } else { b"two" }, counter.clone()));
        }
        let mut entries = counting.join_all().await.concat();
        entries.sort_unstable();
        assert!(entries.iter().map(|(seen, _)| *seen).eq(0..2 * count_of as u64 * ENTRIES), "{algorithm}: {entries:?}");
        assert!(entries.windows(2).all(|pair| pair[0].1 < pair[1].1), "{algorithm}: fences grow: {entries:?}");
    }
    assert!(members.iter().all(|member| member.hopeless().is_none()));
    for member in &members {
        member.shutdown().await;
    }
}

/// Every algorithm that is not broken on purpose.
#[tokio::test]
async fn members_exclude_each_other_with_every_algorithm() {
    for about in ALGORITHMS.iter().filter(|about| about.family == Family::Mutex && about.broken.is_none()) {
        within_a_minute(members_exclude_each_other(about.name, 4)).await;
    }
}

/// Members enter one after the other, and no two request at the same time.
async fn messages_solo_in_turns(algorithm: &str, count_of: usize, rounds: u64) -> u64 {
    let members = start(algorithm, count_of).await;
    for _ in 0..rounds {
        for member in &members {
            member.lock(b"a").unwrap().acquire().await.unwrap().release();
        }
    }
    for member in &members {
        member.shutdown().await;
    }
    sum(&members).messages
}

#[tokio::test]
async fn an_entry_costs_what_the_papers_say() {
    within_a_minute(async {
        assert_eq!(messages_solo_in_turns("ricart-agrawala", 3, 5).await, 15 * 2 * (3 - 1));
        // The messages between a member's own process and the coordinator beside it count, too.
        assert_eq!(messages_solo_in_turns("central", 3, 5).await, 15 * 3);
        // The first requester has the token. After that the token is never at the requester.
        assert_eq!(messages_solo_in_turns("suzuki-kasami", 3, 5).await, 14 * 3);
        // The same, and then the paths to the root have 1 and 2 edges by turns.
        assert_eq!(messages_solo_in_turns("naimi-trehel", 3, 5).await, 7 * (2 + 3));
    })
    .await;
}

#[tokio::test]
async fn the_number_and_the_names_of_resources_are_limited() {
    within_a_minute(async {
        let (file, listeners) = listeners("raymond", 2).await;
        let options = |listener| Options { resources_max: 3, ..listening(listener) };
        let members = join_all(&PeerGroup::new(file).unwrap(), listeners.into_iter().map(options).collect()).await;
        for name in [b"a", b"b", b"c"] {
            members[0].lock(name).unwrap().acquire().await.unwrap().release();
        }
        let refused = members[0].lock(b"d").unwrap_err();
        assert_eq!(refused, AcquireError::TooManyResources { limit: 3 });
        let why = "this member has taken 3 names, which is the limit, and it forgets no name; use a name that it knows, ask \
                   another member, or start the whole group again";
        assert_eq!(refused.to_string(), why);
        assert_eq!(members[0].names(), Names { taken: 3, max: 3 });
        // What is open stays open, and the other member has a limit of its own.
        members[0].lock(b"a").unwrap().acquire().await.unwrap().release();
        members[1].lock(b"d").unwrap().acquire().await.unwrap().release();
        members[0].lock(b"d").unwrap().acquire().await.unwrap().release();
        assert_eq!([&members[0], &members[1]].map(|member| member.names().taken), [3, 1]);
        let refused = members[0].lock(&[b'x'; NAME_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(refused, AcquireError::LongName { bytes: NAME_BYTES_MAX + 1, limit: NAME_BYTES_MAX });
    })
    .await;
}

/// The token is at home, so the caller is let in at once each time. The other members hear all the same.
#[tokio::test]
async fn a_caller_that_never_waits_does_not_starve_the_others() {
    within_a_minute(async {
        let members = start("suzuki-kasami", 2).await;
        let busy = members[0].lock(b"a").unwrap();
        let busy = tokio::spawn(async move { while busy.acquire().await.is_ok() {} });
        for _ in 0..3 {
            members[1].lock(b"a").unwrap().acquire().await.unwrap().release();
        }
        busy.abort();
    })
    .await;
}

#[tokio::test]
async fn callers_of_a_member_that_leaves_are_told() {
    within_a_minute(async {
        let members = start("suzuki-kasami", 2).await;
        let grant = members[0].lock(b"a").unwrap().acquire().await.unwrap();
        let lock = members[1].lock(b"a").unwrap();
        let waiting = {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await.map(drop) })
        };
        crate::requests(&members[1], 1).await;
        members[1].shutdown().await;
        let told = waiting.await.unwrap().unwrap_err();
        assert_eq!(told.to_string(), "the member has left the group");
        assert_eq!(lock.acquire().await.unwrap_err(), told);
        drop(grant);
        // The token was asked for by the member that has left, so it is gone with it.
        while members[0].hopeless().is_none() {
            yield_now().await;
        }
        let hopeless = members[0].hopeless().unwrap().to_string();
        assert_eq!(hopeless, "waiting for process 1, which has left the group");
    })
    .await;
}

/// All tasks share one thread. A caller whose token is at home never has to wait, and yet lets the other tasks run.
#[tokio::test]
async fn a_caller_that_enters_again_and_again_does_not_keep_the_thread() {
    const ENTRIES_MAX: u64 = 200_000;
    within_a_minute(async {
        let members = start("raymond", 2).await;
        let greedy = members[0].lock(b"a").unwrap();
        greedy.acquire().await.unwrap().release();
        let other = members[1].lock(b"a").unwrap();
        let other = tokio::spawn(async move { other.acquire().await.unwrap().fence() });
        let mut entries = 0;
        while entries < ENTRIES_MAX && !other.is_finished() {
            greedy.acquire().await.unwrap().release();
            entries += 1;
        }
        let count = other.await.unwrap() - (1 << 34);
        assert!(count < ENTRIES_MAX, "the other member entered after the last of {entries} entries");
    })
    .await;
}
