//! The state remembers ended sessions for a while.

use baton_state::state::sessions::limits::ENDED_MAX;
use baton_state::state::sessions::{self, Open};
use baton_state::state::{Caller, Command, Operation, Outcome, Request, SessionId, State};
use expect_test::expect;

use crate::records::again;
use crate::script::check;

#[test]
fn a_session_that_was_closed_or_expired_has_ended() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        close a 1
            a 1: Closed
            a ended, Closed
        expire b
            b ended, Expired
        expire c term 9
        ended a
            true
        ended b
            true
        ended c
            false
        ended d
            false
        resume a
            a ended, Unknown
        ended a
            true
    "#]]);
}

/// A late Open does what it always did.
#[test]
fn a_session_that_begins_anew_has_not_ended() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        close a 1
            a 1: Closed
            a ended, Closed
        open a ttl 1
            a ended, Unknown
        ended a
            true
        open a
            a open, ttl 10000 ms
        ended a
            false
        close a 1
            a 1: Closed
            a ended, Closed
        ended a
            true
    "#]]);
}

fn apply(state: &mut State, command: impl Into<Command>) {
    state.apply(1, 1, &command.into(), &mut Outcome::default());
}

fn open(state: &mut State, id: u64) {
    let (session, ttl_ms, pid, resume, secret_hash) = (SessionId(id), 10_000, 1, false, None);
    let (label, host, caller) = (String::new(), String::new(), Caller::default());
    apply(state, sessions::Command::Open(Open { session, ttl_ms, label, host, pid, resume, secret_hash, caller }));
}

fn close(state: &mut State, id: u64) {
    let (session, missing, caller, operation) = (SessionId(id), vec![], Caller::default(), Operation::Close);
    apply(state, Command::Request(Request { session, number: 1, seen: 0, missing, caller, operation }));
}

/// Also after the state was restored from its records.
#[test]
fn the_one_that_ended_first_is_forgotten_first() {
    let most = ENDED_MAX as u64;
    let mut state = State::default();
    for id in 1..=most {
        open(&mut state, id);
    }
    // Ended in descending order: the order of the ids does not matter.
    for id in (1..=most).rev() {
        close(&mut state, id);
    }
    assert!((1..=most).all(|id| state.has_ended(SessionId(id))));
    // The session begins again, and is now the last to end.
    open(&mut state, most);
    close(&mut state, most);
    state = again(&state);
    for id in most + 1..=most + 2 {
        open(&mut state, id);
        close(&mut state, id);
        assert_eq!(state.check(), Ok(()));
    }
    let forgotten: Vec<u64> = (1..=most + 2).filter(|id| !state.has_ended(SessionId(*id))).collect();
    assert_eq!(forgotten, [most - 2, most - 1]);
    let ended = state.records().filter(|record| format!("{record:?}").contains("Ended")).count();
    assert_eq!(ended, ENDED_MAX);
}
