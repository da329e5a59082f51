//! Load generator for `cargo xtask bench`, for a running service. Each client has its own session and its own
//! connection. SERVER is an address, or several separated by commas; `etcd:ADDRESS` is a server of etcd, for `pairs`.
//!
//! `load SERVER pairs N` acquires and releases a lock N times in all and prints how often a second.
//!   `--clients C`: C clients share the N pairs; 1 if not given.
//!   `--locks own|one`: each client has a lock of its own, or all clients want the same one; `own` if not given.
//!   `--name-bytes B`: names of locks have at least B bytes, so that the server's log grows faster.
//!   `--seconds S`: stop after S seconds, even if fewer than N pairs are done.
//! `load SERVER hold N` holds N locks of one session until standard input ends.
//! `load SERVER behind N` measures an acquire behind N waiters: one that waits and is given up, followed by a pair; and
//! one that is refused as a deadlock. Prints the medians.
//! `load SERVER watch` acquires and releases its own lock until standard input ends, and prints when each pair
//! was done.

mod behind;
mod etcd;

use std::error::Error;
use std::io::Read;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use baton_client::{Client, Guard, Session};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use etcd::Etcd;

/// Largest number of acquires that `hold` has in flight.
const IN_FLIGHT: u64 = 256;
/// `watch` stops after this many pairs.
const WATCHED_MAX: usize = 10_000_000;
const USAGE: &str = "usage: load SERVER (pairs N [--clients C] [--locks own|one] [--name-bytes B] [--seconds S] \
     | hold N | behind N | watch)";

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [server, "pairs", count, ref options @ ..] => {
            let (count, options) = (count.parse()?, Options::parse(options)?);
            runtime(options.clients)?.block_on(pairs(server, count, &options))
        }
        [server, "hold", count] => runtime(1)?.block_on(hold(server, count.parse()?)),
        [server, "behind", count] => runtime(1)?.block_on(behind::behind(server, count.parse()?)),
        [server, "watch"] => runtime(1)?.block_on(watch(server)),
        _ => Err(USAGE.into()),
    }
}

/// One client is faster on a single thread, because no task moves between threads. Many clients need several threads.
fn runtime(clients: usize) -> std::io::Result<Runtime> {
    match clients {
        1 => Builder::new_current_thread().enable_all().build(),
        _ => Builder::new_multi_thread().enable_all().build(),
    }
}

/// The options of `pairs`.
struct Options {
    clients: usize,
    one_lock: bool,
    name_bytes: usize,
    limit: Duration,
}

impl Options {
    fn parse(mut args: &[&str]) -> Result<Options, Box<dyn Error>> {
        let mut options = Options { clients: 1, one_lock: false, name_bytes: 0, limit: Duration::MAX };
        while let [option, value, rest @ ..] = args {
            match (*option, *value) {
                ("--clients", value) => options.clients = usize::from_str(value)?,
                ("--locks", "own") => options.one_lock = false,
                ("--locks", "one") => options.one_lock = true,
                ("--name-bytes", value) => options.name_bytes = usize::from_str(value)?,
                ("--seconds", value) => options.limit = Duration::from_secs(u64::from_str(value)?),
                _ => return Err(USAGE.into()),
            }
            args = rest;
        }
        if args.is_empty() { Ok(options) } else { Err(USAGE.into()) }
    }

    fn lock_of(&self, client: usize) -> String {
        let number = if self.one_lock { 0 } else { client };
        format!("load-{number:0width$}", width = self.name_bytes.saturating_sub("load-".len()))
    }
}

async fn open(server: &str) -> Result<Session, Box<dyn Error>> {
    let client = Client::connect(server.split(',')).await?;
    Ok(client.session().ttl(Duration::from_secs(60)).label("load").open().await?)
}

/// One client of either service.
#[derive(Clone)]
enum Locker {
    Baton(Session),
    Etcd(Etcd),
}

impl Locker {
    async fn open(server: &str) -> Result<Locker, Box<dyn Error>> {
        match server.strip_prefix("etcd:") {
            Some(server) => Ok(Locker::Etcd(Etcd::open(server).await?)),
            None => Ok(Locker::Baton(open(server).await?)),
        }
    }

    async fn pair(&mut self, lock: &str) -> Outcome {
        match self {
            Locker::Baton(session) => pair(session, lock).await,
            Locker::Etcd(etcd) => etcd.pair(lock).await,
        }
    }

    async fn close(self) -> Outcome {
        match self {
            Locker::Baton(session) => Ok(session.close().await?),
            // Its lease ends by itself.
            Locker::Etcd(_) => Ok(()),
        }
    }
}

async fn pairs(server: &str, count: u64, options: &Options) -> Outcome {
    let mut clients = Vec::new();
    for client in 0..options.clients {
        clients.push((Locker::open(server).await?, options.lock_of(client)));
    }
    // All clients work until the last pair has begun, so that no client works alone at the end.
    let begun = Arc::new(AtomicU64::new(0));
    let mut working = JoinSet::new();
    let (start, limit) = (Instant::now(), options.limit);
    for (mut locker, lock) in clients.clone() {
        let begun = Arc::clone(&begun);
        working.spawn(async move {
            let mut done = 0_u64;
            while begun.fetch_add(1, Ordering::Relaxed) < count && start.elapsed() < limit {
                locker.pair(&lock).await.map_err(|error| error.to_string())?;
                done += 1;
            }
            Ok::<u64, String>(done)
        });
    }
    let mut done = 0;
    while let Some(worked) = working.join_next().await {
        done += worked??;
    }
    println!("{{\"pairs_per_s\":{:.1}}}", done as f64 / start.elapsed().as_secs_f64());
    for (locker, _) in clients {
        locker.close().await?;
    }
    Ok(())
}

async fn pair(session: &Session, lock: &str) -> Outcome {
    session.lock(lock).acquire().await?.release().await?;
    Ok(())
}

async fn hold(server: &str, count: u64) -> Outcome {
    let session = open(server).await?;
    let mut guards: Vec<Guard> = Vec::new();
    let mut acquiring = JoinSet::new();
    for number in 0..count {
        acquiring.spawn(session.lock(format!("held-{number:015}")).acquire());
        if number >= IN_FLIGHT {
            guards.extend(acquiring.join_next().await.transpose()?.transpose()?);
        }
    }
    while let Some(acquired) = acquiring.join_next().await {
        guards.push(acquired??);
    }
    println!("{{\"held\":{}}}", guards.len());
    tokio::task::spawn_blocking(end_of_input).await?;
    session.close().await?;
    Ok(())
}

/// Each pair begins when the pair before it is done, so the longest pause is the longest time between two printed
/// numbers.
async fn watch(server: &str) -> Outcome {
    let session = open(server).await?;
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
    tokio::task::spawn_blocking(move || {
        end_of_input();
        told.store(true, Ordering::Relaxed);
    });
    // A new name: the session of an earlier process that was killed may still hold its lock.
    let lock = format!("watched-{}", session.id());
    pair(&session, &lock).await?;
    println!("{{\"watching\":true}}");
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let start = Instant::now();
    let mut done_us = vec![0];
    while !ended.load(Ordering::Relaxed) && done_us.len() < WATCHED_MAX {
        pair(&session, &lock).await?;
        done_us.push(start.elapsed().as_micros());
    }
    println!("{{\"from_us\":{},\"done_us\":{done_us:?}}}", since_1970.as_micros());
    session.close().await?;
    Ok(())
}

fn end_of_input() {
    // Treat input that cannot be read as ended.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
