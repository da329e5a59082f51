//! Algorithms that are wrong on purpose, each kept because it is instructive how it breaks.

pub mod permission_ring_original;
pub mod raymond_greedy;
pub mod ricart_agrawala_time_only;
