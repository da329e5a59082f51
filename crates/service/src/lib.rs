//! The lock service. `table` and `leases` are pure and decide everything; `raft` replicates the table, `store` keeps it on
//! disk, `api` serves it.

#[cfg(feature = "server")]
pub mod api;
#[cfg(feature = "server")]
mod clock;
#[cfg(feature = "server")]
mod connections;
pub mod leases;
#[cfg(feature = "server")]
pub mod raft;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod store;
pub mod table;
