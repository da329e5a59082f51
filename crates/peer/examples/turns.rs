//! A program that takes a lock without a server: one member of a group whose members take turns. Start one process for
//! every member of the file:
//!
//! ```sh
//! baton group init --algorithm raymond --size 3 > group.toml
//! cargo run -p baton-peer --example turns -- group.toml 0
//! ```

use std::time::Duration;

use baton_peer::{Member, Options, PeerGroup};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(id)) = (arguments.next(), arguments.next()) else {
        return Err("usage: turns <group file> <id>".into());
    };
    let member = Member::join(&PeerGroup::read(file)?, id.parse()?, Options::default()).await?;
    let lock = member.lock(b"turns")?;
    for turn in 1..=10 {
        let grant = lock.acquire().await?;
        println!("turn {turn}: mine, under fence {}", grant.fence());
        tokio::time::sleep(Duration::from_millis(1)).await;
        grant.release();
    }
    // The other members need this one, until they are done, too.
    println!("done; waiting for Ctrl-C");
    tokio::signal::ctrl_c().await?;
    member.shutdown().await;
    Ok(())
}
