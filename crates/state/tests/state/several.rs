//! Claims of several locks: how they enter, wait and are granted.

use baton_state::state::locks::limits::WANTS_MAX;
use baton_state::state::locks::{Acquire, Mode, Operation, Want};
use baton_state::state::{Answer, Effect, OwnerId};
use expect_test::expect;

use crate::script::{Script, check, request, session};

/// One change, one ticket, one revision.
#[test]
fn a_claim_enters_all_queues_at_once() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one,two:s,three:p3 x
            a 1: granted, fence 1
        changes
            103.0 revision 2 claim a 1 (one x, two s, three p3): nothing -> fence 1 since 3
        revision
            2
        acquire b 1 one:s,two,four:p2 s timeout 700
            b 1 waits, at most 700 ms
        changes
            104.0 revision 3 claim b 1 (one s, two s, four p2): nothing -> waits since 4, at most 700 ms
        revision
            3
        claims a
            a 1 (one x, two s, three p3), ticket 1, revision 2: fence 1 since 3
        claims b
            b 1 (one s, two s, four p2), ticket 2, revision 3: waits since 4, at most 700 ms
        lock one
            permits 1
            held by a 1, fence 1, since 3
            1. b 1 waits since 4
        lock two
            permits 1
            held by a 1, fence 1, since 3
            1. b 1 waits since 4
        lock three
            permits 3
            held by a 1, fence 1, since 3
        lock four
            permits 2
            1. b 1 waits since 4
        session a
            A, ttl 10000 ms, holds [one two three], waits []
        session b
            B, ttl 10000 ms, holds [], waits [one two four]
        counts
            Counts { locks: 4, used: 4, sessions: 2, holders: 1, waiters: 1 }
    "#]]);
}

/// All of them have the same fence.
#[test]
fn a_claim_is_granted_in_one_command_when_every_lock_admits_it() {
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
        acquire c 1 one,two x
        release a 2 1
            a 2: Released
        lock one
            permits 1
            1. c 1 waits since 6
            was a's, fence 1, 4 to 7, Released
        release b 2 1
            b 2: Released
            c 1: granted, fence 3
        changes
            108.0 revision 6 claim b 1 (two x): fence 2 since 5 -> nothing
            108.1 claim c 1 (one x, two x): waits since 6 -> fence 3 since 8
        lock one
            permits 1
            held by c 1, fence 3, since 8
            was a's, fence 1, 4 to 7, Released
        lock two
            permits 1
            held by c 1, fence 3, since 8
            was b's, fence 2, 5 to 8, Released
        session c
            C, ttl 10000 ms, holds [one two], waits []
    "#]]);
}

/// Not even a shared claim at a lock that is free or shared.
#[test]
fn nobody_overtakes_a_claim_that_waits_for_another_lock() {
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
        acquire b 1 one,two s
        acquire c 1 two s
        acquire c 2 two s timeout 0
            c 2: the lock is not free, and the request does not wait
        acquire d 1 three s
            d 1: granted, fence 2
        acquire b 2 one,three s
        acquire d 2 three s
        lock two
            permits 1
            1. b 1 waits since 6
            2. c 1 waits since 7
        lock three
            permits 1
            held by d 1, fence 2, since 9
            1. b 2 waits since 10
            2. d 2 waits since 11
        release a 2 1
            a 2: Released
            b 1: granted, fence 3
            b 2: granted, fence 4
            c 1: granted, fence 3
            d 2: granted, fence 4
    "#]]);
}

#[test]
fn try_takes_all_or_none() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 two x
            a 1: granted, fence 1
        acquire b 1 one,two,three x timeout 0
            b 1: the lock is not free, and the request does not wait
        lock one
            forgotten
        lock three
            forgotten
        revision
            2
        release a 2 1
            a 2: Released
        acquire b 2 one,two,three x timeout 0
            b 2: granted, fence 2
    "#]]);
}

/// The refusal names the lock. The other locks are not taken.
#[test]
fn permits_that_differ_at_one_lock_refuse_all() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 pool p2
            a 1: granted, fence 1
        acquire b 1 one:x,pool:p3,two:x x
            b 1: the lock "pool" is in use with 2 permits, and the request says 3
        lock one
            forgotten
        lock two
            forgotten
        acquire b 2 one:x,pool:p2,two:s x
            b 2: granted, fence 2
    "#]]);
}

#[test]
fn an_acquire_names_each_lock_once() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one,two,one x
            a 1: an acquire names the lock "one" twice; it must name each lock once
        acquire a 2 one,one:s x
            a 2: an acquire names the lock "one" twice; it must name each lock once
        acquire a 3 one x
            a 3: granted, fence 1
        counts
            Counts { locks: 1, used: 1, sessions: 1, holders: 1, waiters: 0 }
    "#]]);
}

