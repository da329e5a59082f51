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
//! - `replica`: the [`Replica`](baton_service::replica::Replica) that runs them.

mod algorithm;
mod local;
mod replica;
mod turns;

pub use algorithm::{Algorithm, Turn};
pub use replica::{MemberReplica, TERM};
