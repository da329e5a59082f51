//! The search finds the same cycles as the naive one, and visits few claims.

use std::num::NonZeroU64;

use proptest::prelude::*;

use super::naive;
use super::search::Search;
use crate::state::locks::limits::VISITS_MAX;
use crate::state::locks::{Acquire, Answer, Claim, Command, Grants, LockName, Mode, Operation, Refusal, Want};
use crate::state::sessions::{self, Open};
use crate::state::{self, Caller, Effect, Outcome, OwnerId, Request, RequestNumber, SessionId, State};

/// A state, and clients that send requests to it.
struct Script {
    state: State,
    grants: Grants,
    /// Requests of each session; at most 1,024 can wait.
    requests: u64,
    /// Number of requests so far.
    sent: u64,
}

impl Script {
    fn apply(&mut self, command: impl Into<state::Command>) -> Vec<Effect> {
        let mut outcome = Outcome::default();
        self.state.apply_by(self.grants, 1, 1, &command.into(), &mut outcome);
        outcome.effects.to_vec()
    }

    fn new(requests: u64) -> Self {
        Script { state: State::default(), grants: Grants::ByState, requests, sent: 0 }
    }

    /// The session and number of the next acquire. A new session begins when the last one has sent enough.
    fn next(&mut self) -> (SessionId, RequestNumber) {
        let (session, number) = (SessionId(self.sent / self.requests + 1), self.sent % self.requests + 1);
        if number == 1 {
            let (label, host, caller) = ("label".to_owned(), "host".to_owned(), Caller::default());
            let (ttl_ms, pid, resume, secret_hash) = (10_000, 1, false, None);
            self.apply(sessions::Command::Open(Open {
                session,
                ttl_ms,
                label,
                host,
                pid,
                resume,
                secret_hash,
                caller,
            }));
        }
        self.sent += 1;
        (session, number)
    }

    fn request(&mut self, session: SessionId, number: RequestNumber, operation: Operation) -> Vec<Effect> {
        let (operation, missing, caller) = (state::Operation::Locks(operation), Vec::new(), Caller::default());
        self.apply(state::Command::Request(Request { session, number, seen: 0, missing, caller, operation }))
    }

    /// Sends an acquire. Returns its answer, if there is one at once.
    fn acquire(&mut self, acquire: Acquire) -> Option<Answer> {
        let (session, number) = self.next();
        let effects = self.request(session, number, Operation::Acquire(acquire));
        effects.into_iter().find_map(|effect| match effect {
            Effect::Answer { answer: state::Answer::Locks(answer), .. } => Some(answer),
            _ => None,
        })
    }

    fn hold(&mut self, owner: u64, lock: &str) {
        let answer = self.acquire(Acquire::one(lock, Mode::Exclusive, OwnerId(owner)));
        assert!(matches!(answer, Some(Answer::Granted { .. })), "owner {owner} gets {lock}: {answer:?}");
    }

    fn wait(&mut self, owner: u64, lock: &str) {
        assert_eq!(self.acquire(Acquire::one(lock, Mode::Exclusive, OwnerId(owner))), None, "{owner} waits for {lock}");
    }

    /// A claim that would be the next one.
    fn claim(&self, acquire: &Acquire) -> Claim {
        self.state.modules.locks.new_claim(SessionId(1), RequestNumber::MAX, acquire, 0)
    }

    /// The locks of the cycle that the acquire would close, and the number of visits.
    fn search(&self, owner: u64, lock: &str) -> (Option<Vec<String>>, usize) {
        let claim = self.claim(&Acquire::one(lock, Mode::Exclusive, OwnerId(owner)));
        let mut search = Search::new(&self.state.modules.locks, &claim);
        let cycle = search.cycle();
        assert_eq!(cycle, naive::cycle(&self.state.modules.locks, &claim).0);
        (cycle.map(|steps| steps.into_iter().map(|step| step.lock.to_string()).collect()), search.visited)
    }
}

/// What a line of this length costs the owner 1. It holds a lock that another owner waits for. `prepare` makes each
/// waiter of the long line.
fn behind(waiters: u64, prepare: impl Fn(&mut Script, u64)) -> Script {
    let mut script = Script::new(1_000);
    script.hold(1, "own");
    script.wait(2, "own");
    script.hold(3, "long");
    script.hold(4, "other");
    for owner in 1_000..1_000 + waiters {
        prepare(&mut script, owner);
    }
    script
}

#[test]
fn an_acquire_behind_a_long_line_visits_as_many_claims_as_behind_a_short_one() {
    let visits = |waiters| {
        let script = behind(waiters, |script, owner| script.wait(owner, "long"));
        let (cycle, visited) = script.search(1, "long");
        assert_eq!(cycle, None);
        visited
    };
    assert_eq!((visits(10), visits(20_000)), (1, 1));
}

