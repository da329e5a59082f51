//! Virtual time.

use baton_protocol::Ticks;

/// One message delay, in ticks.
pub const T: Ticks = 1_000_000;

/// A time in T as ticks, to the nearest; what is negative or not a number counts as 0.
pub fn ticks(in_t: f64) -> Ticks {
    (in_t * T as f64).round() as Ticks
}

/// Ticks as a time in T.
pub fn in_t(ticks: Ticks) -> f64 {
    ticks as f64 / T as f64
}
