//! A small replacement for the crate `base2histogram`, with the parts that openraft uses.
//!
//! At its first use the original computes tables for all its resolutions: 24 MiB, more than half of the memory of an
//! empty server. openraft records batch sizes and durations for its debug output, which Baton does not show; powers of
//! two are exact enough for that. `Cargo.toml` replaces the original by this crate. Remove it when the original
//! computes only the tables that are used.

use std::fmt;
use std::marker::PhantomData;

/// One bucket for 0, and one for each power of two: bucket `n` counts values from 2^(n-1) to 2^n - 1.
const BUCKETS: usize = 65;

/// Counts values by their size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    counts: Box<[u64; BUCKETS]>,
    /// The original can carry data with its slots. openraft does not use that.
    slots: PhantomData<T>,
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Histogram<T> {
    pub fn new() -> Self {
        Histogram { counts: Box::new([0; BUCKETS]), slots: PhantomData }
    }

    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    pub fn record_n(&mut self, value: u64, times: u64) {
        self.counts[(u64::BITS - value.leading_zeros()) as usize] += times;
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The lowest value of the bucket that contains the percentile `part`, from 0 to 1. 0 if the histogram is empty.
    pub fn percentile(&self, part: f64) -> u64 {
        let wanted = (self.total() as f64 * part).ceil().max(1.0) as u64;
        let mut counted = 0;
        let reached = self.counts.iter().position(|count| {
            counted += count;
            counted >= wanted
        });
        reached.filter(|bucket| *bucket > 0).map_or(0, |bucket| 1 << (bucket - 1))
    }

    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: self.total(),
            p0_1: self.percentile(0.001),
            p1: self.percentile(0.01),
            p5: self.percentile(0.05),
            p10: self.percentile(0.1),
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
            p99_9: self.percentile(0.999),
        }
    }
}

/// The usual percentiles of a histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PercentileStats {
    pub samples: u64,
    /// 0.1 % of the values are in the bucket of this value or below. The other fields are alike.
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PercentileStats { samples, p1, p50, p99, p99_9, .. } = self;
        write!(f, "[samples: {samples}, P1: {p1}, P50: {p50}, P99: {p99}, P99.9: {p99_9}]")
    }
}

/// Named histograms, displayed one below the other.
#[derive(Debug, Clone, Default)]
pub struct AsciiChart {
    lines: Vec<(String, PercentileStats)>,
}

impl AsciiChart {
    pub fn new() -> Self {
        AsciiChart::default()
    }

    pub fn add<T>(mut self, name: impl Into<String>, histogram: Histogram<T>) -> Self {
        self.lines.push((name.into(), histogram.percentile_stats()));
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(name, stats)| writeln!(f, "{name}: {stats}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_lowest_values_of_their_buckets() {
        let mut histogram: Histogram = Histogram::new();
        assert_eq!(histogram.percentile_stats(), PercentileStats::default());
        (0..=100).for_each(|value| histogram.record(value));
        histogram.record(u64::MAX);
        let stats = histogram.percentile_stats();
        assert_eq!((stats.samples, stats.p0_1, stats.p50, stats.p90, stats.p99_9), (102, 0, 32, 64, 1 << 63));
    }
}