/// Each waiter has a lock of its own, which nobody waits for.
#[test]
fn waiters_that_hold_other_locks_do_not_matter() {
    let visits = |waiters| {
        let mut script = behind(waiters, |script, owner| {
            script.hold(owner, &format!("of {owner}"));
            script.wait(owner, "long");
        });
        let (cycle, free) = script.search(1, "long");
        assert_eq!(cycle, None);
        // The holder of the long line waits for the owner.
        script.wait(3, "own");
        let (cycle, refused) = script.search(1, "long");
        assert_eq!(cycle, Some(vec!["long".to_owned(), "own".to_owned()]));
        (free, refused)
    };
    assert_eq!((visits(10), visits(2_000)), ((1, 7), (1, 7)));
}

/// The claims of two locks stand behind the owner's lock, and before the owner in the line that it would enter. So both ends
/// of the search must read them.
#[test]
fn a_check_that_would_read_too_many_claims_is_known_before_it_is_made() {
    let costs = |waiters: u64| {
        let mut script = Script::new(1_000);
        script.hold(1, "own");
        script.hold(2, "other");
        for owner in 10..10 + waiters {
            assert_eq!(script.acquire(exclusive(&["own", "other"], owner)), None);
        }
        let acquire = exclusive(&["other"], 1);
        let claim = script.claim(&acquire);
        let mut search = Search::new(&script.state.modules.locks, &claim);
        assert!(search.cycle().is_some());
        // Neither a bystander nor an owner that gets its lock at once pays for them.
        let bystander = [exclusive(&["own"], 3), exclusive(&["free"], 1)];
        assert!(bystander.iter().all(|acquire| !script.state.is_check_long(SessionId(1), acquire)));
        (search.visited > VISITS_MAX, script.state.is_check_long(SessionId(1), &acquire))
    };
    assert_eq!(costs(100), (false, false));
    assert_eq!(costs(10_001), (true, true));
}

fn exclusive(locks: &[&str], owner: u64) -> Acquire {
    let wants = locks.iter().map(|lock| Want { lock: (*lock).into(), mode: Mode::Exclusive }).collect();
    Acquire { wants, ..Acquire::one("", Mode::Exclusive, OwnerId(owner)) }
}

/// The owner itself holds a lock with a long line, and wants one with a short line.
#[test]
fn a_long_line_behind_the_owner_does_not_matter() {
    let visits = |waiters| {
        let script = behind(waiters, |script, owner| {
            script.wait(owner, "own");
            script.wait(owner, "other");
        });
        let (cycle, visited) = script.search(1, "long");
        assert_eq!(cycle, None);
        visited
    };
    assert_eq!((visits(100), visits(2_000)), (65, 65));
}

const LOCKS: u64 = 5;
/// Owners with several claims. Owners above it have one claim.
const OWNERS: u64 = 6;

#[derive(Clone, Debug)]
enum Action {
    /// None: an owner with no other claim.
    Acquire { owner: Option<u64>, locks: Vec<u64>, shared: u8, parent: Option<u64> },
    /// Ends the claim at this place in the list of all claims, modulo its length.
    End(usize),
    /// The session of this claim expires, so that the locks that it holds are closed.
    Expire(usize),
    /// The closed lock at this place opens. If a group grants, the lock of this number is granted.
    Open(usize),
}

/// Locks 0 to 2 are exclusive or shared (or have a single permit), lock 3 has two permits and lock 4 has three.
fn wants(locks: &[u64], shared: u8) -> Vec<Want> {
    let mode = |lock: u64| match lock {
        0..=2 if shared >> lock & 1 == 1 => Mode::Shared,
        2 => Mode::Permit { of: 1 },
        0 | 1 => Mode::Exclusive,
        _ => Mode::Permit { of: lock as u32 - 1 },
    };
    locks.iter().map(|&lock| Want { lock: lock.to_string().as_str().into(), mode: mode(lock) }).collect()
}

fn locks() -> impl Strategy<Value = Vec<u64>> {
    let some = |count| prop::sample::subsequence((0..LOCKS).collect::<Vec<_>>(), count).prop_shuffle();
    prop_oneof![6 => some(1), 1 => some(2), 1 => some(3)]
}

