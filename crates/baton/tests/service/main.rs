//! The lock service with real processes: a server that is killed, stopped, and lied to, and clients that must not be
//! fooled.

mod bad_input;
mod commands;
mod folders;
mod health;
mod kills;
mod limits;
mod listing;
mod log;
mod raw;
mod server;
mod silence;
mod slow;
mod stops;
mod streams;
