//! How much memory there is, so that an exploration stops before the machine runs out of it.

use std::fs;

/// A bound on the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    bytes_max: usize,
}

/// Of what is free at the beginning, so many hundredths may be used.
const SHARE_OF_FREE: usize = 80;

impl Memory {
    /// No bound at all.
    pub const UNBOUNDED: Memory = Memory { bytes_max: usize::MAX };

    /// At most so many bytes.
    pub fn at_most(bytes_max: usize) -> Self {
        Memory { bytes_max }
    }

    /// Most of what is free now; no bound where the system does not say.
    pub fn most_of_what_is_free() -> Self {
        let free = kib("/proc/meminfo", "MemAvailable:").map(|free| free * 1024 / 100 * SHARE_OF_FREE);
        free.map_or(Self::UNBOUNDED, |free| Memory { bytes_max: free.saturating_add(used().unwrap_or(0)) })
    }

    /// Whether `more` bytes would be too many for who has `used` so many.
    pub fn is_short(self, used: usize, more: usize) -> bool {
        used.saturating_add(more) > self.bytes_max
    }

    /// How many bytes there may be.
    pub fn bytes_max(self) -> usize {
        self.bytes_max
    }
}

/// What this process uses now, in bytes; none where the system does not say.
pub fn used() -> Option<usize> {
    kib("/proc/self/status", "VmRSS:").map(|used| used * 1024)
}

/// The number, in KiB, after `name` in a file of the kernel.
fn kib(file: &str, name: &str) -> Option<usize> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().trim_end_matches("kB").trim().parse().ok()
}
