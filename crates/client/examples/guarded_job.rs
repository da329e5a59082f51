//! A job that only one process may do at a time, and a store that refuses whoever came before.
//!
//!     baton serve &
//!     cargo run -p baton-client --example guarded_job [host:port]

use std::error::Error;

use baton_client::Client;

/// Keeps a value, and the highest fence that it has seen: a holder whose lock is gone, and who does not know it yet,
/// cannot overwrite what its successor wrote.
#[derive(Default)]
struct Store {
    value: String,
    highest_fence: u64,
}

impl Store {
    fn write(&mut self, fence: u64, value: &str) -> Result<(), String> {
        if fence < self.highest_fence {
            return Err(format!("fence {fence} is lower than {}", self.highest_fence));
        }
        self.highest_fence = fence;
        self.value = value.to_owned();
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7420".to_owned());
    let session = Client::connect([server]).await?.session().label("guarded job").open().await?;
    let mut store = Store::default();

    let guard = session.lock("job").acquire().await?;
    let first = guard.fence()?;
    store.write(first, "the first holder's")?;
    guard.release().await?;

    let guard = session.lock("job").acquire().await?;
    store.write(guard.fence()?, "the second holder's")?;
    guard.release().await?;

    // What the first holder might still have had in flight.
    let refused = store.write(first, "too late");
    println!("the store keeps {:?}; a late write: {refused:?}", store.value);
    session.close().await?;
    Ok(())
}
