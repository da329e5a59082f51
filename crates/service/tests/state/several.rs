//! Claims of several locks: one test a sentence.

use expect_test::expect;

use crate::script::check;

/// d joins a, and gets the fence of b's grant, though b has left: c and d must not have a lower one than b had.
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
