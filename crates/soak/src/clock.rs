//! The clocks of the processes. Each clock has its own rate and its own starting value.

use std::time::Duration;

/// Microseconds of true time.
pub type Micros = u64;

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_us: f64,
    rate: f64,
}

impl Clock {
    /// A clock whose rate is off by at most the share `drift`.
    pub fn random(rng: &mut fastrand::Rng, drift: f64) -> Self {
        Clock { offset_us: rng.f64() * 1e9, rate: 1.0 + drift * (2.0 * rng.f64() - 1.0) }
    }

    /// What the process reads at true time `now`, in whole milliseconds.
    pub fn read_ms(&self, now: Micros) -> u64 {
        ((self.offset_us + now as f64 * self.rate) / 1e3) as u64
    }

    /// The first moment of true time at which the clock shows this value.
    pub fn when(&self, read_ms: u64) -> Micros {
        let guess = ((read_ms as f64 * 1e3 - self.offset_us) / self.rate).max(0.0) as Micros;
        // Rounding may make the guess a microsecond too early.
        (guess..).find(|moment| self.read_ms(*moment) >= read_ms).unwrap_or(guess)
    }
}

impl Clock {
    /// The same clock, for a machine of the simulation of the shipped engine.
    pub fn of_machine(&self) -> baton_runtime::simulation::Clock {
        let starts_at = Duration::from_micros(self.offset_us as u64);
        baton_runtime::simulation::Clock { starts_at, fast_ppm: ((self.rate - 1.0) * 1e6) as i64 }
    }
}
