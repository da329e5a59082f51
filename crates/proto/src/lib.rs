//! The lock service on the wire: the messages and stubs made from `proto/baton/v1/locks.proto`, and how the name of a lock
//! is written as text.

pub mod name;

pub use prost::Message;

/// Version 1 of the protocol.
#[allow(missing_docs, clippy::all, reason = "made from the .proto file, which documents them")]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/baton.v1.rs"));
}
