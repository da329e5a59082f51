//! Failure detection: who has been silent for too long to be alive.
//!
//! Protocols have no clock; failure detectors do, and are therefore a trait of their own.

use alloc::string::ToString;
use core::fmt::Debug;

use crate::registry::{Params, SetupError};
use crate::{Picture, Ticks};

mod beater;
pub mod heartbeat;
pub mod phi_accrual;

pub use beater::{Beat, Beater, Heard, Period};

/// Watches one other process by its beats, and judges by their absence.
///
/// # How to drive it
///
/// 1. Let every process send a beat to all who watch it, every [`period`](Detector::period) of its own clock: a [`Beater`].
/// 2. Make one detector per process watched, and call [`watch`](Detector::watch) when the watching begins, and again when
///    the process is known to have started anew.
/// 3. Call [`beat`](Detector::beat) for each beat that arrives, in order of arrival, and set an alarm for just after the
///    [`deadline`](Detector::deadline). Whoever is suspected is trusted again as soon as a beat arrives.
///
/// `now` is the watcher's own clock, and never goes back.
pub trait Detector: Clone + PartialEq + Debug + Send + Sync + 'static {
    /// How often the process that is watched has to beat.
    fn period(&self) -> Ticks;

    /// Watching begins, and with it the first wait.
    fn watch(&mut self, now: Ticks);

    /// A beat has arrived.
    fn beat(&mut self, now: Ticks);

    /// The last moment at which the process is not suspected, if no further beat arrives.
    fn deadline(&self) -> Ticks;

    /// Whether the process is suspected.
    fn suspects(&self, now: Ticks) -> bool {
        now > self.deadline()
    }

    /// What a drawing shows of it at `now`: whether the process is suspected, and why or why not yet. Whom it watches
    /// only its driver knows.
    fn view(&self, now: Ticks) -> Picture;

    /// Moves what it remembers `ticks` into the past, to 0 at the furthest, so that a checker can let time pass while the
    /// clock stands still: then processes that beat for ever have finitely many states. False, and nothing is done, if it
    /// remembers more than moments. Drivers with a clock never call it.
    fn recede(&mut self, ticks: Ticks) -> bool {
        let _ = ticks;
        false
    }
}

/// The most that watch each other: 4 million pairs, of up to 400 bytes each with their samples and beats in flight.
const WATCHED_MAX: usize = 1 << 11;

/// How often to beat, in D, unless told.
const PERIOD: f64 = 10.0;

/// The period P of beats: `period:P` times the bound on delays.
fn period(params: &Params) -> Result<Ticks, SetupError> {
    let periods = number(params, "period", "a period", PERIOD, 1e6)?;
    Ok(in_ticks(periods * params.delay_max as f64).max(1))
}

/// A decimal number greater than 0 and at most `max` out of the variant.
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

/// Rounded up, so that a wait is never too short.
fn in_ticks(time: f64) -> Ticks {
    libm::ceil(time) as Ticks
}
