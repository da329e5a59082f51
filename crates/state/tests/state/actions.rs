//! Random actions of clients and leaders, and the commands that follow from them.

use std::collections::BTreeMap;

use baton_state::state::locks::{self, Acquire, LockName, Mode, Want};
use baton_state::state::sessions::{self, Open};
use baton_state::state::{Caller, Command, Operation, OwnerId, Principal, Request, SessionId};
use proptest::prelude::*;

use crate::model::Model;

pub const SESSIONS: u64 = 4;
/// One of them is not UTF-8.
pub const LOCKS: [&[u8]; 3] = [b"one", b"two", b"thre\xe9"];

/// Indices are taken modulo the number of candidates.
#[derive(Clone, Debug)]
pub enum Action {
    /// The next request of a session. Its `seen` is `unseen` below its own number; set bits of `missing` mark missing
    /// answers. If `lost` is true, it arrives only when it is sent again.
    Next { session: u64, unseen: u64, missing: u64, lost: bool, operation: Pick },
    /// A request with a number that the session has used before.
    Reuse { session: u64, number: u64, operation: Pick },
    /// Repeats an earlier command. It may come from another address, and say that fewer answers were seen.
    Again { at: usize, elsewhere: bool },
    /// A command that need not fit what happened before.
    Any(Command),
    /// A command from a timer of the leader, except for leases.
    Timer(usize),
    /// A lease expires.
    Expire(u64),
    /// The state is written to records and restored.
    Restart,
}

#[derive(Clone, Debug)]
pub enum Pick {
    Acquire(Acquire),
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

/// Some of these, each once, in any order; usually few.
pub fn few<T: Clone + std::fmt::Debug + 'static>(all: &[T]) -> impl Strategy<Value = Vec<T>> + use<T> {
    let mut ordered: Vec<Vec<usize>> = vec![vec![]];
    let mut of_length = || {
        let longer = |few: &Vec<usize>| {
            let others = (0..all.len()).filter(|at| !few.contains(at));
            others.map(|at| [&few[..], &[at]].concat()).collect::<Vec<_>>()
        };
        ordered = ordered.iter().flat_map(longer).collect();
        let values = |few: &Vec<usize>| few.iter().map(|&at| all[at].clone()).collect();
        prop::sample::select(ordered.iter().map(values).collect::<Vec<Vec<T>>>())
    };
    prop_oneof![3 => of_length(), 2 => of_length(), 1 => of_length()]
}

fn wants() -> impl Strategy<Value = Vec<Want>> {
    // Most acquires want all their locks in one mode, so that the permits match.
    (few(&LOCKS), mode(), prop::option::weighted(0.2, mode())).prop_map(|(names, mode, other)| {
        let modes = [Some(mode), other].into_iter().flatten().cycle();
        names.into_iter().zip(modes).map(|(lock, mode)| Want { lock: lock.into(), mode }).collect()
    })
}

/// An operation for one of a few owners, usually a valid one.
pub fn pick() -> impl Strategy<Value = Pick> {
    let parent = prop::option::weighted(0.2, 0..SESSIONS + 2);
    let acquire = (wants(), 0..SESSIONS + 2, parent, prop::option::of(0..3u64), 0..3u64);
    let acquire = acquire.prop_map(|(wants, owner, parent, timeout_ms, lock_delay_ms)| {
        let (wants, owner, parent) = (wants.into_iter().collect(), OwnerId(owner), parent.map(OwnerId));
        Pick::Acquire(Acquire { wants, owner, parent, timeout_ms, lock_delay_ms })
    });
    prop_oneof![
        8 => acquire.boxed(),
        4 => any::<usize>().prop_map(Pick::Release),
        2 => any::<usize>().prop_map(Pick::Cancel),
        1 => Just(Pick::Close),
    ]
}

/// Usually small, sometimes the maximum.
fn number(below: u64) -> impl Strategy<Value = u64> {
    prop_oneof![30 => 0..below, 1 => Just(u64::MAX)]
}

/// Usually valid.
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
        let senseless = prop::sample::select(vec![LockName::from(""), LockName::from(&[b'x'; 513])]);
        prop_oneof![9 => prop::sample::select(&LOCKS[..]).prop_map(LockName::from), 1 => senseless]
    };
    let wants = prop_oneof![
        // May be empty, or contain a lock twice.
        3 => prop::collection::vec((lock(), mode()), 0..4),
        1 => (64..66u32).prop_map(|many| (0..many).map(|at| (at.to_string().as_str().into(), Mode::Shared)).collect()),
    ];
    let wants = wants.prop_map(|wants| wants.into_iter().map(|(lock, mode)| Want { lock, mode }).collect());
    let operation = prop_oneof![
        (wants, number(SESSIONS), prop::option::of(number(3)), prop::option::of(number(3)), number(3)).prop_map(
            |(wants, owner, parent, timeout_ms, lock_delay_ms)| {
                let (owner, parent) = (OwnerId(owner), parent.map(OwnerId));
                locks::Operation::Acquire(Acquire { wants, owner, parent, timeout_ms, lock_delay_ms })
            }
        ),
        number(9).prop_map(|acquire| locks::Operation::Release { acquire }),
        number(9).prop_map(|acquire| locks::Operation::Cancel { acquire }),
    ];
    let operation = operation.prop_map(Operation::Locks);
    let lead = (0..3u64).prop_map(|term| sessions::Command::Lead { term }.into());
    let open = (session(), number(30_000), any::<bool>())
        .prop_map(|(session, ttl_ms, resume)| opening(session, ttl_ms, resume));
    let request = (session(), number(12), number(3), missing(), operation).prop_map(
        |(session, number, seen, missing, operation)| {
            let caller = Caller::default();
            Command::Request(Request { session, number, seen, missing, caller, operation })
        },
    );
    let expire = (session(), number(3)).prop_map(|(session, term)| sessions::Command::Expire { session, term }.into());
    let end_delay =
        (lock(), number(9)).prop_map(|(lock, generation)| locks::Command::EndLockDelay { lock, generation }.into());
    let cancel_wait =
        (session(), number(12)).prop_map(|(session, number)| locks::Command::CancelWait { session, number }.into());
    let force = (lock(), any::<bool>())
        .prop_map(|(lock, now)| locks::Command::Force { lock, now, caller: Caller::default() }.into());
    // Boxed, like all large strategies, because a strategy is moved often.
    prop_oneof![1 => lead, 6 => open, 3 => request.boxed(), 2 => expire, 1 => end_delay, 1 => cancel_wait, 3 => force]
}

