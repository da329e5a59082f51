//! The table under random commands: beside the naive model it does the same and says the same, whatever comes.

use std::collections::BTreeMap;

use baton_service::table::{
    Answer, Command, Counts, Effect, Mode, Operation, OwnerId, PendingTimers, Refusal, SessionId, Table,
};
use proptest::prelude::*;

use crate::model::{Model, waiting};

const SESSIONS: u64 = 4;
const LOCKS: [&str; 3] = ["one", "two", "three"];

/// What the world does. Numbers that are picked are taken modulo what there is to pick from.
#[derive(Clone, Debug)]
enum Action {
    /// The next request of a session, with the answers seen up to so many before it, but for those whose bits are set. It may
    /// get lost, and arrive only when it is sent again.
    Next { session: u64, unseen: u64, missing: u64, lost: bool, operation: Pick },
    /// A request or anything else that was sent before, once more.
    Again(usize),
    /// Something without sense for what was before.
    Any(Command),
    /// What a timer of the leader proposes.
    Timer(usize),
    /// The table is written down and read again.
    Restart,
}

#[derive(Clone, Debug)]
enum Pick {
    Acquire { lock: usize, mode: Mode, owner: u64, timeout_ms: Option<u64>, delay_ms: u64 },
    Release(usize),
    Cancel(usize),
    Close,
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        4 => Just(Mode::Exclusive),
        4 => Just(Mode::Shared),
        3 => Just(Mode::Permit { of: 2 }),
        1 => prop::sample::select(vec![0, 1, 3, u32::MAX]).prop_map(|of| Mode::Permit { of }),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    let acquire = (0..LOCKS.len(), mode(), 0..SESSIONS + 2, prop::option::of(0..3u64), 0..3u64).prop_map(
        |(lock, mode, owner, timeout_ms, delay_ms)| Pick::Acquire { lock, mode, owner, timeout_ms, delay_ms },
    );
    prop_oneof![
        8 => acquire,
        4 => any::<usize>().prop_map(Pick::Release),
        2 => any::<usize>().prop_map(Pick::Cancel),
        1 => Just(Pick::Close),
    ]
}

/// Mostly small, now and then as great as can be.
fn number(below: u64) -> impl Strategy<Value = u64> {
    prop_oneof![30 => 0..below, 1 => Just(u64::MAX)]
}

/// Mostly none that make no sense.
fn missing() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        6 => Just(vec![]),
        6 => (1..3u64).prop_map(|number| vec![number]),
        3 => prop::collection::vec(number(4), 0..4),
        1 => (2_047..2_050u64).prop_map(|count| (1..=count).collect()),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let session = || (0..SESSIONS + 1).prop_map(SessionId);
    let lock = || {
        let senseless = prop::sample::select(vec![String::new(), "x".repeat(513)]);
        prop_oneof![9 => prop::sample::select(&LOCKS[..]).prop_map(String::from), 1 => senseless]
    };
    let operation = prop_oneof![
        (lock(), mode(), number(SESSIONS), prop::option::of(number(3)), number(3)).prop_map(
            |(lock, mode, owner, timeout_ms, lock_delay_ms)| Operation::Acquire {
                lock,
                mode,
                owner: OwnerId(owner),
                timeout_ms,
                lock_delay_ms
            }
        ),
        number(9).prop_map(|acquire| Operation::Release { acquire }),
        number(9).prop_map(|acquire| Operation::Cancel { acquire }),
    ];
    prop_oneof![
        1 => (0..3u64).prop_map(|term| Command::Lead { term }),
        6 => (session(), number(30_000), any::<bool>()).prop_map(|(session, ttl_ms, resume)| {
            let (label, host) = (format!("session {session}"), String::new());
            Command::Open { session, ttl_ms, label, host, pid: 1, resume }
        }),
        3 => (session(), number(12), number(3), missing(), operation).prop_map(
            |(session, number, seen, missing, operation)| {
                Command::Request { session, number, seen, missing, operation }
            }
        ),
        2 => (session(), number(3)).prop_map(|(session, term)| Command::Expire { session, term }),
        1 => (lock(), number(9)).prop_map(|(lock, generation)| Command::EndLockDelay { lock, generation }),
        1 => (session(), number(12)).prop_map(|(session, number)| Command::CancelWait { session, number }),
        3 => (lock(), any::<bool>()).prop_map(|(lock, now)| Command::Force { lock, now }),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    // What is missing mostly stays so for a while.
    let bits = prop_oneof![1 => Just(0), 6 => Just(0x1111_1111_1111_1111), 2 => any::<u64>()];
    prop_oneof![
        20 => (0..SESSIONS, 0..6u64, bits, prop::bool::weighted(0.1), pick()).prop_map(
            |(session, unseen, missing, lost, operation)| Action::Next { session, unseen, missing, lost, operation }
        ),
        3 => any::<usize>().prop_map(Action::Again),
        3 => command().prop_map(Action::Any),
        3 => any::<usize>().prop_map(Action::Timer),
        1 => Just(Action::Restart),
    ]
}

