//! Random clients and a fake algorithm that lets the member in at random moments.

use std::collections::{BTreeMap, VecDeque};

use baton_state::state::locks::{self, Acquire, Answer, Mode};
use baton_state::state::sessions::{self, Open};
use baton_state::state::{self, Caller, Command, Effect, Operation, OwnerId, Request, RequestNumber, SessionId};
use proptest::prelude::*;

use super::*;

const LOCKS: usize = 3;
const SESSIONS: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        session: u64,
        lock: usize,
        lock_delay_ms: u64,
    },
    /// Releases the holder of the lock, or cancels the wait at this place in its line.
    Release {
        lock: usize,
    },
    Cancel {
        lock: usize,
        place: usize,
    },
    /// `in_vain`: the group could not go on.
    TimeOut {
        lock: usize,
        place: usize,
        in_vain: bool,
    },
    Close {
        session: u64,
    },
    Expire {
        session: u64,
    },
    EndDelay {
        lock: usize,
    },
    Force {
        lock: usize,
        now: bool,
    },
    /// The group lets the member in, if the member has asked.
    Grant {
        lock: usize,
    },
    Refuse {
        lock: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (session, lock, place) = (0..SESSIONS, 0..LOCKS, 0..4_usize);
    prop_oneof![
        8 => (session.clone(), lock.clone(), prop_oneof![Just(0), Just(50)])
            .prop_map(|(session, lock, lock_delay_ms)| Step::Acquire { session, lock, lock_delay_ms }),
        5 => lock.clone().prop_map(|lock| Step::Release { lock }),
        2 => (lock.clone(), place.clone()).prop_map(|(lock, place)| Step::Cancel { lock, place }),
        2 => (lock.clone(), place, any::<bool>())
            .prop_map(|(lock, place, in_vain)| Step::TimeOut { lock, place, in_vain }),
        1 => session.clone().prop_map(|session| Step::Close { session }),
        1 => session.prop_map(|session| Step::Expire { session }),
        2 => lock.clone().prop_map(|lock| Step::EndDelay { lock }),
        1 => (lock.clone(), any::<bool>()).prop_map(|(lock, now)| Step::Force { lock, now }),
        6 => lock.clone().prop_map(|lock| Step::Grant { lock }),
        1 => lock.prop_map(|lock| Step::Refuse { lock }),
    ]
}

fn name(lock: usize) -> LockName {
    LockName::from(&format!("lock {lock}"))
}

type Key = (SessionId, RequestNumber);

/// What the group knows of one lock.
#[derive(Default)]
struct Section {
    asked: bool,
    inside: bool,
    last_fence: u64,
    entered: u64,
    left: u64,
}

/// The member, the group, and what clients have heard.
struct World {
    local: Local,
    group: BTreeMap<LockName, Section>,
    /// The waiting acquires of each lock, as they were made.
    lines: BTreeMap<LockName, VecDeque<Key>>,
    holders: BTreeMap<LockName, Key>,
    /// The id of each session now, and the number of its next request.
    sessions: Vec<(u64, RequestNumber)>,
    last_session: u64,
    now_ms: u64,
}

impl World {
    fn new() -> Self {
        let group = (0..LOCKS).map(|lock| (name(lock), Section::default())).collect();
        let lines = (0..LOCKS).map(|lock| (name(lock), VecDeque::new())).collect();
        let (sessions, last_session) = (vec![(0, 0); SESSIONS as usize], 0);
        let (local, holders) = (Local::new(), BTreeMap::new());
        let mut world = World { local, group, lines, holders, sessions, last_session, now_ms: 1 };
        (0..SESSIONS).for_each(|session| world.begin(session));
        world
    }

    fn begin(&mut self, session: u64) {
        self.last_session += 1;
        self.sessions[session as usize] = (self.last_session, 1);
        let (label, host, caller) = (String::new(), String::new(), Caller::default());
        let (session, ttl_ms, pid, resume, secret_hash) = (SessionId(self.last_session), 10_000, 1, false, None);
        self.apply(
            &sessions::Command::Open(Open { session, ttl_ms, label, host, pid, resume, secret_hash, caller }).into(),
        );
    }

    fn request(&mut self, session: u64, operation: Operation) -> Key {
        let (id, number) = &mut self.sessions[session as usize];
        let key = (SessionId(*id), *number);
        *number += 1;
        let (seen, missing, caller) = (0, Vec::new(), Caller::default());
        self.apply(&Command::Request(Request { session: key.0, number: key.1, seen, missing, caller, operation }));
        key
    }

    /// A request of the session that made this acquire.
    fn for_acquire(&mut self, (session, _): Key, operation: locks::Operation) {
        let place = self.sessions.iter().position(|(id, _)| *id == session.0).expect("its session lives");
        self.request(place as u64, Operation::Locks(operation));
    }

