//! The words that client, server and command line of the lock service share, as plain types: no transport, no I/O.
//!
//! - [`frames`]: what a client and the service say to each other on the stream of a session.
//! - [`views`]: what the service shows to people.
//! - [`limits`]: every bound and default, once.
//! - [`name`]: the name of a lock as text.
//!
//! **Architecture invariant: this crate knows no transport.** Each transport maps its own messages to these types at
//! its edge.

pub mod frames;
pub mod limits;
pub mod name;
pub mod views;