/// Makes commands of actions.
#[derive(Default)]
struct World {
    numbers: BTreeMap<u64, u64>,
    sent: Vec<Command>,
}

impl World {
    fn command(&mut self, action: &Action, model: &Model) -> Option<Command> {
        match *action {
            Action::Next { session, unseen, missing, lost, ref operation } => {
                let number = self.numbers.entry(session).or_insert(0);
                *number += 1;
                let acquires: Vec<u64> = model
                    .claims
                    .iter()
                    .filter(|claim| claim.session == SessionId(session))
                    .map(|claim| claim.number)
                    .collect();
                // Mostly of something that holds or waits, now and then of anything before.
                let earlier = |at: usize| match acquires.len() {
                    0 => at as u64 % *number,
                    many => acquires.get(at % (many + 1)).copied().unwrap_or(at as u64 % *number),
                };
                let operation = match *operation {
                    Pick::Acquire { lock, mode, owner, timeout_ms, delay_ms: lock_delay_ms } => Operation::Acquire {
                        lock: LOCKS[lock].into(),
                        mode,
                        owner: OwnerId(owner),
                        timeout_ms,
                        lock_delay_ms,
                    },
                    Pick::Release(at) => Operation::Release { acquire: earlier(at) },
                    Pick::Cancel(at) => Operation::Cancel { acquire: earlier(at) },
                    Pick::Close => Operation::Close,
                };
                let seen = number.saturating_sub(1 + unseen);
                let missing = (1..=seen).filter(|number| missing >> (number % 64) & 1 == 1).collect();
                let command =
                    Command::Request { session: SessionId(session), number: *number, seen, missing, operation };
                if lost {
                    self.sent.push(command);
                    return None;
                }
                Some(command)
            }
            Action::Again(at) => self.sent.get(at.checked_rem(self.sent.len())?).cloned(),
            Action::Any(ref command) => Some(command.clone()),
            Action::Timer(at) => {
                let mut due: Vec<Command> = Vec::new();
                due.extend(model.delays.iter().map(|(lock, generation, _)| Command::EndLockDelay {
                    lock: lock.clone(),
                    generation: *generation,
                }));
                let waits = model.claims.iter().filter(|claim| claim.fence.is_none());
                due.extend(waits.map(|claim| Command::CancelWait { session: claim.session, number: claim.number }));
                due.get(at.checked_rem(due.len())?).cloned()
            }
            Action::Restart => None,
        }
    }
}

fn apply(table: &mut Table, now_ms: u64, command: &Command) -> Vec<Effect> {
    let mut effects = Vec::new();
    table.apply(now_ms, command, &mut effects);
    effects
}

