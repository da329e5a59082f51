//! Claims of several locks: however they end, the claim ends as a whole.

use expect_test::expect;

use crate::script::check;

/// The claims behind it at any of its locks are checked then.
#[test]
fn a_release_gives_back_all_locks() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one,two,three x
            a 1: granted, fence 1
        acquire b 1 three x
        acquire c 1 one x
        release a 2 1
            a 2: Released
            c 1: granted, fence 2
            b 1: granted, fence 3
        changes
            107.0 revision 5 claim a 1 (one x, two x, three x): fence 1 since 4 -> nothing
            107.1 claim c 1 (one x): waits since 6 -> fence 2 since 7
            107.2 claim b 1 (three x): waits since 5 -> fence 3 since 7
        release a 3 1
            a 3: request 1 of this session holds no lock
        session a
            A, ttl 10000 ms, holds [], waits []
    "#]]);
}

#[test]
fn a_cancel_removes_the_waiter_from_all_queues() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 one,two,three x
        acquire c 1 three x
        acquire d 1 two x
        cancel b 2 1
            b 2: Cancelled(Removed)
            b 1: the request was cancelled
            d 1: granted, fence 2
            c 1: granted, fence 3
        changes
            109.0 revision 6 claim b 1 (one x, two x, three x): waits since 6 -> nothing
            109.1 claim d 1 (two x): waits since 8 -> fence 2 since 9
            109.2 claim c 1 (three x): waits since 7 -> fence 3 since 9
        lock one
            permits 1
            held by a 1, fence 1, since 5
        acquire b 1 one,two,three x
            b 1: the request was cancelled
    "#]]);
}

#[test]
fn a_cancel_releases_all_that_was_granted_meanwhile() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one,two x
            a 1: granted, fence 1
        acquire b 1 two x
        cancel a 2 1
            a 2: Cancelled(Released)
            b 1: granted, fence 2
        lock one
            permits 1
            was a's, fence 1, 3 to 5, Released
        lock two
            permits 1
            held by b 1, fence 2, since 5
            was a's, fence 1, 3 to 5, Released
    "#]]);
}

#[test]
fn a_time_out_ends_the_wait_for_all_locks() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 two,one x timeout 500
            b 1 waits, at most 500 ms
        acquire c 1 two x
        timers
            PendingTimers { sessions: [(SessionId(97), 10000), (SessionId(98), 10000), (SessionId(99), 10000)], waits: [(SessionId(98), 1, 500)], delays: [], closed_ms: None }
        cancel-wait b 1
            b 1: the lock was not granted within the time-out
            c 1: granted, fence 2
        timers
            PendingTimers { sessions: [(SessionId(97), 10000), (SessionId(98), 10000), (SessionId(99), 10000)], waits: [], delays: [], closed_ms: None }
        cancel-wait b 1
    "#]]);
}

/// Every lock is closed for the delay of the claim, before any claim is granted.
#[test]
fn an_expiry_closes_all_locks_of_the_claim() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one,two x delay 700
            a 1: granted, fence 1
        acquire a 2 three x
            a 2: granted, fence 2
        acquire b 1 three x
        acquire c 1 one,two x
        expire a
            a ended, Expired
            one closed, generation 1, 700 ms
            two closed, generation 2, 700 ms
            b 1: granted, fence 3
        changes
            108.0 revision 6 claim a 1 (one x, two x): fence 1 since 4 -> nothing
            108.1 revision 6 claim a 2 (three x): fence 2 since 5 -> nothing
            108.2 delay of one: nothing -> generation 1, 700 ms
            108.3 delay of two: nothing -> generation 2, 700 ms
            108.4 claim b 1 (three x): waits since 6 -> fence 3 since 8
            108.5 session a: A, ttl 10000 ms -> nothing
        lock one
            permits 1
            closed, generation 1, 700 ms
            1. c 1 waits since 7
            was a's, fence 1, 4 to 8, Expired
        lock two
            permits 1
            closed, generation 2, 700 ms
            1. c 1 waits since 7
            was a's, fence 1, 4 to 8, Expired
        end-delay one 1
        end-delay two 2
            c 1: granted, fence 4
    "#]]);
}

/// b, the first waiter of both, must not get one while two is about to be closed.
#[test]
fn an_expiry_closes_every_lock_before_it_grants_one() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 2 two x delay 700
            a 2: granted, fence 2
        acquire b 1 one,two x
        expire a
            a ended, Expired
            two closed, generation 1, 700 ms
        end-delay two 1
            b 1: granted, fence 3
    "#]]);
}

