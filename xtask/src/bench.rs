//! `cargo xtask bench`: measures speed and memory, and compares them with the targets. All figures come from one run,
//! because machines are noisy and figures from different runs cannot be compared.

mod against;
pub mod builds;
mod cluster;
mod floors;
mod looking;
mod peers;
mod process;
mod service;
mod watch;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{cargo, output, succeed};

/// How often each measurement is repeated. The best result counts, because noise only slows down.
const REPETITIONS: usize = 3;

/// The target of a figure.
enum Asked {
    AtLeast(f64),
    AtMost(f64),
    Nothing,
}

/// Measure speed and memory, and compare them with the targets
///
/// Without a part: measure everything.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(clap::Subcommand)]
enum Part {
    /// The lock service only: acquires, releases and handovers per second, memory, time until ready, and `looking`
    Service {
        /// Compare with the server of another checkout of the project: five runs of each server, in turns
        ///
        /// The same cargo builds both servers in release mode. The load generator is always that of this checkout, so
        /// that only the servers differ. A ratio above 1 is better for this checkout. The data is in TMPDIR; use a
        /// tmpfs there to avoid noise from the disk.
        #[arg(long, value_name = "FOLDER")]
        against: Option<PathBuf>,
        /// Measure only the rows whose names contain TEXT, and not `looking`
        #[arg(long, value_name = "TEXT", conflicts_with = "against")]
        only: Option<String>,
    },
    /// How long another client waits while a million locks are listed, or a snapshot of them is written
    Looking,
    /// A cluster of three nodes, beside one of etcd where it is installed; and how long clients wait for a new leader
    Cluster {
        /// Compare with a cluster of another checkout of the project, as `service --against` does
        #[arg(long, value_name = "FOLDER")]
        against: Option<PathBuf>,
    },
    /// Groups of real processes without a server: speed beside that of TCP alone, and memory
    Peers,
}

/// Measures what the arguments ask for and prints the table.
pub fn run(args: &Args) -> Result<(), String> {
    match &args.part {
        None => everything(),
        Some(Part::Service { against: Some(folder), .. }) => against::service(folder),
        Some(Part::Service { against: None, only }) => {
            head();
            service::run(only.as_deref())
        }
        Some(Part::Looking) => {
            head();
            looking::run(&builds::ours()?, &builds::load()?)
        }
        Some(Part::Cluster { against: Some(folder) }) => against::cluster(folder),
        Some(Part::Cluster { against: None }) => {
            head();
            cluster::run()
        }
        Some(Part::Peers) => {
            head();
            peers::run()
        }
    }
}

fn head() {
    println!("{:62} {:>12} {:>12} {:>8}", "", "measured", "asked for", "ratio");
}

fn everything() -> Result<(), String> {
    succeed(&mut cargo(&["build", "--release", "--package=baton", "--quiet"]))?;
    head();
    deliveries("Ricart-Agrawala, n = 64, all want: deliveries/s", &[], Asked::AtLeast(5e6))?;
    deliveries("the same with heavy-tailed delays: deliveries/s", &["--network=async"], Asked::Nothing)?;
    raymond()?;
    counter()?;
    service::run(None)?;
    cluster::run()?;
    peers::run()?;
    succeed(&mut cargo(&["build", "--release", "--package=baton-check", "--example=against_stateright", "--quiet"]))?;
    for threads in ["1", "2"] {
        against_stateright("n = 3, three entries", ["3", "3"], threads)?;
        against_stateright("n = 4, one entry", ["4", "1"], threads)?;
    }
    Ok(())
}

