//! Mutual exclusion and leader election as pure step functions.
//!
//! Every algorithm is a value with a step function, [`Protocol::step`]; a simulator, an exhaustive checker and real
//! sockets drive the same code. [`Protocol`] tells how to drive one, [`registry`] which there are.
//!
//! **Architecture invariant: this crate does no I/O and has no clock, no threads and no randomness.** It is `no_std`
//! with `alloc`, so the compiler refuses all of these, and maps in random order with them.

#![no_std]

extern crate alloc;

pub mod append;
pub mod broken;
pub mod clock;
pub mod detector;
pub mod election;
pub mod mutex;
pub mod process;
pub mod process_set;
pub mod property;
pub mod registry;
pub mod roster;
pub mod topology;

pub use process::*;
pub use process_set::ProcessSet;
pub use property::{PerProperty, Promises, Property};
pub use registry::Group;
