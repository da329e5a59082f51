//! Lock-delays and forced releases.

use baton_state::state::locks::{self, ForcedHolder};
use baton_state::state::{Effect, OwnerId};
use expect_test::expect;

use crate::script::{Script, check, command, session};

/// No claim gets the lock until the delay of this generation is over.
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
            PendingTimers { sessions: [(SessionId(98), 10000)], waits: [], delays: [("deploy", 1, 700)], closed_ms: None }
        end-delay deploy 2
        end-delay deploy 0
        end-delay deploy 1
            b 1: granted, fence 2
        end-delay deploy 1
        end-delay nothing 1
    "#]]);
}

/// There is no lock-delay after a release, a cancel, a close or a forced release.
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
            deploy forced: a (fence 3, since 7)
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
            deploy forced: a (fence 1, since 4), b (fence 1, since 5)
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

/// The expiry is like any other, delay included.
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
            deploy forced: a (fence 1, since 3)
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

/// A later release by the holder is no error. A second one is.
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
            deploy forced: a (fence 1, since 3)
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

/// The operator takes that risk with `now`.
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
            deploy forced: nobody holds it
        force deploy now
            deploy forced: nobody holds it
            b 1: granted, fence 2
        end-delay deploy 1
        force nothing now
            nothing forced: nobody holds it
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
            deploy forced: a (fence 1, since 2)
            a 1 revoked
        cancel a 2 1
            a 2: Cancelled(Nothing)
        release a 3 1
            a 3: request 1 of this session holds no lock
    "#]]);
}

/// The answer names the holders at the time of the command.
#[test]
fn force_names_the_holders_that_it_hits() {
    let mut script = Script::default();
    for line in
        ["open a", "open b", "open c", "acquire a 1 deploy s owner 7", "acquire b 1 deploy s", "acquire c 1 deploy x"]
    {
        script.line(line);
    }
    let mut forced = |line: &str| {
        let effects = script.apply(&command(&line.split(' ').collect::<Vec<_>>()).unwrap());
        let mut told = effects.into_iter().filter_map(|effect| match effect {
            Effect::Locks(locks::Effect::Forced { lock, holders }) => Some((lock.to_string(), holders)),
            _ => None,
        });
        let first = told.next();
        assert_eq!(told.next(), None, "it is told once");
        first.unwrap()
    };
    let holder = |id: &str, owner: u64, fence: u64, since_ms: u64| {
        let (label, host, pid) = (id.to_uppercase().into(), "host".into(), 1);
        ForcedHolder { session: session(id), owner: OwnerId(owner), label, host, pid, fence, since_ms }
    };
    let shared = vec![holder("a", 7, 1, 4), holder("b", u64::from(b'b'), 1, 5)];
    assert_eq!(forced("force deploy"), ("deploy".to_owned(), shared.clone()));
    // The holders were told to release, but still hold the lock.
    assert_eq!(forced("force deploy"), ("deploy".to_owned(), shared.clone()));
    assert_eq!(forced("force deploy now"), ("deploy".to_owned(), shared));
    assert_eq!(forced("force deploy now"), ("deploy".to_owned(), vec![holder("c", u64::from(b'c'), 2, 9)]));
    assert_eq!(forced("force deploy now"), ("deploy".to_owned(), vec![]));
    assert_eq!(forced("force nothing"), ("nothing".to_owned(), vec![]));
}
