//! The server of the lock service. `raft` replicates the state of `baton_state`, `format` defines its encoding, and
//! `baton_store` keeps the bytes on disk. `host` drives the front end over a `replica`, which is a node of `raft` or a member of a peer group, and
//! `grpc` serves clients.

pub mod backup;
pub mod clock;
mod format;
mod grpc;
pub mod host;
mod limiter;
mod notes;
pub mod raft;
pub mod replica;
pub mod server;

use baton_state::{frontend, listing, readers, state};
use baton_store as store;
