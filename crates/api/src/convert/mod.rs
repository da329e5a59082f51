//! Converts between the messages of gRPC and the plain types of [`baton_types`], for client and server.

mod frames;
mod views;

#[cfg(test)]
mod tests;

pub use frames::{from_client, from_server, mode, to_client, to_server};
