//! Virtual time: the unit T, and ticks, in which the simulator counts.

use baton_protocol::Ticks;

/// One T in ticks.
pub const T: Ticks = 1_000_000;

/// Converts T to ticks, rounded. A negative number or NaN becomes 0.
pub fn ticks(in_t: f64) -> Ticks {
    (in_t * T as f64).round() as Ticks
}

pub fn in_t(ticks: Ticks) -> f64 {
    ticks as f64 / T as f64
}
