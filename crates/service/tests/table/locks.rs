//! Locks: one test a sentence.

use baton_service::table::limits::{HISTORY_MAX, HISTORY_OF_LOCK_MAX};
use baton_service::table::{Command, Mode, Operation, OwnerId};
use expect_test::expect;

use crate::script::{Script, check, request, session};

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

/// A shared request behind an exclusive one waits, although it could share with those who hold.
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

/// No herd: of an exclusive lock one, of a shared one all up to the next who does not share.
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

/// The next generation has a greater one, and so has every other lock.
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

/// Held, waited for or closed. Exclusive and shared are a lock with one permit.
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
            b 1: the lock has 2 permits, and the request says 3
        acquire b 2 pool x
            b 2: the lock has 2 permits, and the request says 1
        acquire b 3 pool p2
            b 3: granted, fence 2
        release a 2 1
            a 2: Released
        acquire a 3 pool s
            a 3: the lock has 2 permits, and the request says 1
        release b 4 3
            b 4: Released
        acquire a 4 pool p1
            a 4: granted, fence 3
        acquire b 5 pool x
        acquire b 6 pool p4
            b 6: the lock has 1 permits, and the request says 4
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
            a 6: the lock has 4 permits, and the request says 5
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

/// So that forgetting an idle lock cannot set its fences back.
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

/// Its own waiter does not get what its holder lost.
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

/// Nobody gets it until the delay of this generation is over.
#[test]
fn lock_delay_closes_the_lock_after_an_expiry() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x delay 700
            a 1: granted, fence 1
        acquire b 1 deploy x
        expire a
            a ended, Expired
            deploy closed, generation 1, 700 ms
        acquire b 2 deploy x timeout 0
            b 2: the lock is not free, and the request does not wait
        lock deploy
            permits 1
            closed, generation 1, 700 ms
            1. b 1 waits since 4
            was a's, fence 1, 3 to 5, Expired
        timers
            PendingTimers { sessions: [(SessionId(98), 10000)], waits: [], delays: [("deploy", 1, 700)] }
        end-delay deploy 2
        end-delay deploy 0
        end-delay deploy 1
            b 1: granted, fence 2
        end-delay deploy 1
        end-delay nothing 1
    "#]]);
}

/// Not after a release, a cancel, a close or by force.
#[test]
fn lock_delay_is_for_an_expiry_only() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x delay 700
            a 1: granted, fence 1
        release a 2 1
            a 2: Released
        acquire a 3 deploy x delay 700
            a 3: granted, fence 2
        cancel a 4 3
            a 4: Cancelled(Released)
        acquire a 5 deploy x delay 700
            a 5: granted, fence 3
        force deploy now
            a 5 revoked
        acquire a 6 deploy x delay 700
            a 6: granted, fence 4
        close a 7
            a 7: Closed
            a ended, Closed
        acquire b 1 deploy x
            b 1: granted, fence 5
    "#]]);
}

#[test]
fn the_longest_delay_rules_and_a_later_one_arms_it_again() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 deploy s delay 300
            a 1: granted, fence 1
        acquire a 2 deploy s delay 900
            a 2: granted, fence 1
        acquire b 1 deploy s delay 500
            b 1: granted, fence 1
        acquire c 1 deploy s
            c 1: granted, fence 1
        acquire d 1 deploy s
            d 1: granted, fence 1
        expire a
            a ended, Expired
            deploy closed, generation 1, 900 ms
        expire b
            b ended, Expired
            deploy closed, generation 2, 900 ms
        end-delay deploy 1
        expire c
            c ended, Expired
        release d 2 1
            d 2: Released
        acquire d 3 deploy s
        end-delay deploy 2
            d 3: granted, fence 2
    "#]]);
}

#[test]
fn a_shared_lock_stays_held_while_it_is_closed() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy s delay 300
            a 1: granted, fence 1
        acquire b 1 deploy s
            b 1: granted, fence 1
        expire a
            a ended, Expired
            deploy closed, generation 1, 300 ms
        acquire c 1 deploy s
        lock deploy
            permits 1
            closed, generation 1, 300 ms
            held by b 1, fence 1, since 5
            1. c 1 waits since 7
            was a's, fence 1, 4 to 6, Expired
        end-delay deploy 1
            c 1: granted, fence 1
        lock deploy
            permits 1
            held by b 1, fence 1, since 5
            held by c 1, fence 1, since 8
            was a's, fence 1, 4 to 6, Expired
    "#]]);
}

