//! Arrangements of processes: who asks whom, who tells whom.

pub mod tree;
