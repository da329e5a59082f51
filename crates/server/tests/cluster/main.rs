//! Three servers in one process, with real sockets and real folders. Each has its own threads, so that it can be killed.

mod calls;
mod client;
mod limits;
mod members;
mod raw;
mod server;
mod starting;
mod streams;
