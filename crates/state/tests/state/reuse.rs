//! Request numbers that are used again for another request.

use expect_test::expect;

use crate::script::check;

/// For any operation.
#[test]
fn a_number_of_a_request_that_waits_is_not_used_again() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 one x timeout 500
            b 1 waits, at most 500 ms
        acquire b 1 one s timeout 500
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire b 1 two x timeout 500
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire b 1 one,two x timeout 500
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire b 1 one x timeout 501
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire b 1 one x
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire b 1 one x timeout 500 delay 1
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire b 1 one x timeout 500 owner 9
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire b 1 one x timeout 500 parent 9
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        release b 1 1
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        close b 1
            b 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire b 1 one x timeout 500
        lock one
            permits 1
            held by a 1, fence 1, since 3
            1. b 1 waits since 4
        release a 2 1
            a 2: Released
            b 1: granted, fence 2
    "#]]);
}

#[test]
fn a_number_of_an_answer_that_is_not_seen_is_not_used_again() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 1 two x
            a 1: the session has used the number of this request for another one; each request needs a number of its own
        release a 2 1
            a 2: Released
        cancel a 2 1
            a 2: the session has used the number of this request for another one; each request needs a number of its own
        release a 2 2
            a 2: the session has used the number of this request for another one; each request needs a number of its own
        acquire a 2 one x
            a 2: the session has used the number of this request for another one; each request needs a number of its own
        release a 2 1
            a 2: Released
        acquire a 1 one x
            a 1: granted, fence 1
        close a 1
            a 1: the session has used the number of this request for another one; each request needs a number of its own
        session a
            A, ttl 10000 ms, holds [], waits []
    "#]]);
}

#[test]
fn a_number_of_a_refused_request_is_not_used_again() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        release a 1 9
            a 1: request 1 speaks of acquire 9; it can only speak of an earlier one, from 1 on
        release a 1 8
            a 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire a 1 one x
            a 1: the session has used the number of this request for another one; each request needs a number of its own
        release a 1 9
            a 1: request 1 speaks of acquire 9; it can only speak of an earlier one, from 1 on
    "#]]);
}

/// The order of the names counts: it is another request.
#[test]
fn several_locks_in_another_order_are_another_request() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        acquire a 1 one,two x
            a 1: granted, fence 1
        acquire a 1 two,one x
            a 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire a 1 one,two s
            a 1: the session has used the number of this request for another one; each request needs a number of its own
        acquire a 1 one,two x
            a 1: granted, fence 1
    "#]]);
}

/// The seen and missing answers, the address and the principal are not part of the request.
#[test]
fn a_retry_is_the_same_request_whatever_else_it_says() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire a 2 two x
            a 2: granted, fence 2
        acquire b 1 one x
        acquire b 2 two x
        acquire a 2 two x seen 1
            a 2: granted, fence 2
        acquire a 2 two x seen 1 missing 1
            a 2: granted, fence 2
        acquire a 2 two x from eve
            a 2: granted, fence 2
        acquire a 2 two x seen 1 from somebody
            a 2: granted, fence 2
        acquire b 1 one x from eve
        acquire b 2 two x seen 1 missing 1 from eve
        lock one
            permits 1
            held by a 1, fence 1, since 3
            1. b 1 waits since 5
    "#]]);
}

/// The client has said that it knows the answer.
#[test]
fn nothing_is_said_once_the_answer_was_seen() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        release a 2 1 seen 1
            a 2: Released
        acquire a 1 two x
        acquire a 1 one x
        acquire b 1 three x
            b 1: granted, fence 2
        acquire a 3 three x
        acquire a 4 five x seen 3
            a 4: granted, fence 3
        acquire a 3 four x
            a 3: the session has used the number of this request for another one; each request needs a number of its own
        release b 2 1
            b 2: Released
            a 3: granted, fence 4
        acquire a 3 four x
        acquire a 3 three x
        session a
            A, ttl 10000 ms, holds [three five], waits []
    "#]]);
}

/// The state does not know the operation yet, so every request of this number gets the answer for the cancelled
/// acquire.
#[test]
fn a_number_that_a_cancel_named_before_it_came_fits_any_request() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        cancel a 2 1
            a 2: Cancelled(Nothing)
        acquire a 1 one x
            a 1: the request was cancelled
        acquire a 1 two x
            a 1: the request was cancelled
        release a 3 1
            a 3: request 1 of this session holds no lock
    "#]]);
}

#[test]
fn numbers_of_another_session_are_others() {
    check(expect![[r#"
        open a
            a open, ttl 10000 ms
        open b
            b open, ttl 10000 ms
        acquire a 1 one x
            a 1: granted, fence 1
        acquire b 1 two x
            b 1: granted, fence 2
        acquire a 2 two x
        release b 2 1
            b 2: Released
            a 2: granted, fence 3
    "#]]);
}
