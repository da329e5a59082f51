//! CLOCK_BOOTTIME: the clock of leases, which goes on while the machine is suspended.

use baton_client::BootTime;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long to wait at most before the clock is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Milliseconds since the machine was started.
pub fn now_ms() -> u64 {
    BootTime::now().as_millis()
}

/// Waits until then or, since tokio's timers stand still while the machine sleeps, for a while: look at the clock.
pub async fn wait_until(at_ms: Option<u64>) {
    let left = at_ms.map_or(LOOK_AGAIN, |at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms())));
    tokio::time::sleep(left.min(LOOK_AGAIN)).await;
}

/// Becomes readable at a time of this clock: at once if the machine slept through it.
pub struct Alarm(TimerFd);

impl Alarm {
    /// One that is not set.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Alarm(TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?))
    }

    /// Sets it anew, or takes it back.
    pub fn set(&self, at_ms: Option<u64>) -> io::Result<()> {
        // An alarm for time 0 would be none.
        let at = at_ms.map(|at_ms| Expiration::OneShot(TimeSpec::from_duration(Duration::from_millis(at_ms.max(1)))));
        match at {
            Some(at) => self.0.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?,
            None => self.0.unset()?,
        }
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
