//! What the service asks of the system around it: tasks, threads, time and random numbers.
//!
//! Code that runs in a task of a [`Simulation`](simulation::Simulation) gets them from the simulation: everything runs in
//! one thread under virtual time, and a seed repeats a run exactly. All other code gets tokio's tasks and timers, threads
//! of the system, and its random numbers. Which of the two is asked when the code runs, so the simulation runs the code
//! that ships.
//!
//! Code that is to be repeatable asks nothing else: not `std::time::Instant`, `tokio::spawn`, `tokio::time`,
//! `spawn_blocking`, `RandomState` or `std::thread`. It iterates over no map of random order, and each `tokio::select!` is
//! `biased`. The channels and locks of tokio need no runtime, so they stay.

#![forbid(unsafe_code)]

mod bell;
mod instant;
mod raft;
mod random;
pub mod simulation;
mod task;
mod thread;
mod time;

pub use bell::{Bell, Ringer, bell};
pub use instant::Instant;
pub use raft::Runtime;
pub use random::{random, random_bytes, random_u64};
pub use task::{JoinError, JoinHandle, JoinSet, spawn, spawn_blocking, spawn_on_thread};
pub use thread::{Thread, before_disk, before_large_write, thread};
pub use time::{Elapsed, Sleep, Timeout, sleep, sleep_until, timeout, timeout_at};
