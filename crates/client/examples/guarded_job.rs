//! A job that only one process may do at a time, and a store that refuses writes of earlier holders.
//!
//!     baton serve &
//!     cargo run -p baton-client --example guarded_job [host:port]
//!
//! Run it twice at the same time: the second process waits for the first. Stop the server, or take the lock away with
//! `baton release job --force`, and the job stops.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use baton_client::{Client, Session};

/// A store that keeps a value and the highest fence that it has seen. A holder that has lost its lock, and does not
/// know it yet, cannot overwrite a value of the next holder.
#[derive(Default)]
struct Store {
    value: String,
    highest_fence: u64,
}

impl Store {
    fn write(&mut self, fence: u64, value: String) -> Result<(), String> {
        if fence < self.highest_fence {
            return Err(format!("refused, since fence {fence} is lower than {}", self.highest_fence));
        }
        self.highest_fence = fence;
        self.value = value;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guarded_job: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7420".to_owned());
    let session = Client::connect([server]).await?.session().label("guarded job").open().await?;
    let mut store = Store::default();
    let first = guarded(&session, &mut store, "first").await?;
    guarded(&session, &mut store, "second").await?;

    // A late write of the first holder.
    let late = store.write(first, "what comes too late".to_owned());
    println!("the store keeps {:?}; a late write is {}", store.value, late.err().unwrap_or_else(|| "taken".to_owned()));
    session.close().await?;
    Ok(())
}

/// Does the job under the lock and returns the fence. If the lock is lost first, the job stops, and the result is an
/// error.
async fn guarded(session: &Session, store: &mut Store, who: &str) -> Result<u64, Box<dyn Error>> {
    let guard = session.lock("job").acquire().await?;
    let fence = guard.fence()?;
    guard.run(job(store, fence, who)).await.map_err(|loss| format!("stopped half-way: {loss}"))??;
    guard.release().await?;
    Ok(fence)
}

/// The job. It takes a while, and every write carries the fence.
async fn job(store: &mut Store, fence: u64, who: &str) -> Result<(), String> {
    for part in 1..=3 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        store.write(fence, format!("the {who} holder's, part {part}"))?;
        println!("{who} holder, fence {fence}: wrote part {part} of 3");
    }
    Ok(())
}
