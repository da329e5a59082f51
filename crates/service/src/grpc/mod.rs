//! The service over gRPC: the messages of the wire are mapped to plain types, and back. It knows nothing of the state.

mod calls;
mod connections;
mod locks;

pub use calls::CountCalls;
pub use connections::accept;
pub use locks::GrpcLocks;
