//! The records of the state, for snapshots: written records can be read, and impossible records are refused.

use std::num::NonZeroU64;

use baton_state::state::locks::{Claim, Delay, LockName, Mode, Past, Want};
use baton_state::state::sessions::limits::ENDED_MAX;
use baton_state::state::sessions::{Kept, SessionRecord};
use baton_state::state::{Answer, Outcome, Record, SessionId, State, locks, sessions};
use expect_test::expect;
use proptest::prelude::*;

use crate::actions::{SESSIONS, World, action, open};
use crate::model::Model;
use crate::script::{Script, session};

/// The state, written to records and restored.
pub fn again(state: &State) -> State {
    let bytes = state.records().map(|record| postcard::to_stdvec(&record).expect("written"));
    let records = bytes.map(|bytes| postcard::from_bytes::<Record>(&bytes).map_err(|error| error.to_string()));
    State::restore(records).expect("what was written can be read")
}

fn restore(records: Vec<Record>) -> Result<State, String> {
    State::restore(records.into_iter().map(Ok))
}

/// A state that contains everything at least once.
fn full() -> State {
    let mut script = Script::default();
    let lines = "lead 3
        open a ttl 5000
        open b from eve
        open c
        open z
        acquire a 1 one x
        acquire b 1 one,two x timeout 500
        acquire c 1 two s
        acquire a 2 shared s
        acquire b 2 shared,other s
        release b 3 2
        acquire c 2 shared s seen 1 missing 1
        acquire c 3 pool p3
        acquire z 1 gate x delay 300
        expire z term 3
        acquire c 4 gate x
        force one
        acquire a 3 three x
        force three now
        cancel a 5 4
        acquire a 6 three x timeout 0
        release a 7 6";
    lines.lines().for_each(|line| drop(script.line(line)));
    script.state
}

#[test]
fn the_pieces_of_a_state_are_the_state() {
    assert_eq!((full().term(), full().last_fence()), (3, 7));
    for state in [State::default(), full()] {
        assert_eq!(restore(state.records().collect()), Ok(state.clone()));
        assert_eq!(again(&state), state);
        assert_eq!(again(&state).records().collect::<Vec<_>>(), state.records().collect::<Vec<_>>());
    }
}

/// As the first builds of data format 2 wrote it.
#[test]
fn without_pieces_about_ended_sessions_none_is_remembered() {
    let state = restore(full().records().filter(|record| !is_ended(record)).collect()).unwrap();
    assert!(full().has_ended(session("z")) && !state.has_ended(session("z")));
    assert_eq!(state.records().filter(is_ended).count(), 0);
}

/// The lines are derived from the claims, and sorted when all claims are read.
#[test]
fn claims_may_come_in_any_order() {
    let mut records: Vec<Record> = full().records().collect();
    let claims = records.iter().position(is_claim).expect("claims");
    records[claims..].reverse();
    assert_eq!(restore(records), Ok(full()));
}

#[test]
fn a_piece_that_cannot_be_read_is_told() {
    let records = [Err("the disk is broken".to_owned())];
    assert_eq!(State::restore(records), Err("the disk is broken".to_owned()));
}

fn is_claim(record: &Record) -> bool {
    matches!(record, Record::Locks(locks::Record::Claim(_)))
}

fn is_ended(record: &Record) -> bool {
    matches!(record, Record::Sessions(sessions::Record::Ended(_)))
}

/// Edits a claim of a session, by its letter and its number.
fn claim<'a>(records: &'a mut [Record], of: &str, number: u64) -> &'a mut Claim {
    let mut claims = records.iter_mut().filter_map(|record| match record {
        Record::Locks(locks::Record::Claim(claim)) => Some(claim),
        _ => None,
    });
    claims.find(|claim| (claim.session, claim.number) == (session(of), number)).expect("a claim")
}

/// Edits a session, by its letter.
fn session_record<'a>(records: &'a mut [Record], of: &str) -> &'a mut SessionRecord {
    let mut sessions = records.iter_mut().filter_map(|record| match record {
        Record::Sessions(sessions::Record::Session(session)) => Some(session),
        _ => None,
    });
    sessions.find(|record| record.id == session(of)).expect("a session")
}

