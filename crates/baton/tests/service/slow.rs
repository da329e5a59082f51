//! A slow server: all its messages and all messages to it are late. No client believes in a grant that comes too late,
//! and a client that loses its lock has stopped before the next grant.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_client::{AcquireError, BootTime, Client, LockState, Loss};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::server::Server;

const TTL: Duration = Duration::from_secs(4);
/// Each way. There and back takes a quarter of the TTL, which is in time.
const LATE: Duration = Duration::from_millis(500);
/// Each way. There and back takes twice the TTL, which is too late.
const TOO_LATE: Duration = Duration::from_secs(4);
/// A limit that only a failed test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy between clients and a server. It delays all bytes in each direction, and keeps their order.
struct SlowWay {
    address: String,
    delay_ms: Arc<AtomicU64>,
}

impl SlowWay {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (server, delay_ms) = (server.address.clone(), Arc::new(AtomicU64::new(0)));
        let delay = Arc::clone(&delay_ms);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let ((hears, says), (server_hears, server_says)) = (client.into_split(), server.into_split());
                tokio::spawn(carry(hears, server_says, Arc::clone(&delay)));
                tokio::spawn(carry(server_hears, says, Arc::clone(&delay)));
            }
        });
        let way = SlowWay { address, delay_ms };
        way.takes(LATE);
        way
    }

    fn takes(&self, delay: Duration) {
        self.delay_ms.store(delay.as_millis() as u64, Ordering::Relaxed);
    }
}

/// Copies bytes with a delay, until either end is closed.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay_ms: Arc<AtomicU64>) {
    let (sender, mut under_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let arrives = async move {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            let at = Instant::now() + Duration::from_millis(delay_ms.load(Ordering::Relaxed));
            let _ = sender.send((at, bytes[..count].to_vec()));
        }
    };
    let leaves = async move {
        while let Some((at, bytes)) = under_way.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(arrives, leaves);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_server_costs_nothing_until_it_is_too_slow_and_then_the_lock_before_the_next_has_it() {
    let server = Server::start();
    let way = SlowWay::to(&server).await;
    let session = Client::connect([&way.address]).await.unwrap().session().ttl(TTL).open().await.unwrap();
    let guard = session.lock("deploy").acquire().await.unwrap();
    let fence = guard.fence().unwrap();
    let first = guard.deadline();
    while BootTime::now() < first {
        assert_ne!(guard.state(), LockState::Lost, "its answers come late, and in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    way.takes(TOO_LATE);
    let other = Client::connect([&server.address]).await.unwrap().session().open().await.unwrap();
    let next = tokio::spawn(other.lock("deploy").acquire());
    assert_eq!(guard.lost().await, Loss::Unacknowledged);
    assert!(!next.is_finished(), "another client has it already");
    let next = next.await.unwrap().unwrap();
    assert!(BootTime::now() > guard.deadline());
    assert!(next.fence().unwrap() > fence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_comes_too_late_is_none() {
    let server = Server::start();
    let way = SlowWay::to(&server).await;
    let client = Client::connect([&server.address]).await.unwrap();
    let holder = client.session().open().await.unwrap();
    let held = holder.lock("deploy").acquire().await.unwrap();
    let session = Client::connect([&way.address]).await.unwrap().session().ttl(TTL).open().await.unwrap();
    let waits = tokio::spawn(session.lock("deploy").acquire());
    let holders = async || {
        let lock = client.get_lock("deploy").await.unwrap().unwrap();
        (lock.holders.iter().map(|holder| holder.session).collect::<Vec<_>>(), lock.waiters.len())
    };
    let start = Instant::now();
    while holders().await.1 == 0 {
        assert!(start.elapsed() < PATIENCE, "it never waits");
    }
    way.takes(TOO_LATE);
    held.release().await.unwrap();
    // The server has granted the lock, and the answer is on its way.
    assert_eq!(holders().await, (vec![session.id()], 0));
    let waited = timeout(PATIENCE, waits).await.expect("it waits for ever");
    assert_eq!(waited.unwrap().unwrap_err(), AcquireError::Lost(Loss::Unacknowledged));
    // The late grant does not block the lock for ever.
    let again = timeout(PATIENCE, holder.lock("deploy").acquire()).await.expect("it stays closed");
    again.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_too_slow_costs_the_command_its_life_before_the_next_is_granted() {
    let server = Server::start();
    let way = SlowWay::to(&server).await;
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("running").display().to_string();
    // While the command runs, it holds a lock on a file with flock. The next command checks that this lock is free.
    let script = format!("exec 9>{proof}; flock -n 9 || exit 9; trap '' TERM; echo held; while :; do sleep 0.01; done");
    let first = ["lock", "deploy", "--ttl", "4", "--server", &way.address, "--", "sh", "-c", &script];
    let mut holder = server.command(&first).stdout(Stdio::piped()).spawn().unwrap();
    let output = holder.stdout.take().unwrap();
    let held = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        line
    });
    assert_eq!(held.await.unwrap(), "held\n");
    way.takes(TOO_LATE);
    let script = format!("exec 9>{proof}; flock -n 9");
    let next = server.command(&["lock", "deploy", "--", "sh", "-c", &script]).spawn();
    let (mut next, mut holder) = (next.unwrap(), holder);
    let ended = tokio::task::spawn_blocking(move || (next.wait().unwrap().code(), holder.wait().unwrap().code()));
    assert_eq!(ended.await.unwrap(), (Some(0), Some(75)));
}
