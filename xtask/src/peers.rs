//! `cargo xtask peers`: groups of real processes under faults, every algorithm and every role, for as long as one likes.

use crate::{cargo, succeed};

/// Groups of real processes under faults: every algorithm while links break, and every role killed and stopped
///
/// The same tests as in `cargo xtask ci`, but all of them, and longer.
#[derive(clap::Args)]
pub struct Args {
    /// How long the links of each algorithm are cut at random, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    seconds: u64,
    /// The seed of the cuts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only algorithms whose names contain TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only these tests: weather, roles, elections, beginnings or words
    #[arg(long, value_name = "TEST")]
    test: Option<String>,
}

pub fn run(args: &Args) -> Result<(), String> {
    let mut command =
        cargo(&["test", "--release", "--locked", "-p", "baton", "--test", "groups", "--no-fail-fast", "--"]);
    command.args(["--nocapture", "--test-threads", "1"]).args(&args.test);
    command
        .env("PEERS_ALL", "1")
        .env("PEERS_SECONDS", args.seconds.to_string())
        .env("PEERS_SEED", args.seed.to_string());
    if let Some(only) = &args.only {
        command.env("PEERS_ONLY", only);
    }
    succeed(&mut command)
}
