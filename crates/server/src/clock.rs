//! The two clocks of the service: one measures leases, one is for people to read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_runtime::simulation::since_start;
use nix::time::{ClockId, clock_gettime};

/// Milliseconds since the machine started. Counts while the machine sleeps, because leases must expire then, too.
pub fn boot_ms() -> u64 {
    if let Some(simulated) = since_start() {
        return ms(simulated);
    }
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has had this clock since 2.6.39");
    u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000 + u64::try_from(time.tv_nsec()).unwrap_or(0) / 1_000_000
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    ms(since_start().unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