pub fn action() -> impl Strategy<Value = Action> {
    // Missing answers usually stay missing for a while.
    let bits = prop_oneof![1 => Just(0), 6 => Just(0x1111_1111_1111_1111), 2 => any::<u64>()];
    let next = (0..SESSIONS, 0..6u64, bits, prop::bool::weighted(0.1), pick()).prop_map(
        |(session, unseen, missing, lost, operation)| Action::Next { session, unseen, missing, lost, operation },
    );
    let reuse = (0..SESSIONS, any::<u64>(), pick()).prop_map(|(session, number, operation)| Action::Reuse {
        session,
        number,
        operation,
    });
    let again = (any::<usize>(), any::<bool>()).prop_map(|(at, elsewhere)| Action::Again { at, elsewhere });
    prop_oneof![
        20 => next.boxed(),
        1 => reuse.boxed(),
        3 => again,
        3 => command().prop_map(Action::Any).boxed(),
        3 => any::<usize>().prop_map(Action::Timer),
        1 => (0..SESSIONS).prop_map(Action::Expire),
        1 => (0..SESSIONS).prop_map(|session| Action::Any(open(session))),
        1 => Just(Action::Restart),
    ]
}

pub fn open(session: u64) -> Command {
    opening(SessionId(session), 10_000, false)
}

fn opening(session: SessionId, ttl_ms: u64, resume: bool) -> Command {
    let (label, host, pid, secret_hash) =
        (format!("session {session}"), format!("host {session}"), session.0 as u32, None);
    let caller = Caller::default();
    sessions::Command::Open(Open { session, ttl_ms, label, host, pid, resume, secret_hash, caller }).into()
}

/// Makes commands from actions.
#[derive(Default)]
pub struct World {
    numbers: BTreeMap<u64, u64>,
    pub sent: Vec<Command>,
}

impl World {
    pub fn command(&mut self, action: &Action, model: &Model) -> Option<Command> {
        match *action {
            Action::Next { session, unseen, missing, lost, ref operation } => {
                let number = self.numbers.entry(session).or_insert(0);
                *number += 1;
                let seen = number.saturating_sub(1 + unseen);
                let missing = (1..=seen).filter(|number| missing >> (number % 64) & 1 == 1).collect();
                let command = request(model, (session, *number), (seen, missing), operation);
                if lost {
                    self.sent.push(command);
                    return None;
                }
                Some(command)
            }
            Action::Reuse { session, number, ref operation } => {
                let last = self.numbers.get(&session)?;
                Some(request(model, (session, 1 + number % last), (0, vec![]), operation))
            }
            Action::Again { at, elsewhere } => {
                let mut again = self.sent.get(at.checked_rem(self.sent.len())?).cloned()?;
                if let Command::Request(request) = &mut again
                    && elsewhere
                {
                    request.caller.principal = Principal::Named("eve".into());
                    (request.seen, request.missing) = (request.seen / 2, vec![]);
                }
                Some(again)
            }
            Action::Any(ref command) => Some(command.clone()),
            Action::Timer(at) => {
                let end = |(lock, delay): &(LockName, locks::Delay)| {
                    locks::Command::EndLockDelay { lock: lock.clone(), generation: delay.generation }.into()
                };
                let mut due: Vec<Command> = model.delays.iter().map(end).collect();
                let waits = model.claims.iter().filter(|claim| claim.fence.is_none());
                let times = waits
                    .map(|claim| locks::Command::CancelWait { session: claim.session, number: claim.number }.into());
                due.extend(times);
                due.get(at.checked_rem(due.len())?).cloned()
            }
            Action::Expire(session) => {
                Some(sessions::Command::Expire { session: SessionId(session), term: model.term }.into())
            }
            Action::Restart => None,
        }
    }
}

/// The request of a session for a picked operation.
fn request(
    model: &Model,
    (session, number): (u64, u64),
    (seen, missing): (u64, Vec<u64>),
    operation: &Pick,
) -> Command {
    let own = model.claims.iter().filter(|claim| claim.session == SessionId(session));
    let acquires: Vec<u64> = own.map(|claim| claim.number).collect();
    // Usually an acquire that holds or waits, sometimes any earlier number.
    let earlier = |at: usize| match acquires.len() {
        0 => at as u64 % number,
        many => acquires.get(at % (many + 1)).copied().unwrap_or(at as u64 % number),
    };
    let operation = match *operation {
        Pick::Acquire(ref acquire) => Operation::Locks(locks::Operation::Acquire(acquire.clone())),
        Pick::Release(at) => Operation::Locks(locks::Operation::Release { acquire: earlier(at) }),
        Pick::Cancel(at) => Operation::Locks(locks::Operation::Cancel { acquire: earlier(at) }),
        Pick::Close => Operation::Close,
    };
    Command::Request(Request {
        session: SessionId(session),
        number,
        seen,
        missing,
        caller: Caller::default(),
        operation,
    })
}
