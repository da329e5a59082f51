//! Load generator for `cargo xtask bench peers`. Every member of a group is a process of its own.
//!
//! `peer_load algorithms` prints the names of the algorithms for mutual exclusion.
//! `peer_load echo` prints its address and sends everything back that arrives there.
//! `peer_load ping ADDRESS N` exchanges N short messages with `echo` and prints the time of one message.
//! `peer_load FILE ID home S` acquires and releases one lock for S seconds, and prints how often a second.
//! `peer_load FILE ID turns S C` has C callers that want one lock all the time, and prints what happened in S seconds.
//! `peer_load FILE ID hold N` holds this member's share of N locks. At the end of standard input it requests the locks
//!   of the next member, too.
//! `peer_load FILE ID idle` does nothing.
//!
//! A member ends when standard input ends, or is killed.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_peer::{Lock, Member, Options, PeerGroup};
use baton_protocol::registry::{ALGORITHMS, Family};
use tokio::time::{sleep, timeout};

/// About as long as a message of an algorithm, in its frame.
const MESSAGE: [u8; 32] = [1; 32];
/// Within this time all members have begun.
const WARM_UP: Duration = Duration::from_millis(500);
/// `hold` ends by itself after this time.
const HELD_FOR: Duration = Duration::from_secs(120);
const USAGE: &str =
    "usage: peer_load (algorithms | echo | ping ADDRESS N | FILE ID (home S | turns S C | hold N | idle))";

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["algorithms"] => algorithms(),
        ["echo"] => echo(),
        ["ping", address, count] => ping(address, count.parse()?),
        [file, id, ref load @ ..] => {
            // All tasks of a member run on one thread, so that no message has to wake a second one.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(member(file, id.parse()?, load))
        }
        _ => Err(USAGE.into()),
    }
}

fn algorithms() -> Outcome {
    let locks = ALGORITHMS.iter().filter(|about| about.family == Family::Mutex && about.broken.is_none());
    locks.for_each(|about| println!("{}", about.name));
    Ok(())
}

fn echo() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut message = MESSAGE;
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message)?;
    }
    Ok(())
}

fn ping(address: &str, count: u32) -> Outcome {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut message = MESSAGE;
    let start = Instant::now();
    for _ in 0..count {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
    }
    println!("{{\"one_way_us\":{}}}", start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * count));
    Ok(())
}

async fn member(file: &str, id: usize, load: &[&str]) -> Outcome {
    let member = Member::join(&PeerGroup::read(file)?, id, Options::default()).await?;
    match *load {
        ["home", seconds] => home(&member.lock(b"home")?, Duration::from_secs_f64(seconds.parse()?)).await?,
        ["turns", seconds, callers] => {
            turns(&member, Duration::from_secs_f64(seconds.parse()?), callers.parse()?).await?;
        }
        ["hold", count] => return hold(&member, count.parse()?).await,
        ["idle"] => {}
        _ => return Err(USAGE.into()),
    }
    end_of_input().await;
    Ok(())
}

async fn home(lock: &Lock, limit: Duration) -> Outcome {
    const AT_ONCE: u32 = 1000;
    let (start, mut pairs) = (Instant::now(), 0);
    while start.elapsed() < limit {
        for _ in 0..AT_ONCE {
            lock.acquire().await?.release();
        }
        pairs += AT_ONCE;
    }
    println!("{{\"pairs_per_s\":{:.1}}}", f64::from(pairs) / start.elapsed().as_secs_f64());
    Ok(())
}

/// What the callers of this member have seen.
#[derive(Clone, Copy, Default)]
struct Seen {
    entries: u64,
    /// Entries right after an entry of another member.
    handovers: u64,
    fence: u64,
}

fn see(seen: &Mutex<Seen>, fence: u64) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.entries += 1;
    seen.handovers += u64::from(fence != seen.fence + 1);
    seen.fence = fence;
}

fn so_far(seen: &Mutex<Seen>) -> Seen {
    *seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// With two callers, one waits while the other one is inside. So the member wants the lock again as soon as it leaves.
async fn turns(member: &Member, limit: Duration, callers: usize) -> Outcome {
    let seen = Arc::new(Mutex::new(Seen::default()));
    for _ in 0..callers {
        let (lock, seen) = (member.lock(b"turns")?, seen.clone());
        tokio::spawn(async move {
            // An error means that the member stops.
            while let Ok(grant) = lock.acquire().await {
                see(&seen, grant.fence());
            }
        });
    }
    sleep(WARM_UP).await;
    let (start, before, sent_before) = (Instant::now(), so_far(&seen), member.stats().messages);
    sleep(limit).await;
    let (after, sent) = (so_far(&seen), member.stats().messages - sent_before);
    println!(
        "{{\"seconds\":{},\"entries\":{},\"handovers\":{},\"messages\":{sent}}}",
        start.elapsed().as_secs_f64(),
        after.entries - before.entries,
        after.handovers - before.handovers,
    );
    Ok(())
}

/// Lock k is held by member k mod n, and requested by the member before that one.
async fn hold(member: &Member, count: usize) -> Outcome {
    let (me, members) = (member.id(), member.group().members());
    let lock = |number: usize| member.lock(format!("resource-{number:08}").as_bytes());
    let mut grants = Vec::new();
    for number in (me..count).step_by(members) {
        grants.push(lock(number)?.acquire().await?);
    }
    println!("{{\"held\":{}}}", grants.len());
    end_of_input().await;
    let requested = ((me + 1) % members..count).step_by(members);
    for number in requested.clone() {
        lock(number)?.request(|granted| assert!(granted.is_err(), "another member holds this lock"));
    }
    // The requests have arrived when they are acknowledged.
    let acknowledged = async {
        while member.health().iter().any(|peer| peer.backlog_bytes > 0) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(HELD_FOR, acknowledged).await?;
    println!("{{\"requested\":{}}}", requested.count());
    sleep(HELD_FOR).await;
    Ok(())
}

async fn end_of_input() {
    // Treat input that cannot be read as ended.
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
}
