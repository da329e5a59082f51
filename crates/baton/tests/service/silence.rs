//! The server falls silent: its clients consider their locks lost before another client can get them.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use baton_client::{BootTime, Client, LockState, Loss};
use nix::sys::signal::Signal;

use crate::server::Server;

const TTL: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_for_longer_than_the_lease_costs_the_lock_and_the_next_comes_after_its_deadline() {
    let server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let session = client.session().ttl(TTL).label("first").open().await.unwrap();
    let guard = session.lock("deploy").acquire().await.unwrap();
    let fence = guard.fence().unwrap();
    server.signal(Signal::SIGSTOP);
    assert_eq!(guard.lost().await, Loss::Unacknowledged);
    let deadline = guard.deadline();
    assert_eq!(guard.state(), LockState::Lost);
    assert!(guard.fence().is_err());
    server.signal(Signal::SIGCONT);

    // The next holder gets the lock after the deadline, with a greater fence.
    let second = client.session().ttl(Duration::from_secs(10)).label("second").open().await.unwrap();
    let next = second.lock("deploy").acquire().await.unwrap();
    assert!(BootTime::now() > deadline, "{deadline:?}");
    assert!(next.fence().unwrap() > fence);
    // The guard stays lost although the server is back.
    assert_eq!(guard.state(), LockState::Lost);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_costs_the_lock() {
    let mut server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let session = client.session().ttl(TTL).open().await.unwrap();
    let guard = session.lock("deploy").acquire().await.unwrap();
    server.kill();
    assert_eq!(guard.lost().await, Loss::Unacknowledged);
    assert_eq!((guard.state(), guard.fence()), (LockState::Lost, Err(Loss::Unacknowledged)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_restarted_in_time_costs_nothing() {
    let mut server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let session = client.session().ttl(Duration::from_secs(30)).open().await.unwrap();
    let guard = session.lock("deploy").acquire().await.unwrap();
    let before = guard.deadline();
    tokio::task::block_in_place(|| server.kill_and_restart());
    // The client resumes the session, and the deadline of the lease moves.
    let start = BootTime::now();
    while guard.deadline() == before {
        assert!(BootTime::now().as_millis() < start.as_millis() + 30_000, "the session was not resumed");
        assert_eq!(guard.state(), LockState::Held);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_client_is_gone_does_not_block_the_queue() {
    let server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let holder = client.session().open().await.unwrap();
    let guard = holder.lock("deploy").acquire().await.unwrap();
    // This waiter is killed while it waits. Only its lease ends its request.
    let mut waiter = server.command(&["lock", "deploy", "--ttl", "1", "--", "true"]).spawn().unwrap();
    wait_for_waiters(&client, 1).await;
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    let last = client.session().open().await.unwrap();
    let acquire = tokio::spawn(last.lock("deploy").acquire());
    wait_for_waiters(&client, 1).await;
    guard.release().await.unwrap();
    acquire.await.unwrap().unwrap().release().await.unwrap();
}

/// The waiter holds nothing, so it loses only its place. Its old request must not stay in the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_queues_again_after_the_server_was_away_for_longer_than_its_lease() {
    let mut server = Server::start();
    let client = Client::connect([&server.address]).await.unwrap();
    let holder = client.session().ttl(Duration::from_secs(600)).open().await.unwrap();
    let guard = holder.lock("deploy").acquire().await.unwrap();
    let mut waiter = server.command(&["lock", "deploy", "--ttl", "1", "--", "true"]);
    let mut waiter = waiter.stderr(Stdio::piped()).spawn().unwrap();
    wait_for_waiters(&client, 1).await;
    let first = client.get_lock("deploy").await.unwrap().unwrap().waiters[0].session;
    server.kill();
    let mut line = String::new();
    BufReader::new(waiter.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let lost = "baton: the place in the queue for deploy is lost, because no keep-alive was acknowledged in time: ";
    assert!(line.starts_with(lost) && line.contains(&server.address), "{line}");
    server.restart();
    let start = Instant::now();
    loop {
        let waiters = client.get_lock("deploy").await.unwrap().unwrap().waiters;
        let sessions: Vec<u64> = waiters.iter().map(|waiter| waiter.session).collect();
        assert!(sessions.len() < 2, "both wait: {sessions:?}");
        if sessions.first().is_some_and(|session| *session != first) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it never waits again: {sessions:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guard.release().await.unwrap();
    assert!(tokio::task::block_in_place(|| waiter.wait()).unwrap().success());
}

async fn wait_for_waiters(client: &Client, waiters: usize) {
    // Only a failed test reaches this limit.
    for _ in 0..12_000 {
        let lock = client.get_lock("deploy").await.unwrap().unwrap();
        if lock.waiters.len() == waiters {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the lock never had {waiters} waiters");
}

#[test]
fn a_forced_release_that_nobody_answers_may_still_happen() {
    let server = Server::start();
    server.signal(Signal::SIGSTOP);
    let output = server.run(&["release", "deploy", "--force"]);
    let error = String::from_utf8(output.stderr).unwrap();
    let told = "baton: the server did not answer; it may still do what it was asked for\n";
    assert_eq!((output.status.code(), error.as_str()), (Some(69), told));
}
