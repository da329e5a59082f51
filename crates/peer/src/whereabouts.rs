//! Whether a caller of another member is inside. While a member is silent, this member asks the others, so that who waits
//! for a living holder is not told that the silent one keeps it waiting. Pure.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::group::MemberId;

/// A question is asked again after this time, because the answers may be lost.
const AGAIN: Duration = Duration::from_secs(1);

/// The answers for each name that somebody waits for.
#[derive(Debug, Default)]
pub struct Whereabouts(HashMap<Box<[u8]>, Rounds>);

/// One round of questions at a time, because an answer does not say which question it answers.
#[derive(Debug, Default)]
struct Rounds {
    running: Option<Round>,
    /// The last one that is complete. Every waiter that asked before it began may use it.
    last: Option<Round>,
    /// Somebody asked after the running round began, and needs another one.
    again: bool,
}

#[derive(Debug)]
struct Round {
    asked: Instant,
    of: BTreeSet<MemberId>,
    /// For each member that has answered, whether a caller of it is inside.
    answers: HashMap<MemberId, bool>,
}

/// What a member knows of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// None: there is no round yet that began late enough, and that all have answered.
    pub is_inside: Option<bool>,
    /// The caller asks the members now.
    pub asks: bool,
}

impl Whereabouts {
    /// What the members in `alive` say, in a round that began at `since` or later.
    pub fn look(&mut self, name: &[u8], alive: &BTreeSet<MemberId>, since: Instant, now: Instant) -> Look {
        self.0.retain(|_, rounds| rounds.forget(now));
        let rounds = self.0.entry(name.into()).or_default();
        // A member that has not answered may be gone meanwhile.
        if let Some(complete) = rounds.running.take_if(|running| running.judge(alive).is_some()) {
            rounds.last = Some(complete);
        }
        let last = rounds.last.as_ref().filter(|last| last.asked >= since);
        let is_inside = last.and_then(|last| last.judge(alive));
        rounds.again |= rounds.running.as_ref().is_some_and(|running| running.asked < since);
        let asks = rounds.running.is_none();
        if asks {
            rounds.begin(alive.clone(), now);
        }
        Look { is_inside, asks }
    }

    /// A member has answered. Answers to no question are ignored. Returns the members to ask again, if somebody waits for
    /// a new round.
    pub fn hear(&mut self, member: MemberId, name: &[u8], inside: bool, now: Instant) -> Option<BTreeSet<MemberId>> {
        let rounds = self.0.get_mut(name)?;
        let running = rounds.running.as_mut()?;
        running.answers.insert(member, inside);
        running.judge(&running.of)?;
        let of = running.of.clone();
        rounds.last = rounds.running.take();
        if !rounds.again {
            return None;
        }
        rounds.begin(of.clone(), now);
        Some(of)
    }
}

impl Rounds {
    fn begin(&mut self, of: BTreeSet<MemberId>, now: Instant) {
        self.running = Some(Round { asked: now, of, answers: HashMap::new() });
        self.again = false;
    }

    /// Forgets old rounds. Returns whether there is any left.
    fn forget(&mut self, now: Instant) -> bool {
        for round in [&mut self.running, &mut self.last] {
            drop(round.take_if(|round| now >= round.asked + AGAIN));
        }
        self.running.is_some() || self.last.is_some()
    }
}

impl Round {
    /// Whether a caller of these members is inside. None: not all have answered.
    fn judge(&self, members: &BTreeSet<MemberId>) -> Option<bool> {
        let mut answers = members.iter().map(|member| self.answers.get(member));
        answers.try_fold(false, |any, answer| answer.map(|inside| any | inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        whereabouts: Whereabouts,
        start: Instant,
    }

    impl World {
        fn new() -> Self {
            World { whereabouts: Whereabouts::default(), start: Instant::now() }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        /// What somebody who began to wait at `since` learns now.
        fn look(&mut self, since: u64, now: u64) -> (Option<bool>, bool) {
            let (since, now) = (self.at(since), self.at(now));
            let Look { is_inside, asks } = self.whereabouts.look(b"a", &BTreeSet::from([1, 2]), since, now);
            (is_inside, asks)
        }

        /// Whether the members are asked again.
        fn hear(&mut self, member: MemberId, inside: bool, now: u64) -> bool {
            let now = self.at(now);
            let again = self.whereabouts.hear(member, b"a", inside, now);
            assert!(again.as_ref().is_none_or(|again| *again == BTreeSet::from([1, 2])));
            again.is_some()
        }
    }

    #[test]
    fn nothing_is_known_before_all_living_members_have_answered() {
        let mut world = World::new();
        assert!(!world.hear(1, true, 0), "an answer to no question");
        assert_eq!(world.look(0, 0), (None, true));
        assert!(!world.hear(1, false, 5));
        assert_eq!(world.look(0, 10), (None, false));
        assert!(!world.hear(2, false, 15));
        assert_eq!(world.look(0, 20), (Some(false), true), "nobody is inside");
        world.hear(2, true, 25);
        world.hear(1, false, 30);
        assert_eq!(world.look(0, 40), (Some(true), true), "a caller of member 2 is inside");
        world.hear(1, false, 50);
        assert_eq!(world.look(0, 1_019), (Some(true), false));
        assert_eq!(world.look(0, 1_040), (None, true), "an answer was lost");
    }

    #[test]
    fn a_round_serves_all_who_asked_before_it_began() {
        let mut world = World::new();
        world.look(0, 0);
        world.hear(1, false, 5);
        world.hear(2, false, 5);
        assert_eq!(world.look(0, 10), (Some(false), true));
        assert_eq!(world.look(0, 11), (Some(false), false), "another look takes nothing away");
        assert_eq!(world.look(6, 12), (None, false), "it began before this one asked");
    }

    #[test]
    fn who_asks_during_a_round_gets_the_next_one() {
        let mut world = World::new();
        world.look(0, 0);
        assert_eq!(world.look(3, 3), (None, false));
        assert!(!world.hear(1, true, 5));
        assert!(world.hear(2, false, 5), "the members are asked again at once");
        assert_eq!(world.look(3, 6), (None, false));
        assert!(!world.hear(1, false, 7));
        assert!(!world.hear(2, false, 7));
        assert_eq!(world.look(3, 10), (Some(false), true));
    }
}