/// What the model does not say: the sentence of what is invalid, and which cycle is shown.
fn without_words(mut effects: Vec<Effect>) -> Vec<Effect> {
    for effect in &mut effects {
        match effect {
            Effect::Answer { answer: Answer::Refused(Refusal::Invalid(sentence)), .. } => sentence.clear(),
            Effect::Answer { answer: Answer::Refused(Refusal::Deadlock(cycle)), .. } => cycle.clear(),
            _ => {}
        }
    }
    effects
}

/// A cycle that is shown for the first time is one.
fn check_cycles(before: &Model, command: &Command, effects: &[Effect]) {
    for effect in effects {
        if let Effect::Answer { session, number, answer: Answer::Refused(Refusal::Deadlock(cycle)) } = effect
            && !before.is_answered(*session, *number)
        {
            let new = waiting(command).expect("only an acquire can be refused so");
            assert!(before.is_cycle(&new, cycle), "{cycle:?} is no cycle");
        }
    }
}

fn again(table: &Table) -> Table {
    postcard::from_bytes(&postcard::to_stdvec(table).expect("written")).expect("read")
}

/// Every question gets the same answer from both.
fn compare(table: &Table, model: &Model) {
    for name in LOCKS {
        let lock = table.lock(name);
        let holders: Vec<_> = lock.iter().flat_map(|lock| lock.holders()).collect();
        let waiters: Vec<_> = lock.iter().flat_map(|lock| lock.waiters()).collect();
        assert_eq!(
            holders
                .iter()
                .map(|h| (h.session, h.acquire, h.owner, h.mode, Some(h.fence), h.since_ms, h.revoked))
                .collect::<Vec<_>>(),
            model
                .holders(name)
                .map(|c| (c.session, c.number, c.owner, c.mode, c.fence, c.since_ms, c.revoked))
                .collect::<Vec<_>>(),
        );
        let waits = model.claims.iter().filter(|claim| claim.lock == name && claim.fence.is_none());
        assert_eq!(
            waiters
                .iter()
                .map(|w| (w.position, w.session, w.acquire, w.owner, w.mode, w.timeout_ms, w.since_ms))
                .collect::<Vec<_>>(),
            waits
                .zip(1..)
                .map(|(c, at)| (at, c.session, c.number, c.owner, c.mode, c.timeout_ms, c.since_ms))
                .collect::<Vec<_>>(),
        );
        let history = lock.map_or(&[][..], |lock| lock.history());
        let past = model.history.iter().filter(|past| past.lock == name);
        assert_eq!(
            history.iter().map(|p| (p.session, p.fence, p.from_ms, p.to_ms, p.ended)).collect::<Vec<_>>(),
            past.map(|p| (p.session, p.fence, p.from_ms, p.to_ms, p.ended)).collect::<Vec<_>>(),
        );
        let delay = model.delays.iter().find(|delay| delay.0 == name);
        assert_eq!(lock.and_then(|lock| lock.delay()).map(|d| (d.generation, d.delay_ms)), delay.map(|d| (d.1, d.2)));
        if let Some(lock) = lock {
            let permits = model.permits.iter().find(|permits| permits.0 == name).map(|permits| permits.1);
            assert_eq!(Some(lock.permits()), permits);
        }
        // The promises themselves, without the model.
        let shared = holders.iter().all(|holder| holder.mode == Mode::Shared);
        let permits = lock.map_or(1, |lock| lock.permits());
        assert!(shared || holders.len() <= permits as usize, "{name} is held by too many");
        let alike = holders
            .windows(2)
            .all(|two| if shared { two[0].fence == two[1].fence } else { two[0].fence < two[1].fence });
        assert!(alike, "{name}: fences of holders");
    }
    let names = |holds: bool, session: SessionId| {
        let mut claims: Vec<_> =
            model.claims.iter().filter(|c| c.session == session && c.fence.is_some() == holds).collect();
        claims.sort_by_key(|claim| claim.number);
        claims.into_iter().map(|claim| claim.lock.as_str()).collect::<Vec<_>>()
    };
    for session in table.sessions() {
        let other = model.sessions.iter().find(|other| other.id == session.id).expect("a session of both");
        assert_eq!((session.ttl_ms, session.label), (other.ttl_ms, &*other.label));
        assert_eq!(session.holds().collect::<Vec<_>>(), names(true, session.id));
        assert_eq!(session.waits().collect::<Vec<_>>(), names(false, session.id));
    }
    compare_totals(table, model);
}

