//! What the algorithms should cost, worked out on paper.
//!
//! **Architecture invariant: nothing here comes from the protocols or from the simulator.** If theory and measurement
//! agree, both are right; they cannot share a mistake. So this crate knows algorithms by name only, and has its own
//! code for distances in a tree and for the sizes of quorums.
//!
//! ```
//! use baton_theory::mutex::{Load, Setting, costs};
//!
//! let costs = costs(&Setting::new("ricart-agrawala", 10, Load::All)).unwrap();
//! let messages = costs.messages_per_entry.unwrap();
//! assert_eq!((messages.formula.as_str(), messages.value), ("2(n-1)", 18.0));
//! assert!(messages.agrees(18.0) && !messages.agrees(18.1));
//! ```

pub mod append;
pub mod detector;
pub mod election;
pub mod mutex;
pub mod patrol;
pub mod quorum;
pub mod tree;
pub mod views;
pub mod voting;

use serde::Serialize;

/// The theoretical value of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expectation {
    /// The formula as on paper.
    pub formula: String,
    /// The value of the formula. For a bound, the bound.
    pub value: f64,
    pub kind: Kind,
    /// The smallest measured value that agrees.
    #[serde(skip)]
    pub least: f64,
    /// The largest measured value that agrees.
    #[serde(skip)]
    pub most: f64,
}

/// How a measured value is compared with the theoretical one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The measured value must be equal.
    Exact,
    /// The measured value must not go beyond the bound.
    Bound,
    /// The measured mean must be within a tolerance.
    Mean,
}

/// How far a measured mean may differ from the theoretical one, as a share of it. If some thousand entries cost between
/// 0 and twice the mean each, their mean differs by more than this in less than one of ten thousand runs.
pub const MEAN_TOLERANCE: f64 = 0.06;

/// The rounding error that counts and sums of delays may have.
const ROUNDING: f64 = 1e-9;

impl Expectation {
    pub fn exact(formula: impl Into<String>, value: f64) -> Self {
        let value = tidy(value);
        Expectation { formula: formula.into(), value, kind: Kind::Exact, least: value, most: value }
    }

    /// Must agree on average, within [`MEAN_TOLERANCE`].
    pub fn mean(formula: impl Into<String>, value: f64) -> Self {
        let value = tidy(value);
        let tolerance = value * MEAN_TOLERANCE;
        let (least, most) = (value - tolerance, value + tolerance);
        Expectation { formula: formula.into(), value, kind: Kind::Mean, least, most }
    }

    pub fn between(formula: impl Into<String>, least: f64, most: f64) -> Self {
        Expectation { formula: formula.into(), value: tidy(most), kind: Kind::Bound, least, most }
    }

    pub fn at_least(formula: impl Into<String>, least: f64) -> Self {
        Expectation { formula: formula.into(), value: tidy(least), kind: Kind::Bound, least, most: f64::INFINITY }
    }

    pub fn at_most(formula: impl Into<String>, most: f64) -> Self {
        Self::between(formula, 0.0, most)
    }

    /// Whether the measured value agrees with this expectation.
    pub fn agrees(&self, measured: f64) -> bool {
        let rounding = ROUNDING * measured.abs().max(1.0);
        measured >= self.least - rounding && measured <= self.most + rounding
    }
}

/// Makes 7.2 of 7.199999999999999: removes a rounding error if the result has few digits. Other values stay as they
/// are.
fn tidy(value: f64) -> f64 {
    const DIGITS: f64 = 1e12;
    let few = (value * DIGITS).round() / DIGITS;
    if (few - value).abs() <= 4.0 * f64::EPSILON * value.abs() { few } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_digits_that_they_have_on_paper() {
        let value = |value| Expectation::exact("x", value).value;
        assert_eq!([3.0 * (3.4 - 1.0), 3.0 * (5.2 - 1.0), 0.1 + 0.2].map(value), [7.2, 12.6, 0.3]);
        for untouched in [5.0 / 3.0, 1.0 / 3.0 * 1e-6, 0.0, f64::MAX, f64::INFINITY] {
            assert_eq!(value(untouched), untouched);
        }
        let (mean, most) = (Expectation::mean("x", 0.1 + 0.2), Expectation::at_most("x", 0.1 + 0.2));
        assert_eq!([mean.value, most.value, Expectation::at_least("x", 0.1 + 0.2).value], [0.3; 3]);
    }

    #[test]
    fn exact_means_exact() {
        let exact = Expectation::exact("n", 3.0);
        assert!(exact.agrees(3.0) && exact.agrees(3.0 + 1e-12));
        assert!(!exact.agrees(3.001) && !exact.agrees(2.999));
    }

    #[test]
    fn bounds_hold_from_either_side() {
        assert!(Expectation::at_least("n", 3.0).agrees(1e9) && !Expectation::at_least("n", 3.0).agrees(2.9));
        assert!(Expectation::at_most("n", 3.0).agrees(0.0) && !Expectation::at_most("n", 3.0).agrees(3.1));
        let between = Expectation::between("1 .. 2", 1.0, 2.0);
        assert!(between.agrees(1.0) && between.agrees(2.0) && !between.agrees(0.9) && !between.agrees(2.1));
    }

    #[test]
    fn means_have_a_tolerance() {
        let mean = Expectation::mean("n/2", 100.0);
        assert!(mean.agrees(94.1) && mean.agrees(105.9) && !mean.agrees(93.9) && !mean.agrees(106.1));
    }
}
