//! A member of a peer group as a lock server. Its clients use it like any other server.
//!
//! The member keeps the service's own state in memory for its local clients: sessions, queues, requests that are applied
//! once. The state [grants](baton_state::state::locks::Grants) no lock by itself. A mutual exclusion
//! [`Algorithm`] decides when the member may enter, and gives the fence. Then the first local waiter of the lock is
//! granted. Each grant is one entry of the algorithm, so the algorithm's own fairness bounds how many local clients are
//! served in a row.
//!
//! - `turns`: asks the algorithm and leaves again, for each lock; pure.
//! - `local`: the state of the member with its turns; pure.
//! - `peers`: the algorithm of a real group.
//! - `replica`: the [`Replica`](baton_server::replica::Replica) that runs them.
//! - `waiting`: answers clients until the group begins.

mod algorithm;
mod local;
mod peers;
mod replica;
mod turns;
mod waiting;

pub use algorithm::{Algorithm, Turn};
pub use peers::PeerLocks;
pub use replica::{MemberReplica, TERM};
pub use waiting::turn_away;

use std::net::SocketAddr;

use baton_peer::Member;
use baton_server::host::{Host, NeverLed};
use baton_server::server::Server;
pub use baton_server::server::{ServeError, bind};
use baton_types::limits::ServerLimits;
use tokio::net::TcpListener;

/// A lock server for the clients of a member.
pub type MemberServer = Server<MemberReplica<PeerLocks>>;

/// The member stopped before it served.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the member stopped before it served")]
pub struct NeverServed;

impl From<NeverLed> for NeverServed {
    fn from(_: NeverLed) -> Self {
        NeverServed
    }
}

/// Makes a server for the clients of this member, on a port from [`bind`]. Bind it before the member joins: a member that
/// stops because its port is taken cannot join again.
pub async fn serve(
    member: Member,
    port: (TcpListener, SocketAddr),
    limits: ServerLimits,
    connections_max: usize,
) -> Result<MemberServer, NeverServed> {
    // An algorithm needs a few messages, one after the other, to find out whether a lock is free.
    let try_ms = 2 * member.group().file().delay_max_ms;
    let open = async |reports| Ok::<_, NeverServed>(MemberReplica::start(PeerLocks::new(member), try_ms, reports));
    let host = Host::start(limits, open).await?;
    host.until_leads().await?;
    Ok(Server::new(host, port, connections_max, limits.streams))
}
