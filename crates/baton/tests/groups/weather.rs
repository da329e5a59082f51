//! All members want the same lock, while the links are cut, reset, held and delayed at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_client::Client;
use baton_protocol::registry::Family;
use baton_proxy::Weather;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::group::Group;
use crate::{LONG, SECONDS, SEED, healthy, number};

const SIZE: usize = 5;

/// Enters again and again, until it is told to stop. Returns how often it entered.
async fn enter(client: Client, inside: Arc<AtomicUsize>, stop: watch::Receiver<bool>) -> u64 {
    let session = client.session().open().await.unwrap();
    let mut entries = 0;
    while !*stop.borrow() {
        let guard = session.lock("work").acquire().await.unwrap();
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two clients are inside");
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::SeqCst);
        guard.release().await.unwrap();
        entries += 1;
    }
    entries
}

async fn in_bad_weather(algorithm: &str) {
    let mut group = Group::start(algorithm, SIZE, number(SEED, 1)).await;
    let (stop, stopped) = watch::channel(false);
    let inside = Arc::new(AtomicUsize::new(0));
    let mut entering = JoinSet::new();
    for id in 0..SIZE {
        entering.spawn(enter(group.client(id).await, inside.clone(), stopped.clone()));
    }
    group.mesh.weather(Weather::default());
    let until = Instant::now() + Duration::from_secs(number(SECONDS, 2));
    // At least so long, and until each kind of fault has happened.
    let is_enough = |group: &Group| {
        let counters = group.mesh.counters();
        Instant::now() >= until && counters.cut > 0 && counters.reset > 0 && counters.held > 0
    };
    while !is_enough(&group) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counters = group.mesh.counters();
    group.mesh.heal();
    stop.send_replace(true);
    let entries = entering.join_all().await;
    assert!(entries.iter().all(|&entries| entries > 0), "{algorithm}: every member gets in: {entries:?}");
    let judged = group.end().await;
    println!(
        "{algorithm}: {} entries, {} cut, {} reset, {} held: {judged}",
        entries.iter().sum::<u64>(),
        counters.cut,
        counters.reset,
        counters.held
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_algorithm_keeps_its_promises_while_links_break() {
    for about in healthy(Family::Mutex) {
        let limit = LONG + Duration::from_secs(number(SECONDS, 2));
        timeout(limit, in_bad_weather(about.name)).await.unwrap_or_else(|_| panic!("{} hangs", about.name));
    }
}
