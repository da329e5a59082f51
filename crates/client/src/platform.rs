//! The client's calls to the operating system. Only Linux is supported; a port to another system changes only this
//! file.
//!
//! A lease needs a clock that goes on while the machine sleeps, because the server's clock goes on too. On Linux that
//! is CLOCK_BOOTTIME. `std::time::Instant` is CLOCK_MONOTONIC on Linux, which stops during sleep: a client that wakes
//! up would still believe in a lock that another session was granted long ago. The standard library also has no call
//! for the host name.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The time since the machine started, including time asleep.
pub(crate) fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has had this clock since 2.6.39").into()
}

/// The host name, shown to people. Empty if there is none.
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}
