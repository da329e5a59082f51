//! The client.
pub mod session;
