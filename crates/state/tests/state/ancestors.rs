//! Owners that act for other owners, and the deadlocks that follow. A process waits for its children, so an owner waits
//! for the owners that name it as their parent.

use baton_state::state::locks::{self, Acquire, Mode};
use baton_state::state::{Answer, Effect, OwnerId};
use expect_test::expect;

use crate::script::{Script, check, request, session};

/// The grandchild names only its parent.
#[test]
fn who_waits_for_an_ancestor_waits_for_itself() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 deploy x parent a
            b 1: deadlock: B -> deploy
        acquire b 2 build x parent a
            b 2: granted, fence 2
        acquire c 1 build x parent b
            c 1: deadlock: C -> build
        acquire c 2 deploy x parent b
            c 2: deadlock: C -> deploy
        acquire c 3 deploy x parent b timeout 0
            c 3: the lock is not free, and the request does not wait
        acquire c 4 other x parent b
            c 4: granted, fence 3
    "#]]);
}

#[test]
fn siblings_wait_for_each_other() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 build x parent a
            b 1: granted, fence 2
        acquire c 1 build x parent a
        release b 2 1
            b 2: Released
            c 1: granted, fence 3
        lock build
            permits 1
            held by c 1, fence 3, since 7
            was b's, fence 2, 5 to 7, Released
    "#]]);
}

/// d waits for a, a waits for its child b, and b waits for d. The step from a to its child is not shown, because it has
/// no lock.
#[test]
fn a_cycle_can_go_over_an_ancestor() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire d 1 build x
            d 1: granted, fence 2
        acquire b 1 build x parent a
        acquire d 2 deploy x
            d 2: deadlock: D -> deploy, B -> build
    "#]]);
}

/// The same cycle, but the child asks last.
#[test]
fn the_parent_that_a_request_names_counts_for_it() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire d 1 build x
            d 1: granted, fence 2
        acquire d 2 deploy x
        acquire b 1 build x parent a
            b 1: deadlock: B -> build, D -> deploy
        acquire b 2 build x
    "#]]);
}

#[test]
fn a_cycle_can_go_over_several_generations() {
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
        acquire b 1 two x parent a
            b 1: granted, fence 2
        acquire d 1 three x
            d 1: granted, fence 3
        acquire e 1 four x
            e 1: granted, fence 4
        acquire c 1 three x parent b
        acquire e 2 one x
        acquire d 2 four x
            d 2: deadlock: D -> four, E -> one, C -> three
        acquire d 3 two x
            d 3: deadlock: D -> two, C -> three
    "#]]);
}

/// b is a child of a by its first claim, although the second claim names no parent.
#[test]
fn every_claim_of_an_owner_says_who_its_parents_are() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire b 1 build x parent a
            b 1: granted, fence 2
        acquire b 2 deploy x
            b 2: deadlock: B -> deploy
        release b 3 1
            b 3: Released
        acquire b 4 deploy x
    "#]]);
}

/// The child can finish, whatever its parent waits for.
#[test]
fn a_parent_may_wait_for_its_child() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 deploy x
            a 1: granted, fence 1
        acquire d 1 other x
            d 1: granted, fence 2
        acquire b 1 build x parent a
            b 1: granted, fence 3
        acquire b 2 other x parent a
        acquire a 2 build x
        release d 2 1
            d 2: Released
            b 2: granted, fence 4
    "#]]);
}

/// b can release a permit, unless it acts for a and c acts for it.
#[test]
fn with_permits_an_ancestor_alone_is_no_deadlock() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open c
            c open, ttl 10000 ms
        acquire a 1 pool p2
            a 1: granted, fence 1
        acquire b 1 pool p2
            b 1: granted, fence 2
        acquire c 1 pool p2 parent a
        cancel c 2 1
            c 2: Cancelled(Removed)
            c 1: the request was cancelled
        acquire b 2 other x parent a
            b 2: granted, fence 3
        acquire c 3 pool p2 parent b
            c 3: deadlock: C -> pool
    "#]]);
}

#[test]
fn an_owner_that_names_itself_has_no_parent() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 deploy x parent a
            a 1: granted, fence 1
        acquire b 1 deploy x
        acquire b 2 build x
            b 2: granted, fence 2
        acquire a 2 build x parent a
            a 2: deadlock: A -> build, B -> deploy
        release a 3 1
            a 3: Released
            b 1: granted, fence 3
    "#]]);
}

/// Each says that it waits for the other. A third owner may wait for them, because it does not wait for itself.
#[test]
fn owners_that_are_each_other_s_parents_wait_for_each_other() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 one x parent b
            a 1: granted, fence 1
        acquire b 1 two x parent a
            b 1: granted, fence 2
        acquire a 2 two x parent b
            a 2: deadlock: A -> two
        acquire d 1 one x
        acquire d 2 two x
        acquire d 3 three x
            d 3: granted, fence 3
        acquire a 3 three x parent b
            a 3: deadlock: A -> three, D -> two
        release a 4 1
            a 4: Released
            d 1: granted, fence 4
        release b 2 1
            b 2: Released
            d 2: granted, fence 5
    "#]]);
}

/// b waits for a, and then says that a waits for b. A refusal would help nobody: b does not wait for the free lock.
#[test]
fn a_free_lock_is_granted_whoever_the_parent_is() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        open d
            d open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 one x
        acquire b 2 two x parent a
            b 2: granted, fence 2
        acquire d 1 two x
        acquire a 2 two x
            a 2: deadlock: A -> two, B -> one
        release b 3 2
            b 3: Released
            d 1: granted, fence 3
    "#]]);
}

/// The answer to an acquire of one lock, if it is answered at once.
fn answer(script: &mut Script, id: &str, number: u64, lock: &str, owner: u64, parent: Option<u64>) -> Option<Answer> {
    let acquire = Acquire { parent: parent.map(OwnerId), ..Acquire::one(lock, Mode::Exclusive, OwnerId(owner)) };
    let effects = script.apply(&request(session(id), number, 0, locks::Operation::Acquire(acquire)));
    effects.into_iter().find_map(|effect| match effect {
        Effect::Answer { answer, .. } => Some(answer),
        _ => None,
    })
}

fn deadlock(answer: Option<Answer>) -> Option<Vec<String>> {
    match answer? {
        Answer::Locks(locks::Answer::Refused(locks::Refusal::Deadlock(cycle))) => {
            Some(cycle.into_iter().map(|step| step.lock.to_string()).collect())
        }
        _ => None,
    }
}

/// With any number of locks and of ancestors.
#[test]
fn far_ancestors_with_many_locks_are_found() {
    for (locks, generations) in [(1, 1_000), (63, 2), (64, 2), (65, 2), (200, 100)] {
        let mut script = Script::default();
        script.line("open a");
        script.line("open b");
        for number in 1..=locks {
            answer(&mut script, "a", number, &number.to_string(), 1, None);
        }
        for owner in 2..=generations {
            answer(&mut script, "b", owner, &format!("of {owner}"), owner, Some(owner - 1));
        }
        let (number, last) = (generations + 1, locks.to_string());
        let answered = answer(&mut script, "b", number, &last, generations, None);
        assert_eq!(deadlock(answered), Some(vec![last.clone()]), "{locks} locks, {generations} generations");
        // Without the link to its parent, the owner is unrelated.
        let answered = answer(&mut script, "b", number + 1, &last, 5_000, Some(4_000));
        assert_eq!(answered, None);
        script.state.check().unwrap();
    }
}
