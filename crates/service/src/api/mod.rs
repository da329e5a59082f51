//! The lock service over gRPC.

mod desk;
mod inspect;
mod locks;
mod wire;

pub use desk::Desk;
pub use locks::LocksService;
