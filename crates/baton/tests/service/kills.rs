//! The server is killed repeatedly under load.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_client::{Client, LockState, Session};
use nix::sys::signal::Signal;

use crate::server::Server;

const ROUNDS: u64 = 50;
const WORKERS: u64 = 6;
const LOCKS: u64 = 3;
/// A limit that only a failed test reaches.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time in which a client believed that it held a lock.
#[derive(Clone, Copy, Debug)]
struct Hold {
    fence: u64,
    from: Instant,
    until: Instant,
}

/// The observations of the clients.
#[derive(Default)]
struct Seen {
    holds: Mutex<BTreeMap<String, Vec<Hold>>>,
    /// The fences of holds whose release was acknowledged.
    released: Mutex<HashSet<u64>>,
    done: AtomicU64,
    stop: AtomicBool,
}

/// Acquires and releases locks until `stop` is set. Opens a new session if one is lost.
async fn work(address: String, worker: u64, seen: Arc<Seen>) {
    let mut random = fastrand::Rng::with_seed(worker);
    while !seen.stop.load(Ordering::Relaxed) {
        // The server may be down at the moment. Then try again.
        let Ok(client) = Client::connect([&address]).await else {
            tokio::task::yield_now().await;
            continue;
        };
        let Ok(session) = client.session().ttl(Duration::from_secs(10)).label(format!("worker {worker}")).open().await
        else {
            continue;
        };
        let mut good = true;
        while good && !seen.stop.load(Ordering::Relaxed) {
            good = take_a_turn(&session, &mut random, &seen).await;
        }
    }
}

/// Acquires and releases one lock. Returns whether the session can be used again.
async fn take_a_turn(session: &Session, random: &mut fastrand::Rng, seen: &Seen) -> bool {
    let name = format!("lock-{}", random.u64(..LOCKS));
    let Ok(guard) = session.lock(&name).timeout(Duration::from_secs(5)).acquire().await else { return false };
    let from = Instant::now();
    let Ok(fence) = guard.fence() else { return false };
    for _ in 0..random.u32(..20) {
        tokio::task::yield_now().await;
    }
    // The client believes in the hold until it sends the release, or until the deadline if that is earlier.
    let until = Instant::now();
    if guard.state() != LockState::Lost {
        seen.holds.lock().unwrap().entry(name).or_default().push(Hold { fence, from, until });
    }
    let released = guard.release().await.is_ok();
    if released {
        seen.released.lock().unwrap().insert(fence);
    }
    seen.done.fetch_add(1, Ordering::Relaxed);
    released
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_lose_nothing_that_was_acknowledged() {
    let mut server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let holder = client.session().ttl(Duration::from_secs(600)).label("holder").open().await.unwrap();
    let held = holder.lock("held").acquire().await.unwrap();
    let fence = held.fence().unwrap();

    let seen = Arc::new(Seen::default());
    let workers: Vec<_> =
        (0..WORKERS).map(|worker| tokio::spawn(work(server.address.clone(), worker, Arc::clone(&seen)))).collect();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..ROUNDS {
        let before = seen.done.load(Ordering::Relaxed);
        // Kill at a random moment, after some more work was done.
        let after = before + random.u64(1..20);
        let start = Instant::now();
        while seen.done.load(Ordering::Relaxed) < after {
            assert!(start.elapsed() < PATIENCE, "round {round}: nobody gets a lock any more");
            tokio::time::sleep(Duration::from_micros(random.u64(..2_000))).await;
        }
        tokio::task::block_in_place(|| server.kill());
        // The releases that were acknowledged before the server died.
        let released = seen.released.lock().unwrap().clone();
        tokio::task::block_in_place(|| server.restart());

        let locks = client.list_locks().await.unwrap();
        for lock in &locks {
            for holder in &lock.holders {
                assert!(!released.contains(&holder.fence), "round {round}: {:?} is held again: {holder:?}", lock.name);
            }
        }
        let held = locks.iter().find(|lock| lock.name == b"held").expect("it is held");
        assert_eq!(held.holders.iter().map(|holder| holder.fence).collect::<Vec<_>>(), [fence], "round {round}");
    }
    assert_ne!(held.state(), LockState::Lost);
    assert!(other(&client).await.try_lock("held").await.unwrap().is_none());
    held.release().await.unwrap();
    assert!(other(&client).await.try_lock("held").await.unwrap().is_some());

    seen.stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    let mut holds = std::mem::take(&mut *seen.holds.lock().unwrap());
    assert_eq!(holds.len(), usize::try_from(LOCKS).unwrap());
    for (lock, holds) in &mut holds {
        holds.sort_by_key(|hold| hold.from);
        for pair in holds.windows(2) {
            assert!(pair[0].until <= pair[1].from, "{lock} is held twice: {pair:?}");
            assert!(pair[0].fence < pair[1].fence, "{lock}: the fence does not grow: {pair:?}");
        }
    }
}

async fn other(client: &Client) -> Session {
    client.session().open().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_asked_to_stop_does_so_and_keeps_everything() {
    let mut server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let session = client.session().ttl(Duration::from_secs(600)).open().await.unwrap();
    let guard = session.lock("deploy").acquire().await.unwrap();
    let fence = guard.fence().unwrap();
    // The server stops although a stream is open.
    assert!(tokio::task::block_in_place(|| server.stop()).success());
    server.kill_and_restart();
    let lock = client.get_lock("deploy").await.unwrap().expect("it is held");
    assert_eq!(lock.holders[0].fence, fence);
    assert_eq!(guard.fence(), Ok(fence));
    guard.release().await.unwrap();
    server.signal(Signal::SIGTERM);
}
