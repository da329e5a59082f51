//! CLOCK_BOOTTIME, the clock of leases: it also counts the time while the machine is suspended.

use baton_client::BootTime;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The longest time between two looks at the clock.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Milliseconds since the start of the machine.
pub fn now_ms() -> u64 {
    BootTime::now().as_millis()
}

/// Waits until this time, but at most [`LOOK_AGAIN`], because tokio's timers stop while the machine is suspended. The
/// caller must look at the clock afterwards.
pub async fn wait_until(at_ms: Option<u64>) {
    let left = at_ms.map_or(LOOK_AGAIN, |at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms())));
    tokio::time::sleep(left.min(LOOK_AGAIN)).await;
}

/// A file descriptor that becomes readable at a time of this clock; at once if the machine was suspended at that time.
pub struct Alarm(TimerFd);

impl Alarm {
    /// An alarm that is not set.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Alarm(TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?))
    }

    /// Sets the alarm to another time, or unsets it.
    pub fn set(&self, at_ms: Option<u64>) -> io::Result<()> {
        // The time 0 would unset the alarm.
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
