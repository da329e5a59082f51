//! The lock service over gRPC.

mod desk;
mod inspect;
mod locks;
mod pages;
mod service;
#[cfg(test)]
mod tests;
mod wire;

pub use locks::LocksService;
pub use service::Service;
