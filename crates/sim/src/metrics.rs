//! What is counted.

use std::collections::BTreeMap;

use baton_protocol::Ticks;
use serde::Serialize;

use crate::time::{T, in_t};

/// Messages that were sent.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// All of them.
    pub sent: u64,
    /// What they take on the wire.
    pub bytes: u64,
    /// What would be sent if one transmission reached many receivers: one per kind and step.
    pub multicasts: u64,
    /// Those sent on leaving the critical section.
    pub on_exit: u64,
    by_kind: Vec<(&'static str, u64)>,
}

impl Messages {
    /// Counts one message.
    pub fn count(&mut self, kind: &'static str, bytes: u64) {
        self.sent += 1;
        self.bytes += bytes;
        // A protocol has a handful of kinds, so that a search is faster than a map.
        match self.by_kind.iter_mut().find(|(known, _)| std::ptr::eq(*known, kind) || *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.by_kind.push((kind, 1)),
        }
    }

    /// How many of each kind.
    pub fn by_kind(&self) -> BTreeMap<&'static str, u64> {
        self.by_kind.iter().copied().collect()
    }
}

/// How a delay is distributed: its mean and greatest value exactly, its quantiles to a thousandth of T.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    count: u64,
    sum: u128,
    max: Ticks,
    /// By thousandths of T: bounded by how far the values spread, not by how many there are.
    histogram: BTreeMap<u64, u64>,
}

const BUCKET: Ticks = T / 1_000;

impl Delays {
    /// Adds one measurement.
    pub fn add(&mut self, delay: Ticks) {
        self.count += 1;
        self.sum += u128::from(delay);
        self.max = self.max.max(delay);
        *self.histogram.entry(delay.div_ceil(BUCKET)).or_default() += 1;
    }

    /// What to report; none if nothing was measured.
    pub fn summary(&self) -> Option<DelaySummary> {
        (self.count > 0).then(|| DelaySummary {
            mean: self.sum as f64 / self.count as f64 / T as f64,
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            max: in_t(self.max),
        })
    }

    fn quantile(&self, q: f64) -> f64 {
        let rank = (q * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (&bucket, &count) in &self.histogram {
            seen += count;
            if seen >= rank {
                return in_t((bucket * BUCKET).min(self.max));
            }
        }
        in_t(self.max)
    }
}

/// A distribution of delays, in T.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelaySummary {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// One in a hundred is longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut delays = Delays::default();
        for value in (1..=100).rev() {
            delays.add(value * T);
        }
        let summary = delays.summary().unwrap();
        assert_eq!(summary, DelaySummary { mean: 50.5, p50: 50.0, p99: 99.0, max: 100.0 });
        assert!(Delays::default().summary().is_none());
    }

    #[test]
    fn messages_are_counted_by_kind() {
        let mut messages = Messages::default();
        messages.count("REQUEST", 3);
        messages.count("REPLY", 4);
        messages.count("REQUEST", 3);
        assert_eq!((messages.sent, messages.bytes), (3, 10));
        assert_eq!(messages.by_kind().into_iter().collect::<Vec<_>>(), [("REPLY", 1), ("REQUEST", 2)]);
    }
}
