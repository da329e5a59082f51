//! One member of a group whose members take turns in the critical section. Start one process for every member of the
//! file:
//!
//! ```sh
//! cargo run -p baton-peer --example turns -- group.toml 0
//! ```

use std::time::Duration;

use baton_peer::{Options, PeerGroup, Turns, run_turns};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(id)) = (arguments.next(), arguments.next()) else {
        return Err("usage: turns <group file> <id>".into());
    };
    let group = PeerGroup::read(file)?;
    let turns = Turns { entries: 10, hold: Duration::from_millis(1) };
    let report = run_turns(&group, id.parse()?, turns, Options::default()).await?;
    println!("{report:#?}");
    Ok(())
}
