//! `baton lock` with real processes: a command is gone when its lock is. The server is a play, so that it can fall
//! silent, revoke and refuse exactly when a test wants it to.

mod command;
mod losing;
mod processes;
mod reaching;
mod server;
mod terminal;
mod watchdog;
