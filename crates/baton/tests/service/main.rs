//! The lock service with real processes: a server that is killed, stopped, and lied to, and clients that must not be fooled.

mod bad_input;
mod commands;
mod folders;
mod kills;
mod listing;
mod server;
mod silence;
mod slow;
