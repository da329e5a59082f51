//! The service over gRPC. Converts the messages of the wire to plain types, and back. It does not use the state.

mod bodies;
mod calls;
mod carry;
mod connections;
mod feed;
mod frames;
mod link;
mod locks;
mod meant;
mod members;
mod own_address;
mod proof;
mod requests;

pub use calls::CountCalls;
pub use carry::{CARRIED_MAX, Carrier, Carry};
pub use connections::accept;
pub use feed::GrpcFeed;
pub use frames::BoundFrames;
pub use locks::GrpcLocks;
pub use members::GrpcMembers;
pub use own_address::watch as watch_own_address;
pub use proof::{GrpcProofs, Member};
pub use requests::{REQUEST_TIME_MAX, ReadRequests};
