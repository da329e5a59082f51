//! `baton lock`: run a command while holding a lock, so that it is surely gone when the lock is.

mod channel;
mod clock;
pub mod exec;
mod run;
mod signals;
mod supervisor;
mod terminal;
mod tree;
pub mod watchdog;

/// The lock was lost.
const LOCK_LOST: u8 = 75;
/// The command was found and cannot be run.
const CANNOT_RUN: u8 = 126;
/// The command was not found.
const NOT_FOUND: u8 = 127;

/// This very program, even if its file was replaced since it was started.
const MYSELF: &str = "/proc/self/exe";
