//! The command line: one file a subcommand, each of them thin.

mod algorithms;
mod check;
mod compare;
mod demo;
mod output;
mod peer;
mod sim;
mod sink;
mod soak;
mod theory;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Distributed mutual exclusion and leader election.
#[derive(Parser)]
#[command(name = "baton", version, arg_required_else_help = true, allow_negative_numbers = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Algorithms(algorithms::Args),
    Check(check::Args),
    Demo(demo::Args),
    Peer(peer::Args),
    Sim(Box<sim::Args>),
    Compare(compare::Args),
    Soak(soak::Args),
}

fn main() -> ExitCode {
    // Clap itself answers bad usage with status 2, as we do.
    let result = match Cli::parse().command {
        Command::Algorithms(args) => algorithms::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Peer(args) => peer::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Soak(args) => soak::run(&args),
    };
    match result {
        Ok(status) => status,
        Err(failure) => {
            eprintln!("baton: {}", failure.message);
            failure.status
        }
    }
}
