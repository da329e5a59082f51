//! What the project does to itself: `cargo xtask ci`, `cargo xtask bench`.

mod bench;
mod ci;
mod purity;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

/// What the project does to itself.
#[derive(Parser)]
enum Task {
    /// Everything that must pass: formatting, purity of the protocols, lints, tests, documentation
    Ci {
        /// For the inner loop: formatting, purity, lints, and the unit tests of the crates that differ from the last commit
        #[arg(long)]
        quick: bool,
    },
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Ci { quick: false } => ci::run(),
        Task::Ci { quick: true } => ci::run_quick(),
        Task::Bench(args) => bench::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Cargo, in the folder of the workspace.
fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    if std::env::var_os("CI").is_some() {
        // A fresh clone is built once: what would speed up the next build only fills the disk.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs a command to its end; an error unless it succeeds.
fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?} could not be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

/// Runs a command to its end and returns what it printed; an error unless it succeeds.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?} could not be started: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command:?} failed: {}\n{complaint}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{command:?} printed no text: {error}"))
}