/// The index of the record of a lock.
fn lock_at(records: &[Record], of: &str) -> usize {
    let is_lock = |record: &Record| match record {
        Record::Locks(locks::Record::Lock { name, .. }) => name.as_bytes() == of.as_bytes(),
        _ => false,
    };
    records.iter().position(is_lock).expect("a lock")
}

/// The fields of a lock that tests edit.
struct Lock<'a> {
    name: &'a mut LockName,
    permits: &'a mut u32,
    delay: &'a mut Option<Delay>,
    history: &'a mut Vec<Past>,
    left_fence: &'a mut Option<NonZeroU64>,
}

fn lock<'a>(records: &'a mut [Record], of: &str) -> Lock<'a> {
    let at = lock_at(records, of);
    match &mut records[at] {
        Record::Locks(locks::Record::Lock { name, permits, delay, history, left_fence }) => {
            Lock { name, permits, delay, history, left_fence }
        }
        _ => unreachable!("a lock is there"),
    }
}

/// The last fence, and the number of the last ended hold.
fn counters(records: &mut [Record]) -> (&mut u64, &mut u64) {
    let mut counters = records.iter_mut().filter_map(|record| match record {
        Record::Locks(locks::Record::Counters { last_fence, last_past, .. }) => Some((last_fence, last_past)),
        _ => None,
    });
    counters.next().expect("counters")
}

/// The acquires with a forced release.
fn forced(records: &mut [Record]) -> &mut Vec<u64> {
    let mut forced = records.iter_mut().filter_map(|record| match record {
        Record::Locks(locks::Record::Forced { acquires, .. }) => Some(acquires),
        _ => None,
    });
    forced.next().expect("something that was forced")
}

fn repeat(records: &mut Vec<Record>, is_it: impl Fn(&Record) -> bool) {
    let record = records.iter().find(|record| is_it(record)).expect("such a record").clone();
    records.push(record);
}

