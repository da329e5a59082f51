//! Everything of the lock service that decides, without any I/O: the state, the leader's timers, the front end and the
//! listings. `cargo xtask ci` proves that this crate cannot do I/O.

pub mod frontend;
pub mod leases;
pub mod listing;
pub mod readers;
pub mod state;
