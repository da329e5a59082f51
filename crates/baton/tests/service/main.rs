//! The lock service with real processes. The server is killed, stopped and gets invalid input. Clients must not believe
//! in locks that they have lost.

mod backups;
mod bad_input;
mod commands;
mod feed;
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
