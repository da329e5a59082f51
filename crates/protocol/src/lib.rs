//! Mutual exclusion and leader election as pure step functions.
//!
//! Each algorithm is a value with a step function, [`Protocol::step`]. A simulator, an exhaustive checker and real
//! sockets drive the same code. [`Protocol`] says how to drive an algorithm; [`registry`] lists the algorithms.
//!
//! **Architecture invariant: this crate does no I/O and has no clock, no threads and no randomness.** The crate is
//! `no_std` with `alloc`, so the compiler refuses all of these, and hash maps with their random order too.

#![no_std]

extern crate alloc;

pub mod append;
pub mod broken;
pub mod clock;
pub mod detector;
pub mod election;
pub mod fence;
pub mod mutex;
pub mod picture;
pub mod process;
pub mod process_set;
pub mod property;
pub mod registry;
pub mod roster;
pub mod topology;
pub mod views;

pub use fence::Fence;
pub use picture::Picture;
pub use process::*;
pub use process_set::ProcessSet;
pub use property::{PerProperty, Promises, Property};
pub use registry::Group;
