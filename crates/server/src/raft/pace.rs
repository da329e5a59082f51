//! Whether disks and network are fast enough for the election timeout.
//!
//! Locks are granted with disks of any speed, because heartbeats and rounds wait for none. But a candidate needs its own vote
//! and those of others on disk, and then the first entry of its term. And a heartbeat must be answered before the next one
//! is due. So both the log and the status warn in time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use baton_runtime::{Instant, sleep};
use openraft::ServerState;

use super::errors::MemberError;
use super::group::{Group, name};
use super::options::Timing;
use super::peers::in_ms;
use crate::limiter::Limiter;

/// An election needs this many syncs, one after the other.
const SYNCS: u32 = 3;
/// Round trips in an election timeout. There are five heartbeats in it, and each is answered before the next one is due.
const ROUND_TRIPS: u32 = 5;

/// Advice is a multiple of this.
const ADVICE_MS: u128 = 100;

/// A warning is about this time, or up to twice as long.
const WINDOW: Duration = Duration::from_secs(10);

/// So many answers must be late before that is said. One may be late because the machine was busy for a moment.
const LATE_MIN: usize = 5;

/// What is known of the durations that were noted lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extremes {
    /// The longest ones, in descending order.
    longest: [Duration; LATE_MIN],
    shortest: Option<Duration>,
}

impl Extremes {
    fn note(&mut self, took: Duration) {
        let at = self.longest.partition_point(|longer| *longer >= took);
        if at < LATE_MIN {
            self.longest[at..].rotate_right(1);
            self.longest[at] = took;
        }
        self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
    }

    fn join(self, other: Extremes) -> Extremes {
        let mut both = self;
        other.longest.into_iter().for_each(|took| both.note(took));
        both.shortest = self.shortest.into_iter().chain(other.shortest).min();
        both
    }
}

/// The extremes of the durations that were noted lately.
#[derive(Debug)]
pub(super) struct Recent(Mutex<Windows>);

#[derive(Debug)]
struct Windows {
    since: Instant,
    now: Extremes,
    before: Extremes,
}

impl Default for Recent {
    fn default() -> Recent {
        let (since, now, before) = (Instant::now(), Extremes::default(), Extremes::default());
        Recent(Mutex::new(Windows { since, now, before }))
    }
}

impl Recent {
    pub fn note(&self, took: Duration) {
        self.windows(Instant::now(), |windows| windows.now.note(took));
    }

    pub fn longest(&self) -> Duration {
        self.extremes(Instant::now()).longest[0]
    }

    /// Several took this long, or longer.
    pub fn often(&self) -> Duration {
        self.extremes(Instant::now()).longest[LATE_MIN - 1]
    }

    /// None took less. Zero if nothing was noted.
    pub fn shortest(&self) -> Duration {
        self.extremes(Instant::now()).shortest.unwrap_or_default()
    }

    fn extremes(&self, now: Instant) -> Extremes {
        self.windows(now, |windows| windows.now.join(windows.before))
    }

    fn windows<T>(&self, now: Instant, look: impl FnOnce(&mut Windows) -> T) -> T {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = now.saturating_duration_since(windows.since);
        if age >= WINDOW {
            let before = if age < 2 * WINDOW { windows.now } else { Extremes::default() };
            *windows = Windows { since: now, now: Extremes::default(), before };
        }
        look(&mut windows)
    }
}

/// The round trips to one node. Raft's core of a voter waits for its disk in an election, and then answers all questions of
/// that time late, for one reason. So questions that were on their way together count once.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    recent: Recent,
    /// When the last one that counts was answered.
    answered: Mutex<Option<Instant>>,
}

impl RoundTrips {
    /// A question that was sent then has just been answered.
    pub fn note(&self, sent: Instant) {
        self.note_at(sent, Instant::now());
    }

    fn note_at(&self, sent: Instant, now: Instant) {
        // A poisoned lock is harmless: nothing panics while the lock is held.
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.is_none_or(|answered| answered <= sent) {
            *answered = Some(now);
            self.recent.windows(now, |windows| windows.now.note(now.saturating_duration_since(sent)));
        }
    }

    /// Several took this long, or longer.
    pub fn often(&self) -> Duration {
        self.recent.often()
    }
}

/// What to do about slow syncs, as a sentence without a subject; none if they are fast enough.
pub(super) fn slow_syncs(longest: Duration, timing: Timing) -> Option<String> {
    let what = format!("needs up to {} ms for a sync of its log", longest.as_millis());
    too_long(&what, longest * SYNCS, timing)
}

/// The same for round trips from the leader to a node.
pub(super) fn slow_round_trips(often: Duration, timing: Timing) -> Option<String> {
    let what = format!("answers the leader only after {} ms or more", often.as_millis());
    too_long(&what, often * ROUND_TRIPS, timing)
}

fn too_long(what: &str, needed: Duration, timing: Timing) -> Option<String> {
    let advice = format!("start all nodes with `--election-timeout {}`, or with more", wanted(needed));
    (needed > timing.election_min).then(|| format!("{what}, which is too long for the election timeout; {advice}"))
}

/// The election timeout to choose. Rounded, so that several nodes do not give several pieces of advice.
fn wanted(needed: Duration) -> String {
    let min = needed.as_millis().div_ceil(ADVICE_MS) * ADVICE_MS;
    format!("{min}-{}", 2 * min)
}

