//! Who would wait for itself: one test a sentence.

use expect_test::expect;

use crate::script::check;

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

/// a gets the closed lock in the end and then frees a permit, although b waits for o.
#[test]
fn whoever_waits_for_a_closed_lock_can_finish() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open o
            o open, ttl 10000 ms
        open z
            z open, ttl 10000 ms
        acquire a 1 pool p2
            a 1: granted, fence 1
        acquire b 1 pool p2
            b 1: granted, fence 2
        acquire o 1 own x
            o 1: granted, fence 3
        acquire z 1 gate x delay 300
            z 1: granted, fence 4
        expire z
            z ended, Expired
            gate closed, generation 1, 300 ms
        acquire a 2 gate x
        acquire b 2 own x
        acquire o 2 pool p2
        lock pool
            permits 2
            held by a 1, fence 1, since 5
            held by b 1, fence 2, since 6
            1. o 2 waits since 12
    "#]]);
}

/// b waits for a at the door. It does not wait for a or c at the pool, of which a permit is left.
#[test]
fn the_cycle_of_a_claim_goes_only_over_locks_that_it_waits_for() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 pool p3
            a 1: granted, fence 1
        acquire c 1 pool p3
            c 1: granted, fence 2
        acquire b 1 own x
            b 1: granted, fence 3
        acquire a 2 door x
            a 2: granted, fence 4
        acquire c 2 own x
        acquire a 3 own x
        acquire b 2 door,pool:p3 x
            b 2: deadlock: B -> door, A -> own
    "#]]);
}
