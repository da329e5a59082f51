//! Compares the servers of this checkout and of another one. Both servers take turns at every figure, so that other
//! load on the machine hits both alike. The median counts.

use std::fs;
use std::path::Path;

use super::process::{Scratch, Server};
use super::service::{self, ONE_CLIENT, ONE_LOCK, OWN_LOCKS};
use super::{builds, figure};

const RUNS: usize = 5;
/// Loads in one run. Their median counts, because two loads on the same server differ by a tenth or more.
const LOADS: usize = 3;

/// Whether a larger or a smaller figure is better.
#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
}

/// The figures of each run, in this order.
const FIGURES: [(&str, Better); 6] = [
    ("serve, an empty node: ms until it is ready", Better::Less),
    ("one client, own lock: acquire+release/s", Better::More),
    ("64 clients, own locks: acquire+release/s", Better::More),
    ("16 clients, one lock: handovers/s", Better::More),
    ("100,000 held locks: MiB of resident memory", Better::Less),
    ("restart with 100,000 held locks: s", Better::Less),
];

type Run = [f64; FIGURES.len()];

/// Builds both servers, measures both and prints the table.
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
        let folder = scratch.path().join(run.to_string());
        // The server that goes first may have an advantage, so the servers swap places in the next run.
        let (our_run, their_run) = if run % 2 == 0 {
            measure(&ours, &theirs, &load, &folder)?
        } else {
            let (their_run, our_run) = measure(&theirs, &ours, &load, &folder)?;
            (our_run, their_run)
        };
        our_runs.push(our_run);
        their_runs.push(their_run);
    }
    println!(
        "{:62} {:>12} {:>12} {:>8}  ratios of the runs",
        format!("medians of {RUNS} runs"),
        "this",
        "other",
        "ratio"
    );
    for (place, (name, better)) in FIGURES.into_iter().enumerate() {
        let values = |runs: &[Run]| -> Vec<f64> { runs.iter().map(|run| run[place]).collect() };
        println!("{}", line(name, &values(&our_runs), &values(&their_runs), better));
    }
    Ok(())
}

/// One run of both servers, in a folder that is removed afterwards. At every figure the servers take turns.
fn measure(first: &Path, second: &Path, load: &Path, folder: &Path) -> Result<(Run, Run), String> {
    let data = |name: &str| folder.join(name);
    let one = Server::start(first, &data("first"))?;
    let other = Server::start(second, &data("second"))?;
    let both = |args: &[&str]| -> Result<[f64; 2], String> {
        let mut rates = [Vec::new(), Vec::new()];
        for turn in 0..2 * LOADS {
            // The order is first, second, second, first, first, second: neither server always goes first.
            let whose = turn.div_ceil(2) % 2;
            rates[whose].push(service::pairs_per_s([&one, &other][whose], load, args)?);
        }
        Ok(rates.map(|rates| median(&rates)))
    };
    let (one_client, own_locks, one_lock) = (both(ONE_CLIENT)?, both(OWN_LOCKS)?, both(ONE_LOCK)?);
    let ready_s = [one.ready_s, other.ready_s];
    drop((one, other));
    let held = [service::held(first, load, &data("first-held"))?, service::held(second, load, &data("second-held"))?];
    fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let run = |of: usize| {
        let (mib, restart_s) = (held[of].mib, held[of].restart_s);
        [ready_s[of] * 1e3, one_client[of], own_locks[of], one_lock[of], mib, restart_s]
    };
    Ok((run(0), run(1)))
}

/// The number of values must be odd.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A ratio of 1 or more is good for this checkout, for both kinds of figures.
fn ratio(ours: f64, theirs: f64, better: Better) -> f64 {
    match better {
        Better::More => ours / theirs,
        Better::Less => theirs / ours,
    }
}

/// The medians, their ratio, and the smallest and largest ratio of a run, which show how noisy the machine was.
fn line(name: &str, ours: &[f64], theirs: &[f64], better: Better) -> String {
    let ratios = || ours.iter().zip(theirs).map(|(ours, theirs)| ratio(*ours, *theirs, better));
    let (least, most) = (ratios().fold(f64::MAX, f64::min), ratios().fold(f64::MIN, f64::max));
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ratio(ours, theirs, better);
    format!("{name:62} {:>12} {:>12} {ratio:>8.2}  {least:.2} to {most:.2}", figure(ours), figure(theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_one_bad_run() {
        assert_eq!(median(&[3.0, 1.0, 900.0, 2.0, 4.0]), 3.0);
        assert_eq!(median(&[3.0]), 3.0);
    }

    #[test]
    fn a_ratio_above_1_is_good_for_this_checkout() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        let more = line("locks/s", &[3000.0, 2000.0, 4000.0], &[1500.0, 2500.0, 1000.0], Better::More);
        assert_eq!(words(&more), "locks/s 3000 1500 2.00 0.80 to 4.00");
        let less = line("MiB", &[50.0], &[75.25], Better::Less);
        assert_eq!(words(&less), "MiB 50.00 75.25 1.50 1.50 to 1.50");
    }
}
