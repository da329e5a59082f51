//! Counts of messages, and distributions of delays.

use std::collections::BTreeMap;

use baton_protocol::clock::Stamp;
use baton_protocol::{ProcessId, Ticks};
use serde::Serialize;

use crate::time::{T, in_t};

/// Counts of the messages that were sent.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    pub sent: u64,
    /// Size of the encoded messages.
    pub bytes: u64,
    /// Number of transmissions if one transmission could reach many receivers: one for each kind of message in each
    /// step.
    pub multicasts: u64,
    /// Number of messages that processes sent when they left the critical section.
    pub on_exit: u64,
    /// For each process, how many messages it has sent or received. Processes without messages may be missing.
    pub by_process: Vec<u64>,
    by_kind: Vec<(&'static str, u64)>,
    by_request: ByRequest,
}

impl Messages {
    pub fn count(&mut self, kind: &'static str, bytes: u64) {
        self.sent += 1;
        self.bytes += bytes;
        // A protocol has few kinds of messages, so a search is faster than a map.
        match self.by_kind.iter_mut().find(|(known, _)| std::ptr::eq(*known, kind) || *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.by_kind.push((kind, 1)),
        }
    }

    /// Counts one message that `process` sends or receives.
    pub fn count_at(&mut self, process: ProcessId) {
        if self.by_process.len() <= process {
            self.by_process.resize(process + 1, 0);
        }
        self.by_process[process] += 1;
    }

    /// Counts one message for the request that it belongs to.
    pub fn count_for(&mut self, request: Stamp) {
        self.by_request.count(request);
    }

    /// The most messages that belong to one request. None if the messages do not name their request.
    pub fn most_for_one_request(&self) -> Option<u64> {
        (self.by_request.most > 0).then_some(self.by_request.most)
    }

    pub fn by_kind(&self) -> BTreeMap<&'static str, u64> {
        self.by_kind.iter().copied().collect()
    }

    /// The counts of the messages that were sent after `before` was counted. Kinds without such a message are left out.
    pub fn by_kind_since(&self, before: &Messages) -> BTreeMap<&'static str, u64> {
        let earlier = before.by_kind();
        let later = self.by_kind().into_iter().map(|(kind, count)| (kind, count - earlier.get(kind).unwrap_or(&0)));
        later.filter(|(_, count)| *count > 0).collect()
    }
}

/// Counts messages by the request that they belong to.
#[derive(Clone, Debug, Default)]
struct ByRequest {
    /// For each process, the times of its two latest requests, and the number of messages about each. No later message
    /// is about an earlier request: when the second request is granted, all processes have learnt of the end of the
    /// first.
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

/// How many messages the processes handle: those that a process sends and those that it receives. Per entry of the
/// whole group, so that the figures of a coordinator and of a client can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProcessLoad {
    /// The messages of the busiest process.
    pub max: f64,
    /// The mean over all processes, coordinators and voters included.
    pub mean: f64,
    /// The busiest process; the first one if several are equally busy.
    pub busiest: ProcessId,
}

impl ProcessLoad {
    /// `counts` has one number for each process. None if there is no entry.
    pub fn new(counts: &[u64], entries: u64) -> Option<Self> {
        let busiest = (0..counts.len()).rev().max_by_key(|&process| counts[process])?;
        let (per_entry, sum) = (|count: u64| count as f64 / entries as f64, counts.iter().sum());
        let mean = per_entry(sum) / counts.len() as f64;
        (entries > 0).then(|| ProcessLoad { max: per_entry(counts[busiest]), mean, busiest })
    }
}

/// A distribution of delays. Mean and maximum are exact; quantiles are rounded up to a thousandth of T.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    count: u64,
    sum: u128,
    max: Ticks,
    /// Counts by thousandths of T. The size depends on the spread of the values, not on their number.
    histogram: BTreeMap<u64, u64>,
}

const BUCKET: Ticks = T / 1_000;

impl Delays {
    pub fn add(&mut self, delay: Ticks) {
        self.count += 1;
        self.sum += u128::from(delay);
        self.max = self.max.max(delay);
        *self.histogram.entry(delay.div_ceil(BUCKET)).or_default() += 1;
    }

    /// The longest delay, in T. None if nothing was measured.
    pub fn longest(&self) -> Option<f64> {
        (self.count > 0).then(|| in_t(self.max))
    }

    /// None if nothing was measured.
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
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// One in a hundred delays is longer.
    pub p99: f64,
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
    fn the_busiest_process_is_found() {
        let mut messages = Messages::default();
        [2, 0, 2, 0, 1].into_iter().for_each(|process| messages.count_at(process));
        assert_eq!(messages.by_process, [2, 1, 2]);
        let load = ProcessLoad::new(&[2, 1, 2, 0], 10);
        assert_eq!(load, Some(ProcessLoad { max: 0.2, mean: 0.125, busiest: 0 }));
        assert_eq!((ProcessLoad::new(&[1], 0), ProcessLoad::new(&[], 1)), (None, None));
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
        messages.count("BEFORE", 1);
        messages.count("REQUEST", 3);
        let before = messages.clone();
        messages.count("REQUEST", 3);
        messages.count("REPLY", 3);
        let since = messages.by_kind_since(&before);
        assert_eq!(since.into_iter().collect::<Vec<_>>(), [("REPLY", 1), ("REQUEST", 1)]);
        let mut messages = Messages::default();
        messages.count("REQUEST", 3);
        messages.count("REPLY", 4);
        messages.count("REQUEST", 3);
        assert_eq!((messages.sent, messages.bytes), (3, 10));
        assert_eq!(messages.by_kind().into_iter().collect::<Vec<_>>(), [("REPLY", 1), ("REQUEST", 2)]);
    }
}
