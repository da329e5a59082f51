//! The nodes that wait to be added to the cluster.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::wire::Announcement;

/// A node that waits announces itself every second. After this time without a word it has given up.
const KEPT: Duration = Duration::from_secs(10);
/// The most nodes that wait at a time. Further ones are not noted.
const WAITING_MAX: usize = 64;

#[derive(Debug, Default)]
pub struct Announced(BTreeMap<u64, (Instant, Announcement)>);

impl Announced {
    pub fn add(&mut self, announcement: Announcement, now: Instant) {
        self.forget(now);
        if self.0.len() < WAITING_MAX || self.0.contains_key(&announcement.node) {
            self.0.insert(announcement.node, (now, announcement));
        }
    }

    pub fn list(&mut self, now: Instant) -> Vec<Announcement> {
        self.forget(now);
        self.0.values().map(|(_, announcement)| announcement.clone()).collect()
    }

    fn forget(&mut self, now: Instant) {
        self.0.retain(|_, (at, _)| now.saturating_duration_since(*at) < KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::NodeRecord;

    #[test]
    fn a_node_that_no_longer_announces_itself_is_forgotten() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let node = |node| Announcement { node, record: NodeRecord::default(), formats: (2, 2) };
        let mut announced = Announced::default();
        announced.add(node(1), at(0));
        announced.add(node(2), at(1000));
        announced.add(node(1), at(5000));
        assert_eq!(announced.list(at(10_999)), [node(1), node(2)]);
        assert_eq!(announced.list(at(11_000)), [node(1)]);
        for id in 0..200 {
            announced.add(node(id), at(12_000));
        }
        assert_eq!(announced.list(at(12_000)).len(), WAITING_MAX);
    }
}
