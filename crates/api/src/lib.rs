//! The lock service over gRPC: the messages and stubs generated from `proto/baton/v1/locks.proto`, and their conversion
//! to the plain types of [`baton_types`].

pub mod convert;

/// Version 1 of the protocol.
#[allow(clippy::all, reason = "made from the .proto file")]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/baton.v1.rs"));
}
