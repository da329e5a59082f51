//! Watches the memory, so that an exploration stops before the machine or the control group runs out of it.

use std::fs;
use std::path::Path;

/// A bound on the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    bytes_max: usize,
}

/// Percentage of the memory free at the start that the checker may use.
const SHARE_OF_FREE: usize = 80;

/// The memory that the checker leaves to other programs, which may need more than at the start. A checker that uses
/// less than this leaves only as much as it uses itself.
const RESERVE: usize = 256 << 20;

impl Memory {
    pub const UNBOUNDED: Memory = Memory { bytes_max: usize::MAX };

    pub fn at_most(bytes_max: usize) -> Self {
        Memory { bytes_max }
    }

    /// 80 % of the memory that is free now. No bound if the system does not say how much is free.
    pub fn most_of_what_is_free() -> Self {
        let free = free().map(|free| free / 100 * SHARE_OF_FREE);
        free.map_or(Self::UNBOUNDED, |free| Memory { bytes_max: free.saturating_add(used().unwrap_or(0)) })
    }

    /// Whether a process that uses `used` bytes may not use `more`.
    pub fn is_short(self, used: usize, more: usize) -> bool {
        used.saturating_add(more) > self.bytes_max
    }

    pub fn bytes_max(self) -> usize {
        self.bytes_max
    }
}

/// The memory in use and the free memory, in bytes. None if the system does not say.
#[derive(Clone, Copy, Debug)]
pub struct MemoryNow {
    /// By this process.
    pub used: Option<usize>,
    /// On the machine and in the control group.
    pub free: Option<usize>,
}

impl MemoryNow {
    pub fn look() -> Self {
        MemoryNow { used: used(), free: free() }
    }

    /// Whether `more` bytes would leave too little to other programs. They may have taken what was free at the start.
    /// If the checker is small itself, stopping it would not help, so the reserve is smaller.
    pub fn is_machine_full(self, more: usize) -> bool {
        let reserve = RESERVE.min(self.used.unwrap_or(RESERVE));
        self.free.is_some_and(|free| free < more.saturating_add(reserve))
    }
}

/// The memory of this process, in bytes. None if the system does not say.
pub fn used() -> Option<usize> {
    kib(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The free memory, in bytes, on the machine and in the control group. None if the system does not say.
pub fn free() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib(&text, "MemAvailable:"));
    machine.into_iter().chain(free_in_group()).min()
}

/// What the control group of this process, or a group around it, may still use. Caches do not count as used, because
/// the kernel can drop them.
fn free_in_group() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (version, group) = groups.lines().find_map(of_memory)?;
    let read = |group: &Path, file: &str| fs::read_to_string(Path::new(version.root).join(group).join(file)).ok();
    let left = |group: &Path| left(&read(group, version.max)?, &read(group, "memory.stat")?, version.fixed);
    Path::new(group).ancestors().filter_map(left).min()
}

/// Where the files of a control group are, for version 1 and version 2.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    root: &'static str,
    /// The file with the limit.
    max: &'static str,
    /// The lines of `memory.stat` with memory that the kernel cannot drop.
    fixed: &'static [&'static str],
}

const VERSION_1: Version =
    Version { root: "/sys/fs/cgroup/memory", max: "memory.limit_in_bytes", fixed: &["total_rss ", "total_shmem "] };
const VERSION_2: Version =
    Version { root: "/sys/fs/cgroup", max: "memory.max", fixed: &["anon ", "kernel ", "shmem "] };

/// The group in a line of /proc/self/cgroup, if this group limits memory. If both versions are in use, version 1 limits
/// memory, and its line comes first.
fn of_memory(line: &str) -> Option<(Version, &str)> {
    let (_, line) = line.split_once(':')?;
    let (controllers, group) = line.split_once(":/")?;
    match controllers {
        "" => Some((VERSION_2, group)),
        _ => controllers.split(',').any(|controller| controller == "memory").then_some((VERSION_1, group)),
    }
}

/// The limit of a control group minus its fixed memory. None if the limit is not a number, such as "max".
fn left(max: &str, stat: &str, fixed: &[&str]) -> Option<usize> {
    let used = |name: &&str| stat.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<usize>().ok();
    let used: Vec<usize> = fixed.iter().filter_map(used).collect();
    let max: usize = max.trim().parse().ok()?;
    (!used.is_empty()).then(|| max.saturating_sub(used.iter().sum()))
}

/// The bytes after `name` in a text of the kernel, which counts in KiB.
fn kib(text: &str, name: &str) -> Option<usize> {
    let number = text.lines().find_map(|line| line.strip_prefix(name))?.trim().trim_end_matches("kB").trim();
    number.parse::<usize>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_control_group_is_what_it_may_use_less_what_cannot_be_given_back() {
        let stat = "anon 300\nfile 5000\nkernel 7\nshmem 3\n";
        assert_eq!(left("1000\n", stat, VERSION_2.fixed), Some(690));
        assert_eq!(left("200\n", stat, VERSION_2.fixed), Some(0));
        assert_eq!(left("max\n", stat, VERSION_2.fixed), None);
        assert_eq!(left("1000\n", "file 5000\n", VERSION_2.fixed), None);
        assert_eq!(left("1000\n", "rss 9\ntotal_rss 50\n", VERSION_1.fixed), Some(950));
    }

    #[test]
    fn the_control_group_that_bounds_memory_is_found_in_either_version() {
        assert_eq!(of_memory("0::/user/me"), Some((VERSION_2, "user/me")));
        assert_eq!(of_memory("4:cpu,memory:/me"), Some((VERSION_1, "me")));
        assert_eq!(of_memory("9:name=systemd:/"), None);
        assert_eq!(of_memory("3:cpuset:/me"), None);
    }

    #[test]
    fn others_are_left_a_reserve_unless_it_is_they_who_have_taken_it() {
        let full = |used, free, more| MemoryNow { used, free }.is_machine_full(more);
        assert!(full(Some(1 << 30), Some(RESERVE + 9), 10));
        assert!(!full(Some(1 << 30), Some(RESERVE + 10), 10));
        assert!(!full(Some(1 << 20), Some(1 << 21), 10));
        assert!(full(Some(1 << 20), Some(1 << 21), 1 << 21));
        assert!(!full(Some(1 << 30), None, usize::MAX));
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
