//! What the algorithms should cost, by pen and paper.
//!
//! **Architecture invariant: nothing here comes from the protocols or from the simulator.** Where the two agree, they
//! do so because both are right, not because they share the mistake. So this crate knows algorithms by name only, finds
//! its own way through a tree and has its own idea of how large a quorum is.
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
pub mod quorum;
pub mod tree;
pub mod voting;

use serde::Serialize;

/// What theory says of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expectation {
    /// As one would write it on paper.
    pub formula: String,
    /// What that comes to; of a bound, the bound.
    pub value: f64,
    /// How it is to be taken.
    pub kind: Kind,
    /// The smallest measured value that agrees.
    #[serde(skip)]
    pub least: f64,
    /// The greatest measured value that agrees.
    #[serde(skip)]
    pub most: f64,
}

/// How an expectation is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It comes out so, to the last digit.
    Exact,
    /// It does not go beyond.
    Bound,
    /// It comes out so on average, within a tolerance.
    Mean,
}

/// How far a measured mean may be from a theoretical one, as a share of it. Of some thousand entries whose cost is
/// anything between nothing and twice the mean, the mean strays that far less than once in ten thousand runs.
pub const MEAN_TOLERANCE: f64 = 0.06;

/// Counts are divided by numbers of entries, and delays added up: that far may digits stray.
const ROUNDING: f64 = 1e-9;

impl Expectation {
    /// Exactly so.
    pub fn exact(formula: impl Into<String>, value: f64) -> Self {
        let value = tidy(value);
        Expectation { formula: formula.into(), value, kind: Kind::Exact, least: value, most: value }
    }

    /// On average so, within [`MEAN_TOLERANCE`].
    pub fn mean(formula: impl Into<String>, value: f64) -> Self {
        let value = tidy(value);
        let tolerance = value * MEAN_TOLERANCE;
        let (least, most) = (value - tolerance, value + tolerance);
        Expectation { formula: formula.into(), value, kind: Kind::Mean, least, most }
    }

    /// Not below `least` and not above `most`.
    pub fn between(formula: impl Into<String>, least: f64, most: f64) -> Self {
        Expectation { formula: formula.into(), value: tidy(most), kind: Kind::Bound, least, most }
    }

    /// Not below `least`.
    pub fn at_least(formula: impl Into<String>, least: f64) -> Self {
        Expectation { formula: formula.into(), value: tidy(least), kind: Kind::Bound, least, most: f64::INFINITY }
    }

    /// Not above `most`.
    pub fn at_most(formula: impl Into<String>, most: f64) -> Self {
        Self::between(formula, 0.0, most)
    }

    /// Whether a measured value is what it should be.
    pub fn agrees(&self, measured: f64) -> bool {
        let rounding = ROUNDING * measured.abs().max(1.0);
        measured >= self.least - rounding && measured <= self.most + rounding
    }
}

/// 7.2 for 7.199999999999999: what has few digits on paper, and was a rounding error away from it. All else stays as it is.
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
