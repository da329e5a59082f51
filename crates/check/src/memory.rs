//! How much memory there is, so that an exploration stops before the machine, or the part of it that it may use, runs out.

use std::fs;
use std::path::Path;

/// A bound on the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    bytes_max: usize,
}

/// Of what is free at the beginning, so many hundredths may be used.
const SHARE_OF_FREE: usize = 80;

/// So much is left to the others, who may need more than at the beginning.
pub const RESERVE: usize = 256 << 20;

impl Memory {
    /// No bound at all.
    pub const UNBOUNDED: Memory = Memory { bytes_max: usize::MAX };

    /// At most so many bytes.
    pub fn at_most(bytes_max: usize) -> Self {
        Memory { bytes_max }
    }

    /// Most of what is free now; no bound where the system does not say.
    pub fn most_of_what_is_free() -> Self {
        let free = free().map(|free| free / 100 * SHARE_OF_FREE);
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
    kib(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// What is free now, in bytes, on the machine and in the control group; none where the system does not say.
pub fn free() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib(&text, "MemAvailable:"));
    machine.into_iter().chain(free_in_group()).min()
}

/// What the control group of this process, or one around it, leaves of what it may use. Caches do not count: they give way.
fn free_in_group() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let read = |group: &Path, file: &str| fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join(file)).ok();
    let left = |group: &Path| left(&read(group, "memory.max")?, &read(group, "memory.stat")?);
    Path::new(group).ancestors().filter_map(left).min()
}

/// From what a control group may use, and from what it says of how it does. There is no bound that is no number.
fn left(max: &str, stat: &str) -> Option<usize> {
    let used: usize = stat.lines().find_map(|line| line.strip_prefix("anon "))?.trim().parse().ok()?;
    let max: usize = max.trim().parse().ok()?;
    Some(max.saturating_sub(used))
}

/// The bytes after `name` in what the kernel says in KiB.
fn kib(text: &str, name: &str) -> Option<usize> {
    let number = text.lines().find_map(|line| line.strip_prefix(name))?.trim().trim_end_matches("kB").trim();
    number.parse::<usize>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_control_group_is_what_it_may_use_less_what_cannot_be_given_back() {
        let stat = "anon 300\nfile 5000\nkernel 7\n";
        assert_eq!(left("1000\n", stat), Some(700));
        assert_eq!(left("200\n", stat), Some(0));
        assert_eq!(left("max\n", stat), None);
        assert_eq!(left("1000\n", "file 5000\n"), None);
    }

    #[test]
    fn the_kernel_counts_in_kib() {
        let text = "MemTotal:       24 kB\nMemAvailable:    3 kB\n";
        assert_eq!((kib(text, "MemAvailable:"), kib(text, "VmRSS:")), (Some(3072), None));
    }

    #[test]
    fn this_machine_says_what_is_used_and_what_is_free() {
        assert!(used().is_some_and(|used| used > 0));
        assert!(free().is_some_and(|free| free > 0));
    }
}