    fn apply(&mut self, command: &Command) {
        self.now_ms += 1;
        let outcome = self.local.apply(&Entry { now_ms: self.now_ms, commands: vec![command.clone()] });
        self.hear(&outcome, None);
    }

    fn grant(&mut self, lock: &LockName) {
        let section = self.group.get_mut(lock).expect("every lock has a section");
        if !std::mem::take(&mut section.asked) {
            return;
        }
        section.inside = true;
        section.entered += 1;
        // The fences of an algorithm have gaps.
        section.last_fence += 7;
        let fence = NonZeroU64::new(section.last_fence).expect("it is above 0");
        self.now_ms += 1;
        let outcome = self.local.granted(self.now_ms, lock, fence);
        self.hear(&outcome, Some((lock, fence.get())));
    }

    fn refuse(&mut self, lock: &LockName) {
        if std::mem::take(&mut self.group.get_mut(lock).expect("every lock has a section").asked) {
            let outcome = self.local.refused(self.now_ms, lock, "no".to_owned());
            self.hear(&outcome, None);
        }
    }

    /// Follows the effects and the actions. `entered` is the lock and fence of an entry, if the group has just let the
    /// member in.
    fn hear(&mut self, outcome: &Outcome, entered: Option<(&LockName, u64)>) {
        for effect in &outcome.effects {
            match effect {
                Effect::Answer { session, number, answer: state::Answer::Locks(Answer::Granted { fence }) } => {
                    let (lock, of_group) = entered.expect("only the group grants");
                    assert_eq!(*fence, of_group, "the fence is the algorithm's");
                    let first = self.lines.get_mut(lock).and_then(VecDeque::pop_front);
                    assert_eq!(first, Some((*session, *number)), "the waiters are served in their order");
                    assert_eq!(self.holders.insert(lock.clone(), (*session, *number)), None, "one holder at a time");
                }
                Effect::Answer { session, number, answer: state::Answer::Locks(Answer::Refused(_)) } => {
                    self.lines.values_mut().for_each(|line| line.retain(|key| *key != (*session, *number)));
                }
                Effect::Ended { session, .. } => {
                    self.lines.values_mut().for_each(|line| line.retain(|key| key.0 != *session));
                    self.holders.retain(|_, key| key.0 != *session);
                }
                _ => {}
            }
        }
        for change in &outcome.changes {
            if let What::Locks(locks::What::Claim { before: Some(before), after: None }) = &change.what {
                self.holders.retain(|_, key| *key != (before.session, before.number));
            }
        }
        self.act();
        self.judge();
    }

    fn act(&mut self) {
        for action in self.local.take_actions() {
            match action {
                Action::Ask(lock) => {
                    let section = self.group.get_mut(&lock).expect("every lock has a section");
                    assert!(!section.asked && !section.inside, "the member asks for {lock} twice");
                    section.asked = true;
                }
                Action::Leave(lock) => {
                    let view = self.local.state().lock(lock.as_bytes());
                    let in_use = view.is_some_and(|view| view.mode().is_some() || view.delay().is_some());
                    assert!(!in_use, "the member leaves {lock}, which is in use");
                    let section = self.group.get_mut(&lock).expect("every lock has a section");
                    assert!(std::mem::take(&mut section.inside), "the member leaves {lock} twice");
                    section.left += 1;
                }
            }
        }
    }

