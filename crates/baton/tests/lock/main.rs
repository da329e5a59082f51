//! `baton lock` with real processes: the command is gone before the lock is lost. The server is a fake, so that it can
//! fall silent, revoke and refuse exactly when a test needs it.

mod command;
mod linger;
mod losing;
mod processes;
mod reaching;
mod server;
mod terminal;
mod waiting;
mod watchdog;
