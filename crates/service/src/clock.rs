//! The two clocks of the service: one measures leases, one is for people to read.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Milliseconds since the machine started. Counts while the machine sleeps, because leases must expire then, too.
pub fn boot_ms() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has had this clock since 2.6.39");
    u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000 + u64::try_from(time.tv_nsec()).unwrap_or(0) / 1_000_000
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
