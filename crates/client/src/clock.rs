//! The clock that measures leases.

use std::fmt;
use std::time::Duration;

use crate::platform::since_boot;
use crate::session::Millis;

/// A moment on CLOCK_BOOTTIME: the time since the machine started, including time asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime {
    millis: Millis,
}

impl BootTime {
    /// The current moment.
    pub fn now() -> Self {
        BootTime { millis: u64::try_from(since_boot().as_millis()).unwrap_or(Millis::MAX) }
    }

    pub(crate) fn from_millis(millis: Millis) -> Self {
        BootTime { millis }
    }

    /// Milliseconds since the machine started.
    pub fn as_millis(self) -> u64 {
        self.millis
    }

    /// The time from now until this moment; zero if the moment has passed.
    pub fn remaining(self) -> Duration {
        Duration::from_millis(self.millis.saturating_sub(BootTime::now().millis))
    }
}

/// In seconds, the format of `BATON_DEADLINE`.
impl fmt::Display for BootTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.millis / 1_000, self.millis % 1_000)
    }
}
