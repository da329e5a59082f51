//! `baton lock` with real processes: a command is gone when its lock is.

mod processes;
mod watchdog;
