//! The plain types that client, server and command line of the lock service share: no transport, no I/O.
//!
//! - [`cluster_id`]: the id of a cluster.
//! - [`durations`]: durations as text.
//! - [`events`]: the feed of changes.
//! - [`frames`]: the frames on the stream of a session.
//! - [`views`]: what the service shows to people.
//! - [`limits`]: every limit and default.
//! - [`modules!`]: the list of the modules of the state; [`locks`]: the words of the locks.
//! - [`name`]: the name of a lock as text.
//! - [`sentences`]: sentences that more than one part says.
//!
//! **Architecture invariant: this crate knows no transport.** Each transport converts its own messages to these types.

pub mod cluster_id;
#[cfg(feature = "test-module")]
pub mod counter;
pub mod durations;
pub mod events;
pub mod frames;
mod json;
pub mod limits;
pub mod locks;
mod modules;
pub mod name;
pub mod sentences;
pub mod views;
