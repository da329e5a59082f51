//! Whole groups of real processes with clients, under faults: `baton peer` behind proxies, killed, stopped and cut off.
//!
//! `cargo test` runs a short selection. `cargo xtask peers` runs everything, for longer, through the variables below.

mod beginnings;
#[path = "../common/mod.rs"]
mod common;
mod elections;
mod group;
mod roles;
mod weather;
mod words;

use std::time::Duration;

use baton_protocol::registry::{ALGORITHMS, About, Family};
use common::number;

/// Set by `cargo xtask peers`: run every algorithm and every role.
const ALL: &str = "PEERS_ALL";
/// How long the links of each algorithm are cut at random, in seconds.
const SECONDS: &str = "PEERS_SECONDS";
/// Only algorithms whose names contain this.
const ONLY: &str = "PEERS_ONLY";
/// The seed of the cuts.
const SEED: &str = "PEERS_SEED";

/// Nothing in these tests takes this long, unless it hangs.
const LONG: Duration = Duration::from_secs(60);

fn is_full() -> bool {
    std::env::var_os(ALL).is_some()
}

fn is_wanted(name: &str) -> bool {
    std::env::var(ONLY).map_or(true, |only| name.contains(&only))
}

/// The algorithms of a family that are not broken on purpose.
fn healthy(family: Family) -> impl Iterator<Item = &'static About> {
    let is_healthy = move |about: &&&About| about.family == family && about.broken.is_none() && is_wanted(about.name);
    ALGORITHMS.iter().filter(is_healthy).copied()
}
