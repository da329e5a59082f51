//! Algorithms that are wrong on purpose, each kept because it is instructive how it breaks.

pub mod ricart_agrawala_time_only;
