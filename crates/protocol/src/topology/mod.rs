//! Arrangements of processes: quorums, request and inform sets, trees.

pub mod difference_set;
pub mod information_structure;
pub mod quorum;
pub mod tree;
