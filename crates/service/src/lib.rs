//! The lock service. `state`, `leases` and `frontend` are pure and decide everything; `raft` replicates the state, `format`
//! says in which bytes, `store` keeps them on disk; `host` is the shell that drives them, `grpc` serves it.

#[cfg(feature = "server")]
mod clock;
#[cfg(feature = "server")]
mod format;
pub mod frontend;
#[cfg(feature = "server")]
mod grpc;
#[cfg(feature = "server")]
pub mod host;
pub mod leases;
#[cfg(feature = "server")]
pub mod listing;
#[cfg(feature = "server")]
mod notes;
#[cfg(feature = "server")]
pub mod raft;
#[cfg(feature = "server")]
pub mod server;
pub mod state;
#[cfg(feature = "server")]
pub mod store;