#[test]
fn force_tells_the_holders_and_waits_for_their_word() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy s
            a 1: granted, fence 1
        acquire b 1 deploy s
            b 1: granted, fence 1
        acquire c 1 deploy x
        force deploy
            a 1 revoked
            b 1 revoked
        lock deploy
            permits 1
            held by a 1, fence 1, since 4, revoked
            held by b 1, fence 1, since 5, revoked
            1. c 1 waits since 6
        resume a
            a open, ttl 10000 ms
            a 1 revoked
        release a 2 1
            a 2: Released
        resume a
            a open, ttl 10000 ms
        close b 2
            b 2: Closed
            b ended, Closed
            c 1: granted, fence 2
        lock deploy
            permits 1
            held by c 1, fence 2, since 11
            was a's, fence 1, 4 to 9, Forced
            was b's, fence 1, 5 to 11, Forced
    "#]]);
}

/// That is an expiry like any other, delay included.
#[test]
fn force_waits_for_the_end_of_the_lease() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x delay 300
            a 1: granted, fence 1
        acquire b 1 deploy x
        force deploy
            a 1 revoked
        expire a
            a ended, Expired
            deploy closed, generation 1, 300 ms
        lock deploy
            permits 1
            closed, generation 1, 300 ms
            1. b 1 waits since 4
            was a's, fence 1, 3 to 6, Expired
    "#]]);
}

/// The holder's word about it, when it comes, is no error; later ones are.
#[test]
fn force_now_does_not_wait() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy x
        force deploy now
            a 1 revoked
            b 1: granted, fence 2
        resume a
            a open, ttl 10000 ms
            a 1 revoked
        release a 2 1
            a 2: Released
        resume a
            a open, ttl 10000 ms
        release a 3 1
            a 3: request 1 of this session holds no lock
        lock deploy
            permits 1
            held by b 1, fence 2, since 5
            was a's, fence 1, 3 to 5, Forced
    "#]]);
}

/// Whoever says now takes that risk.
#[test]
fn force_now_ends_a_lock_delay_too() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x delay 300
            a 1: granted, fence 1
        acquire b 1 deploy x
        expire a
            a ended, Expired
            deploy closed, generation 1, 300 ms
        force deploy
        force deploy now
            b 1: granted, fence 2
        end-delay deploy 1
        force nothing now
    "#]]);
}

#[test]
fn a_cancel_of_what_was_taken_by_force_finds_nothing() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        force deploy now
            a 1 revoked
        cancel a 2 1
            a 2: Cancelled(Nothing)
        release a 3 1
            a 3: request 1 of this session holds no lock
    "#]]);
}

/// The same owner in another session: a nested command wants the lock of the outer one.
#[test]
fn who_would_wait_for_itself_is_refused() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x owner 7
            a 1: granted, fence 1
        acquire b 1 deploy x owner 7
            b 1: deadlock: B -> deploy
        acquire b 2 deploy s owner 7
            b 2: deadlock: B -> deploy
        acquire b 3 deploy x owner 7 timeout 0
            b 3: the lock is not free, and the request does not wait
        acquire b 4 deploy x
        lock deploy
            permits 1
            held by a 1, fence 1, since 3
            1. b 4 waits since 7
    "#]]);
}

#[test]
fn one_owner_may_share_with_itself() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy s owner 7
            a 1: granted, fence 1
        acquire b 1 deploy s owner 7
            b 1: granted, fence 1
        acquire b 2 pool p2 owner 7
            b 2: granted, fence 2
        acquire b 3 pool p2 owner 7
            b 3: granted, fence 3
        acquire b 4 pool p2 owner 7
            b 4: deadlock: B -> pool
    "#]]);
}

/// And it is shown the cycle.
#[test]
fn only_the_request_that_closes_the_cycle_is_refused() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 two x
            b 1: granted, fence 2
        acquire c 1 three x
            c 1: granted, fence 3
        acquire a 2 two x
        acquire b 2 three x
        acquire c 2 one x
            c 2: deadlock: C -> one, A -> two, B -> three
        release c 3 1
            c 3: Released
            b 2: granted, fence 4
        lock three
            permits 1
            held by b 2, fence 4, since 10
            was c's, fence 3, 6 to 10, Released
    "#]]);
}

/// b waits for c only because c came first.
#[test]
fn a_waiter_waits_for_conflicting_earlier_waiters() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one s
            a 1: granted, fence 1
        acquire b 1 two x
            b 1: granted, fence 2
        acquire c 1 one x
        acquire b 2 one s
        acquire c 2 two x
            c 2: deadlock: C -> two, B -> one
        cancel b 3 2
            b 3: Cancelled(Removed)
            b 2: the request was cancelled
        acquire c 3 two x
    "#]]);
}

