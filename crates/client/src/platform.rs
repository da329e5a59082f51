//! What the operating system is asked for. All of it is Linux; another system needs another version of this file only.
//!
//! A lease needs a clock that goes on while the machine sleeps, because the server's clock does. On Linux that is
//! CLOCK_BOOTTIME; `std::time::Instant` is CLOCK_MONOTONIC there, which stands still, and a client that woke up would
//! believe in a lock that others were granted long ago. The standard library has no name of the machine, either.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The time since the machine started, time asleep included.
pub(crate) fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has had this clock since 2.6.39").into()
}

/// For people: the name of the machine. Empty if it has none.
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}
