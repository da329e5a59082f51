//! A member of a peer group as a lock server. Its clients use it like any other server.
//!
//! The member keeps the service's own state in memory for its local clients: sessions, queues, requests that are applied
//! once. The state is [gated](baton_service::state::State::gated): it grants no lock by itself. A mutual exclusion
//! [`Algorithm`] decides when the member may enter, and gives the fence. Then the first local waiter of the lock is
//! granted. Each grant is one entry of the algorithm, so the algorithm's own fairness bounds how many local clients are
//! served in a row.
//!
//! - `turns`: asks the algorithm and leaves again, for each lock; pure.
//! - `local`: the state of the member with its turns; pure.
//! - `peers`: the algorithm of a real group.
//! - `replica`: the [`Replica`](baton_service::replica::Replica) that runs them.

mod algorithm;
mod local;
mod peers;
mod replica;
mod turns;

pub use algorithm::{Algorithm, Turn};
pub use peers::PeerLocks;
pub use replica::{MemberReplica, TERM};

use std::net::SocketAddr;

use baton_peer::Member;
use baton_service::host::{Host, NeverLed};
use baton_service::server::{ServeError, Server, bind};
use baton_types::limits::ServerLimits;

/// A lock server for the clients of a member.
pub type MemberServer = Server<MemberReplica<PeerLocks>>;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ServeError),
    #[error("the member stopped before it served")]
    NeverServed,
}

impl From<NeverLed> for StartError {
    fn from(_: NeverLed) -> Self {
        StartError::NeverServed
    }
}

/// Makes a server for the clients of this member, at address `listen`.
pub async fn serve(
    member: Member,
    listen: SocketAddr,
    limits: ServerLimits,
    connections_max: usize,
) -> Result<MemberServer, StartError> {
    let listener = bind(listen).await?;
    // An algorithm needs a few messages, one after the other, to find out whether a lock is free.
    let try_ms = 2 * member.group().file().delay_max_ms;
    let open = async |reports| Ok::<_, StartError>(MemberReplica::start(PeerLocks(member), try_ms, reports));
    let host = Host::start(limits, open).await?;
    Ok(Server::new(host, listener, connections_max, limits.streams))
}
