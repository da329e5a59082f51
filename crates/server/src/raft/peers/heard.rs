//! What this node has heard of another one: when, from which start of its process, and which data formats that process
//! reads. Every message writes it, so it has no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::wire::Hello;
use baton_runtime::Instant;

#[derive(Debug)]
pub struct Heard {
    start: Instant,
    /// Milliseconds from `start`, and 1; 0 if it was never heard of.
    at: AtomicU64,
    /// The same, for appends.
    append_at: AtomicU64,
    /// The oldest and the newest format, a byte each; 0 if the node has not said it.
    formats: AtomicU16,
    /// True if it said last that this node is no member of its cluster.
    excludes: AtomicBool,
    /// The start that this node talks with; 0 if there is none yet. Connections of other starts end.
    start_number: AtomicU64,
    /// Open connections for calls, in both directions.
    connections: AtomicUsize,
}

/// An open connection for calls.
#[derive(Debug)]
pub struct Connected(Arc<Heard>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Heard {
    pub fn new(start: Instant) -> Heard {
        Heard {
            start,
            at: AtomicU64::new(0),
            append_at: AtomicU64::new(0),
            formats: AtomicU16::new(0),
            excludes: AtomicBool::new(false),
            start_number: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
        }
    }

    pub fn now(&self) {
        self.touch(&self.at);
    }

    /// An append of this node has arrived. A leader sends appends to members only.
    pub fn append_now(&self) {
        self.touch(&self.append_at);
        // The flag is nearly never set, and reading it is cheaper than writing it.
        if self.excludes() {
            self.excludes.store(false, Ordering::Relaxed);
        }
    }

    pub fn ago(&self) -> Option<Duration> {
        self.since(&self.at)
    }

    pub fn append_ago(&self) -> Option<Duration> {
        self.since(&self.append_at)
    }

    fn touch(&self, at: &AtomicU64) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        at.store(ms.saturating_add(1), Ordering::Relaxed);
    }

    fn since(&self, at: &AtomicU64) -> Option<Duration> {
        let at = at.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.start.elapsed().saturating_sub(Duration::from_millis(at)))
    }

    /// The node has introduced itself to the node `me`.
    pub fn greeted(&self, me: u64, theirs: &Hello) {
        let (oldest, newest) = theirs.formats;
        self.formats.store(u16::from_le_bytes([oldest, newest]), Ordering::Relaxed);
        self.excludes.store(theirs.excludes(me), Ordering::Relaxed);
        self.start_number.store(theirs.start, Ordering::Relaxed);
    }

    /// Counts a connection while the result lives.
    pub fn connected(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(self.clone())
    }

    /// True if a connection is open, and something was heard on one not longer ago than this.
    pub fn is_talking(&self, within: Duration) -> bool {
        self.connections.load(Ordering::Relaxed) > 0 && self.ago().is_some_and(|ago| ago < within)
    }

    /// The start that this node talks with; 0 if there is none yet.
    pub fn start_number(&self) -> u64 {
        self.start_number.load(Ordering::Relaxed)
    }

    pub fn excludes(&self) -> bool {
        self.excludes.load(Ordering::Relaxed)
    }

    pub fn formats(&self) -> Option<(u8, u8)> {
        match self.formats.load(Ordering::Relaxed).to_le_bytes() {
            [_, 0] => None,
            [oldest, newest] => Some((oldest, newest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Purpose;
    use super::*;
    use crate::format::record::NodeRecord;

    #[test]
    fn a_node_is_heard_of_and_says_what_it_reads() {
        let heard = Arc::new(Heard::new(Instant::now()));
        assert_eq!((heard.ago(), heard.formats()), (None, None));
        heard.now();
        assert!(heard.ago().is_some() && heard.append_ago().is_none());
        let hello = |members: &[u64]| Hello {
            cluster: 7,
            node: 2,
            to: 1,
            purpose: Purpose::Calls,
            record: NodeRecord::default(),
            formats: (2, 3),
            is_empty: false,
            list: Vec::new(),
            members: members.iter().map(|id| (*id, String::new())).collect(),
            joins: false,
            start: 5,
        };
        heard.greeted(1, &hello(&[2, 3]));
        assert_eq!((heard.formats(), heard.excludes()), (Some((2, 3)), true));
        heard.append_now();
        assert!(!heard.excludes(), "a leader sends appends to members only");
        heard.greeted(1, &hello(&[2, 3]));
        assert!(heard.excludes());
        heard.greeted(1, &hello(&[1, 2]));
        assert!(!heard.excludes());
        heard.greeted(1, &hello(&[]));
        assert!(!heard.excludes(), "it does not know its members");
        let hour = Duration::from_secs(3600);
        assert!(!heard.is_talking(hour), "no connection");
        let connected = heard.connected();
        assert!(heard.is_talking(hour) && !heard.is_talking(Duration::ZERO));
        drop(connected);
        assert!(!heard.is_talking(hour));
    }
}
