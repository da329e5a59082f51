//! Revisions and changes.

use baton_state::state::locks::Command::CancelWait;
use baton_state::state::{Outcome, State};
use expect_test::expect;

use crate::script::{check, command, session};

/// The revision of an unchanged state is 1, as in etcd.
#[test]
fn the_revision_starts_at_1() {
    check(expect![[r#"
        revision
            1
    "#]]);
}

#[test]
fn an_acquire_that_enters_raises_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        revision
            1
        acquire a 1 one x
            a 1: granted, fence 1
        changes
            103.0 revision 2 claim a 1 (one x): nothing -> fence 1 since 3
        revision
            2
        acquire b 1 one x
        changes
            104.0 revision 3 claim b 1 (one x): nothing -> waits since 4
        revision
            3
        acquire b 2 two,three x
            b 2: granted, fence 2
        revision
            4
        claims a
            a 1 (one x), ticket 1, revision 2: fence 1 since 3
        claims b
            b 1 (one x), ticket 2, revision 3: waits since 4
            b 2 (two x, three x), ticket 3, revision 4: fence 2 since 5
    "#]]);
}

#[test]
fn a_release_raises_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        revision
            2
        release a 2 1
            a 2: Released
        changes
            103.0 revision 3 claim a 1 (one x): fence 1 since 2 -> nothing
        revision
            3
    "#]]);
}

#[test]
fn a_cancel_of_a_waiter_or_a_holder_raises_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 one x
        revision
            3
        cancel b 2 1
            b 2: Cancelled(Removed)
            b 1: the request was cancelled
        changes
            105.0 revision 4 claim b 1 (one x): waits since 4 -> nothing
        revision
            4
        cancel a 2 1
            a 2: Cancelled(Released)
        changes
            106.0 revision 5 claim a 1 (one x): fence 1 since 3 -> nothing
        revision
            5
    "#]]);
}

#[test]
fn a_time_out_raises_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 one x timeout 500
            b 1 waits, at most 500 ms
        revision
            3
        cancel-wait b 1
            b 1: the lock was not granted within the time-out
        changes
            105.0 revision 4 claim b 1 (one x): waits since 4, at most 500 ms -> nothing
        revision
            4
    "#]]);
}

/// Once, however many claims end, and whatever is granted then.
#[test]
fn the_end_of_a_session_with_claims_raises_it_once() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one x delay 300
            a 1: granted, fence 1
        acquire a 2 two,three x
            a 2: granted, fence 2
        acquire b 1 two x
        acquire a 3 two x owner 9
        revision
            5
        expire a
            a ended, Expired
            one closed, generation 1, 300 ms
            b 1: granted, fence 3
        changes
            108.0 revision 6 claim a 1 (one x): fence 1 since 4 -> nothing
            108.1 revision 6 claim a 2 (two x, three x): fence 2 since 5 -> nothing
            108.2 revision 6 claim a 3 (two x): waits since 7 -> nothing
            108.3 delay of one: nothing -> generation 1, 300 ms
            108.4 claim b 1 (two x): waits since 6 -> fence 3 since 8
            108.5 session a: A, ttl 10000 ms -> nothing
        revision
            6
        acquire c 1 four x
            c 1: granted, fence 4
        acquire c 2 five x
            c 2: granted, fence 5
        revision
            8
        close c 3
            c 3: Closed
            c ended, Closed
        changes
            111.0 revision 9 claim c 1 (four x): fence 4 since 9 -> nothing
            111.1 revision 9 claim c 2 (five x): fence 5 since 10 -> nothing
            111.2 session c: C, ttl 10000 ms -> nothing
        revision
            9
    "#]]);
}

/// Once, however many holders there are.
#[test]
fn force_now_raises_it_once() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 one s
            a 1: granted, fence 1
        acquire b 1 one s
            b 1: granted, fence 1
        acquire c 1 one x
        revision
            4
        force one now
            one forced: a (fence 1, since 4), b (fence 1, since 5)
            a 1 revoked
            b 1 revoked
            c 1: granted, fence 2
        changes
            107.0 revision 5 claim a 1 (one s): fence 1 since 4 -> nothing
            107.1 revision 5 claim b 1 (one s): fence 1 since 5 -> nothing
            107.2 claim c 1 (one x): waits since 6 -> fence 2 since 7
        revision
            5
    "#]]);
}

