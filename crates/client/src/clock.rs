//! The clock that leases are measured by.

use std::fmt;
use std::time::Duration;

use crate::platform::since_boot;
use crate::session::Millis;

/// A moment on CLOCK_BOOTTIME: the time since the machine started, time asleep included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime {
    millis: Millis,
}

impl BootTime {
    /// This moment.
    pub fn now() -> Self {
        BootTime { millis: u64::try_from(since_boot().as_millis()).unwrap_or(Millis::MAX) }
    }

    pub(crate) fn from_millis(millis: Millis) -> Self {
        BootTime { millis }
    }

    /// In milliseconds since the machine started.
    pub fn as_millis(self) -> u64 {
        self.millis
    }

    /// How long it is until then; nothing if it has passed.
    pub fn remaining(self) -> Duration {
        Duration::from_millis(self.millis.saturating_sub(BootTime::now().millis))
    }
}

/// In seconds, as `BATON_DEADLINE` has it.
impl fmt::Display for BootTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.millis / 1_000, self.millis % 1_000)
    }
}
