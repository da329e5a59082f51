//! A program that works whenever it holds the lock, stops when it loses the lock, and acquires it again.
//!
//!     baton serve &
//!     cargo run -p baton-client --example survives_loss [host:port] [turns]
//!
//! Take the lock away with `baton release worker --force`, or stop the server for a while.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use baton_client::{Client, Guard, Loss};

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let server = args.next().unwrap_or_else(|| "127.0.0.1:7420".to_owned());
    let turns = args.next().unwrap_or_else(|| usize::MAX.to_string());
    let Ok(turns) = turns.parse::<usize>() else {
        eprintln!("survives_loss: {turns:?} is not a number of turns");
        return ExitCode::from(2);
    };
    for _ in 0..turns {
        if let Err(error) = one_turn(&server).await {
            println!("no lock: {error}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    ExitCode::SUCCESS
}

/// From opening a new session to losing its lock. A lost session never revives, so the next turn opens a new one.
async fn one_turn(server: &str) -> Result<(), Box<dyn Error>> {
    let session = Client::connect([server]).await?.session().label("worker").open().await?;
    let guard = session.lock("worker").acquire().await?;
    println!("working, with fence {}", guard.fence()?);
    // The work never ends by itself. `run` drops the work, and so stops it, when the lock is lost.
    match guard.run(work(&guard)).await {
        Ok(loss) | Err(loss) => println!("stopped: {loss}"),
    }
    // The guard is dropped here, after the work has stopped, and the lock is released.
    Ok(())
}

/// Works while the lock is held.
async fn work(guard: &Guard) -> Loss {
    loop {
        // Each piece of work uses the fence, and none begins without the lock.
        match guard.fence() {
            Ok(fence) => println!("a piece of work, fence {fence}"),
            Err(loss) => return loss,
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