fn compare_totals(table: &Table, model: &Model) {
    let mut locks: Vec<&str> = model.claims.iter().map(|claim| claim.lock.as_str()).collect();
    locks.extend(model.history.iter().map(|past| past.lock.as_str()));
    locks.extend(model.delays.iter().map(|delay| delay.0.as_str()));
    locks.sort();
    locks.dedup();
    assert_eq!(table.locks().map(|lock| lock.name()).collect::<Vec<_>>(), locks);
    let holders = model.claims.iter().filter(|claim| claim.fence.is_some()).count();
    let waiters = model.claims.len() - holders;
    assert_eq!(table.counts(), Counts { locks: locks.len(), sessions: model.sessions.len(), holders, waiters });
    let mut pending = table.pending_timers();
    pending.waits.sort();
    pending.delays.sort();
    let waits = model.claims.iter().filter(|claim| claim.fence.is_none());
    let mut expected = PendingTimers {
        sessions: model.sessions.iter().map(|session| (session.id, session.ttl_ms)).collect(),
        waits: waits.filter_map(|claim| Some((claim.session, claim.number, claim.timeout_ms?))).collect(),
        delays: model.delays.clone(),
    };
    expected.sessions.sort();
    expected.waits.sort();
    expected.delays.sort();
    assert_eq!(pending, expected);
}

