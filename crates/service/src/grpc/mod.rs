//! The service over gRPC. Converts the messages of the wire to plain types, and back. It does not use the state.

mod calls;
mod connections;
mod locks;

pub use calls::CountCalls;
pub use connections::accept;
pub use locks::GrpcLocks;
