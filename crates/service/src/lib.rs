//! The lock service. `state` and `leases` are pure and decide everything; `raft` replicates the state, `format` says in
//! which bytes, `store` keeps them on disk, `api` serves it.

#[cfg(feature = "server")]
pub mod api;
#[cfg(feature = "server")]
mod clock;
#[cfg(feature = "server")]
mod connections;
#[cfg(feature = "server")]
mod format;
pub mod leases;
#[cfg(feature = "server")]
pub mod raft;
#[cfg(feature = "server")]
pub mod server;
pub mod state;
#[cfg(feature = "server")]
pub mod store;
