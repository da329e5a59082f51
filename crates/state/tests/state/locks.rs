//! Locks: grants, queues, fences and history.

use baton_state::state::locks::Operation;
use baton_state::state::locks::limits::{HISTORY_MAX, HISTORY_OF_LOCK_MAX};
use baton_state::state::sessions::Command::Lead;
use baton_state::state::{Outcome, State};
use expect_test::expect;

use crate::script::{Script, acquire, check, request, session};

#[test]
fn locks_are_granted_in_log_order() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire c 1 deploy x
        acquire b 1 deploy x
        release a 2 1
            a 2: Released
            c 1: granted, fence 2
        release c 2 1
            c 2: Released
            b 1: granted, fence 3
        lock deploy
            permits 1
            held by b 1, fence 3, since 8
            was a's, fence 1, 4 to 7, Released
            was c's, fence 2, 7 to 8, Released
    "#]]);
}

/// A shared request behind an exclusive one waits, although it could share with the holders.
#[test]
fn nobody_overtakes_a_waiter() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy s
            a 1: granted, fence 1
        acquire b 1 deploy x
        acquire c 1 deploy s
        acquire c 2 deploy s timeout 0
            c 2: the lock is not free, and the request does not wait
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
        release b 2 1
            b 2: Released
            c 1: granted, fence 3
        lock deploy
            permits 1
            held by c 1, fence 3, since 9
            was a's, fence 1, 4 to 8, Released
            was b's, fence 2, 8 to 9, Released
    "#]]);
}

/// An exclusive lock wakes one waiter. A shared lock wakes all waiters up to the next exclusive one.
#[test]
fn a_release_wakes_only_who_can_have_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        open e
            e open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy s
        acquire c 1 deploy s
        acquire d 1 deploy x
        acquire e 1 deploy s
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
            c 1: granted, fence 2
        release b 2 1
            b 2: Released
        release c 2 1
            c 2: Released
            d 1: granted, fence 3
        release d 2 1
            d 2: Released
            e 1: granted, fence 4
    "#]]);
}

/// The next generation gets a greater fence, and so does every other lock.
#[test]
fn holders_of_one_shared_generation_share_a_fence() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy s
            a 1: granted, fence 1
        acquire a 2 other x
            a 2: granted, fence 2
        acquire b 1 deploy s
            b 1: granted, fence 1
        release a 3 1
            a 3: Released
        acquire a 4 deploy s
            a 4: granted, fence 1
        release a 5 4
            a 5: Released
        release b 2 1
            b 2: Released
        acquire b 3 deploy s
            b 3: granted, fence 3
    "#]]);
}

#[test]
fn each_permit_has_its_own_fence() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 pool p2
            a 1: granted, fence 1
        acquire a 2 pool p2
            a 2: granted, fence 2
        acquire a 3 pool p2 owner 9
        release a 4 1
            a 4: Released
            a 3: granted, fence 3
        lock pool
            permits 2
            held by a 2, fence 2, since 3
            held by a 3, fence 3, since 5
            was a's, fence 1, 2 to 5, Released
    "#]]);
}

/// A lock is in use while it is held, waited for or closed. Exclusive and shared count as one permit.
#[test]
fn permits_must_agree_while_the_lock_is_in_use() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 pool p2
            a 1: granted, fence 1
        acquire b 1 pool p3
            b 1: the lock "pool" is in use with 2 permits, and the request says 3
        acquire b 2 pool x
            b 2: the lock "pool" is in use with 2 permits, and the request is exclusive or shared (1 permit)
        acquire b 3 pool p2
            b 3: granted, fence 2
        release a 2 1
            a 2: Released
        acquire a 3 pool s
            a 3: the lock "pool" is in use with 2 permits, and the request is exclusive or shared (1 permit)
        release b 4 3
            b 4: Released
        acquire a 4 pool p1
            a 4: granted, fence 3
        acquire b 5 pool x
        acquire b 6 pool p4
            b 6: the lock "pool" is in use as exclusive or shared (1 permit), and the request says 4
        cancel b 7 5
            b 7: Cancelled(Removed)
            b 5: the request was cancelled
        release a 5 4
            a 5: Released
        acquire b 8 pool p4 delay 100
            b 8: granted, fence 4
        expire b
            b ended, Expired
            pool closed, generation 1, 100 ms
        acquire a 6 pool p5
            a 6: the lock "pool" is in use with 4 permits, and the request says 5
        end-delay pool 1
        acquire a 7 pool p5
            a 7: granted, fence 5
        lock pool
            permits 5
            held by a 7, fence 5, since 19
            was a's, fence 1, 3 to 7, Released
            was b's, fence 2, 6 to 9, Released
            was a's, fence 3, 10 to 14, Released
            was b's, fence 4, 15 to 16, Expired
    "#]]);
}

/// So the fences of a lock cannot fall after the state has forgotten the lock.
#[test]
fn one_counter_gives_the_fences_of_all_locks() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 2 two x
            a 2: granted, fence 2
        release a 3 1
            a 3: Released
        acquire a 4 one x
            a 4: granted, fence 3
    "#]]);
}

#[test]
fn try_does_not_wait() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy x timeout 0
            b 1: the lock is not free, and the request does not wait
        acquire b 2 deploy s timeout 0
            b 2: the lock is not free, and the request does not wait
        lock deploy
            permits 1
            held by a 1, fence 1, since 3
    "#]]);
}

