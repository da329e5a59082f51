//! Sessions and numbered requests.

use baton_state::state::locks::{self, Acquire, Mode, Operation, limits::FORCED_MAX};
use baton_state::state::sessions::{Refusal, limits::REQUESTS_MAX};
use baton_state::state::{Answer, Caller, Effect, OwnerId};
use expect_test::expect;

use crate::script::{Script, acquire, check, request, session};

/// An Open of an existing session changes nothing, and returns the first TTL.
#[test]
fn a_repeated_open_is_the_same_session() {
    check(expect![[r#"
        open a ttl 5000
            a open, ttl 5000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        open a ttl 60000
            a open, ttl 5000 ms
        resume a
            a open, ttl 5000 ms
        session a
            A, ttl 5000 ms, holds [deploy], waits []
    "#]]);
}

/// A client that resumes an ended session does not begin a new one.
#[test]
fn who_resumes_an_unknown_session_is_told_that_it_ended() {
    check(expect![[r#"
        resume a
            a ended, Unknown
        open a
            a open, ttl 10000 ms
        expire a
            a ended, Expired
        resume a
            a ended, Unknown
        session a
            none
    "#]]);
}

#[test]
fn a_request_of_an_unknown_session_is_told_that_it_ended() {
    check(expect![[r#"
        acquire a 1 deploy x
            a ended, Unknown
        lock deploy
            forgotten
    "#]]);
}

/// The TTL is from a second to a day.
#[test]
fn a_session_that_cannot_be_is_not_opened() {
    check(expect![[r#"
        open a ttl 999
            a ended, Unknown
        open a ttl 86400001
            a ended, Unknown
        open a ttl 1000
            a open, ttl 1000 ms
        open b ttl 86400000
            b open, ttl 86400000 ms
    "#]]);
}

/// The answer is kept until the client has seen it, whatever happens in between.
#[test]
fn a_retry_gets_the_same_answer_and_is_applied_once() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy x timeout 0
            b 1: the lock is not free, and the request does not wait
        acquire b 1 deploy x timeout 0
            b 1: the lock is not free, and the request does not wait
        release a 2 1
            a 2: Released
        acquire b 1 deploy x timeout 0
            b 1: the lock is not free, and the request does not wait
        acquire b 2 deploy x
            b 2: granted, fence 2
        release a 2 1
            a 2: Released
        acquire a 1 deploy x
            a 1: granted, fence 1
        lock deploy
            permits 1
            held by b 2, fence 2, since 9
            was a's, fence 1, 3 to 7, Released
    "#]]);
}

/// The acquire does not go to the end of the queue, and its time-out is not armed again.
#[test]
fn a_retried_acquire_rejoins_its_own_place() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy x timeout 500
            b 1 waits, at most 500 ms
        acquire c 1 deploy x
        acquire b 1 deploy x timeout 500
        lock deploy
            permits 1
            held by a 1, fence 1, since 4
            1. b 1 waits since 5
            2. c 1 waits since 6
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
        acquire b 1 deploy x timeout 500
            b 1: granted, fence 2
    "#]]);
}

/// Such a retry is not applied and gets no answer, because the client has said that it knows the answer.
#[test]
fn an_answer_that_was_seen_is_not_kept() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        release a 2 1 seen 1
            a 2: Released
        acquire a 1 deploy x
        acquire a 3 deploy x seen 2
            a 3: granted, fence 2
        release a 2 1
        lock deploy
            permits 1
            held by a 3, fence 2, since 5
            was a's, fence 1, 2 to 3, Released
    "#]]);
}

/// A retry carries the `seen` of its first attempt.
#[test]
fn an_older_seen_takes_nothing_back() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        release a 2 1 seen 1
            a 2: Released
        acquire a 3 other x seen 2
            a 3: granted, fence 2
        acquire a 3 other x seen 0
            a 3: granted, fence 2
        release a 2 1 seen 1
        acquire a 1 deploy x seen 0
    "#]]);
}

#[test]
fn cancel_removes_the_waiter_and_says_so() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy x
        cancel b 2 1
            b 2: Cancelled(Removed)
            b 1: the request was cancelled
        release a 2 1
            a 2: Released
        lock deploy
            permits 1
            was a's, fence 1, 3 to 6, Released
        acquire b 1 deploy x
            b 1: the request was cancelled
        cancel b 2 1
            b 2: Cancelled(Removed)
    "#]]);
}

#[test]
fn cancel_releases_what_was_granted_meanwhile_and_says_so() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy x
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
        cancel b 2 1
            b 2: Cancelled(Released)
        cancel b 2 1
            b 2: Cancelled(Released)
        lock deploy
            permits 1
            was a's, fence 1, 3 to 5, Released
            was b's, fence 2, 5 to 6, Released
    "#]]);
}

#[test]
fn cancel_of_what_neither_waits_nor_holds_says_so() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        release a 2 1
            a 2: Released
        cancel a 3 1
            a 3: Cancelled(Nothing)
        cancel a 4 2
            a 4: Cancelled(Nothing)
    "#]]);
}

/// The client has given the acquire up, so it would never release the lock.
#[test]
fn an_acquire_that_its_cancel_overtook_is_not_granted() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        cancel a 2 1
            a 2: Cancelled(Nothing)
        acquire a 1 deploy x
            a 1: the request was cancelled
        acquire a 1 deploy x
            a 1: the request was cancelled
        lock deploy
            forgotten
        acquire a 3 deploy x seen 2
            a 3: granted, fence 1
    "#]]);
}

#[test]
fn a_cancel_of_something_later_makes_no_sense() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        cancel a 1 1
            a 1: request 1 speaks of acquire 1; it can only speak of an earlier one, from 1 on
        cancel a 2 3
            a 2: request 2 speaks of acquire 3; it can only speak of an earlier one, from 1 on
        acquire a 3 deploy x
            a 3: granted, fence 1
        cancel a 4 0
            a 4: request 4 speaks of acquire 0; it can only speak of an earlier one, from 1 on
        release a 5 0
            a 5: request 5 speaks of acquire 0; it can only speak of an earlier one, from 1 on
        acquire a 0 deploy x
            a 0: a request has the number 0; numbers go from 1 on
    "#]]);
}

/// Waiting claims are removed, the next waiters are granted, and a repeated Close finds no session.
#[test]
fn close_releases_everything_and_ends_the_session() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 2 two x
            a 2: granted, fence 2
        acquire b 1 three x
            b 1: granted, fence 3
        acquire a 3 three x
        acquire b 2 one x
            b 2: deadlock: B -> one, A -> three
        acquire c 1 two x
        acquire c 2 three x
        close a 4
            a 4: Closed
            a ended, Closed
            c 1: granted, fence 4
        close a 4
            a ended, Unknown
        lock three
            permits 1
            held by b 1, fence 3, since 6
            1. c 2 waits since 10
        lock one
            permits 1
            was a's, fence 1, 4 to 11, Released
        counts
            Counts { locks: 3, used: 2, sessions: 2, holders: 2, waiters: 1 }
    "#]]);
}

#[test]
fn a_stale_end_of_a_wait_does_nothing() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy x timeout 500
            b 1 waits, at most 500 ms
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
        cancel-wait b 1
        cancel-wait b 7
        cancel-wait z 1
        lock deploy
            permits 1
            held by b 1, fence 2, since 5
            was a's, fence 1, 3 to 5, Released
    "#]]);
}

/// The current leader has heard from the session, or waits for its full lease.
#[test]
fn an_expire_of_an_earlier_term_does_nothing() {
    check(expect![[r#"
        lead 3
        open a
            a open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        expire a term 2
        expire a term 4
        session a
            A, ttl 10000 ms, holds [deploy], waits []
        expire a term 3
            a ended, Expired
        expire a term 3
        lock deploy
            permits 1
            was a's, fence 1, 3 to 6, Expired
    "#]]);
}

#[test]
fn a_release_by_a_stranger_is_refused() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy x
        release b 2 1
            b 2: request 1 of this session holds no lock
        release b 3 2
            b 3: request 2 of this session holds no lock
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
        release a 3 1
            a 3: request 1 of this session holds no lock
    "#]]);
}

/// The text of a refusal, from any module.
fn refusal(effects: &[Effect]) -> Option<String> {
    match effects {
        [Effect::Answer { answer: Answer::Refused(refusal), .. }] => Some(refusal.to_string()),
        [Effect::Answer { answer: Answer::Locks(locks::Answer::Refused(refusal)), .. }] => Some(refusal.to_string()),
        _ => None,
    }
}

/// Beyond the limit an acquire is refused, and the refusal is not kept. It is applied when there is room. Releases have
/// a higher limit.
#[test]
fn the_requests_without_a_seen_answer_are_limited() {
    let (mut script, a) = (Script::default(), session("a"));
    script.line("open a");
    script.line("open b");
    for number in 1..=REQUESTS_MAX as u64 {
        // Every second acquire waits behind the one before, which has another owner.
        let acquire = Acquire::one(&(number / 2).to_string(), Mode::Exclusive, OwnerId(number));
        assert_eq!(refusal(&script.apply(&request(a, number, 0, Operation::Acquire(acquire)))), None);
    }
    let before = script.state.clone();
    let one_more = REQUESTS_MAX as u64 + 1;
    let too_many = Refusal::TooManyRequests { limit: REQUESTS_MAX as u32 }.to_string();
    let last = 2 * one_more + 2;
    for number in [one_more, one_more, last] {
        assert_eq!(refusal(&script.apply(&request(a, number, 0, acquire("more")))), Some(too_many.clone()));
    }
    assert_eq!(script.state.counts(), before.counts());
    assert_eq!(script.state.lock("more").map(|lock| lock.holders().count()), None);

    for number in 0..REQUESTS_MAX as u64 {
        let operation = Operation::Cancel { acquire: number + 1 };
        assert_eq!(refusal(&script.apply(&request(a, one_more + 2 + number, 0, operation))), None);
    }
    let too_many = Refusal::TooManyRequests { limit: 2 * REQUESTS_MAX as u32 }.to_string();
    let operation = Operation::Release { acquire: 1 };
    assert_eq!(refusal(&script.apply(&request(a, last, 0, operation))), Some(too_many.clone()));
    assert_eq!(script.apply(&request(a, last, last - 1, acquire("more"))).len(), 1);
    assert_eq!(script.state.lock("more").map(|lock| lock.holders().count()), Some(1));
    assert_eq!(script.line(&format!("close a {}", last + 1)).len(), 2);
}

/// A client that never releases its forced acquires cannot make its session grow.
#[test]
fn what_was_taken_by_force_is_remembered_up_to_a_limit() {
    let (mut script, a) = (Script::default(), session("a"));
    script.line("open a");
    for number in 1..=FORCED_MAX as u64 + 10 {
        script.apply(&request(a, number, number - 1, acquire("deploy")));
        script.apply(&locks::Command::Force { lock: "deploy".into(), now: true, caller: Caller::default() }.into());
    }
    assert_eq!(script.line("resume a").len(), 1 + FORCED_MAX);
}

/// Invalid names and numbers are refused with a sentence, and leave nothing behind.
#[test]
fn what_makes_no_sense_is_refused() {
    let (mut script, a) = (Script::default(), session("a"));
    script.line("open a");
    let mut sentences = String::new();
    let modes = [Mode::Permit { of: 0 }, Mode::Permit { of: u32::MAX }];
    let wrong_modes = modes.map(|mode| ("ok".to_string(), mode, 0));
    let names = [String::new(), "x".repeat(513)].map(|name| (name, Mode::Exclusive, 0));
    let delay = [("ok".to_string(), Mode::Exclusive, u64::MAX)];
    for (number, (lock, mode, lock_delay_ms)) in (1..).zip(names.into_iter().chain(wrong_modes).chain(delay)) {
        let acquire = Acquire { lock_delay_ms, ..Acquire::one(&lock, mode, OwnerId(1)) };
        let effects = script.apply(&request(a, number, 0, Operation::Acquire(acquire)));
        sentences += &format!("{}\n", refusal(&effects).expect("a refusal"));
    }
    expect![[r#"
        the name of a lock is empty; it has 1 to 512 bytes
        the name of a lock has 513 bytes; it has 1 to 512
        a lock with 0 permits; it must have from 1 to 1000000
        a lock with 4294967295 permits; it must have from 1 to 1000000
        a lock-delay of 18446744073709551615 ms; it must be at most 3600000 ms
    "#]]
    .assert_eq(&sentences);
    assert_eq!(script.state.counts().locks, 0);
    assert_eq!(script.apply(&request(a, 9, 0, acquire(&"x".repeat(512)))).len(), 1);
    assert_eq!(script.state.counts().locks, 1);
}
