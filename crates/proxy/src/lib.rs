//! A TCP proxy for one link between two processes. It breaks the link by command, or at random from a seed.
//!
//! The proxy stands between a process that dials and a process that listens, both on this machine. The dialling process
//! gets [`Proxy::address`] as the address of the other process. Any number of connections pass through one proxy.
//!
//! | command | open connections | new connections |
//! |---|---|---|
//! | [`delay`](Proxy::delay) | every chunk of bytes arrives later; the order stays | the same |
//! | [`hold`](Proxy::hold) | stay open, bytes wait: a pulled cable | wait; the target does not see them yet |
//! | [`cut_one_way`](Proxy::cut_one_way) | the bytes of one direction wait | the same |
//! | [`cut`](Proxy::cut) | closed: both ends read the end of the stream | accepted and reset at once |
//! | [`close`](Proxy::close) | closed once | pass |
//! | [`reset`](Proxy::reset) | reset once: both ends get `ECONNRESET` | pass |
//! | [`cut_after`](Proxy::cut_after) | one is closed after exactly so many bytes | the same |
//! | [`weather`](Proxy::weather) | faults at random, drawn from the seed | the same |
//! | [`reopen`](Proxy::reopen) | ends `hold`, `cut_one_way` and `cut` | pass |
//! | [`heal`](Proxy::heal) | ends everything; waiting bytes pass | pass |
//!
//! A command holds for every byte that was sent after the command returned. Bytes sent earlier may still be ahead of
//! the command. Closed and reset connections lose the bytes that are inside the proxy, as real connections do.
//!
//! A [`Mesh`] has a proxy for every link of a group.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use baton_proxy::{Direction, Proxy};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let proxy = Proxy::start(listener.local_addr()?, 7)?;
//! proxy.cut_after(Direction::Forward, 3);
//! let mut dialler = TcpStream::connect(proxy.address()).await?;
//! dialler.write_all(b"a frame").await?;
//!
//! let (mut accepted, _) = listener.accept().await?;
//! let mut received = Vec::new();
//! accepted.read_to_end(&mut received).await?;
//! assert_eq!(received, b"a f");
//! assert_eq!(proxy.counters().cut, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Inside
//!
//! `link` (what the proxy does now), `lane` (what to do with the next chunk) and `plan` (random faults) are pure.
//! `connection` and `proxy` carry their decisions out. Memory is bounded: a direction that is held or full stops
//! reading, and TCP's own flow control then stops the sender.

mod connection;
mod counters;
mod lane;
mod link;
mod mesh;
mod plan;
mod proxy;

pub use counters::Counters;
pub use link::{Conditions, Delay, Direction};
pub use mesh::Mesh;
pub use plan::{Fault, Plan, Spell, Weather};
pub use proxy::Proxy;

/// A number for one of many purposes of a seed. Purposes that are near each other give unrelated numbers (splitmix64).
pub(crate) fn mix(seed: u64, purpose: u64) -> u64 {
    let mut z = seed.wrapping_add(purpose.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