/// The name of an edit, and the edit.
type Edit = (&'static str, fn(&mut Vec<Record>));

/// The errors of these edits of a full state, one per line.
fn sentences(edits: &[Edit]) -> String {
    let sentence = |(what, edit): &Edit| {
        let mut records = full().records().collect();
        edit(&mut records);
        let sentence = restore(records).err().unwrap_or_else(|| panic!("{what}: it is believed"));
        format!("{what}: {sentence}\n")
    };
    edits.iter().map(sentence).collect()
}

#[test]
fn pieces_that_are_missing_or_there_twice_are_refused() {
    let edits: [Edit; 15] = [
        ("nothing", |records| records.clear()),
        ("no time", |records| records.retain(|record| !matches!(record, Record::State { .. }))),
        ("two times", |records| repeat(records, |record| matches!(record, Record::State { .. }))),
        ("no term", |records| {
            records.retain(|record| !matches!(record, Record::Sessions(sessions::Record::Term(_))));
        }),
        ("no counters", |records| {
            records.retain(|record| !matches!(record, Record::Locks(locks::Record::Counters { .. })));
        }),
        ("no lock", |records| drop(records.remove(lock_at(records, "two")))),
        ("a lock twice", |records| {
            repeat(records, |record| matches!(record, Record::Locks(locks::Record::Lock { .. })))
        }),
        ("a claim twice", |records| repeat(records, is_claim)),
        ("a session twice", |records| {
            repeat(records, |record| matches!(record, Record::Sessions(sessions::Record::Session(_))));
        }),
        ("an ended session twice", |records| repeat(records, is_ended)),
        ("too many ended sessions", |records| {
            let ended = |id| Record::Sessions(sessions::Record::Ended(SessionId(id)));
            records.extend((1_000..1_000 + ENDED_MAX as u64).map(ended));
        }),
        ("an ended session that is there", |records| {
            records.push(Record::Sessions(sessions::Record::Ended(session("a"))));
        }),
        ("forced twice", |records| {
            repeat(records, |record| matches!(record, Record::Locks(locks::Record::Forced { .. })));
        }),
        ("no session", |records| {
            let is_b = |record: &Record| matches!(record, Record::Sessions(sessions::Record::Session(record)) if record.id == session("b"));
            records.retain(|record| !is_b(record));
        }),
        ("no claims", |records| records.retain(|record| !is_claim(record))),
    ];
    expect![[r#"
        nothing: a snapshot must have time and revision once; this one has it 0 times
        no time: a snapshot must have time and revision once; this one has it 0 times
        two times: a snapshot must have time and revision once; this one has it 2 times
        no term: a snapshot must have the term once; this one has it 0 times
        no counters: a snapshot must have the counters of the locks once; this one has it 0 times
        no lock: a claim of session 0000000000000062 wants the lock "two", which does not exist
        a lock twice: the lock "gate" appears twice
        a claim twice: request 1 of session 0000000000000061 appears as two claims
        a session twice: session 0000000000000061 appears twice
        an ended session twice: session 000000000000007a appears twice among the ended sessions
        too many ended sessions: 4097 ended sessions are remembered; the limit is 4096
        an ended session that is there: session 0000000000000061 exists, but is also listed as ended
        forced twice: the forced releases of session 0000000000000061 appear twice
        no session: session 0000000000000062 has claims, but does not exist
        no claims: the lock "one" is neither used nor remembered
    "#]]
    .assert_eq(&sentences(&edits));
}

#[test]
fn claims_that_nobody_can_have_made_are_refused() {
    let edits: [Edit; 19] = [
        ("no lock", |records| claim(records, "b", 1).wants.clear()),
        ("a lock twice", |records| {
            let claim = claim(records, "b", 1);
            claim.wants[1] = claim.wants[0].clone();
        }),
        ("no such mode", |records| claim(records, "c", 3).wants[0].mode = Mode::Permit { of: 0 }),
        ("other permits", |records| claim(records, "c", 3).wants[0].mode = Mode::Permit { of: 2 }),
        ("one more lock", |records| {
            let want = Want { lock: "pool".into(), mode: Mode::Exclusive };
            claim(records, "b", 1).wants.push(want);
        }),
        ("a ticket twice in a line", |records| claim(records, "b", 1).ticket = claim(records, "a", 1).ticket),
        ("a ticket twice", |records| claim(records, "c", 3).ticket = claim(records, "a", 1).ticket),
        ("ticket 0", |records| claim(records, "c", 3).ticket = 0),
        ("a ticket that was not given", |records| claim(records, "c", 4).ticket = 100),
        ("a holder behind a waiter", |records| claim(records, "a", 1).ticket = 12),
        ("a fence that was not given", |records| claim(records, "a", 1).fence = NonZeroU64::new(100)),
        ("a fence that falls", |records| claim(records, "a", 2).fence = NonZeroU64::new(4)),
        ("a waiter that holds", |records| claim(records, "b", 1).fence = NonZeroU64::new(1)),
        ("a holder that waits", |records| claim(records, "c", 3).fence = None),
        ("a revision that is not there", |records| claim(records, "c", 3).revision = 100),
        ("a waiter that was revoked", |records| claim(records, "b", 1).revoked = true),
        ("a holder with a time-out", |records| claim(records, "c", 3).timeout_ms = NonZeroU64::new(1)),
        ("a long lock-delay", |records| claim(records, "c", 3).lock_delay_ms = u32::MAX),
        ("a waiter that could hold", |records| {
            let is_a = |record: &Record| matches!(record, Record::Locks(locks::Record::Claim(claim)) if claim.session == session("a"));
            records.retain(|record| !is_a(record));
        }),
    ];
    expect![[r#"
        no lock: request 1 of session 0000000000000062 is not a valid claim: an acquire names 0 locks; it must name from 1 to 64
        a lock twice: request 1 of session 0000000000000062 is not a valid claim: an acquire names the lock "one" twice; it must name each lock once
        no such mode: request 3 of session 0000000000000063 is not a valid claim: a lock with 0 permits; it must have from 1 to 1000000
        other permits: the lock "pool" has another number of permits than a claim names
        one more lock: the lock "pool" has another number of permits than a claim names
        a ticket twice in a line: request 1 of session 0000000000000062 has the ticket 1 of another claim
        a ticket twice: request 3 of session 0000000000000063 has the ticket 1 of another claim
        ticket 0: request 3 of session 0000000000000063 has a ticket that was never given
        a ticket that was not given: request 4 of session 0000000000000063 has a ticket that was never given
        a holder behind a waiter: request 1 of session 0000000000000061 has a ticket that was never given
        a fence that was not given: request 1 of session 0000000000000061 has a fence that was never given
        a fence that falls: the lock "shared" has a fence that is lower than an earlier one
        a waiter that holds: request 1 of session 0000000000000062 holds, but has a time-out
        a holder that waits: the lock "pool" is free for its first waiter
        a revision that is not there: request 3 of session 0000000000000063 entered at a revision in the future
        a waiter that was revoked: request 1 of session 0000000000000062 was revoked while it waits
        a holder with a time-out: request 3 of session 0000000000000063 holds, but has a time-out
        a long lock-delay: request 3 of session 0000000000000063 has a lock-delay that is too long
        a waiter that could hold: the lock "one" is free for its first waiter
    "#]]
    .assert_eq(&sentences(&edits));
}

#[test]
fn locks_that_nobody_can_have_used_are_refused() {
    let edits: [Edit; 14] = [
        ("no name", |records| *lock(records, "three").name = "".into()),
        ("no permits", |records| *lock(records, "three").permits = 0),
        ("other permits", |records| *lock(records, "one").permits = 2),
        ("nothing", |records| lock(records, "three").history.clear()),
        ("a delay that was not begun", |records| {
            *lock(records, "gate").delay = Some(Delay { generation: 9, delay_ms: 1, since_ms: 1 });
        }),
        ("a fence that has not left", |records| *lock(records, "gate").left_fence = NonZeroU64::new(1)),
        ("a fence that was not given", |records| *lock(records, "shared").left_fence = NonZeroU64::new(100)),
        ("history in another order", |records| {
            let past = lock(records, "other").history[0].clone();
            lock(records, "other").history.push(past);
        }),
        ("history twice", |records| {
            lock(records, "other").history[0].order = lock(records, "three").history[0].order;
        }),
        ("history to come", |records| lock(records, "other").history[0].order = 100),
        ("much history", |records| {
            *counters(records).1 = 200;
            let past = lock(records, "three").history[0].clone();
            lock(records, "three").history.extend((100..116).map(|order| Past { order, ..past.clone() }));
        }),
        ("a counter that cannot count on", |records| *counters(records).0 = u64::MAX),
        ("nothing by force", |records| forced(records).clear()),
        ("much by force", |records| forced(records).extend(1..=1_025)),
    ];
    expect![[r#"
        no name: the lock "" has an invalid name: the name of a lock is empty; it has 1 to 512 bytes
        no permits: the lock "three" is not a valid lock: a lock with 0 permits; it must have from 1 to 1000000
        other permits: the lock "one" has another number of permits than a claim names
        nothing: the lock "three" is neither used nor remembered
        a delay that was not begun: the lock "gate" has a lock-delay that was never begun
        a fence that has not left: the lock "gate" has the fence of an earlier holder, but no holder
        a fence that was not given: the lock "shared" had a fence that was never given
        history in another order: the lock "other" does not remember its holds in order
        history twice: the lock "other" remembers a hold with the number of another one
        history to come: the lock "other" remembers a hold with a number that was never given
        much history: the lock "three" remembers too many holds
        a counter that cannot count on: a counter of the locks is at 18446744073709551615; it must be at most 9223372036854775807
        nothing by force: session 0000000000000061 has 0 forced releases on record; it must have 1 to 1024
        much by force: session 0000000000000061 has 1025 forced releases on record; it must have 1 to 1024
    "#]].assert_eq(&sentences(&edits));
}

#[test]
fn sessions_that_nobody_can_have_had_are_refused() {
    fn kept(answer: Option<Answer>) -> Kept {
        Kept { fingerprint: None, answer }
    }
    let edits: [Edit; 9] = [
        ("a wait without a request", |records| drop(session_record(records, "b").requests.remove(&1))),
        ("a request without a wait", |records| drop(session_record(records, "b").requests.insert(9, kept(None)))),
        ("an answer to what waits", |records| {
            session_record(records, "b").requests.insert(1, kept(Some(locks::Answer::Released.into())));
        }),
        ("a hold without an answer", |records| drop(session_record(records, "a").requests.remove(&1))),
        ("request 0", |records| drop(session_record(records, "a").requests.insert(0, kept(Some(Answer::Closed))))),
        ("an answer that was seen", |records| session_record(records, "a").seen = 1),
        ("an answer missing that was not seen", |records| session_record(records, "c").missing.extend([7])),
        ("answer 0 missing", |records| session_record(records, "c").missing.extend([0])),
        ("revision 0", |records| {
            for record in records {
                if let Record::State { revision, .. } = record {
                    *revision = 0;
                }
            }
        }),
    ];
    expect![[r#"
        a wait without a request: the waiting requests of session 0000000000000062 differ from its waiting claims
        a request without a wait: the waiting requests of session 0000000000000062 differ from its waiting claims
        an answer to what waits: the waiting requests of session 0000000000000062 differ from its waiting claims
        a hold without an answer: request 1 of session 0000000000000061 holds, but was never answered
        request 0: session 0000000000000061 has a request with the number 0
        an answer that was seen: session 0000000000000061 keeps the answer 1, which its client has seen
        an answer missing that was not seen: session 0000000000000063 lists the answer 7 as missing, but has seen only 1 to 1
        answer 0 missing: session 0000000000000063 lists the answer 0 as missing, but has seen only 1 to 1
        revision 0: the revision is 0; it must be at least 1
    "#]].assert_eq(&sentences(&edits));
}

/// Two claims hold one lock, and one of them is exclusive.
#[test]
fn a_lock_with_too_many_holders_is_refused() {
    let mut script = Script::default();
    ["open a", "acquire a 1 one s", "acquire a 2 one s"].into_iter().for_each(|line| drop(script.line(line)));
    let mut records: Vec<Record> = script.state.records().collect();
    assert!(restore(records.clone()).is_ok());
    claim(&mut records, "a", 1).wants[0].mode = Mode::Exclusive;
    assert_eq!(restore(records), Err("the lock \"one\" has too many holders".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens to the bytes of a snapshot, reading it gives a state or an error. The state goes on without a
    /// panic, and stays consistent.
    #[test]
    fn broken_bytes_give_a_state_that_goes_on_or_a_sentence(
        before in prop::collection::vec(action(), 0..40),
        edits in prop::collection::vec((any::<usize>(), any::<usize>(), 0..9u8), 1..3),
        after in prop::collection::vec(action(), 0..40),
    ) {
        let (mut state, mut model, mut world) = (State::default(), Model::default(), World::default());
        for session in 0..SESSIONS {
            state.apply(0, 0, &open(session), &mut Outcome::default());
            model.apply(0, 0, &open(session));
        }
        for action in &before {
            if let Some(command) = world.command(action, &model) {
                state.apply(0, 0, &command, &mut Outcome::default());
                model.apply(0, 0, &command);
                world.sent.push(command);
            }
        }
        let mut pieces: Vec<Vec<u8>> = state.records().map(|record| postcard::to_stdvec(&record).unwrap()).collect();
        for (piece, at, add) in edits {
            let piece = piece % pieces.len();
            let at = at % pieces[piece].len();
            match add {
                0 => drop(pieces.remove(piece)),
                1 => pieces.push(pieces[piece].clone()),
                add => pieces[piece][at] = pieces[piece][at].wrapping_add(add).wrapping_sub(5),
            }
        }
        let records = pieces.iter().map(|bytes| postcard::from_bytes(bytes).map_err(|error| error.to_string()));
        if let Ok(mut state) = State::restore(records) {
            for action in &after {
                if let Some(command) = world.command(action, &model) {
                    state.apply(0, 0, &command, &mut Outcome::default());
                    prop_assert_eq!(state.check(), Ok(()), "after {:?}", command);
                    state.pending_timers();
                    model.apply(0, 0, &command);
                    world.sent.push(command);
                }
            }
        }
    }
}