/// The voter whose disk keeps an election from ending, if this one is asked to lead, and the time of its shortest sync. It
/// needs some syncs, one after the other, of the candidate and of a majority. `syncs`: the shortest sync of each voter that
/// answers.
fn slows_election(to: u64, syncs: &[(u64, Duration)], voters: usize, timing: Timing) -> Option<(u64, Duration)> {
    let (slow, fast): (Vec<_>, Vec<_>) =
        syncs.iter().copied().partition(|(_, shortest)| *shortest * SYNCS > timing.election_max);
    let target = slow.iter().copied().find(|(id, _)| *id == to);
    target.or_else(|| slow.into_iter().min_by_key(|(_, shortest)| *shortest).filter(|_| fast.len() <= voters / 2))
}

impl Group {
    /// Refuses a transfer that would leave the cluster without a leader, because the disks are too slow for an election.
    pub(super) async fn check_pace(&self, to: u64) -> Result<(), MemberError> {
        let metrics = self.metrics();
        let mut syncs: Vec<(u64, Duration)> = Vec::from([(self.id(), self.syncs.shortest())]);
        let others = self.voters_say(&metrics).await;
        syncs.extend(others.iter().map(|(id, says)| (*id, Duration::from_millis(says.sync_min_ms))));
        let voters = metrics.membership_config.voter_ids().count();
        match slows_election(to, &syncs, voters, self.timing) {
            Some((id, shortest)) => {
                let (name, ms, wanted) = (name(&metrics, id), in_ms(shortest), wanted(shortest * SYNCS));
                Err(MemberError::SlowSyncs { name, ms, wanted })
            }
            None => Ok(()),
        }
    }

    /// Warns once a minute at most while this node is too slow, or the way to another one.
    pub(super) async fn watch_pace(self) {
        let mut limiter = Limiter::default();
        loop {
            sleep(WINDOW / 2).await;
            let metrics = self.metrics();
            let mut warn = |kind, sentence: String| {
                if limiter.say(kind, baton_runtime::Instant::now()).is_some() {
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
        let note = |now, took| recent.windows(now, |windows| windows.now.note(ms(took)));
        let longest = |now| recent.extremes(now).longest[0];
        let shortest = |now| recent.extremes(now).shortest;
        assert_eq!((longest(at(0)), shortest(at(0))), (ms(0), None));
        note(at(1), 600);
        note(at(2), 3);
        assert_eq!(longest(at(9)), ms(600));
        note(at(11), 4);
        assert_eq!((longest(at(11)), longest(at(20))), (ms(600), ms(600)));
        assert_eq!((shortest(at(11)), shortest(at(20))), (Some(ms(3)), Some(ms(3))));
        assert_eq!((longest(at(22)), longest(at(60))), (ms(4), ms(0)));
    }

    #[test]
    fn one_late_answer_is_not_often() {
        let (recent, ms) = (Recent::default(), Duration::from_millis);
        [9, 70, 8, 60, 65, 61].into_iter().for_each(|took| recent.note(ms(took)));
        assert_eq!((recent.longest(), recent.often(), recent.shortest()), (ms(70), ms(9), ms(8)));
        recent.note(ms(62));
        assert_eq!((recent.longest(), recent.often(), recent.shortest()), (ms(70), ms(60), ms(8)));
    }

    #[test]
    fn answers_that_were_late_together_count_once() {
        let (trips, start) = (RoundTrips::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        (0..12).for_each(|round| trips.note_at(at(50 * round), at(600)));
        assert_eq!(trips.often(), Duration::ZERO, "one stop of the node");
        (6..10).for_each(|round| trips.note_at(at(100 * round), at(100 * round + 60)));
        assert_eq!(trips.often(), Duration::from_millis(60));
    }

    #[test]
    fn leadership_is_not_handed_over_if_the_disks_are_too_slow_for_an_election() {
        let (ms, timing) = (Duration::from_millis, Timing::default());
        let slows = |syncs: [u64; 3]| {
            let syncs: Vec<_> = (1..).zip(syncs.map(ms)).collect();
            slows_election(2, &syncs, 3, timing).map(|(id, _)| id)
        };
        assert_eq!(timing.election_max, ms(500));
        assert_eq!((slows([1, 1, 1]), slows([166, 166, 166])), (None, None));
        assert_eq!(slows([1, 167, 1]), Some(2), "the next leader itself");
        assert_eq!((slows([167, 1, 1]), slows([1, 1, 167])), (None, None), "two of three are enough");
        assert_eq!(slows([300, 1, 200]), Some(3));
        assert_eq!(slows_election(2, &[(1, ms(1)), (2, ms(1))], 5, timing), None, "who is silent is not slow");
    }

    #[test]
    fn what_comes_near_the_election_timeout_is_named() {
        let (ms, timing) = (Duration::from_millis, Timing::default());
        assert_eq!((slow_syncs(ms(83), timing), slow_round_trips(ms(50), timing)), (None, None));
        let syncs = "needs up to 600 ms for a sync of its log, which is too long for the election timeout; start all nodes with \
                     `--election-timeout 1800-3600`, or with more";
        assert_eq!(slow_syncs(ms(600), timing).unwrap(), syncs);
        let trips = "answers the leader only after 60 ms or more, which is too long for the election timeout; start all nodes with \
                     `--election-timeout 300-600`, or with more";
        assert_eq!(slow_round_trips(ms(60), timing).unwrap(), trips);
        assert!(slow_syncs(ms(307), timing).unwrap().contains("`--election-timeout 1000-2000`"));
    }
}