    fn judge(&self) {
        let state = self.local.state();
        assert_eq!(state.check_by(locks::Grants::ByGroup), Ok(()));
        for (lock, section) in &self.group {
            assert_eq!(section.entered, section.left + u64::from(section.inside));
            let view = state.lock(lock.as_bytes());
            let holds = view.is_some_and(|view| view.holders().next().is_some());
            let closed = view.is_some_and(|view| view.delay().is_some());
            let waits = view.is_some_and(|view| view.waiters().next().is_some());
            assert_eq!(section.inside, holds || closed, "the member is inside exactly while {lock} is in use");
            assert_eq!(holds, self.holders.contains_key(lock));
            assert!(!waits || section.asked || section.inside, "nobody asks for {lock}, although a claim waits");
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Acquire { session, lock, lock_delay_ms } => {
                let number = self.sessions[session as usize];
                // Each acquire has an owner of its own, so that there is no deadlock.
                let owner = OwnerId(number.0 << 32 | number.1);
                let key = (SessionId(number.0), number.1);
                self.lines.get_mut(&name(lock)).expect("every lock has a line").push_back(key);
                let acquire = Acquire { lock_delay_ms, ..Acquire::one(name(lock).as_bytes(), Mode::Exclusive, owner) };
                self.request(session, Operation::Locks(locks::Operation::Acquire(acquire)));
            }
            Step::Release { lock } => {
                if let Some(&holder) = self.holders.get(&name(lock)) {
                    self.for_acquire(holder, locks::Operation::Release { acquire: holder.1 });
                }
            }
            Step::Cancel { lock, place } => {
                if let Some(&waiter) = self.lines[&name(lock)].get(place) {
                    self.for_acquire(waiter, locks::Operation::Cancel { acquire: waiter.1 });
                }
            }
            Step::TimeOut { lock, place, in_vain } => {
                if let Some(&(session, number)) = self.lines[&name(lock)].get(place) {
                    assert_eq!(self.local.waits_for(session, number).map(|(lock, _)| lock), Some(name(lock)));
                    if in_vain {
                        let outcome = self.local.cannot_wait(self.now_ms, session, number, "no".to_owned());
                        self.hear(&outcome, None);
                        assert_eq!(self.local.waits_for(session, number), None);
                    }
                    self.apply(&locks::Command::CancelWait { session, number }.into());
                }
            }
            Step::Close { session } => {
                self.request(session, Operation::Close);
                self.begin(session);
            }
            Step::Expire { session } => {
                let id = SessionId(self.sessions[session as usize].0);
                self.apply(&sessions::Command::Expire { session: id, term: 0 }.into());
                self.begin(session);
            }
            Step::EndDelay { lock } => {
                let delay = self.local.state().lock(name(lock).as_bytes()).and_then(|view| view.delay());
                if let Some(delay) = delay {
                    self.apply(&locks::Command::EndLockDelay { lock: name(lock), generation: delay.generation }.into());
                }
            }
            Step::Force { lock, now } => {
                let (lock, caller) = (name(lock), Caller::default());
                self.apply(&locks::Command::Force { lock, now, caller }.into());
            }
            Step::Grant { lock } => self.grant(&name(lock)),
            Step::Refuse { lock } => self.refuse(&name(lock)),
        }
    }

    /// The group goes on letting the member in, and every holder releases: every waiter is served, and nothing is left.
    fn settle(&mut self) {
        for lock in 0..LOCKS {
            self.take(&Step::EndDelay { lock });
            self.take(&Step::Release { lock });
            for _ in 0..self.lines[&name(lock)].len() {
                let first = self.lines[&name(lock)].front().copied();
                self.grant(&name(lock));
                assert_eq!(self.holders.get(&name(lock)).copied(), first, "the next waiter is served");
                self.take(&Step::Release { lock });
            }
            // The member may have asked for a waiter that is gone.
            self.grant(&name(lock));
            let section = &self.group[&name(lock)];
            assert!(!section.inside && !section.asked);
            assert_eq!(self.lines[&name(lock)].len() + self.local.state().waiters_of(name(lock).as_bytes()), 0);
        }
        assert_eq!(self.local.asked_for().count(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// No grant without a turn of the algorithm, each turn is left exactly once, and every waiter is served in order,
    /// with the algorithm's fence.
    #[test]
    fn the_member_holds_only_what_its_group_lets_it_enter(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.take(step));
        world.settle();
    }
}

fn acquire(session: u64, lock_delay_ms: u64) -> Step {
    Step::Acquire { session, lock: 0, lock_delay_ms }
}

#[test]
fn a_lock_delay_keeps_the_turn_until_it_is_over() {
    let mut world = World::new();
    world.take(&acquire(0, 50));
    world.take(&Step::Grant { lock: 0 });
    world.take(&acquire(1, 0));
    world.take(&Step::Expire { session: 0 });
    let inside = |world: &World| (world.group[&name(0)].inside, world.group[&name(0)].asked);
    assert_eq!(inside(&world), (true, false));
    world.take(&Step::EndDelay { lock: 0 });
    assert_eq!(inside(&world), (false, true), "it leaves, and asks again for the waiter");
}

#[test]
fn a_member_leaves_at_once_if_nobody_waits_any_more() {
    let mut world = World::new();
    world.take(&acquire(0, 0));
    world.take(&Step::Cancel { lock: 0, place: 0 });
    assert!(world.group[&name(0)].asked);
    world.take(&Step::Grant { lock: 0 });
    let section = &world.group[&name(0)];
    assert_eq!((section.entered, section.left, section.asked), (1, 1, false));
}

#[test]
fn each_grant_is_an_entry_of_its_own() {
    let mut world = World::new();
    for session in 0..SESSIONS {
        world.take(&acquire(session, 0));
    }
    world.settle();
    assert_eq!((world.group[&name(0)].entered, world.group[&name(0)].last_fence), (3, 21));
}

#[test]
fn a_refusal_of_the_group_is_told_to_each_waiter_in_turn() {
    let mut world = World::new();
    world.take(&acquire(0, 0));
    world.take(&acquire(1, 0));
    world.take(&Step::Refuse { lock: 0 });
    assert_eq!((world.lines[&name(0)].len(), world.group[&name(0)].asked), (1, true));
    world.take(&Step::Refuse { lock: 0 });
    assert_eq!((world.lines[&name(0)].len(), world.group[&name(0)].asked), (0, false));
}
