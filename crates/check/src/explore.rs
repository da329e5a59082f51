//! Breadth-first exploration of any [`Model`], for the shortest way to break a property.
//!
//! What is remembered of a state that has been seen is 64 bits of fingerprint and a link to where it came from; whole
//! states live only in the queue. The way to a state is found by going the links backwards and then repeating the
//! steps, so expanding a state twice must give the same successors in the same order.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use foldhash::quality::FixedState;

use crate::Property;

/// Something that can be explored.
pub trait Model {
    /// A state. Equal states must hash alike, and different ones differently.
    type State: Hash;
    /// What leads from a state to the next.
    type Action;

    /// Puts all that can happen next into `found`: in `state`, or, if there is none yet, at the start.
    fn expand(&mut self, state: Option<&Self::State>, found: &mut Vec<Successor<Self>>);
}

/// One thing that can happen, and what comes of it.
pub struct Successor<M: Model + ?Sized> {
    /// What happens.
    pub action: M::Action,
    /// The state afterwards, unless it must not be.
    pub next: Result<M::State, Violation>,
}

/// A property does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub property: Property,
    /// Why not.
    pub detail: String,
}

/// What an exploration has found.
#[derive(Debug)]
pub struct Explored {
    /// Distinct states.
    pub states: usize,
    /// Steps between them, those that lead to a known state included.
    pub transitions: u64,
    /// The number of steps from the start to the furthest state.
    pub depth: usize,
    /// How it ended.
    pub end: End,
}

/// How an exploration ends.
#[derive(Debug)]
pub enum End {
    /// Everything has been seen, and nothing was wrong.
    Complete,
    /// There were more states than allowed.
    Limit,
    /// Something is wrong.
    Violated {
        /// What.
        violation: Violation,
        /// The way there: which successor to take at the start and in each state from there on.
        path: Vec<usize>,
    },
}

/// Where a state came from.
struct Link {
    /// The number of the state before it, in order of discovery.
    parent: u32,
    /// Which of its successors.
    nth: u32,
}

/// The parent of the states at the start.
const NONE: u32 = u32::MAX;

/// Explores `model` until everything is seen, something is wrong or there are more than `limit` states.
///
/// Violations are noticed on the step that leads to them, and states are expanded in order of their distance from the
/// start: the first violation found is one of the nearest.
pub fn explore<M: Model>(model: &mut M, limit: usize) -> Explored {
    let limit = limit.min(NONE as usize);
    let mut seen = Seen::default();
    let mut links: Vec<Link> = Vec::new();
    let mut queue = VecDeque::new();
    let mut found = Vec::new();
    let (mut expanded, mut depth, mut level_end, mut transitions) = (0, 0, 0, 0);

    let mut parent = NONE;
    let mut state = None;
    let end = loop {
        model.expand(state.as_ref(), &mut found);
        if parent != NONE {
            transitions += found.len() as u64;
        }
        let step = found.drain(..).enumerate().find_map(|(nth, successor)| match successor.next {
            Err(violation) => Some(End::Violated { violation, path: path_to(&links, parent, nth) }),
            Ok(next) if !seen.insert(&next) => None,
            Ok(_) if links.len() == limit => Some(End::Limit),
            Ok(next) => {
                links.push(Link { parent, nth: nth as u32 });
                queue.push_back(next);
                None
            }
        });
        if let Some(end) = step {
            break end;
        }
        if expanded == level_end && links.len() > level_end {
            // Everything up to here has been expanded, and something new has come of it.
            depth += usize::from(parent != NONE);
            level_end = links.len();
        }
        state = queue.pop_front();
        if state.is_none() {
            break End::Complete;
        }
        parent = expanded as u32;
        expanded += 1;
    };
    Explored { states: links.len(), transitions, depth, end }
}

/// The successors to take from the start in order to come to successor `nth` of state `parent`.
fn path_to(links: &[Link], mut parent: u32, nth: usize) -> Vec<usize> {
    let mut path = vec![nth];
    while let Some(link) = links.get(parent as usize) {
        path.push(link.nth as usize);
        parent = link.parent;
    }
    path.reverse();
    path
}

/// The fingerprints of all states seen.
///
/// 64 bits of a hash that mixes all of its input well (rustc-hash, which is linear, does not): among s states the chance
/// that any two share a fingerprint, so that one is missed, is below s^2 / 2^65, which is 1 in 30,000 for 33 million.
/// The keys are fixed, so that a run can be repeated.
#[derive(Default)]
struct Seen {
    fingerprints: HashSet<u64, BuildHasherDefault<AsIs>>,
}

impl Seen {
    /// Returns whether `state` is new.
    fn insert(&mut self, state: &impl Hash) -> bool {
        self.fingerprints.insert(FixedState::default().hash_one(state))
    }
}

/// A fingerprint is a hash already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are kept here");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two counters that go up to a bound one at a time; their sum must not reach `forbidden`.
    struct Counters {
        bound: u32,
        forbidden: u32,
    }

    impl Model for Counters {
        type State = (u32, u32);
        type Action = ();

        fn expand(&mut self, state: Option<&(u32, u32)>, found: &mut Vec<Successor<Self>>) {
            let nexts = match state {
                None => vec![(0, 0)],
                Some(&(a, b)) => vec![(a + 1, b), (a, b + 1), (0, 0)],
            };
            for next in nexts.into_iter().filter(|next| next.0 <= self.bound && next.1 <= self.bound) {
                let violation = Violation { property: Property::Safety, detail: String::new() };
                let next = if next.0 + next.1 == self.forbidden { Err(violation) } else { Ok(next) };
                found.push(Successor { action: (), next });
            }
        }
    }

    #[test]
    fn every_state_is_seen_once() {
        let explored = explore(&mut Counters { bound: 9, forbidden: 99 }, usize::MAX);
        assert!(matches!(explored.end, End::Complete));
        // 90 steps to the right, 90 up, 100 back to the start; the far corner is 18 steps away.
        assert_eq!((explored.states, explored.transitions, explored.depth), (100, 280, 18));
    }

    #[test]
    fn the_path_is_a_shortest_one_and_can_be_repeated() {
        let mut model = Counters { bound: 9, forbidden: 7 };
        let End::Violated { path, .. } = explore(&mut model, usize::MAX).end else { panic!("not found") };
        assert_eq!(path.len(), 1 + 7);
        let mut state = None;
        for (step, &nth) in path.iter().enumerate() {
            let mut found = Vec::new();
            model.expand(state.as_ref(), &mut found);
            let next = found.swap_remove(nth).next;
            assert_eq!(next.is_err(), step == 7);
            state = next.ok();
        }
    }

    #[test]
    fn a_limit_is_no_verdict() {
        let explored = explore(&mut Counters { bound: 9, forbidden: 99 }, 50);
        assert!(matches!(explored.end, End::Limit));
        assert_eq!(explored.states, 50);
        assert!(matches!(explore(&mut Counters { bound: 9, forbidden: 99 }, 100).end, End::Complete));
    }
}
