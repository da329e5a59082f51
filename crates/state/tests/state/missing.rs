//! Answers that the client has not seen although it has seen later ones.

use baton_state::state::locks::{self, Answer::Granted, Answer::Released};
use baton_state::state::sessions::{Refusal, limits::MISSING_MAX};
use baton_state::state::{Answer, Command, Effect, Request};
use expect_test::expect;

use crate::script::{Script, acquire, check, request, session};

/// Later answers are forgotten. The answer to the waiting request is kept when it comes, until it is no longer missing.
#[test]
fn the_answer_to_what_waits_for_long_is_kept_whatever_was_seen_meanwhile() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire b 1 slow x
            b 1: granted, fence 1
        acquire a 1 slow x
        acquire a 2 fast x
            a 2: granted, fence 2
        release a 3 2 seen 2 missing 1
            a 3: Released
        acquire a 2 fast x
        acquire a 1 slow x
        release b 2 1
            b 2: Released
            a 1: granted, fence 3
        acquire a 4 fast x seen 3 missing 1
            a 4: granted, fence 4
        acquire a 1 slow x
            a 1: granted, fence 3
        release a 5 4 seen 4
            a 5: Released
        acquire a 1 slow x
        session a
            A, ttl 10000 ms, holds [slow], waits []
    "#]]);
}

/// The request was sent on a connection that broke. Later requests arrived.
#[test]
fn what_is_missing_and_never_arrived_is_applied_when_it_comes() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 4 four x seen 1
            a 4: granted, fence 2
        acquire a 5 five x seen 4 missing 2,3
            a 5: granted, fence 3
        acquire a 2 two x seen 1
            a 2: granted, fence 4
        acquire a 2 two x seen 1
            a 2: granted, fence 4
        cancel a 6 3 seen 5 missing 3
            a 6: Cancelled(Nothing)
        acquire a 2 two x seen 1
        acquire a 3 three x seen 2
            a 3: the request was cancelled
        session a
            A, ttl 10000 ms, holds [one two four five], waits []
    "#]]);
}

/// A retry, or a request that was overtaken, carries an older `seen`.
#[test]
fn older_words_take_nothing_back() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 2 two x
            a 2: granted, fence 2
        acquire a 3 three x
            a 3: granted, fence 3
        acquire a 5 five x seen 3 missing 2
            a 5: granted, fence 4
        acquire a 4 four x seen 3 missing 1,2,3
            a 4: granted, fence 5
        acquire a 1 one x
        acquire a 2 two x
            a 2: granted, fence 2
        acquire a 3 three x
        acquire a 6 six x seen 2
            a 6: granted, fence 6
        acquire a 2 two x
        acquire a 4 four x seen 3 missing 1,2,3
            a 4: granted, fence 5
        acquire a 2 two x
        acquire a 7 seven x seen 6 missing 5
            a 7: granted, fence 7
        acquire a 8 eight x seen 4
            a 8: granted, fence 8
        acquire a 5 five x
            a 5: granted, fence 4
        acquire a 6 six x
        release a 9 3 seen 4
            a 9: Released
        acquire a 11 eleven x seen 8 missing 1,3,5,7
            a 11: granted, fence 9
        acquire a 3 three x
        acquire a 7 seven x
            a 7: granted, fence 7
    "#]]);
}

/// The request is refused with a sentence, and no answer counts as seen because of it. A request that was answered
/// before keeps its answer.
#[test]
fn missing_answers_that_make_no_sense_are_refused() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 2 two x seen 1 missing 0
            a 2: the missing answers of request 2 are not in order, from 1 on, before it and up to 1, which was seen
        acquire a 3 two x seen 1 missing 2
            a 3: the missing answers of request 3 are not in order, from 1 on, before it and up to 1, which was seen
        acquire a 4 two x seen 9 missing 4
            a 4: the missing answers of request 4 are not in order, from 1 on, before it and up to 9, which was seen
        acquire a 5 two x seen 4 missing 3,2
            a 5: the missing answers of request 5 are not in order, from 1 on, before it and up to 4, which was seen
        acquire a 6 two x seen 4 missing 2,2
            a 6: the missing answers of request 6 are not in order, from 1 on, before it and up to 4, which was seen
        acquire a 1 one x seen 9 missing 7
            a 1: granted, fence 1
        lock two
            forgotten
    "#]]);
}

/// The front end refuses such a request, but a log of an older version may have it. There it does nothing.
#[test]
fn an_old_request_whose_own_answer_was_seen_still_does_nothing() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one x seen 1
        acquire a 1 one x seen 1
        acquire a 3 two x seen 9
        release a 4 3 seen 4
        acquire a 9 nine x seen 9
        session a
            A, ttl 10000 ms, holds [], waits []
    "#]]);
}

/// A request of a client that has seen all earlier answers, except these.
fn request_missing(number: u64, missing: Vec<u64>, operation: locks::Operation) -> Command {
    match request(session("a"), number, number - 1, operation) {
        Command::Request(request) => Command::Request(Request { missing, ..request }),
        other => other,
    }
}

fn answers(effects: &[Effect]) -> Vec<(u64, Answer)> {
    let answer = |effect: &Effect| match effect {
        Effect::Answer { number, answer, .. } => (*number, answer.clone()),
        other => panic!("{other:?} is no answer"),
    };
    effects.iter().map(answer).collect()
}

#[test]
fn the_missing_answers_are_limited() {
    let mut script = Script::default();
    script.line("open a");
    let mut ask =
        |number: u64, missing: Vec<u64>| answers(&script.apply(&request_missing(number, missing, acquire("one"))));
    let many = MISSING_MAX as u64;
    let sentence = format!("request {} misses {} answers; it can miss at most {many}", many + 2, many + 1);
    assert_eq!(ask(many + 2, (1..=many + 1).collect()), [(many + 2, Answer::Refused(Refusal::Invalid(sentence)))]);
    assert_eq!(ask(many + 1, (1..=many).collect()), [(many + 1, Granted { fence: 1 }.into())]);
}

/// However many other requests the client makes meanwhile.
#[test]
fn one_acquire_that_waits_does_not_stop_its_session() {
    let mut script = Script::default();
    script.line("open a");
    script.line("open b");
    script.line("acquire b 1 slow x");
    script.line("acquire a 1 slow x");
    let mut ask =
        |number: u64, operation: locks::Operation| answers(&script.apply(&request_missing(number, vec![1], operation)));
    for (pair, number) in (0..5_000).zip((2..).step_by(2)) {
        assert_eq!(ask(number, acquire("fast")), [(number, Granted { fence: pair + 2 }.into())]);
        assert_eq!(ask(number + 1, locks::Operation::Release { acquire: number }), [(number + 1, Released.into())]);
    }
    assert_eq!(script.line("release b 2 1"), ["b 2: Released", "a 1: granted, fence 5002"]);
    // The answer was lost with the connection.
    script.line("resume a");
    assert_eq!(script.line("acquire a 1 slow x"), ["a 1: granted, fence 5002"]);
    assert_eq!(script.line("release a 10002 1 seen 10001"), ["a 10002: Released"]);
    assert_eq!(script.line("acquire a 1 slow x"), Vec::<String>::new());
}
