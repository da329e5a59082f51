//! The queries that the front end uses to enforce its limits.

use expect_test::expect;

use crate::script::check;

#[test]
fn the_waiters_of_a_lock_are_those_behind_its_holders() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        waiters one
            0
        acquire a 1 one s
            a 1: granted, fence 1
        acquire b 1 one s
            b 1: granted, fence 1
        waiters one
            0
        acquire b 2 one,two x owner 7
        acquire a 2 one s owner 8
        waiters one
            2
        waiters two
            1
        close a 3
            a 3: Closed
            a ended, Closed
        waiters one
            1
        release b 3 1
            b 3: Released
            b 2: granted, fence 2
        waiters one
            0
        release b 4 2
            b 4: Released
        waiters one
            0
    "#]]);
}

/// A claim of several locks counts once for each. A grant changes nothing.
#[test]
fn the_locks_of_a_session_are_held_or_waited_for() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        claimed a
            0
        claimed z
            0
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 one,two x
        acquire b 2 three x
            b 2: granted, fence 2
        claimed a
            1
        claimed b
            3
        release a 2 1
            a 2: Released
            b 1: granted, fence 3
        claimed a
            0
        claimed b
            3
        force two now
            two forced: b (fence 3, since 6)
            b 1 revoked
        claimed b
            1
        expire b
            b ended, Expired
        claimed b
            0
    "#]]);
}

/// Request 4 is answered before it arrives, because a cancel has overtaken it.
#[test]
fn a_request_is_known_if_it_waits_or_is_answered_seen_or_not() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire b 1 two x
            b 1: granted, fence 1
        known a 1
            false
        acquire a 1 one x
            a 1: granted, fence 2
        acquire a 2 two x
        known a 1
            true
        known a 2
            true
        known a 3
            false
        cancel a 5 4
            a 5: Cancelled(Nothing)
        known a 4
            true
        known a 3
            false
        acquire a 6 three x seen 3 missing 2,3
            a 6: granted, fence 3
        known a 1
            true
        known a 2
            true
        known a 3
            false
        known a 0
            false
        known z 1
            false
        close a 7
            a 7: Closed
            a ended, Closed
        known a 1
            false
    "#]]);
}