#[test]
fn a_refused_request_does_not_raise_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 two x
            b 1: granted, fence 2
        acquire b 2 one x
        revision
            4
        acquire b 3 one x timeout 0
            b 3: the lock is not free, and the request does not wait
        acquire a 2 one p2
            a 2: the lock "one" is in use as exclusive or shared (1 permit), and the request says 2
        acquire a 3 two x
            a 3: deadlock: A -> two, B -> one
        acquire a 4 one,one x
            a 4: an acquire names the lock "one" twice; it must name each lock once
        release a 5 4
            a 5: request 4 of this session holds no lock
        release a 6 6
            a 6: request 6 speaks of acquire 6; it can only speak of an earlier one, from 1 on
        cancel a 7 2
            a 7: Cancelled(Nothing)
        acquire b 3 one x
            b 3: the session has used the number of this request for another one; each request needs a number of its own
        changes
        revision
            4
    "#]]);
}

#[test]
fn a_grant_to_a_waiter_has_no_revision_of_its_own() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 one x
        revision
            3
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
        changes
            105.0 revision 4 claim a 1 (one x): fence 1 since 3 -> nothing
            105.1 claim b 1 (one x): waits since 4 -> fence 2 since 5
        revision
            4
        claims b
            b 1 (one x), ticket 2, revision 3: fence 2 since 5
    "#]]);
}

#[test]
fn a_repeated_request_does_not_raise_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 one x
        revision
            3
        acquire a 1 one x
            a 1: granted, fence 1
        changes
        acquire b 1 one x
        changes
        revision
            3
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
        revision
            4
        release a 2 1
            a 2: Released
        changes
        revision
            4
    "#]]);
}

#[test]
fn force_without_now_does_not_raise_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        revision
            2
        force one
            one forced: a (fence 1, since 2)
            a 1 revoked
        changes
            103.0 claim a 1 (one x): fence 1 since 2 -> fence 1 since 2, revoked
        force one
            one forced: a (fence 1, since 2)
            a 1 revoked
        changes
        revision
            2
    "#]]);
}

/// Not even if it opens a closed lock.
#[test]
fn force_now_on_nobody_does_not_raise_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x delay 300
            a 1: granted, fence 1
        acquire b 1 one x
        expire a
            a ended, Expired
            one closed, generation 1, 300 ms
        revision
            4
        force two now
            two forced: nobody holds it
        changes
        force one now
            one forced: nobody holds it
            b 1: granted, fence 2
        changes
            107.0 delay of one: generation 1, 300 ms -> nothing
            107.1 claim b 1 (one x): waits since 4 -> fence 2 since 7
        revision
            4
    "#]]);
}

#[test]
fn the_end_of_a_lock_delay_does_not_raise_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x delay 300
            a 1: granted, fence 1
        acquire b 1 one x
        expire a
            a ended, Expired
            one closed, generation 1, 300 ms
        revision
            4
        end-delay one 1
            b 1: granted, fence 2
        changes
            106.0 delay of one: generation 1, 300 ms -> nothing
            106.1 claim b 1 (one x): waits since 4 -> fence 2 since 6
        revision
            4
    "#]]);
}

#[test]
fn sessions_and_leaders_do_not_raise_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        changes
            101.0 session a: nothing -> A, ttl 10000 ms
        open a ttl 5000
            a open, ttl 10000 ms
        changes
        resume a
            a open, ttl 10000 ms
        lead 1
        changes
        open b ttl 5
            b ended, Unknown
        changes
        expire a term 1
            a ended, Expired
        changes
            106.0 session a: A, ttl 10000 ms -> nothing
        open c
            c open, ttl 10000 ms
        close c 1
            c 1: Closed
            c ended, Closed
        changes
            108.0 session c: C, ttl 10000 ms -> nothing
        revision
            1
    "#]]);
}

/// Each command of an entry raises the revision. The positions of the changes count through the whole entry.
#[test]
fn each_command_of_an_entry_raises_it() {
    let (mut state, mut outcome) = (State::default(), Outcome::default());
    for line in ["open a", "acquire a 1 one x", "acquire a 2 two x", "release a 3 1"] {
        let words: Vec<&str> = line.split_whitespace().collect();
        state.apply(7, 1, &command(&words).expect("a command"), &mut outcome);
    }
    state.apply(8, 1, &CancelWait { session: session("a"), number: 1 }.into(), &mut outcome);
    let places: Vec<_> =
        outcome.changes.iter().map(|change| (change.index, change.position, change.revision)).collect();
    assert_eq!(places, [(7, 0, None), (7, 1, Some(2)), (7, 2, Some(3)), (7, 3, Some(4))]);
    assert_eq!(state.revision(), 4);
}