fn open(session: u64) -> Command {
    let (label, host) = (format!("session {}", SessionId(session)), String::new());
    Command::Open { session: SessionId(session), ttl_ms: 10_000, label, host, pid: 1, resume: false }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The same effects, the same answers to every question, the promises kept; a cycle that is shown is one.
    #[test]
    fn the_table_does_what_the_model_does(actions in prop::collection::vec(action(), 1..120)) {
        let (mut table, mut model, mut world) = (Table::default(), Model::default(), World::default());
        for session in 0..SESSIONS {
            apply(&mut table, 0, &open(session));
            model.apply(0, &open(session));
        }
        let mut highest = 0;
        for (now_ms, action) in (1..).zip(&actions) {
            let Some(command) = world.command(action, &model) else {
                let read = again(&table);
                prop_assert_eq!(&read, &table);
                table = read;
                continue;
            };
            let before = model.clone();
            let known = model.claims.len();
            let effects = apply(&mut table, now_ms, &command);
            check_cycles(&before, &command, &effects);
            prop_assert_eq!(without_words(effects), model.apply(now_ms, &command), "{:?}", command);
            prop_assert!(model.claims.len() <= known + 1);
            prop_assert!(table.last_fence() >= highest, "fences grow");
            highest = table.last_fence();
            compare(&table, &model);
            world.sent.push(command);
        }
    }

    /// Deadlocks with many owners and locks, where permits and closed locks make some cycles harmless: as the model finds by
    /// trying.
    #[test]
    fn deadlocks_are_what_trying_finds(
        closed in prop::collection::vec(prop::bool::weighted(0.2), 6),
        wishes in prop::collection::vec((0..6u64, 0..6usize, any::<bool>(), prop::option::weighted(0.2, any::<usize>())), 1..60),
    ) {
        let (mut table, mut model) = (Table::default(), Model::default());
        let mut play = |command: &Command| {
            let effects = apply(&mut table, 0, command);
            check_cycles(&model, command, &effects);
            assert_eq!(without_words(effects), model.apply(0, command), "{command:?}");
            model.claims.iter().filter(|claim| claim.fence.is_some()).map(|claim| claim.number).collect::<Vec<u64>>()
        };
        // Locks 0 to 2 are exclusive or shared, 3 and 4 have two permits, 5 has three.
        let acquire = |lock: usize, shared: bool, owner: u64| Operation::Acquire {
            lock: lock.to_string(),
            mode: match lock {
                0..=2 => if shared { Mode::Shared } else { Mode::Exclusive },
                _ => Mode::Permit { of: lock as u32 / 5 + 2 },
            },
            owner: OwnerId(owner),
            timeout_ms: None,
            lock_delay_ms: 1,
        };
        let request = |session: u64, number: u64, operation: Operation| {
            Command::Request { session: SessionId(session), number, seen: 0, missing: vec![], operation }
        };
        play(&open(0));
        play(&open(1));
        for (lock, _) in closed.iter().enumerate().filter(|(_, closed)| **closed) {
            play(&request(1, lock as u64 + 1, acquire(lock, false, 0)));
        }
        let mut held = play(&Command::Expire { session: SessionId(1), term: 0 });
        for (number, (owner, lock, shared, release)) in (1..).zip(wishes) {
            let operation = match release.and_then(|at| held.get(at.checked_rem(held.len())?)) {
                Some(&acquire) => Operation::Release { acquire },
                None => acquire(lock, shared, owner),
            };
            held = play(&request(0, number, operation));
        }
    }

    /// However often and late requests are repeated, the table becomes what it becomes without.
    #[test]
    fn a_repeated_request_is_applied_once(
        actions in prop::collection::vec((0..SESSIONS, pick(), prop::collection::vec(0..60usize, 0..3)), 1..60),
    ) {
        let (mut model, mut world) = (Model::default(), World::default());
        let (mut once, mut often) = (Table::default(), Table::default());
        for session in 0..SESSIONS {
            for table in [&mut once, &mut often] {
                apply(table, 0, &open(session));
            }
            model.apply(0, &open(session));
        }
        let mut repeats: BTreeMap<usize, Vec<(Command, Vec<Effect>)>> = BTreeMap::new();
        for (at, (session, operation, later)) in actions.into_iter().enumerate() {
            let action = Action::Next { session, unseen: u64::MAX - 1, missing: 0, lost: false, operation };
            let command = world.command(&action, &model).expect("a request");
            model.apply(0, &command);
            let said = apply(&mut once, 0, &command);
            prop_assert_eq!(&apply(&mut often, 0, &command), &said);
            for later in later {
                repeats.entry(at + later).or_default().push((command.clone(), said.clone()));
            }
            for (repeated, said) in repeats.remove(&at).unwrap_or_default() {
                let Command::Request { session, number, .. } = repeated else { unreachable!() };
                for effect in apply(&mut often, 0, &repeated) {
                    // Whatever is said is said of this request, and is what was said of it before if anything was.
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

    /// A table that was written down and read again goes on like the one that was not.
    #[test]
    fn a_table_that_was_written_down_behaves_the_same(
        before in prop::collection::vec(action(), 0..60),
        after in prop::collection::vec(action(), 0..60),
    ) {
        let (mut table, mut model, mut world) = (Table::default(), Model::default(), World::default());
        let mut play = |table: &mut Table, other: Option<&mut Table>, actions: &[Action]| {
            let mut other = other;
            for (now_ms, action) in (1..).zip(actions) {
                let Some(command) = world.command(action, &model) else { continue };
                let effects = apply(table, now_ms, &command);
                if let Some(other) = other.as_mut() {
                    assert_eq!(apply(other, now_ms, &command), effects);
                }
                model.apply(now_ms, &command);
                world.sent.push(command);
            }
        };
        for session in 0..SESSIONS {
            play(&mut table, None, &[Action::Any(open(session))]);
        }
        play(&mut table, None, &before);
        let mut read = again(&table);
        prop_assert_eq!(&read, &table);
        play(&mut table, Some(&mut read), &after);
        prop_assert_eq!(read, table);
    }
}
