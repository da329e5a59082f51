//! The server of this checkout, or a cluster of three, beside that of another one. Both take turns at every figure, each as short as a second, so that
//! whatever else the machine does hits both alike. The median of the ratios of all turns counts.

use std::fs;
use std::path::Path;

use super::process::{Scratch, Server};
use super::service::{self, ONE_CLIENT_TURN, ONE_LOCK_TURN, OWN_LOCKS_TURN};
use super::{builds, cluster, figure};

/// Each run starts both servers anew.
const RUNS: usize = 5;
/// Turns of both servers at each figure of a run. One turn alone differs from the next by a tenth and more, on the same server.
const TURNS: usize = 8;

/// Which way round a figure is good.
#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
}

/// A figure that both servers reach, and which way round it is good.
type Figure = (&'static str, Better);
/// Of each figure, what this checkout and the other one reached in each turn.
type Turns = Vec<Vec<[f64; 2]>>;

/// The figures of a server that is alone, in the order in which each run measures them.
const SERVICE: &[Figure] = &[
    ("serve, an empty node: ms until it is ready", Better::Less),
    ("one client, own lock: acquire+release/s", Better::More),
    ("64 clients, own locks: acquire+release/s", Better::More),
    ("16 clients, one lock: handovers/s", Better::More),
    ("100,000 held locks: MiB of resident memory", Better::Less),
    ("restart with 100,000 held locks: s", Better::Less),
];

/// Compares one server of this checkout with one of the checkout in `folder`.
pub fn service(folder: &Path) -> Result<(), String> {
    run(folder, SERVICE, service_turns)
}

/// Compares clusters of three nodes.
pub fn cluster(folder: &Path) -> Result<(), String> {
    let figures = cluster::LOADS.map(|(name, ..)| (name, Better::More));
    run(folder, &figures, cluster_turns)
}

/// Builds both, measures both with `measure` in each run, and prints the table.
fn run(
    folder: &Path,
    figures: &[Figure],
    measure: fn([&Path; 2], &Path, &Path) -> Result<Turns, String>,
) -> Result<(), String> {
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
    let mut turns: Turns = vec![Vec::new(); figures.len()];
    for run in 0..RUNS {
        eprintln!("xtask: run {} of {RUNS}", run + 1);
        let folder = scratch.path().join(run.to_string());
        let measured = measure([&ours, &theirs], &load, &folder)?;
        turns.iter_mut().zip(measured).for_each(|(turns, more)| turns.extend(more));
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let title = format!("medians of {} turns (memory: {RUNS})", RUNS * TURNS);
    println!("{title:62} {:>12} {:>12} {:>8}  the middle half of the ratios", "this", "other", "ratio");
    for ((name, better), turns) in figures.iter().zip(&turns) {
        println!("{}", line(name, turns, *better));
    }
    Ok(())
}

/// Measures the loads of both clusters. Both run all the time; the one whose turn it is not has nothing to do.
fn cluster_turns(bins: [&Path; 2], load: &Path, folder: &Path) -> Result<Turns, String> {
    let start = |whose: usize| cluster::start_baton(bins[whose], &folder.join(whose.to_string()));
    let clusters = [start(0)?, start(1)?];
    let turns =
        |(_, args, _): (_, &[&str], _)| take_turns(|whose| cluster::pairs_per_s(load, &clusters[whose].server, args));
    cluster::LOADS.into_iter().map(turns).collect()
}

/// Measures every figure of both servers, in this folder.
fn service_turns(bins: [&Path; 2], load: &Path, folder: &Path) -> Result<Turns, String> {
    let data = |name: &str, whose: usize| folder.join(format!("{name}-{whose}"));
    let start = |name: &str, whose: usize| Server::start(bins[whose], &data(name, whose));
    let mut empty = 0;
    let ready_ms = take_turns(|whose| {
        empty += 1;
        Ok(start(&format!("empty-{empty}"), whose)?.ready_s * 1e3)
    })?;
    let servers = [start("pairs", 0)?, start("pairs", 1)?];
    let loads = |args| take_turns(|whose| service::pairs_per_s(&servers[whose], load, args));
    let (one_client, own_locks, one_lock) = (loads(ONE_CLIENT_TURN)?, loads(OWN_LOCKS_TURN)?, loads(ONE_LOCK_TURN)?);
    drop(servers);
    let hold = |whose| service::hold(bins[whose], load, &data("held", whose));
    let mut holding = [hold(0)?, hold(1)?];
    let held_mib = vec![[holding[0].server.process.resident_mib()?, holding[1].server.process.resident_mib()?]];
    let restart_s = take_turns(|whose| holding[whose].restart().map(|server| server.ready_s))?;
    Ok(vec![ready_ms, one_client, own_locks, one_lock, held_mib, restart_s])
}

/// Both servers take turns. Neither is always the one that goes first.
fn take_turns(mut turn: impl FnMut(usize) -> Result<f64, String>) -> Result<Vec<[f64; 2]>, String> {
    let both = |first: usize| {
        let mut values = [0.0; 2];
        for whose in [first, 1 - first] {
            values[whose] = turn(whose)?;
        }
        Ok(values)
    };
    (0..TURNS).map(|turn| turn % 2).map(both).collect()
}

/// The `part` quantile; 0.5 is the median.
fn quantile(values: impl Iterator<Item = f64>, part: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[(part * (values.len() - 1) as f64).round() as usize]
}

/// A ratio of 1 or more is good for this checkout, whichever way round.
fn ratio(ours: f64, theirs: f64, better: Better) -> f64 {
    match better {
        Better::More => ours / theirs,
        Better::Less => theirs / ours,
    }
}

/// The medians, the median of the ratios, and between which ratios half of them lie, which tells how noisy the machine was.
fn line(name: &str, turns: &[[f64; 2]], better: Better) -> String {
    let median = |whose: usize| figure(quantile(turns.iter().map(|turn| turn[whose]), 0.5));
    let ratio = |part| quantile(turns.iter().map(|&[ours, theirs]| ratio(ours, theirs, better)), part);
    let (low, middle, high) = (ratio(0.25), ratio(0.5), ratio(0.75));
    format!("{name:62} {:>12} {:>12} {middle:>8.2}  {low:.2} to {high:.2}", median(0), median(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_one_bad_turn() {
        assert_eq!(quantile([3.0, 1.0, 900.0, 2.0, 4.0].into_iter(), 0.5), 3.0);
        assert_eq!(quantile([3.0].into_iter(), 0.75), 3.0);
    }

    #[test]
    fn a_ratio_above_1_is_good_for_this_checkout() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        let more = line("locks/s", &[[3000.0, 1500.0], [2000.0, 2500.0], [4000.0, 1000.0]], Better::More);
        assert_eq!(words(&more), "locks/s 3000 1500 2.00 2.00 to 4.00");
        let less = line("MiB", &[[50.0, 75.25]], Better::Less);
        assert_eq!(words(&less), "MiB 50.00 75.25 1.50 1.50 to 1.50");
    }

    #[test]
    fn each_server_goes_first_in_every_other_turn() {
        let mut order = Vec::new();
        let turns = take_turns(|whose| {
            order.push(whose);
            Ok(whose as f64)
        });
        assert_eq!(turns, Ok(vec![[0.0, 1.0]; TURNS]));
        assert_eq!(order[..4], [0, 1, 1, 0]);
    }
}