#[test]
fn shared_waiters_do_not_wait_for_each_other() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 two x
            b 1: granted, fence 2
        acquire c 1 one s
        acquire b 2 one s
        acquire c 2 two x
    "#]]);
}

/// c could free one. When c, too, waits for the others it is one.
#[test]
fn with_permits_a_cycle_alone_is_no_deadlock() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 pool p2
            a 1: granted, fence 1
        acquire c 1 pool p2
            c 1: granted, fence 2
        acquire b 1 door x
            b 1: granted, fence 3
        acquire b 2 pool p2
        acquire a 2 door x
        acquire c 2 door x
            c 2: deadlock: C -> door, B -> pool
    "#]]);
}

/// It opens by itself, so nobody who waits for it waits for ever.
#[test]
fn a_closed_lock_is_nobody_s() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 two x delay 300
            b 1: granted, fence 2
        expire b
            b ended, Expired
            two closed, generation 1, 300 ms
        acquire a 2 two x
        open c
            c open, ttl 10000 ms
        acquire c 1 one x
    "#]]);
}

/// They may wait for each other without being a cycle.
#[test]
fn a_session_may_have_several_owners() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one x owner 1
            a 1: granted, fence 1
        acquire a 2 one x owner 2
        acquire a 3 two x owner 2
            a 3: granted, fence 2
        acquire a 4 two x owner 1
            a 4: deadlock: A -> two, A -> one
        release a 5 1
            a 5: Released
            a 2: granted, fence 3
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
            a 3 revoked
        acquire a 4 deploy x
            a 4: granted, fence 3
        force deploy
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

fn hold_and_release(script: &mut Script, number: u64, lock: String) {
    let (mode, owner) = (Mode::Exclusive, OwnerId(1));
    let acquire = Operation::Acquire { lock, mode, owner, timeout_ms: None, lock_delay_ms: 0 };
    script.apply(&request(session("a"), number, number - 1, acquire));
    script.apply(&request(session("a"), number + 1, number, Operation::Release { acquire: number }));
}

/// At most 16 a lock, and the oldest is dropped.
#[test]
fn the_history_of_a_lock_is_limited() {
    let mut script = Script::default();
    script.line("open a");
    for hold in 0..HISTORY_OF_LOCK_MAX as u64 + 3 {
        hold_and_release(&mut script, 2 * hold + 1, "deploy".into());
    }
    let fences: Vec<u64> = script.table.lock("deploy").unwrap().history().iter().map(|past| past.fence).collect();
    assert_eq!(fences, Vec::from_iter(4..=HISTORY_OF_LOCK_MAX as u64 + 3));
}

/// At most 65,536 in all, dropped in log order; a lock of which nothing is left is forgotten.
#[test]
fn the_history_of_all_locks_is_limited() {
    let mut script = Script::default();
    script.line("open a");
    hold_and_release(&mut script, 1, "first".into());
    hold_and_release(&mut script, 3, "second".into());
    hold_and_release(&mut script, 5, "first".into());
    for hold in 3..HISTORY_MAX as u64 {
        hold_and_release(&mut script, 2 * hold + 1, format!("lock {hold}"));
    }
    let remembered = |script: &Script, name: &str| script.table.lock(name).map_or(0, |lock| lock.history().len());
    assert_eq!((remembered(&script, "first"), remembered(&script, "second")), (2, 1));
    let locks = script.table.counts().locks;
    let last = 2 * HISTORY_MAX as u64 + 1;
    hold_and_release(&mut script, last, "lock 3".into());
    assert_eq!((remembered(&script, "first"), remembered(&script, "second")), (1, 1));
    hold_and_release(&mut script, last + 2, "lock 3".into());
    assert_eq!((remembered(&script, "first"), remembered(&script, "second")), (1, 0));
    assert_eq!(script.table.counts().locks, locks - 1);
    // A lock in use is not forgotten with its history.
    script.line("open b");
    script.line("acquire b 1 first x");
    hold_and_release(&mut script, last + 4, "lock 3".into());
    assert_eq!(remembered(&script, "first"), 0);
    assert_eq!(script.table.lock("first").map(|lock| lock.holders().len()), Some(1));
}

/// The time of an entry only grows, whatever the clocks of leaders say.
#[test]
fn time_only_grows() {
    let mut script = Script::default();
    let mut effects = Vec::new();
    script.table.apply(500, &Command::Lead { term: 1 }, &mut effects);
    script.table.apply(20, &Command::Lead { term: 2 }, &mut effects);
    assert_eq!(script.table.now_ms(), 500);
}
