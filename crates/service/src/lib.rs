//! The lock service. `state`, `leases` and `frontend` are pure and make all decisions. `raft` replicates the state,
//! `format` defines its encoding, and `store` keeps the bytes on disk. `host` drives the front end over a `replica`, which
//! is a node of `raft` or a member of a peer group, and `grpc` serves clients.

#[cfg(feature = "server")]
pub mod backup;
#[cfg(feature = "server")]
pub mod clock;
#[cfg(feature = "server")]
mod format;
pub mod frontend;
#[cfg(feature = "server")]
mod grpc;
#[cfg(feature = "server")]
pub mod host;
pub mod leases;
#[cfg(feature = "server")]
mod limiter;
#[cfg(feature = "server")]
pub mod listing;
#[cfg(feature = "server")]
mod notes;
#[cfg(feature = "server")]
pub mod raft;
#[cfg(feature = "server")]
pub mod replica;
#[cfg(feature = "server")]
pub mod server;
pub mod state;
#[cfg(feature = "server")]
pub mod store;
