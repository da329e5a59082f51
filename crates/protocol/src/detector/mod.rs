//! Failure detection: suspects processes that have been silent for too long.
//!
//! Protocols have no clock. A failure detector needs one, so it is a trait of its own. A [`Watcher`] is a process with
//! detectors as a protocol: its clock is a part of its state.

use alloc::string::ToString;
use core::fmt::Debug;
use core::hash::Hash;

use crate::registry::{Params, SetupError};
use crate::{Picture, Ticks};

mod beater;
pub mod heartbeat;
pub mod phi_accrual;
mod watcher;

pub use beater::{Beat, Beater, Heard, Period};
pub use watcher::{Due, Opinion, StampedBeat, Watcher};

/// Watches one other process and suspects it when its beats stop.
///
/// # How to drive it
///
/// 1. Let each process send a beat to all others every [`period`](Detector::period) of its own clock: see [`Beater`].
/// 2. Make one detector for each watched process. Call [`watch`](Detector::watch) when watching begins, and again when
///    the process is known to have started again.
/// 3. Call [`beat`](Detector::beat) for each beat, in order of arrival, and set an alarm for just after the
///    [`deadline`](Detector::deadline). A beat ends a suspicion at once.
///
/// `now` is the clock of the watching process. It never goes back.
pub trait Detector: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// Time between two beats of the watched process.
    fn period(&self) -> Ticks;

    /// Watching begins, and the first wait with it.
    fn watch(&mut self, now: Ticks);

    fn beat(&mut self, now: Ticks);

    /// The last moment at which the process is not suspected, if no further beat arrives.
    fn deadline(&self) -> Ticks;

    /// Whether the watched process is suspected.
    fn suspects(&self, now: Ticks) -> bool {
        now > self.deadline()
    }

    /// The picture of the detector at `now`: whether it suspects the process, and why or why not yet. Its numbers
    /// are times. Only the driver knows which process the detector watches.
    fn view(&self, now: Ticks) -> Picture;

    /// Moves all remembered times `ticks` into the past, but not below 0. So the checker can let time pass while the
    /// clock stands still, and processes that send beats for ever have finitely many states. Returns false, and does
    /// nothing, if the detector remembers more than times. Only the checker calls it.
    fn recede(&mut self, ticks: Ticks) -> bool {
        let _ = ticks;
        false
    }
}

/// Most processes that watch each other: 4 million pairs, of up to 400 bytes each with samples and beats on their way.
const WATCHED_MAX: usize = 1 << 11;

/// Default period of beats, in D.
const PERIOD: f64 = 10.0;

/// The period of beats: `period:P` times D.
fn period(params: &Params) -> Result<Ticks, SetupError> {
    let periods = number(params, "period", "a period", PERIOD, 1e6)?;
    Ok(in_ticks(periods * params.delay_max as f64).max(1))
}

/// The value of `name` in the variant: a decimal number greater than 0 and at most `max`.
fn number(params: &Params, name: &str, what: &'static str, default: f64, max: f64) -> Result<f64, SetupError> {
    let Some(text) = params.value(name) else { return Ok(default) };
    match text.parse() {
        Ok(value) if 0.0 < value && value <= max => Ok(value),
        _ => Err(SetupError::Value {
            what,
            value: text.to_string(),
            reason: alloc::format!("write a number greater than 0 and at most {max}"),
        }),
    }
}

/// Rounds up, so that a wait is never too short.
fn in_ticks(time: f64) -> Ticks {
    libm::ceil(time) as Ticks
}
