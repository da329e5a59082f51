//! `baton cluster`: a cluster of several nodes on this machine.

pub mod answer;
mod board;
pub mod check;
mod local;
pub mod view;

use clap::Subcommand;

use crate::output::Outcome;

/// Clusters of several nodes (docs/cluster.md)
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Local(local::Args),
}

pub fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Local(args) => local::run(args),
    }
}
