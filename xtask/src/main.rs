//! Developer tasks: `cargo xtask ci` runs all checks, `cargo xtask bench` measures, `cargo xtask peers` and `cargo xtask
//! faults` break groups and clusters of real processes, `cargo xtask soak` breaks simulated ones, `cargo xtask screenshots`
//! takes the pictures of the lab.

mod bench;
mod bites;
mod browser;
mod ci;
mod faults;
mod peers;
mod purity;
mod soak;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

/// Tasks for developers of this project: checks and benchmarks
#[derive(Parser)]
enum Task {
    /// Run all checks: formatting, purity of the protocols and of the state, lints, tests, documentation
    Ci {
        /// Run the quick checks only: formatting, purity, lints, and the unit tests of crates with uncommitted changes
        #[arg(long)]
        quick: bool,
    },
    Bench(bench::Args),
    Faults(faults::Args),
    Peers(peers::Args),
    Soak(soak::Args),
    /// Take the pictures of the lab in docs/images with a headless browser
    Screenshots,
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Ci { quick: false } => ci::run(),
        Task::Ci { quick: true } => ci::run_quick(),
        Task::Bench(args) => bench::run(&args),
        Task::Faults(args) => faults::run(&args),
        Task::Peers(args) => peers::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Screenshots => browser::take_pictures(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Cargo, in the folder of the workspace.
fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    if std::env::var_os("CI").is_some() {
        // In CI a fresh clone is built only once. Incremental data would only fill the disk.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs a command to its end. Returns an error unless it succeeds.
fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?} could not be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

/// Runs a command to its end and returns its output. Returns an error unless it succeeds.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?} could not be started: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command:?} failed: {}\n{complaint}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{command:?} printed no text: {error}"))
}
