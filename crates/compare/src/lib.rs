//! Measures the algorithms, and compares what is measured with theory. `baton compare` prints these results, and other
//! programs may show them in another way: everything here returns data and prints nothing.
//!
//! Read [`mutex`] first: a [`mutex::Row`] is one algorithm, measured with one load and one number of processes. [`election`] does the same
//! for elections. [`claims`] judges what lecture notes and papers say.

pub mod claims;
pub mod command;
pub mod election;
pub mod extra;
pub mod mutex;
pub mod parallel;
pub mod theory;
pub mod verdict;
pub mod views;

pub use parallel::{Caller, Cancelled};
