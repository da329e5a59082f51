//! A moment of the clock that only goes forward.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::simulation;

/// Like [`std::time::Instant`], but asks the simulation if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    pub fn now() -> Instant {
        match simulation::running(|world| world.instant()) {
            Some(now) => Instant(now),
            // Follows the clock of tokio, which tests may stop.
            None => Instant(tokio::time::Instant::now().into_std()),
        }
    }

    pub fn elapsed(self) -> Duration {
        Instant::now().duration_since(self)
    }

    /// Zero if `earlier` is later.
    pub fn duration_since(self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    pub fn saturating_duration_since(self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    pub fn checked_add(self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(duration).map(Instant)
    }

    pub fn checked_sub(self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(duration).map(Instant)
    }

    pub(crate) fn in_std(self) -> std::time::Instant {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl openraft::Instant for Instant {
    fn now() -> Instant {
        Instant::now()
    }
}
