//! The lock service on the wire of gRPC: the messages and stubs made from `proto/baton/v1/locks.proto`, and how they
//! map to the plain types that everybody else speaks.

pub mod convert;

/// Version 1 of the protocol.
#[allow(clippy::all, reason = "made from the .proto file")]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/baton.v1.rs"));
}
