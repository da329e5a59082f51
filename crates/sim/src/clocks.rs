//! Clocks that run fast or slow. Timers run by the clock of their process, and failure detectors read it; delays, faults
//! and what users do are in true time.

use baton_protocol::{ProcessId, Ticks};

/// The clocks of all processes.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// How fast each runs, in billionths of the truth; empty if all are right.
    rates: Vec<u64>,
}

const BILLION: u64 = 1_000_000_000;

impl Clocks {
    /// Each is off by up to `drift`, as the seed draws it, from the start to the end of the run.
    pub fn drawn(processes: usize, drift: f64, seed: u64) -> Self {
        if drift == 0.0 {
            return Clocks::default();
        }
        // Of its own, so that drift changes nothing else of the run.
        let mut rng = fastrand::Rng::with_seed(seed.rotate_left(16));
        let rate = |random: f64| ((1.0 + drift * (2.0 * random - 1.0)) * BILLION as f64).round() as u64;
        Clocks { rates: (0..processes).map(|_| rate(rng.f64())).collect() }
    }

    /// What the clock of `process` shows at the time `now`.
    pub fn shows(&self, process: ProcessId, now: Ticks) -> Ticks {
        self.rates.get(process).map_or(now, |&rate| (u128::from(now) * u128::from(rate) / u128::from(BILLION)) as Ticks)
    }

    /// How long it takes until the clock of `process` has gone on by `shown`, at least.
    pub fn takes(&self, process: ProcessId, shown: Ticks) -> Ticks {
        self.rates
            .get(process)
            .map_or(shown, |&rate| (u128::from(shown) * u128::from(BILLION)).div_ceil(u128::from(rate)) as Ticks)
    }

    /// How fast each runs, 1 being right; none if all are right.
    pub fn rates(&self) -> Option<Vec<f64>> {
        let rates = || self.rates.iter().map(|&rate| rate as f64 / BILLION as f64);
        (!self.rates.is_empty()).then(|| rates().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_within_the_drift_on_both_sides_and_the_seed_draws_them() {
        let rates = |seed| Clocks::drawn(1_000, 0.1, seed).rates().unwrap();
        assert!(rates(1).iter().all(|rate| (0.9..=1.1).contains(rate)));
        assert!(rates(1).iter().any(|&rate| rate < 0.92) && rates(1).iter().any(|&rate| rate > 1.08));
        assert_eq!(rates(1), rates(1));
        assert_ne!(rates(1), rates(2));
        assert_eq!(Clocks::drawn(1_000, 0.0, 1).rates(), None);
    }

    #[test]
    fn a_clock_shows_what_was_waited_for() {
        let clocks = Clocks::drawn(100, 0.5, 7);
        for process in 0..100 {
            for wait in [0, 1, 999, 1_000_000, 1_000_000_000_000_000] {
                let takes = clocks.takes(process, wait);
                assert!(clocks.shows(process, takes) >= wait, "no timer fires early");
                assert!(takes == 0 || clocks.shows(process, takes - 1) < wait.max(1), "nor late");
            }
        }
        let right = Clocks::default();
        assert_eq!((right.shows(3, 17), right.takes(3, 17)), (17, 17));
    }
}
