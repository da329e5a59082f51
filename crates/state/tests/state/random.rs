//! The state under random commands: it must do and say the same as the naive model.

use std::collections::BTreeMap;

use baton_state::state::locks::{self, Acquire, LockName, Mode, Want};
use baton_state::state::sessions;
use baton_state::state::{Caller, Command, Effect, Operation, Outcome, OwnerId, Request, SessionId, State, What};
use proptest::prelude::*;

use crate::actions::{Action, SESSIONS, World, action, few, open, pick};
use crate::compare::{apply, check_cycles, compare, in_common};
use crate::model::Model;
use crate::records::again;

/// The index of the entry with this command.
fn index(number: u64) -> u64 {
    1_000 + 3 * number
}

/// The fences of a lock never fall, in the order of its grants.
fn check_fences(highest: &mut BTreeMap<LockName, u64>, outcome: &Outcome) {
    for change in &outcome.changes {
        if let What::Locks(locks::What::Claim { before, after: Some(claim) }) = &change.what
            && let Some(fence) = claim.fence
            && before.as_ref().is_none_or(|before| !before.holds())
        {
            for want in &claim.wants {
                let last = highest.insert(want.lock.clone(), fence.get()).unwrap_or(0);
                assert!(last <= fence.get(), "the fence of {} falls from {last} to {fence}", want.lock);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// State and model give the same effects, changes and query results, the promises hold, and every cycle in a
    /// refusal is a real one.
    #[test]
    fn the_state_does_what_the_model_does(actions in prop::collection::vec(action(), 1..80)) {
        let (mut state, mut model, mut world) = (State::default(), Model::default(), World::default());
        for session in 0..SESSIONS {
            apply(&mut state, 0, 0, &open(session));
            model.apply(0, 0, &open(session));
        }
        let (mut last_fence, mut highest) = (0, BTreeMap::new());
        for (now_ms, action) in (1..).zip(&actions) {
            let Some(command) = world.command(action, &model) else {
                let read = again(&state);
                prop_assert_eq!(&read, &state);
                state = read;
                continue;
            };
            let known = model.claims.len();
            let outcome = apply(&mut state, index(now_ms), now_ms, &command);
            check_cycles(&model, &command, &outcome.effects);
            check_fences(&mut highest, &outcome);
            prop_assert_eq!(in_common(outcome), model.apply(index(now_ms), now_ms, &command), "{:?}", command);
            prop_assert!(model.claims.len() <= known + 1);
            prop_assert!(state.last_fence() >= last_fence, "fences grow");
            last_fence = state.last_fence();
            compare(&state, &model);
            world.sent.push(command);
        }
    }

    /// Deadlocks with many owners and locks, where permits and closed locks make some cycles harmless: the state must
    /// agree with the model, which finds them by trying. Owners have no parents, or form a tree, or name a random
    /// parent per claim.
    #[test]
    fn deadlocks_are_what_trying_finds(
        closed in prop::collection::vec(prop::bool::weighted(0.2), 6),
        kin in kin(),
        wishes in prop::collection::vec((0..6u64, wished(), prop::option::weighted(0.2, any::<usize>())), 1..50),
    ) {
        let (mut state, mut model) = (State::default(), Model::default());
        let mut play = |command: &Command| {
            let outcome = apply(&mut state, 0, 0, command);
            check_cycles(&model, command, &outcome.effects);
            assert_eq!(in_common(outcome), model.apply(0, 0, command), "{command:?}");
            model.claims.iter().filter(|claim| claim.fence.is_some()).map(|claim| claim.number).collect::<Vec<u64>>()
        };
        let acquire = |locks: Vec<(usize, bool)>, owner: u64, parent: Option<OwnerId>| {
            let wants = locks.into_iter().map(|(lock, shared)| Want {
                lock: lock.to_string().as_str().into(),
                mode: match lock {
                    // Locks 0 to 2 are exclusive or shared, 3 and 4 have two permits, 5 has three.
                    0..=2 => if shared { Mode::Shared } else { Mode::Exclusive },
                    _ => Mode::Permit { of: lock as u32 / 5 + 2 },
                },
            });
            let (owner, timeout_ms) = (OwnerId(owner), None);
            locks::Operation::Acquire(Acquire { wants: wants.collect(), owner, parent, timeout_ms, lock_delay_ms: 1 })
        };
        let request = |session: u64, number: u64, operation: locks::Operation| {
            let (session, operation, caller) = (SessionId(session), Operation::Locks(operation), Caller::default());
            Command::Request(Request { session, number, seen: 0, missing: vec![], caller, operation })
        };
        play(&open(0));
        play(&open(1));
        for (lock, _) in closed.iter().enumerate().filter(|(_, closed)| **closed) {
            play(&request(1, lock as u64 + 1, acquire(vec![(lock, false)], 0, None)));
        }
        let mut held = play(&sessions::Command::Expire { session: SessionId(1), term: 0 }.into());
        for (number, (owner, locks, release)) in (1..).zip(wishes) {
            let operation = match release.and_then(|at| held.get(at.checked_rem(held.len())?)) {
                Some(&acquire) => locks::Operation::Release { acquire },
                None => acquire(locks, owner, kin.parent(owner, number)),
            };
            held = play(&request(0, number, operation));
        }
    }

    /// However often and late requests are repeated, the resulting state is the same as without repetitions.
    #[test]
    fn a_repeated_request_is_applied_once(
        actions in prop::collection::vec((0..SESSIONS, pick(), prop::collection::vec(0..60usize, 0..3)), 1..60),
    ) {
        let (mut model, mut world) = (Model::default(), World::default());
        let (mut once, mut often) = (State::default(), State::default());
        for session in 0..SESSIONS {
            for state in [&mut once, &mut often] {
                apply(state, 0, 0, &open(session));
            }
            model.apply(0, 0, &open(session));
        }
        let mut repeats: BTreeMap<usize, Vec<(Request, Vec<Effect>)>> = BTreeMap::new();
        for (at, (session, operation, later)) in actions.into_iter().enumerate() {
            let action = Action::Next { session, unseen: u64::MAX - 1, missing: 0, lost: false, operation };
            let Some(Command::Request(request)) = world.command(&action, &model) else { panic!("not a request") };
            let command = Command::Request(request.clone());
            model.apply(0, 0, &command);
            let said = apply(&mut once, 0, 0, &command);
            prop_assert_eq!(&apply(&mut often, 0, 0, &command), &said);
            for later in later {
                repeats.entry(at + later).or_default().push((request.clone(), said.effects.to_vec()));
            }
            for (repeated, said) in repeats.remove(&at).unwrap_or_default() {
                let (session, number) = (repeated.session, repeated.number);
                let outcome = apply(&mut often, 0, 0, &Command::Request(repeated));
                prop_assert_eq!(outcome.changes.to_vec(), vec![]);
                for effect in outcome.effects {
                    // Every answer is for this request, and equals its earlier answer, if there was one.
                    match effect {
                        Effect::Answer { session: of, number: which, .. } => {
                            prop_assert_eq!((of, which), (session, number));
                            let own = |said: &&Effect| matches!(said, Effect::Answer { session: of, number: which, .. } if (*of, *which) == (session, number));
                            prop_assert!(said.iter().find(own).is_none_or(|before| *before == effect));
                        }
                        Effect::Ended { session: of, .. } => prop_assert_eq!(of, session),
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
            }
            prop_assert_eq!(&often, &once);
        }
    }

    /// A restored state goes on like the original.
    #[test]
    fn a_state_that_was_written_down_behaves_the_same(
        before in prop::collection::vec(action(), 0..50),
        after in prop::collection::vec(action(), 0..40),
    ) {
        let (mut state, mut model, mut world) = (State::default(), Model::default(), World::default());
        let mut play = |state: &mut State, other: Option<&mut State>, actions: &[Action]| {
            let mut other = other;
            for (now_ms, action) in (1..).zip(actions) {
                let Some(command) = world.command(action, &model) else { continue };
                let outcome = apply(state, 0, now_ms, &command);
                if let Some(other) = other.as_mut() {
                    assert_eq!(apply(other, 0, now_ms, &command), outcome);
                }
                model.apply(0, now_ms, &command);
                world.sent.push(command);
            }
        };
        for session in 0..SESSIONS {
            play(&mut state, None, &[Action::Any(open(session))]);
        }
        play(&mut state, None, &before);
        let mut read = again(&state);
        prop_assert_eq!(&read, &state);
        play(&mut state, Some(&mut read), &after);
        prop_assert_eq!(read, state);
    }
}

/// Some of six locks, and whether each is wanted shared.
fn wished() -> impl Strategy<Value = Vec<(usize, bool)>> {
    let shared = |shared: u32| move |(at, lock)| (lock, shared >> at & 1 == 1);
    (few(&[0, 1, 2, 3, 4, 5]), 0..8u32)
        .prop_map(move |(locks, bits)| locks.into_iter().enumerate().map(shared(bits)).collect())
}

/// The parents of six owners.
#[derive(Clone, Debug)]
enum Kin {
    None,
    /// The parent has a lower number than the owner, or there is none.
    Tree(Vec<Option<u64>>),
    /// A parent per claim, independent of other claims.
    Any(Vec<Option<u64>>),
}

impl Kin {
    fn parent(&self, owner: u64, claim: u64) -> Option<OwnerId> {
        match self {
            Kin::None => None,
            Kin::Tree(parents) => parents[owner as usize].filter(|parent| *parent < owner).map(OwnerId),
            Kin::Any(parents) => parents[claim as usize % parents.len()].map(OwnerId),
        }
    }
}

fn kin() -> impl Strategy<Value = Kin> {
    let parents = |count| prop::collection::vec(prop::option::weighted(0.5, 0..6u64), count);
    prop_oneof![
        2 => Just(Kin::None),
        3 => parents(6).prop_map(Kin::Tree),
        2 => parents(20).prop_map(Kin::Any),
    ]
}
