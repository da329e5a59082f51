//! Converts between the messages of gRPC and the plain types of [`baton_types`], for client and server.

mod feed;
mod frames;
mod views;

#[cfg(test)]
mod tests;

pub use feed::{from_watch, told_from_wire, told_to_wire, watch_to_wire};
pub use frames::{from_client, from_server, mode, to_client, to_server};