fn action(parent: impl Strategy<Value = Option<u64>>) -> impl Strategy<Value = Action> {
    let acquire = (prop::option::weighted(0.6, 0..OWNERS), locks(), any::<u8>(), parent);
    prop_oneof![
        9 => acquire.prop_map(|(owner, locks, shared, parent)| Action::Acquire { owner, locks, shared, parent }),
        2 => any::<usize>().prop_map(Action::End),
        1 => any::<usize>().prop_map(Action::Expire),
        1 => any::<usize>().prop_map(Action::Open),
    ]
}

fn acquire(owner: u64, locks: &[u64], shared: u8, parent: Option<u64>) -> Acquire {
    let (wants, owner, parent) = (wants(locks, shared).into_iter().collect(), OwnerId(owner), parent.map(OwnerId));
    Acquire { wants, owner, parent, timeout_ms: None, lock_delay_ms: 1 }
}

impl Script {
    fn play(&mut self, action: &Action) {
        let claims: Vec<_> = self.state.modules.locks.claims.keys().copied().collect();
        let closed: Vec<_> =
            self.state.modules.locks.closed().map(|(name, delay)| (name.clone(), delay.generation)).collect();
        match action {
            &Action::Acquire { owner, ref locks, shared, parent } => {
                let acquire = acquire(owner.unwrap_or(1_000 + self.sent), locks, shared, parent);
                let expected = self.compare(&acquire);
                let refused = match self.acquire(acquire) {
                    Some(Answer::Refused(Refusal::Deadlock(cycle))) => Some(cycle.len()),
                    _ => None,
                };
                assert_eq!(refused, expected, "{action:?}");
            }
            Action::End(at) if !claims.is_empty() => {
                let (session, acquire) = claims[at % claims.len()];
                self.request(session, self.requests + acquire, Operation::Cancel { acquire });
            }
            Action::Expire(at) if !claims.is_empty() => {
                let (session, _) = claims[at % claims.len()];
                self.apply(sessions::Command::Expire { session, term: 0 });
                // The next acquire begins a session.
                self.sent = self.sent.next_multiple_of(self.requests);
            }
            Action::Open(at) if self.grants == Grants::ByGroup => {
                let (lock, fence) = (LockName::from(&(at % 2).to_string()), NonZeroU64::MIN.saturating_add(self.sent));
                self.state.admit(1, 1, &lock, fence);
            }
            Action::Open(at) if !closed.is_empty() => {
                let (lock, generation) = closed[at % closed.len()].clone();
                self.apply(Command::EndLockDelay { lock, generation });
            }
            _ => {}
        }
    }

    /// The length of the cycle that this acquire would close, if it would wait. Compares all ways to find it.
    fn compare(&self, acquire: &Acquire) -> Option<usize> {
        let locks = &self.state.modules.locks;
        if self.grants.refuses(&acquire.wants).is_some() || locks.are_free(&acquire.wants) != Ok(false) {
            return None;
        }
        let claim = self.claim(acquire);
        let expected = naive::cycle(locks, &claim).0;
        for limit in [1, 5, usize::MAX] {
            assert_eq!(Search::new(locks, &claim).cycle_with_limit(limit), expected, "{acquire:?}");
        }
        assert_eq!(Search::new(locks, &claim).cycle_around(), expected, "{acquire:?}");
        expected.map(|cycle| cycle.len())
    }

    /// What this owner could ask for next.
    fn compare_all(&self, owner: u64) {
        for lock in 0..LOCKS {
            for shared in [0, u8::MAX] {
                self.compare(&acquire(owner, &[lock], shared, None));
                self.compare(&acquire(owner, &[lock, (lock + 1) % LOCKS], shared, None));
            }
        }
    }
}

proptest! {
    // Each case makes hundreds of searches, so there are fewer cases than elsewhere.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: ProptestConfig::default().cases / 4,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_search_finds_what_the_naive_one_finds(
        actions in prop::collection::vec(action(Just(None)), 1..40),
        owner in 0..=OWNERS,
        by_group in prop::bool::weighted(0.1),
    ) {
        let mut script = Script::new(3);
        if by_group {
            script.grants = Grants::ByGroup;
        }
        actions.iter().for_each(|action| script.play(action));
        script.state.check_by(script.grants).unwrap();
        script.compare_all(owner);
    }

    #[test]
    fn the_search_finds_what_the_naive_one_finds_with_parents(
        actions in prop::collection::vec(action(prop::option::weighted(0.15, 0..OWNERS)), 1..40),
        owner in 0..=OWNERS,
        by_group in prop::bool::weighted(0.1),
    ) {
        let mut script = Script::new(3);
        if by_group {
            script.grants = Grants::ByGroup;
        }
        actions.iter().for_each(|action| script.play(action));
        script.state.check_by(script.grants).unwrap();
        script.compare_all(owner);
    }
}
