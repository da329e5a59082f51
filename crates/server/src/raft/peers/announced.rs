//! The nodes that wait to be added to the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use super::wire::Announcement;
use baton_runtime::Instant;

/// A node that waits announces itself at least every two seconds. After this time without a word it has given up.
const KEPT: Duration = Duration::from_secs(5);
/// The most nodes that wait at a time. Further ones are not noted.
const WAITING_MAX: usize = 64;

#[derive(Debug, Default)]
pub struct Announced(BTreeMap<u64, (Instant, Announcement)>);

impl Announced {
    pub fn add(&mut self, announcement: Announcement, now: Instant) {
        self.forget(now);
        // A node that was wiped comes back with another id, at the same address.
        self.0.retain(|_, (_, known)| known.record.peer_address != announcement.record.peer_address);
        if self.0.len() < WAITING_MAX || self.0.contains_key(&announcement.node) {
            self.0.insert(announcement.node, (now, announcement));
        }
    }

    pub fn list(&mut self, now: Instant) -> Vec<Announcement> {
        self.forget(now);
        self.0.values().map(|(_, announcement)| announcement.clone()).collect()
    }

    pub fn remove(&mut self, node: u64) {
        self.0.remove(&node);
    }

    fn forget(&mut self, now: Instant) {
        self.0.retain(|_, (at, _)| now.saturating_duration_since(*at) < KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::NodeRecord;

    fn node(node: u64) -> Announcement {
        let record = NodeRecord { peer_address: format!("127.0.0.1:{node}"), ..NodeRecord::default() };
        Announcement { node, record, formats: (2, 2) }
    }

    #[test]
    fn a_node_that_no_longer_announces_itself_is_forgotten() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut announced = Announced::default();
        announced.add(node(1), at(0));
        announced.add(node(2), at(1000));
        announced.add(node(1), at(4000));
        assert_eq!(announced.list(at(5999)), [node(1), node(2)]);
        assert_eq!(announced.list(at(6000)), [node(1)]);
        for id in 0..200 {
            announced.add(node(id), at(7000));
        }
        assert_eq!(announced.list(at(7000)).len(), WAITING_MAX);
    }

    #[test]
    fn a_node_that_was_wiped_does_not_wait_twice() {
        let now = Instant::now();
        let mut announced = Announced::default();
        announced.add(node(1), now);
        let wiped = Announcement { node: 2, ..node(1) };
        announced.add(wiped.clone(), now);
        assert_eq!(announced.list(now), [wiped]);
        announced.remove(2);
        assert_eq!(announced.list(now), []);
    }
}