#[test]
fn a_time_out_lets_in_who_waited_only_because_of_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 deploy s
            a 1: granted, fence 1
        acquire b 1 deploy x timeout 500
            b 1 waits, at most 500 ms
        acquire c 1 deploy s
        acquire d 1 deploy s
        cancel-wait b 1
            b 1: the lock was not granted within the time-out
            c 1: granted, fence 1
            d 1: granted, fence 1
        acquire b 1 deploy x timeout 500
            b 1: the lock was not granted within the time-out
        cancel-wait b 1
    "#]]);
}

#[test]
fn a_cancel_lets_in_who_waited_only_because_of_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy s
            a 1: granted, fence 1
        acquire b 1 deploy x
        acquire c 1 deploy s
        cancel b 2 1
            b 2: Cancelled(Removed)
            b 1: the request was cancelled
            c 1: granted, fence 1
    "#]]);
}

#[test]
fn an_expiry_lets_in_who_waited_only_because_of_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy s
            a 1: granted, fence 1
        acquire b 1 deploy x
        acquire c 1 deploy s
        expire b
            b ended, Expired
            c 1: granted, fence 1
        lock deploy
            permits 1
            held by a 1, fence 1, since 4
            held by c 1, fence 1, since 7
    "#]]);
}

/// A waiter of the expired session does not get the lock of its holder.
#[test]
fn an_expired_session_loses_everything_before_anybody_gets_anything() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire a 2 deploy x owner 9
        acquire b 1 deploy x
        expire a
            a ended, Expired
            b 1: granted, fence 2
        lock deploy
            permits 1
            held by b 1, fence 2, since 6
            was a's, fence 1, 3 to 6, Expired
    "#]]);
}

#[test]
fn history_tells_how_each_hold_ended() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        release a 2 1
            a 2: Released
        acquire a 3 deploy x
            a 3: granted, fence 2
        force deploy now
            deploy forced: a (fence 2, since 5)
            a 3 revoked
        acquire a 4 deploy x
            a 4: granted, fence 3
        force deploy
            deploy forced: a (fence 3, since 7)
            a 4 revoked
        release a 5 4
            a 5: Released
        acquire b 1 deploy x
            b 1: granted, fence 4
        expire b
            b ended, Expired
        lock deploy
            permits 1
            was a's, fence 1, 3 to 4, Released
            was a's, fence 2, 5 to 6, Forced
            was a's, fence 3, 7 to 9, Forced
            was b's, fence 4, 10 to 11, Expired
    "#]]);
}

fn hold_and_release(script: &mut Script, number: u64, lock: &str) {
    script.apply(&request(session("a"), number, number - 1, acquire(lock)));
    script.apply(&request(session("a"), number + 1, number, Operation::Release { acquire: number }));
}

/// At most 16 per lock. The oldest is dropped.
#[test]
fn the_history_of_a_lock_is_limited() {
    let mut script = Script::default();
    script.line("open a");
    for hold in 0..HISTORY_OF_LOCK_MAX as u64 + 3 {
        hold_and_release(&mut script, 2 * hold + 1, "deploy");
    }
    let fences: Vec<u64> = script.state.lock("deploy").unwrap().history().iter().map(|past| past.fence).collect();
    assert_eq!(fences, Vec::from_iter(4..=HISTORY_OF_LOCK_MAX as u64 + 3));
}

/// At most 65,536 in all, dropped in log order. A lock without use and history is forgotten.
#[test]
fn the_history_of_all_locks_is_limited() {
    let mut script = Script::default();
    script.line("open a");
    script.line("open b");
    hold_and_release(&mut script, 1, "first");
    hold_and_release(&mut script, 3, "second");
    hold_and_release(&mut script, 5, "first");
    for hold in 3..HISTORY_MAX as u64 {
        hold_and_release(&mut script, 2 * hold + 1, &format!("lock {hold}"));
    }
    let remembered = |script: &Script, name: &str| script.state.lock(name).map_or(0, |lock| lock.history().len());
    assert_eq!((remembered(&script, "first"), remembered(&script, "second")), (2, 1));
    let locks = script.state.counts().locks;
    let last = 2 * HISTORY_MAX as u64 + 1;
    hold_and_release(&mut script, last, "lock 3");
    assert_eq!((remembered(&script, "first"), remembered(&script, "second")), (1, 1));
    hold_and_release(&mut script, last + 2, "lock 3");
    assert_eq!((remembered(&script, "first"), remembered(&script, "second")), (1, 0));
    assert_eq!(script.state.counts().locks, locks - 1);
    // A lock in use is not forgotten with its history.
    script.apply(&request(session("b"), 1, 0, acquire("first")));
    hold_and_release(&mut script, last + 4, "lock 3");
    assert_eq!(remembered(&script, "first"), 0);
    assert_eq!(script.state.lock("first").map(|lock| lock.holders().count()), Some(1));
    assert_eq!(script.state.check(), Ok(()));
}

/// The time of the state only grows, whatever the clocks of leaders say.
#[test]
fn time_only_grows() {
    let (mut state, mut outcome) = (State::default(), Outcome::default());
    state.apply(1, 500, &Lead { term: 1 }.into(), &mut outcome);
    state.apply(2, 20, &Lead { term: 2 }.into(), &mut outcome);
    assert_eq!(state.now_ms(), 500);
}
