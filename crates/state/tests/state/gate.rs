//! The state of a member of a peer group: an algorithm decides when a lock is granted.

use expect_test::expect;

use crate::script::check;

/// A lock that no local client uses may be held at another member.
#[test]
fn only_admit_grants_to_the_first_waiter_with_the_fence_of_the_algorithm() {
    check(expect![[r#"
        gated
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
        acquire b 1 deploy x timeout 500
            b 1 waits, at most 500 ms
        counts
            Counts { locks: 1, used: 1, sessions: 2, holders: 0, waiters: 2 }
        admit deploy 18446744073709551615
            a 1: granted, fence 18446744073709551615
        admit deploy 7
        release a 2 1
            a 2: Released
        lock deploy
            permits 1
            1. b 1 waits since 4
            was a's, fence 18446744073709551615, 5 to 7, Released
        admit deploy 7
            b 1: granted, fence 7
        changes
            108.0 claim b 1 (deploy x): waits since 4, at most 500 ms -> fence 7 since 8
        release b 2 1
            b 2: Released
        admit deploy 9
        lock deploy
            permits 1
            was a's, fence 18446744073709551615, 5 to 7, Released
            was b's, fence 7, 8 to 9, Released
    "#]]);
}

#[test]
fn a_group_refuses_what_its_algorithms_cannot_do() {
    check(expect![[r#"
        gated
        open a
            a open, ttl 10000 ms
        acquire a 1 deploy s
            a 1: this server is a member of a peer group: a lock there has one holder, and cannot be shared
        acquire a 2 deploy p3
            a 2: this server is a member of a peer group: a lock there has one holder, and no permits
        acquire a 3 one,two x
            a 3: this server is a member of a peer group: a request there names one lock
        acquire a 4 deploy p1
            a 4: this server is a member of a peer group: a lock there has one holder, and no permits
        counts
            Counts { locks: 0, used: 0, sessions: 1, holders: 0, waiters: 0 }
    "#]]);
}

#[test]
fn whoever_leaves_the_line_is_not_admitted() {
    check(expect![[r#"
        gated
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy x
        acquire b 1 deploy x timeout 100
            b 1 waits, at most 100 ms
        acquire c 1 deploy x
        cancel a 2 1
            a 2: Cancelled(Removed)
            a 1: the request was cancelled
        cancel-wait b 1
            b 1: the lock was not granted within the time-out
        admit deploy 5
            c 1: granted, fence 5
        close c 2
            c 2: Closed
            c ended, Closed
        admit deploy 6
        lock deploy
            permits 1
            was c's, fence 5, 9 to 10, Released
    "#]]);
}

#[test]
fn a_closed_lock_is_not_granted_until_its_delay_is_over() {
    check(expect![[r#"
        gated
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x delay 50
        admit deploy 5
            a 1: granted, fence 5
        acquire b 1 deploy x
        expire a
            a ended, Expired
            deploy closed, generation 1, 50 ms
        admit deploy 6
        lock deploy
            permits 1
            closed, generation 1, 50 ms
            1. b 1 waits since 5
            was a's, fence 5, 4 to 6, Expired
        end-delay deploy 1
        lock deploy
            permits 1
            1. b 1 waits since 5
            was a's, fence 5, 4 to 6, Expired
        admit deploy 7
            b 1: granted, fence 7
    "#]]);
}

#[test]
fn a_forced_release_leaves_the_lock_to_the_algorithm() {
    check(expect![[r#"
        gated
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
        acquire b 1 deploy x
        admit deploy 5
            a 1: granted, fence 5
        force deploy
            deploy forced: a (fence 5, since 5)
            a 1 revoked
        force deploy now
            deploy forced: a (fence 5, since 5)
            a 1 revoked
        lock deploy
            permits 1
            1. b 1 waits since 4
            was a's, fence 5, 5 to 7, Forced
        admit deploy 6
            b 1: granted, fence 6
        release a 2 1
            a 2: Released
    "#]]);
}

#[test]
fn the_first_waiter_is_told_why_the_group_cannot_take_its_request() {
    check(expect![[r#"
        gated
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
        acquire b 1 deploy x
        deny deploy
            a 1: no
        lock deploy
            permits 1
            1. b 1 waits since 4
        deny deploy
            b 1: no
        deny deploy
        lock deploy
            forgotten
    "#]]);
}

/// The algorithm sees one member, so it finds no deadlock among the clients of the member.
#[test]
fn a_deadlock_among_the_clients_of_a_member_is_found() {
    check(expect![[r#"
        gated
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
        acquire b 1 two x
        admit one 1
            a 1: granted, fence 1
        admit two 1
            b 1: granted, fence 1
        acquire a 2 two x
        acquire b 2 one x
            b 2: deadlock: B -> one, A -> two
        acquire a 3 three x
        acquire a 4 three x
            a 4: deadlock: A -> three
    "#]]);
}

/// A request that does not wait is refused. The front end gives it some time instead.
#[test]
fn nothing_is_free_at_once() {
    check(expect![[r#"
        gated
        open a
            a open, ttl 10000 ms
        acquire a 1 deploy x timeout 0
            a 1: the lock is not free, and the request does not wait
        counts
            Counts { locks: 0, used: 0, sessions: 1, holders: 0, waiters: 0 }
    "#]]);
}
