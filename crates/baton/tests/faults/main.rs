//! The lock service on several nodes, under faults: real processes joined by proxies, killed, stopped, cut off and
//! wiped, while clients lock, work and unlock. A pure judge reads what the clients saw.
//!
//! `cargo test` runs a short selection. `cargo xtask faults` runs rounds from a seed, through the variables below.

mod clients;
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod history;
mod judge;
mod planted;
mod round;
mod schedule;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::number;
use round::Report;
use schedule::{Fault, Kind, Round, Story};

/// Set by `cargo xtask faults`: how many rounds to run.
const ROUNDS: &str = "FAULTS_ROUNDS";
/// The seed of the first round. Each further round has the next one.
const SEED: &str = "FAULTS_SEED";
/// If set, a round that went well leaves its folder behind, too.
const KEEP: &str = "FAULTS_KEEP";

/// Nothing in these tests takes this long, unless it hangs.
const LONG: Duration = Duration::from_secs(60);

/// Runs a round. A failed one leaves its folder behind, and says how to repeat it.
async fn run(round: Round, repeat: &str) -> Report {
    let folder = folder(round.seed);
    let ran = round::run(&round, folder.clone()).await;
    match ran {
        Ok(report) => {
            if std::env::var_os(KEEP).is_none() {
                // Nobody needs the folder, and a later round has another one.
                let _ = std::fs::remove_dir_all(&folder);
            }
            println!("seed {}, {}: {report}", round.seed, round.story);
            report
        }
        Err(wrong) => panic!("seed {}, {}:\n{}\n{repeat}", round.seed, round.story, wrong.join("\n")),
    }
}

fn folder(seed: u64) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{seed}-{}", std::process::id()))
}

async fn short(size: usize, kinds: &[Kind]) {
    let mut random = fastrand::Rng::with_seed(size as u64);
    let faults = kinds.iter().map(|&kind| Fault::draw(kind, &mut random)).collect();
    // Each test has a seed of its own, and so a folder of its own: they run in one process.
    let seed = size as u64;
    run(Round { seed, story: Story::Faults { size, faults, is_stormy: false } }, "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_node_is_killed_and_restarted() {
    short(1, &[Kind::KillAll, Kind::RestartLeader]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_lose_their_leader_in_every_way() {
    use Kind::{CutOffLeader, DeafLeader, DumbLeader, KillLeader, RestartLeader, StopLeader};
    short(3, &[KillLeader, CutOffLeader, DeafLeader, DumbLeader, StopLeader, RestartLeader]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_nodes_lose_a_folder_and_are_restarted_one_by_one() {
    short(5, &[Kind::KillLeader, Kind::WipeFollower, Kind::RollingRestart]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_grows_from_one_node_to_five_and_shrinks_again() {
    run(Round { seed: 2, story: Story::Growth }, "").await;
}

/// Does nothing in `cargo test`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounds() {
    let (rounds, seed) = (number(ROUNDS, 0), number(SEED, 1));
    let mut gaps: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for seed in seed..seed + rounds {
        let repeat = format!("repeat it with: cargo xtask faults --rounds 1 --seed {seed}");
        for (fault, gap) in run(Round::from_seed(seed), &repeat).await.gaps {
            gaps.entry(fault).or_default().push(gap);
        }
    }
    if rounds > 0 {
        println!("seconds until a lock was granted again: median, longest, number of faults");
    }
    for (fault, mut gaps) in gaps {
        gaps.sort();
        let s = |gap: Duration| gap.as_secs_f64();
        println!("{fault:>40} {:6.2} {:6.2} {}", s(gaps[gaps.len() / 2]), s(gaps[gaps.len() - 1]), gaps.len());
    }
}
