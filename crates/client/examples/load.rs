//! Load for `cargo xtask bench`, on a server that runs already.
//!
//! `load SERVER pairs N` acquires and releases one lock N times, one after the other, and prints how often a second.
//! `load SERVER hold N` holds N locks of one session until standard input ends.

use std::error::Error;
use std::io::Read;
use std::time::{Duration, Instant};

use baton_client::{Client, Guard, Session};
use tokio::task::JoinSet;

/// How many acquires are on their way at a time.
const IN_FLIGHT: u64 = 256;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [server, what, count] = &args[..] else { return Err("usage: load SERVER pairs|hold N".into()) };
    let client = Client::connect([server]).await?;
    let session = client.session().ttl(Duration::from_secs(60)).label("load").open().await?;
    match what.as_str() {
        "pairs" => pairs(&session, count.parse()?).await?,
        "hold" => hold(&session, count.parse()?).await?,
        _ => return Err(format!("{what:?} is neither pairs nor hold").into()),
    }
    session.close().await?;
    Ok(())
}

async fn pairs(session: &Session, count: u64) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    for _ in 0..count {
        session.lock("load").acquire().await?.release().await?;
    }
    println!("{{\"pairs_per_s\":{:.1}}}", count as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

async fn hold(session: &Session, count: u64) -> Result<(), Box<dyn Error>> {
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
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}
