//! The simulator: it runs a protocol in virtual time on a network with faults, measures the run, and judges it.
//!
//! [`run::run`] turns [`run::Options`] into a [`report::Report`]. The same options with the same seed give the same run,
//! byte for byte.
//!
//! [`stage::Stage`] is a group that a caller drives by hand, one action at a time. [`replay`] repeats a trace on it.
//!
//! [`judge`] judges a trace by its events alone, also a trace of real processes.
//!
//! **Architecture invariant: no module knows a single algorithm.** The world knows processes and
//! messages, the [users](app) know a family of protocols, and the [oracles](oracle) know only the events that they see.

pub mod app;
pub mod append_or_lock;
pub mod assumptions;
pub mod clocks;
pub mod detector;
pub mod faults;
pub mod judge;
pub mod metrics;
pub mod network;
pub mod oracle;
pub mod progress;
pub mod queue;
pub mod replay;
pub mod report;
pub mod run;
pub mod scenario;
pub mod spec;
pub mod stage;
pub mod swarm;
pub mod time;
pub mod world;
