//! What is counted.

use std::collections::BTreeMap;

use baton_protocol::Ticks;
use baton_protocol::clock::Stamp;
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
    by_request: ByRequest,
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

    /// Counts one message for the request that it is about.
    pub fn count_for(&mut self, request: Stamp) {
        self.by_request.count(request);
    }

    /// The most for any one request; none where messages do not name the request that they are about.
    pub fn most_for_one_request(&self) -> Option<u64> {
        (self.by_request.most > 0).then_some(self.by_request.most)
    }

    /// How many of each kind.
    pub fn by_kind(&self) -> BTreeMap<&'static str, u64> {
        self.by_kind.iter().copied().collect()
    }
}

/// Messages by the request that they are about.
#[derive(Clone, Debug, Default)]
struct ByRequest {
    /// The times of the two latest requests of each process, and how many messages are about each. Nobody speaks of an earlier
    /// one any more: when a second request is granted, everybody has been told of the end of the first.
    latest: Vec<[(u64, u64); 2]>,
    most: u64,
}

impl ByRequest {
    fn count(&mut self, Stamp { time, process }: Stamp) {
        if self.latest.len() <= process {
            self.latest.resize(process + 1, Default::default());
        }
        let [one, other] = &mut self.latest[process];
        let place = if one.0 == time || (other.0 != time && one.0 < other.0) { one } else { other };
        if place.0 != time {
            *place = (time, 0);
        }
        place.1 += 1;
        self.most = self.most.max(place.1);
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
    fn messages_are_counted_by_request() {
        let mut messages = Messages::default();
        assert_eq!(messages.most_for_one_request(), None);
        for (time, process) in [(1, 0), (1, 1), (4, 0), (1, 0), (4, 0), (1, 0), (9, 0), (4, 0), (9, 0)] {
            messages.count_for(Stamp { time, process });
        }
        assert_eq!(messages.by_request.latest, [[(4, 3), (9, 2)], [(0, 0), (1, 1)]]);
        assert_eq!(messages.most_for_one_request(), Some(3));
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
