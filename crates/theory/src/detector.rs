//! Failure detection by heartbeats: a beat every P, suspicion after more than P + D without one.

use crate::Expectation;

/// How long to wait for a beat, by a clock of the watcher's own: P + D, or (P/(1-r) + D)(1+r) if clocks drift by up
/// to r.
pub fn patience(period: f64, delay_max: f64, drift: f64) -> f64 {
    (period / (1.0 - drift) + delay_max) * (1.0 + drift)
}

/// From a crash to the suspicion, on a synchronous network whose delays are at most D: the last beat may have left
/// just before the crash, or P before it.
pub fn detection_time(period: f64, delay_max: f64) -> Expectation {
    Expectation::between("D .. P + 2D", delay_max, period + 2.0 * delay_max)
}

/// The same on average, if the crash comes at a random moment: half a period has gone since the last beat left, which
/// arrived a delay later. `allowed` is the D that the watchers allow for, which need not be the bound on delays, and
/// `drift` the r.
pub fn detection_time_mean(period: f64, allowed: f64, drift: f64, delay_mean: f64) -> Expectation {
    let formula = if drift > 0.0 { "(P/(1-r) + D)(1+r) - P/2 + mean delay" } else { "P/2 + D + mean delay" };
    Expectation::mean(formula, patience(period, allowed, drift) - period / 2.0 + delay_mean)
}

/// How often a synchronous network makes it suspect the living.
pub fn mistakes() -> Expectation {
    Expectation::exact("0", 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_lies_between_the_bounds() {
        let (bounds, mean) = (detection_time(10.0, 2.0), detection_time_mean(10.0, 2.0, 0.0, 1.0));
        assert_eq!((bounds.least, bounds.most, mean.value), (2.0, 14.0, 8.0));
        assert!(bounds.agrees(mean.value));
    }

    #[test]
    fn drift_makes_it_wait_longer() {
        assert_eq!(patience(10.0, 2.0, 0.0), 12.0);
        assert!((patience(10.0, 2.0, 0.1) - 14.422_222).abs() < 1e-6);
        assert!((detection_time_mean(10.0, 2.0, 0.1, 1.0).value - 10.422_222).abs() < 1e-6);
    }
}
