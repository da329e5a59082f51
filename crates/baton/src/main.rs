//! The command line. Each subcommand has one file (or folder), which reads its options, calls a library and prints the
//! result.

mod algorithms;
mod backup;
mod check;
mod cluster;
mod compare;
mod crew;
mod demo;
mod durations;
mod elsewhere;
mod events;
mod extent;
mod group;
mod lab;
mod lock;
mod lock_info;
mod locks;
mod log;
mod member;
mod node_args;
mod output;
mod peer;
mod progress;
mod release;
mod serve;
mod service_args;
mod sessions;
mod sim;
mod sink;
mod soak;
mod status;
mod trace;
mod usage;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::{Outcome, warn};

/// Distributed mutual exclusion and leader election.
#[derive(Parser)]
#[command(name = "baton", version, arg_required_else_help = true)]
#[command(after_help = "The words of the commands (fence, lease, term, ...) are explained in docs/glossary.md.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Algorithms(algorithms::Args),
    Check(Box<check::Args>),
    Demo(demo::Args),
    Peer(peer::Args),
    Group(group::Args),
    Serve(Box<serve::Args>),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
    Cluster(cluster::Args),
    Member(member::Args),
    Lock(Box<lock::Args>),
    Locks(locks::Args),
    LockInfo(lock_info::Args),
    Events(events::Args),
    Sessions(sessions::Args),
    Release(release::Args),
    Status(status::Args),
    Sim(Box<sim::Args>),
    Compare(compare::Args),
    Lab(lab::Args),
    Soak(soak::Args),
    Trace(trace::Args),
}

/// Subcommands that only `baton` itself starts. They are not in [`Command`], so that help and suggestions never name
/// them.
#[derive(Parser)]
#[command(name = "baton")]
enum Step {
    LockWatchdog(lock::watchdog::Args),
    LockExec(lock::exec::Args),
    DemoWorker(demo::worker::Args),
}

const STEPS: [&str; 3] = ["lock-watchdog", "lock-exec", "demo-worker"];

fn main() -> ExitCode {
    let is_step = std::env::args_os().nth(1).is_some_and(|name| STEPS.iter().any(|step| name == *step));
    let result = if is_step { run_step() } else { run() };
    match result {
        Ok(status) => status,
        Err(failure) => {
            warn(failure.message);
            failure.status
        }
    }
}

fn run_step() -> Outcome {
    match usage::parse::<Step>()? {
        Step::LockWatchdog(args) => lock::watchdog::run(&args),
        Step::LockExec(args) => lock::exec::run(&args),
        Step::DemoWorker(args) => demo::worker::run(&args),
    }
}

fn run() -> Outcome {
    match usage::parse::<Cli>()?.command {
        Command::Algorithms(args) => algorithms::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Peer(args) => peer::run(&args),
        Command::Group(args) => group::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Member(args) => member::run(&args),
        Command::Lock(args) => lock::run(&args),
        Command::Locks(args) => locks::run(&args),
        Command::LockInfo(args) => lock_info::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Sessions(args) => sessions::run(&args),
        Command::Release(args) => release::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Trace(args) => trace::run(&args),
    }
}