/// Runs the same model, Ricart-Agrawala, through Baton's checker and through stateright's BFS, each in its own process.
/// Measures distinct states per second, and memory. stateright stops at a number of generated states, repeated ones
/// included. Baton then has to find as many distinct states as stateright did.
fn against_stateright(name: &str, [n, entries]: [&str; 2], threads: &str) -> Result<(), String> {
    const STATES_MAX: f64 = 3e6;
    let example = ["run", "--release", "--package=baton-check", "--example=against_stateright", "--quiet", "--"];
    let measure = |checker: &str, limit: f64| -> Result<(f64, f64, f64), String> {
        let (mut rate, mut memory, mut states) = (0.0_f64, f64::MAX, 0.0);
        for _ in 0..REPETITIONS {
            let args = [checker, "ricart-agrawala", n, entries, threads, &format!("{limit:.0}")];
            let report = json(cargo(&example).args(args))?;
            let number = |key: &str| report[key].as_f64().ok_or(format!("the report has no {key}"));
            states = number("states")?;
            rate = rate.max(states / number("seconds")?);
            memory = memory.min(number("memory_kib")?);
        }
        Ok((rate, memory, states))
    };
    let theirs = measure("stateright", STATES_MAX)?;
    let ours = measure("baton", theirs.2)?;
    let name = |what| format!("check, {name}, {threads} threads: {what}");
    row(&name("states/s, 1.5 x stateright"), ours.0, &Asked::AtLeast(1.5 * theirs.0));
    row(&name("KiB, half of stateright"), ours.1, &Asked::AtMost(0.5 * theirs.1));
    Ok(())
}

fn deliveries(name: &str, extra: &[&str], asked: Asked) -> Result<(), String> {
    let args = ["sim", "ricart-agrawala", "-n", "64", "--load=all", "--entries=40000", "--json"];
    let mut best = 0.0_f64;
    for _ in 0..REPETITIONS {
        let report = json(baton().args(args).args(extra))?;
        let measured = report["events_per_s"].as_f64().ok_or("the report has no events_per_s")?;
        best = best.max(measured);
    }
    row(name, best, &asked);
    Ok(())
}

fn raymond() -> Result<(), String> {
    let args = ["sim", "raymond", "-n", "1000000", "--entries=10000", "--load=solo-random", "--json"];
    let start = Instant::now();
    let peak_mib = peak_memory_mib(baton().args(args))?;
    row("Raymond, 1,000,000 processes, 10,000 entries: s", start.elapsed().as_secs_f64(), &Asked::AtMost(30.0));
    row("the same: MiB of resident memory at the peak", peak_mib, &Asked::AtMost(1024.0));
    Ok(())
}

/// Runs a command to its end, and every few milliseconds reads its peak memory from the kernel.
fn peak_memory_mib(command: &mut Command) -> Result<f64, String> {
    let started = command.stdout(Stdio::null()).spawn();
    let mut child = started.map_err(|error| format!("{command:?} could not be started: {error}"))?;
    let mut peak_kib = 0.0_f64;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or_default());
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(peak_kib / 1024.0),
            Ok(Some(status)) => return Err(format!("{command:?} failed: {status}")),
            Ok(None) => thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(format!("{command:?} cannot be waited for: {error}")),
        }
    }
}

fn counter() -> Result<(), String> {
    let start = Instant::now();
    let report = json(baton().args(["demo", "counter", "--json"]))?;
    if report["with_lock"] != report["expected"] {
        return Err(format!("increments were lost: {report}"));
    }
    let seconds = start.elapsed().as_secs_f64();
    row("10,000,000 increments with Suzuki-Kasami, and without a lock: s", seconds, &Asked::AtMost(60.0));
    Ok(())
}

/// Prints a row. A ratio of 1 or more meets the target, for both kinds of targets.
fn row(name: &str, measured: f64, asked: &Asked) {
    let measured_text = figure(measured);
    match asked {
        Asked::AtLeast(least) => println!("{name:62} {measured_text:>12} {least:>12.0} {:>8.2}", measured / least),
        Asked::AtMost(most) => println!("{name:62} {measured_text:>12} {most:>12.0} {:>8.2}", most / measured),
        Asked::Nothing => println!("{name:62} {measured_text:>12}"),
    }
}

fn figure(number: f64) -> String {
    if number >= 1000.0 { format!("{number:.0}") } else { format!("{number:.2}") }
}

fn baton() -> Command {
    cargo(&["run", "--release", "--package=baton", "--quiet", "--"])
}

fn json(command: &mut Command) -> Result<Value, String> {
    let text = output(command)?;
    serde_json::from_str(&text).map_err(|error| format!("{command:?} printed no JSON: {error}"))
}
