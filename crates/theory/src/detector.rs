//! Failure detection by heartbeats: a process sends a beat every P and is suspected after more than P + D without one.

use crate::Expectation;

/// How long to wait for a beat, on the watcher's own clock: P + D, or (P/(1-r) + D)(1+r) if clocks drift by up to r.
pub fn patience(period: f64, delay_max: f64, drift: f64) -> f64 {
    (period / (1.0 - drift) + delay_max) * (1.0 + drift)
}

/// The time from a crash to the suspicion, on a synchronous network with delays of at most D. The last beat was sent
/// between 0 and P before the crash.
pub fn detection_time(period: f64, delay_max: f64) -> Expectation {
    Expectation::between("D .. P + 2D", delay_max, period + 2.0 * delay_max)
}

/// The mean detection time, if the crash comes at a random moment: the last beat left half a period before the crash and
/// arrived a mean delay later. `allowed` is the D of the watchers, which may differ from the real bound on delays.
/// `drift` is r.
pub fn detection_time_mean(period: f64, allowed: f64, drift: f64, delay_mean: f64) -> Expectation {
    let formula = if drift > 0.0 { "(P/(1-r) + D)(1+r) - P/2 + mean delay" } else { "P/2 + D + mean delay" };
    Expectation::mean(formula, patience(period, allowed, drift) - period / 2.0 + delay_mean)
}

/// The number of wrong suspicions on a synchronous network.
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
