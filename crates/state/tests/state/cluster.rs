//! The cluster: the longest TTL, the floor of the fences, and a cluster that grants nothing until the leases of before
//! must have ended.

use expect_test::expect;

use crate::records::again;
use crate::script::{Script, check};

#[test]
fn a_closed_cluster_grants_nothing_until_the_leader_has_waited() {
    check(expect![[r#"
        closed 1500
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x timeout 500
            a 1 waits, at most 500 ms
        acquire a 2 deploy x timeout 0
            a 2: the lock is not free, and the request does not wait
        acquire b 1 deploy s
        acquire b 2 disk,pool x
        acquire a 3 pool x
            a 3: deadlock: A -> pool, B -> deploy
        cancel-wait a 1
            a 1: the lock was not granted within the time-out
        waited 1500 500
            cluster closed, 500 ms
        waited 1500 500
        timers
            PendingTimers { sessions: [(SessionId(97), 10000), (SessionId(98), 10000)], waits: [], delays: [], closed_ms: Some(500) }
        waited 500 0
            cluster closed, 0 ms
            b 1: granted, fence 1
            b 2: granted, fence 2
        timers
            PendingTimers { sessions: [(SessionId(97), 10000), (SessionId(98), 10000)], waits: [], delays: [], closed_ms: None }
        release b 3 2
            b 3: Released
        acquire a 4 other x
            a 4: granted, fence 3
    "#]]);
}

#[test]
fn a_restart_leaves_a_cluster_closed() {
    let mut script = Script::default();
    ["closed 1500", "open a", "acquire a 1 deploy x"].iter().for_each(|line| drop(script.line(line)));
    script.state = again(&script.state);
    assert_eq!(script.line("acquire a 2 other x"), [""; 0]);
    assert_eq!(
        script.line("waited 1500 0"),
        ["cluster closed, 0 ms", "a 1: granted, fence 1", "a 2: granted, fence 2"]
    );
}

#[test]
fn a_session_begins_only_with_a_ttl_that_the_cluster_allows() {
    check(expect![[r#"
        open a ttl 60000
            a open, ttl 60000 ms
        max-ttl 10000
        open b ttl 10001
            b ended, Unknown
        open b ttl 10000
            b open, ttl 10000 ms
        resume a ttl 60000
            a open, ttl 60000 ms
        open a ttl 60000
            a open, ttl 60000 ms
    "#]]);
}

#[test]
fn fences_are_raised_and_never_lowered() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        fences-from 1000
        acquire a 1 one x
            a 1: granted, fence 1000
        fences-from 7
        acquire a 2 two x
            a 2: granted, fence 1001
        fences-from 9007199254740992
        acquire a 3 three x
            a 3: granted, fence 1002
    "#]]);
}

#[test]
fn a_cluster_that_begins_anew_ends_all_sessions_and_raises_the_fences() {
    check(expect![[r#"
        max-ttl 20000
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x delay 700
            a 1: granted, fence 1
        acquire b 1 deploy x
        acquire b 2 disk x
            b 2: granted, fence 2
        begin-anew 1000
            a ended, Expired
            deploy closed, generation 1, 700 ms
            b ended, Expired
            cluster closed, 20000 ms
        timers
            PendingTimers { sessions: [], waits: [], delays: [], closed_ms: Some(20000) }
        counts
            Counts { locks: 2, used: 1, sessions: 0, holders: 0, waiters: 0 }
        open c
            c open, ttl 10000 ms
        acquire c 1 disk x
        acquire c 2 deploy x
        acquire c 3 other x timeout 0
            c 3: the lock is not free, and the request does not wait
        waited 20000 0
            cluster closed, 0 ms
            deploy closed, generation 1, 700 ms
            c 1: granted, fence 1000
        timers
            PendingTimers { sessions: [(SessionId(99), 10000)], waits: [], delays: [("deploy", 1, 700)], closed_ms: None }
        end-delay deploy 1
            c 2: granted, fence 1001
        lock deploy
            permits 1
            held by c 2, fence 1001, since 13
            was a's, fence 1, 4 to 7, Expired
    "#]]);
}

#[test]
fn a_cluster_begins_anew_at_once_if_its_operator_says_so() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        begin-anew 1000 0
            a ended, Expired
            cluster closed, 0 ms
        open b
            b open, ttl 10000 ms
        acquire b 1 deploy x
            b 1: granted, fence 1000
    "#]]);
}

#[test]
fn fences_never_go_back_when_a_cluster_begins_anew() {
    check(expect![[r#"
        fences-from 1000
        begin-anew 5 0
            cluster closed, 0 ms
        open a
            a open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1000
    "#]]);
}
