//! A program that works whenever it has the lock, stops when it loses it, and takes it again.
//!
//!     baton serve &
//!     cargo run -p baton-client --example survives_loss [host:port] [turns]
//!
//! Take the lock from it with `baton release worker --force`, or stop the server for a while.

use std::error::Error;
use std::time::Duration;

use baton_client::{Client, Guard};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let server = args.next().unwrap_or_else(|| "127.0.0.1:7420".to_owned());
    let turns = args.next().map(|turns| turns.parse()).transpose()?.unwrap_or(usize::MAX);
    for _ in 0..turns {
        if let Err(error) = one_turn(&server).await {
            println!("no lock: {error}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    Ok(())
}

/// From a new session to the loss of its lock. What is lost never comes back: the way on is a new session.
async fn one_turn(server: &str) -> Result<(), Box<dyn Error>> {
    let session = Client::connect([server]).await?.session().label("worker").open().await?;
    let guard = session.lock("worker").acquire().await?;
    println!("working, with fence {}", guard.fence()?);
    tokio::select! {
        // The work is dropped, and so stopped, at once.
        loss = guard.lost() => println!("stopped: {loss}"),
        result = work(&guard) => result?,
    }
    // Only now, when nothing works under it any more, the guard is dropped and the lock given back.
    Ok(())
}

async fn work(guard: &Guard) -> Result<(), Box<dyn Error>> {
    loop {
        // Each piece of work carries the fence, and is not begun without the lock.
        let fence = guard.fence()?;
        println!("a piece of work, fence {fence}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
