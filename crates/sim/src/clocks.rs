//! Clocks that run fast or slow. The timers and failure detectors of a process use its clock. Delays, faults and the
//! plans of users use true time.
//!
//! - Happened-before is a vector clock that ticks at requests only. Copies share it until it changes.

use baton_protocol::{ProcessId, Ticks};

#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// The speed of each clock, in billionths of true time. Empty if all clocks are exact.
    rates: Vec<u64>,
}

const BILLION: u64 = 1_000_000_000;

impl Clocks {
    /// Draws the speed of each clock from the seed: between `1 - drift` and `1 + drift`, constant for the whole run.
    pub fn drawn(processes: usize, drift: f64, seed: u64) -> Self {
        if drift == 0.0 {
            return Clocks::default();
        }
        // A generator of its own, so that drift changes no other random number of the run.
        let mut rng = fastrand::Rng::with_seed(seed.rotate_left(16));
        let rate = |random: f64| ((1.0 + drift * (2.0 * random - 1.0)) * BILLION as f64).round() as u64;
        Clocks { rates: (0..processes).map(|_| rate(rng.f64())).collect() }
    }

    /// Clocks of these speeds, as [`rates`](Clocks::rates) gives them. None unless each process has a positive one.
    pub fn from_rates(rates: &[f64], processes: usize) -> Option<Self> {
        let in_billionths = |rate: &f64| (rate * BILLION as f64).round() as u64;
        let rates: Vec<u64> = rates.iter().map(in_billionths).filter(|&rate| rate > 0).collect();
        (rates.len() == processes).then_some(Clocks { rates })
    }

    /// What the clock of `process` shows at the true time `now`.
    pub fn shows(&self, process: ProcessId, now: Ticks) -> Ticks {
        self.rates.get(process).map_or(now, |&rate| (u128::from(now) * u128::from(rate) / u128::from(BILLION)) as Ticks)
    }

    /// The true time that the clock of `process` needs to advance by `shown`, rounded up.
    pub fn takes(&self, process: ProcessId, shown: Ticks) -> Ticks {
        self.rates
            .get(process)
            .map_or(shown, |&rate| (u128::from(shown) * u128::from(BILLION)).div_ceil(u128::from(rate)) as Ticks)
    }

    /// The speed of each clock; 1 is exact. None if all clocks are exact.
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
    fn clocks_are_made_again_from_their_rates() {
        let drawn = Clocks::drawn(100, 0.3, 5);
        assert_eq!(Clocks::from_rates(&drawn.rates().unwrap(), 100).unwrap().rates, drawn.rates);
        for unusable in [&[1.0][..], &[1.0, 0.0], &[1.0, -2.0], &[f64::NAN, 1.0]] {
            assert!(Clocks::from_rates(unusable, 2).is_none(), "{unusable:?}");
        }
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
