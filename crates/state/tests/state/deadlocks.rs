//! Deadlocks: which requests would wait for themselves.

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

/// c could release a permit. When c waits for b, too, there is a deadlock.
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

/// A closed lock opens by itself, so a claim that waits for it does not wait for ever.
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

/// The owners may wait for each other without a cycle.
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

/// a gets the closed lock in the end, and then releases a permit, although b waits for o.
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

/// b waits for a at the door. It does not wait for a or c at the pool, where a permit is left.
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

/// The claims stand in all lines in the same order, whatever the order of the names.
#[test]
fn claims_of_several_locks_do_not_wait_for_each_other_in_a_circle() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 one,two x
            a 1: granted, fence 1
        acquire b 1 two,three x
        acquire c 1 three,one x
        acquire d 1 three,two,one x
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
        release b 2 1
            b 2: Released
            c 1: granted, fence 3
        release c 2 1
            c 2: Released
            d 1: granted, fence 4
    "#]]);
}

#[test]
fn whoever_holds_one_lock_and_wants_several_can_close_a_cycle() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 two x
            b 1: granted, fence 2
        acquire a 2 two,three x
        acquire b 2 three,one x
            b 2: deadlock: B -> one, A -> two
        acquire b 3 three x
            b 3: deadlock: B -> three, A -> two
        lock three
            permits 1
            1. a 2 waits since 5
        release b 4 1
            b 4: Released
            a 2: granted, fence 3
    "#]]);
}

/// a waits for its own hold of one lock, although the other lock is free.
#[test]
fn a_claim_of_several_locks_can_wait_for_its_own_owner() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 2 two,one x
            a 2: deadlock: A -> one
        acquire b 1 three,one x
        acquire a 3 three x
            a 3: deadlock: A -> three, B -> one
        release a 4 1
            a 4: Released
            b 1: granted, fence 2
    "#]]);
}

/// b could share two with a, but stands behind a. It does not overtake a, which still waits for one.
#[test]
fn a_shared_waiter_waits_for_a_claim_of_several_locks_before_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire c 1 one x
            c 1: granted, fence 1
        acquire b 1 three x
            b 1: granted, fence 2
        acquire a 1 one,two s
        acquire b 2 two s
        acquire c 2 three x
            c 2: deadlock: C -> three, B -> two, A -> one
        acquire a 2 three x
        lock three
            permits 1
            held by b 1, fence 2, since 5
            1. a 2 waits since 9
        release c 3 1
            c 3: Released
            a 1: granted, fence 3
            b 2: granted, fence 3
    "#]]);
}

/// c waits for b, b for a, a for c. The shared lock two is free all the time.
#[test]
fn a_cycle_can_go_over_a_lock_that_nobody_holds() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire c 1 one x
            c 1: granted, fence 1
        acquire a 1 one,two s
        acquire b 1 two,three s
        acquire c 2 three s
            c 2: deadlock: C -> three, B -> two, A -> one
        lock two
            permits 1
            1. a 1 waits since 5
            2. b 1 waits since 6
        lock three
            permits 1
            1. b 1 waits since 6
    "#]]);
}

/// Once a holds both, a claim that shares with a does not wait for a.
#[test]
fn a_shared_waiter_does_not_wait_for_a_granted_claim_of_several_locks() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one,two s
            a 1: granted, fence 1
        acquire b 1 three x
            b 1: granted, fence 2
        acquire c 1 one x
        acquire a 2 three x
        acquire b 2 two s
            b 2: granted, fence 1
        acquire b 3 one s
            b 3: deadlock: B -> one, C -> one, A -> three
    "#]]);
}

/// c can release its permit, until it waits for b, too.
#[test]
fn with_several_pools_a_cycle_alone_is_no_deadlock() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 pool,tank p2
            a 1: granted, fence 1
        acquire c 1 pool p2
            c 1: granted, fence 2
        acquire b 1 door x
            b 1: granted, fence 3
        acquire b 2 pool,tank p2
        acquire a 2 door x
        acquire c 2 door x
            c 2: deadlock: C -> door, B -> pool
        release a 3 1
            a 3: Released
            b 2: granted, fence 4
    "#]]);
}

/// b waits only at the door, because the pool has a permit left for it. So a, which holds the other permit, may wait
/// for b's lock.
#[test]
fn a_permit_that_is_left_blocks_nobody() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 pool p2
            a 1: granted, fence 1
        acquire c 1 door x
            c 1: granted, fence 2
        acquire b 1 own x
            b 1: granted, fence 3
        acquire b 2 pool:p2,door x
        acquire a 2 own x
        release c 2 1
            c 2: Released
            b 2: granted, fence 4
    "#]]);
}

/// b waits for a, and a only for a lock that opens by itself. c waits for b, and stands behind a.
#[test]
fn a_closed_lock_of_several_is_nobody_s() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        open z
            z open, ttl 10000 ms
        acquire z 1 gate x delay 300
            z 1: granted, fence 1
        expire z
            z ended, Expired
            gate closed, generation 1, 300 ms
        acquire a 1 own x
            a 1: granted, fence 2
        acquire b 1 door x
            b 1: granted, fence 3
        acquire a 2 gate,two x
        acquire c 1 door,two x
        acquire b 2 own x
        end-delay gate 1
            a 2: granted, fence 4
        lock own
            permits 1
            held by a 1, fence 2, since 7
            1. b 2 waits since 11
    "#]]);
}

/// The path through b would be shorter, but d shares the lock with b once both hold it.
#[test]
fn the_cycle_does_not_go_over_a_waiter_that_shares() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 shared x
            a 1: granted, fence 1
        acquire b 1 shared s
        acquire c 1 n x
            c 1: granted, fence 2
        acquire d 1 m x
            d 1: granted, fence 3
        acquire d 2 p x
            d 2: granted, fence 4
        acquire a 2 n x
        acquire b 2 m x
        acquire c 2 p x
        acquire d 3 shared s
            d 3: deadlock: D -> shared, A -> n, C -> p
    "#]]);
}