#[test]
fn a_wait_for_several_locks_closes_none_of_them() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 one,two x delay 700
        acquire c 1 two x
        expire b
            b ended, Expired
            c 1: granted, fence 2
        lock two
            permits 1
            held by c 1, fence 2, since 7
    "#]]);
}

#[test]
fn a_close_gives_back_all_locks() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one,two x delay 700
            a 1: granted, fence 1
        acquire b 1 one x
        acquire c 1 two x
        close a 2
            a 2: Closed
            a ended, Closed
            b 1: granted, fence 2
            c 1: granted, fence 3
        changes
            107.0 revision 5 claim a 1 (one x, two x): fence 1 since 4 -> nothing
            107.1 claim b 1 (one x): waits since 5 -> fence 2 since 7
            107.2 claim c 1 (two x): waits since 6 -> fence 3 since 7
            107.3 session a: A, ttl 10000 ms -> nothing
    "#]]);
}

/// The holder is told once, whichever of its locks is forced.
#[test]
fn force_tells_the_holder_of_several_locks_once() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one,two x
            a 1: granted, fence 1
        acquire b 1 two x
        force one
            one forced: a (fence 1, since 3)
            a 1 revoked
        changes
            105.0 claim a 1 (one x, two x): fence 1 since 3 -> fence 1 since 3, revoked
        force two
            two forced: a (fence 1, since 3)
            a 1 revoked
        changes
        lock one
            permits 1
            held by a 1, fence 1, since 3, revoked
        lock two
            permits 1
            held by a 1, fence 1, since 3, revoked
            1. b 1 waits since 4
        resume a
            a open, ttl 10000 ms
            a 1 revoked
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
        lock two
            permits 1
            held by b 1, fence 2, since 8
            was a's, fence 1, 3 to 8, Forced
    "#]]);
}

/// The claim ends at the other locks, too.
#[test]
fn force_now_takes_all_locks_of_the_claim() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one,two s
            a 1: granted, fence 1
        acquire b 1 one s
            b 1: granted, fence 1
        acquire c 1 two x
        force one now
            one forced: a (fence 1, since 4), b (fence 1, since 5)
            a 1 revoked
            b 1 revoked
            c 1: granted, fence 2
        changes
            107.0 revision 5 claim a 1 (one s, two s): fence 1 since 4 -> nothing
            107.1 revision 5 claim b 1 (one s): fence 1 since 5 -> nothing
            107.2 claim c 1 (two x): waits since 6 -> fence 2 since 7
        resume a
            a open, ttl 10000 ms
            a 1 revoked
        release a 2 1
            a 2: Released
        release b 2 1
            b 2: Released
        lock one
            permits 1
            was a's, fence 1, 4 to 7, Forced
            was b's, fence 1, 5 to 7, Forced
        lock two
            permits 1
            held by c 1, fence 2, since 7
            was a's, fence 1, 4 to 7, Forced
    "#]]);
}

/// A lock-delay ends only at the lock that was named.
#[test]
fn force_now_opens_only_the_lock_that_it_names() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one,two x delay 700
            a 1: granted, fence 1
        expire a
            a ended, Expired
            one closed, generation 1, 700 ms
            two closed, generation 2, 700 ms
        force one now
            one forced: nobody holds it
        acquire b 1 one,two x
        acquire b 2 one x timeout 0
            b 2: the lock is not free, and the request does not wait
        end-delay two 2
            b 1: granted, fence 2
    "#]]);
}

#[test]
fn history_remembers_the_hold_at_each_lock() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one,two x
            a 1: granted, fence 1
        release a 2 1
            a 2: Released
        acquire a 3 two,three x
            a 3: granted, fence 2
        force three now
            three forced: a (fence 2, since 5)
            a 3 revoked
        acquire b 1 one,three x
            b 1: granted, fence 3
        expire b
            b ended, Expired
        lock one
            permits 1
            was a's, fence 1, 3 to 4, Released
            was b's, fence 3, 7 to 8, Expired
        lock two
            permits 1
            was a's, fence 1, 3 to 4, Released
            was a's, fence 2, 5 to 6, Forced
        lock three
            permits 1
            was a's, fence 2, 5 to 6, Forced
            was b's, fence 3, 7 to 8, Expired
    "#]]);
}
