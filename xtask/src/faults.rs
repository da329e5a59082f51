//! `cargo xtask faults`: the lock service on three and five nodes under faults, for as long as one likes.

use crate::{cargo, succeed};

/// Clusters of real processes under faults: leaders killed, stopped and cut off, nodes wiped, added and removed
///
/// Each round starts a cluster, breaks it under load, heals it, and judges what the clients saw. The seed of a round
/// decides its faults. The first round that fails ends the run and prints its seed.
#[derive(clap::Args)]
pub struct Args {
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 50)]
    rounds: u64,
    /// The seed of the first round; each further round has the next number
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(args: &Args) -> Result<(), String> {
    let mut command = cargo(&["test", "--release", "--locked", "-p", "baton", "--test", "faults", "--"]);
    command.args(["--exact", "rounds", "--nocapture"]);
    command.env("FAULTS_ROUNDS", args.rounds.to_string()).env("FAULTS_SEED", args.seed.to_string());
    succeed(&mut command)
}
