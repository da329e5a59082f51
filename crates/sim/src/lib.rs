//! The simulator: runs a protocol in virtual time, on a network with faults, measures it and judges it.
//!
//! [`run::run`] goes from [`run::Options`] to a [`report::Report`]. One seed is one run, byte for byte.
//!
//! [`service`] is a simulator of its own: the lock service with its clients, whose parts are not protocols of a registry.
//!
//! **Architecture invariant: nothing else in here knows a single algorithm.** The world knows processes and messages, the
//! [users](app) know a family of protocols, and the [oracles](oracle) know only what they see.

pub mod app;
pub mod append_or_lock;
pub mod assumptions;
pub mod clocks;
pub mod detector;
pub mod faults;
pub mod metrics;
pub mod network;
pub mod oracle;
pub mod progress;
pub mod queue;
pub mod replay;
pub mod report;
pub mod run;
pub mod scenario;
pub mod service;
pub mod spec;
pub mod stage;
pub mod swarm;
pub mod time;
pub mod tracer;
pub mod world;
