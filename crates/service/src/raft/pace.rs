//! Whether disks and network are fast enough for the election timeout.
//!
//! Locks are granted with disks of any speed, because heartbeats and rounds wait for none. But a candidate needs its own vote
//! and those of others on disk, and then the first entry of its term. And a heartbeat must be answered before the next one
//! is due. So both the log and the status warn in time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use openraft::ServerState;
use tokio::time::{Instant, sleep};

use super::group::{Group, name};
use super::options::Timing;
use super::peers::Limiter;

/// An election needs this many syncs, one after the other.
const SYNCS: u32 = 3;
/// Round trips in an election timeout. There are five heartbeats in it, and each is answered before the next one is due.
const ROUND_TRIPS: u32 = 5;

/// A warning is about this time, or up to twice as long.
const WINDOW: Duration = Duration::from_secs(10);

/// The longest of the durations that were noted lately.
#[derive(Debug)]
pub(super) struct Recent(Mutex<Windows>);

#[derive(Debug)]
struct Windows {
    since: Instant,
    now: Duration,
    before: Duration,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent(Mutex::new(Windows { since: Instant::now(), now: Duration::ZERO, before: Duration::ZERO }))
    }
}

impl Recent {
    pub fn note(&self, took: Duration) {
        self.windows(Instant::now(), |windows| windows.now = windows.now.max(took));
    }

    pub fn longest(&self) -> Duration {
        self.windows(Instant::now(), |windows| windows.now.max(windows.before))
    }

    fn windows<T>(&self, now: Instant, look: impl FnOnce(&mut Windows) -> T) -> T {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = now.saturating_duration_since(windows.since);
        if age >= WINDOW {
            let before = if age < 2 * WINDOW { windows.now } else { Duration::ZERO };
            *windows = Windows { since: now, now: Duration::ZERO, before };
        }
        look(&mut windows)
    }
}

/// What to do about slow syncs, as a sentence without a subject; none if they are fast enough.
pub(super) fn slow_syncs(longest: Duration, timing: Timing) -> Option<String> {
    let what = format!("needs up to {} ms for a sync of its log", longest.as_millis());
    too_long(&what, longest * SYNCS, timing)
}

/// The same for round trips from the leader to a node.
pub(super) fn slow_round_trips(longest: Duration, timing: Timing) -> Option<String> {
    let what = format!("answers the leader after up to {} ms", longest.as_millis());
    too_long(&what, longest * ROUND_TRIPS, timing)
}

fn too_long(what: &str, needed: Duration, timing: Timing) -> Option<String> {
    let (min, max) = (needed.as_millis(), 2 * needed.as_millis());
    let advice = format!("start all nodes with `--election-timeout {min}-{max}`, or with more");
    (needed > timing.election_min).then(|| format!("{what}, which is too long for the election timeout; {advice}"))
}

impl Group {
    /// Warns once a minute at most while this node is too slow, or the way to another one.
    pub(super) async fn watch_pace(self) {
        let mut limiter = Limiter::default();
        loop {
            sleep(WINDOW / 2).await;
            let metrics = self.metrics();
            let mut warn = |kind, sentence: String| {
                if limiter.say(kind, std::time::Instant::now()).is_some() {
                    self.peers.warn(&sentence);
                }
            };
            if metrics.membership_config.nodes().count() < 2 {
                continue;
            }
            if let Some(slow) = slow_syncs(self.syncs.longest(), self.timing) {
                warn("syncs", format!("this node {slow}"));
            }
            if metrics.state == ServerState::Leader {
                let voters = metrics.membership_config.voter_ids();
                let slow =
                    voters.filter_map(|id| Some((id, slow_round_trips(self.peers.round_trip(id)?, self.timing)?)));
                for (id, slow) in slow {
                    warn("round trips", format!("{} {slow}", name(&metrics, id)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_duration_is_remembered_for_a_while() {
        let recent = Recent::default();
        let start = Instant::now();
        let (ms, at) = (Duration::from_millis, |seconds| start + Duration::from_secs(seconds));
        let note = |now, took| recent.windows(now, |windows| windows.now = windows.now.max(ms(took)));
        let longest = |now| recent.windows(now, |windows| windows.now.max(windows.before));
        note(at(1), 600);
        note(at(2), 3);
        assert_eq!(longest(at(9)), ms(600));
        note(at(11), 4);
        assert_eq!((longest(at(11)), longest(at(20))), (ms(600), ms(600)));
        assert_eq!((longest(at(22)), longest(at(60))), (ms(4), ms(0)));
    }

    #[test]
    fn what_comes_near_the_election_timeout_is_named() {
        let (ms, timing) = (Duration::from_millis, Timing::default());
        assert_eq!((slow_syncs(ms(83), timing), slow_round_trips(ms(50), timing)), (None, None));
        let syncs = "needs up to 600 ms for a sync of its log, which is too long for the election timeout; start all nodes with \
                     `--election-timeout 1800-3600`, or with more";
        assert_eq!(slow_syncs(ms(600), timing).unwrap(), syncs);
        let trips = "answers the leader after up to 60 ms, which is too long for the election timeout; start all nodes with \
                     `--election-timeout 300-600`, or with more";
        assert_eq!(slow_round_trips(ms(60), timing).unwrap(), trips);
    }
}
