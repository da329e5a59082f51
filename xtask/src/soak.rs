//! `cargo xtask soak`: the nodes that ship, in simulated time, on all cores for as long as one likes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::bench::builds;
use crate::{bites, root};

/// The number of seeds that one process runs, on all cores.
const BATCH: u64 = 200;
/// A hundred years: more makes no sense, and would not fit into a duration.
const HOURS_MAX: f64 = 876_000.0;

/// The nodes that ship, in simulated time and under faults, on all cores, with fresh seeds
///
/// Builds `baton` in release mode and runs `baton soak --engine raft` until the time is over. For each seed that fails, it
/// keeps the story of the run and a diagram: holders, faults and leaders over time. Ends with 1 if a seed failed.
///
/// With `--bite`, puts a known fault into a copy of the code instead, and ends with 1 if no seed finds it.
#[derive(clap::Args)]
pub struct Args {
    /// For how many hours, for example 0.5
    #[arg(
        long,
        value_name = "H",
        allow_hyphen_values = true,
        required_unless_present = "bite",
        conflicts_with = "bite"
    )]
    hours: Option<String>,
    /// The name of a file in crates/soak/bites: the fault
    #[arg(long, value_name = "NAME")]
    bite: Option<String>,
    /// The most seeds that look for the fault
    #[arg(long, value_name = "K", default_value_t = 3_000, conflicts_with = "hours")]
    seeds: u64,
    /// Number of nodes [default: drawn from the seed, 1, 3 or 5]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// The first seed [default: from the clock, so that each run has others; with --bite 0]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

fn hours(said: &str) -> Result<Duration, String> {
    match said.parse::<f64>() {
        Ok(hours) if hours > 0.0 && hours <= HOURS_MAX => Ok(Duration::from_secs_f64(hours * 3_600.0)),
        _ => Err(format!("--hours {said:?} must be a number above 0 and at most {HOURS_MAX}, for example 0.5")),
    }
}

pub fn run(args: &Args) -> Result<(), String> {
    if let Some(bite) = &args.bite {
        return bites::run(bite, args.nodes, args.seed.unwrap_or(0), args.seeds);
    }
    let duration = hours(args.hours.as_deref().unwrap_or_default())?;
    // Room for 2^20 seeds a second.
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let first = args.seed.unwrap_or(seconds << 20);
    let nodes = args.nodes.map(|nodes| format!("--nodes={nodes}"));
    let soak = Soak {
        baton: builds::ours()?,
        flags: ["soak".to_owned(), "--engine=raft".to_owned()].into_iter().chain(nodes).collect(),
        folder: root().join("target/soak").join(first.to_string()),
    };
    println!("seeds from {first} on, for {:.2} hours", duration.as_secs_f64() / 3_600.0);
    let (begun, mut runs, mut failed) = (Instant::now(), 0, 0);
    while begun.elapsed() < duration {
        for (seed, violation) in soak.batch(first.saturating_add(runs))? {
            failed += 1;
            soak.keep(seed, &violation)?;
        }
        runs += BATCH;
    }
    println!("{runs} seeds, {:.1} seeds per second, {failed} failed", runs as f64 / begun.elapsed().as_secs_f64());
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} seeds failed; their stories and diagrams are in {}", soak.folder.display())),
    }
}

struct Soak {
    baton: PathBuf,
    flags: Vec<String>,
    /// Where failures are kept.
    folder: PathBuf,
}

impl Soak {
    fn baton(&self, args: &[String]) -> Result<Output, String> {
        let mut command = Command::new(&self.baton);
        command.args(&self.flags).args(args);
        let output = command.output().map_err(|error| format!("{command:?} could not be started: {error}"))?;
        match output.status.code() {
            // 1: a seed fails.
            Some(0 | 1) => Ok(output),
            _ => Err(format!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// The seeds of a batch that fail, and how.
    fn batch(&self, first: u64) -> Result<Vec<(u64, String)>, String> {
        let output = self.baton(&[format!("--seed={first}"), format!("--runs={BATCH}"), "--json".to_owned()])?;
        let said = serde_json::from_slice(&output.stdout);
        said.map(|said| failures(&said)).map_err(|error| format!("the report of the seeds from {first} on: {error}"))
    }

    /// Runs a seed that failed once more, for its story and its diagram.
    fn keep(&self, seed: u64, violation: &str) -> Result<(), String> {
        let refused = |path: &Path, error| format!("cannot write {}: {error}", path.display());
        fs::create_dir_all(&self.folder).map_err(|error| refused(&self.folder, error))?;
        let (story, diagram) = (self.folder.join(format!("{seed}.txt")), self.folder.join(format!("{seed}.svg")));
        let svg = format!("--svg={}", diagram.display());
        let told = self.baton(&[format!("--seed={seed}"), "--story".to_owned(), svg])?;
        fs::write(&story, told.stdout).map_err(|error| refused(&story, error))?;
        println!("seed {seed}: {violation}\n  {}\n  {}", story.display(), diagram.display());
        Ok(())
    }
}

/// The seeds that failed, and how, from what `baton soak --json` prints.
fn failures(said: &Value) -> Vec<(u64, String)> {
    let failures = said["failures"].as_array().into_iter().flatten();
    let failure = |failure: &Value| {
        Some((failure["seed"].as_u64()?, failure["violation"].as_str().unwrap_or_default().to_owned()))
    };
    failures.filter_map(failure).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hours_may_be_fractions() {
        assert_eq!(hours("0.5"), Ok(Duration::from_secs(1_800)));
        for wrong in ["0", "-1", "NaN", "inf", "1e30", "an hour", ""] {
            let right = "must be a number above 0 and at most 876000, for example 0.5";
            assert_eq!(hours(wrong), Err(format!("--hours {wrong:?} {right}")));
        }
    }

    #[test]
    fn failures_are_read_from_the_report() {
        let said = json!({ "runs": 100, "failures": [{ "seed": 7, "violation": "two leaders" }] });
        assert_eq!(failures(&said), [(7, "two leaders".to_owned())]);
        assert_eq!(failures(&json!({ "failures": [] })), []);
    }
}
