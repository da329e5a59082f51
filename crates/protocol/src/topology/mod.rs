//! Arrangements of processes: who asks whom, who tells whom.

pub mod difference_set;
pub mod information_structure;
pub mod quorum;
pub mod tree;
