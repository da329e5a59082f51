//! The server of this checkout beside that of another one. Runs of both take turns, so that whatever else the machine does
//! hits both alike, and the median counts.

use std::fs;
use std::path::Path;

use super::process::{Scratch, Server};
use super::service::{self, ONE_CLIENT, ONE_LOCK, OWN_LOCKS};
use super::{builds, figure};

/// Runs of each server.
const RUNS: usize = 5;

/// Which way round a figure is good.
#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
}

/// What is measured in each run, in this order.
const FIGURES: [(&str, Better); 6] = [
    ("serve, an empty node: ms until it is ready", Better::Less),
    ("one client, own lock: acquire+release/s", Better::More),
    ("64 clients, own locks: acquire+release/s", Better::More),
    ("16 clients, one lock: handovers/s", Better::More),
    ("100,000 held locks: MiB of resident memory", Better::Less),
    ("restart with 100,000 held locks: s", Better::Less),
];

/// The figures of one run.
type Run = [f64; FIGURES.len()];

/// Builds both, measures both and prints the table.
pub fn run(folder: &Path) -> Result<(), String> {
    let other = fs::canonicalize(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let theirs = builds::theirs(&other)?;
    let (ours, load) = (builds::ours()?, builds::load()?);
    if ours == theirs {
        return Err(format!(
            "both checkouts build the same file, {}: set CARGO_TARGET_DIR to another folder",
            ours.display()
        ));
    }
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let (mut our_runs, mut their_runs) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        eprintln!("xtask: run {} of {RUNS}", run + 1);
        let mut us = || measure(&ours, &load, &scratch.path().join("run")).map(|run| our_runs.push(run));
        let mut them = || measure(&theirs, &load, &scratch.path().join("run")).map(|run| their_runs.push(run));
        // Each of them goes first as often as last, but for one.
        if run % 2 == 0 {
            us()?;
            them()?;
        } else {
            them()?;
            us()?;
        }
    }
    println!("{:62} {:>12} {:>12} {:>8}", format!("medians of {RUNS} runs"), "this", "other", "ratio");
    for (place, (name, better)) in FIGURES.into_iter().enumerate() {
        println!("{}", line(name, median(&our_runs, place), median(&their_runs, place), better));
    }
    Ok(())
}

/// One run of one server, in a folder that is not there before or after.
fn measure(baton: &Path, load: &Path, folder: &Path) -> Result<Run, String> {
    let server = Server::start(baton, &folder.join("pairs"))?;
    let ready_ms = server.ready_s * 1e3;
    let one_client = service::pairs_per_s(&server, load, ONE_CLIENT)?;
    let own_locks = service::pairs_per_s(&server, load, OWN_LOCKS)?;
    let one_lock = service::pairs_per_s(&server, load, ONE_LOCK)?;
    drop(server);
    let held = service::held(baton, load, &folder.join("held"))?;
    fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok([ready_ms, one_client, own_locks, one_lock, held.mib, held.restart_s])
}

/// The middle one of a figure's values; there is an odd number of runs.
fn median(runs: &[Run], place: usize) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|run| run[place]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A ratio of 1 or more is good for this checkout, whichever way round.
fn line(name: &str, ours: f64, theirs: f64, better: Better) -> String {
    let ratio = match better {
        Better::More => ours / theirs,
        Better::Less => theirs / ours,
    };
    format!("{name:62} {:>12} {:>12} {ratio:>8.2}", figure(ours), figure(theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_one_bad_run() {
        let runs = [3.0, 1.0, 900.0, 2.0, 4.0].map(|value| [0.0, value, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(median(&runs, 1), 3.0);
        assert_eq!(median(&runs[..1], 1), 3.0);
    }

    #[test]
    fn a_ratio_above_1_is_good_for_this_checkout() {
        let words = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(line("locks/s", 3000.0, 1500.0, Better::More)), ["locks/s", "3000", "1500", "2.00"]);
        assert_eq!(words(line("MiB", 50.0, 75.25, Better::Less)), ["MiB", "50.00", "75.25", "1.50"]);
    }
}