/// c gets two once b has one and two. d gets four once c has two and four.
#[test]
fn whoever_stands_behind_a_granted_claim_is_looked_at() {
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
        acquire b 1 one,two s
        acquire c 1 two,four s
        acquire d 1 four s
        acquire d 2 two s
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
            c 1: granted, fence 3
            d 2: granted, fence 3
            d 1: granted, fence 3
        changes
            110.0 revision 7 claim a 1 (one x): fence 1 since 5 -> nothing
            110.1 claim b 1 (one s, two s): waits since 6 -> fence 2 since 10
            110.2 claim c 1 (two s, four s): waits since 7 -> fence 3 since 10
            110.3 claim d 2 (two s): waits since 9 -> fence 3 since 10
            110.4 claim d 1 (four s): waits since 8 -> fence 3 since 10
    "#]]);
}

/// The first waiter of the second lock is another claim.
#[test]
fn a_claim_that_is_first_at_one_lock_only_is_not_granted() {
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
        acquire b 1 two x
            b 1: granted, fence 2
        acquire c 1 two x
        acquire d 1 one,two x
        release a 2 1
            a 2: Released
        lock one
            permits 1
            1. d 1 waits since 8
            was a's, fence 1, 5 to 9, Released
        release b 2 1
            b 2: Released
            c 1: granted, fence 3
        release c 2 1
            c 2: Released
            d 1: granted, fence 4
    "#]]);
}

/// The other locks of a granted claim are checked after all freed locks.
#[test]
fn the_locks_of_a_granted_claim_are_looked_at_last() {
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
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 2 three x
            a 2: granted, fence 2
        acquire b 1 one,two s
        acquire c 1 two s
        acquire d 1 three x
        expire a
            a ended, Expired
            b 1: granted, fence 3
            d 1: granted, fence 4
            c 1: granted, fence 3
    "#]]);
}

/// a and b share. c wants another lock, too, and has its own fence. d joins c.
#[test]
fn a_claim_of_several_locks_has_a_fence_of_its_own() {
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
        acquire a 1 one s
            a 1: granted, fence 1
        acquire b 1 one s
            b 1: granted, fence 1
        acquire c 1 one,two s
            c 1: granted, fence 2
        acquire d 1 one s
            d 1: granted, fence 2
        acquire e 1 one,two s
            e 1: granted, fence 3
        acquire a 2 two s
            a 2: granted, fence 3
        lock one
            permits 1
            held by a 1, fence 1, since 6
            held by b 1, fence 1, since 7
            held by c 1, fence 2, since 8
            held by d 1, fence 2, since 9
            held by e 1, fence 3, since 10
        lock two
            permits 1
            held by c 1, fence 2, since 8
            held by e 1, fence 3, since 10
            held by a 2, fence 3, since 11
    "#]]);
}

/// d joins a, and gets the fence of b's grant, although b has left. c and d must not have a lower fence than b had.
#[test]
fn the_fences_of_a_lock_never_fall_even_if_the_highest_has_left() {
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
        acquire b 1 deploy,other s
            b 1: granted, fence 2
        release b 2 1
            b 2: Released
        acquire c 1 deploy s
            c 1: granted, fence 2
        release c 2 1
            c 2: Released
        acquire d 1 deploy s
            d 1: granted, fence 2
        release a 2 1
            a 2: Released
        release d 2 1
            d 2: Released
        acquire d 3 deploy s
            d 3: granted, fence 3
    "#]]);
}

fn acquire_many(count: usize) -> Operation {
    let want = |at: usize| Want { lock: format!("lock {at}").as_str().into(), mode: Mode::Exclusive };
    let wants = (0..count).map(want).collect();
    Operation::Acquire(Acquire { wants, owner: OwnerId(1), parent: None, timeout_ms: None, lock_delay_ms: 0 })
}

#[test]
fn an_acquire_names_1_to_64_locks() {
    let mut script = Script::default();
    script.line("open a");
    let mut ask = |number, count| match &script.apply(&request(session("a"), number, 0, acquire_many(count)))[..] {
        [Effect::Answer { answer: Answer::Refused(refusal), .. }] => refusal.to_string(),
        [Effect::Answer { answer, .. }] => format!("{answer:?}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(ask(1, 0), "an acquire names 0 locks; it must name from 1 to 64");
    assert_eq!(ask(2, WANTS_MAX + 1), "an acquire names 65 locks; it must name from 1 to 64");
    assert_eq!(ask(3, WANTS_MAX), "Locks(Granted { fence: 1 })");
    assert_eq!(script.state.check(), Ok(()));
    assert_eq!(script.state.counts().used, WANTS_MAX);
}
