//! Runs seeds of the simulated service, prints each failure as it comes, and the speed at the end. Prints the story of a
//! single seed. Builds faster than `baton soak`:
//!
//! `cargo run --profile soak -p baton-soak --example seeds -- raft 3 0 1000 [threads] [failures to stop at]`
//!
//! `... -- raft 3 7 1 --svg FILE` also draws the run of seed 7.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use baton_soak::{Engine, Most, Options, effects, run};

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let svg = words.iter().position(|word| word == "--svg").map(|at| words.split_off(at).pop().unwrap_or_default());
    let number = |place: usize, default: u64| words.get(place).map_or(Some(default), |word| word.parse().ok());
    let engine = match words.first().map(String::as_str) {
        Some("raft") => Engine::Raft,
        Some("model") => Engine::Model,
        _ => return usage(),
    };
    let (Some(nodes), Some(first), Some(count)) = (number(1, 0), number(2, 0), number(3, 100)) else { return usage() };
    let (Some(threads), Some(enough)) = (number(4, 1), number(5, u64::MAX)) else { return usage() };
    let nodes = (nodes > 0).then_some(nodes as usize);
    let (next, failed, began) = (AtomicU64::new(first), AtomicU64::new(0), Instant::now());
    let sums = Mutex::new((BTreeMap::<effects::Effect, u64>::new(), Most::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || failed.load(Ordering::Relaxed) >= enough {
                        return;
                    }
                    let ran = seed - first;
                    if ran > 0 && ran.is_multiple_of(500) {
                        eprintln!("{ran} seeds, {:.1} a second", ran as f64 / began.elapsed().as_secs_f64());
                    }
                    let (story, diagram) = (count == 1, count == 1 && svg.is_some());
                    let report = run(Options { nodes, engine, story, diagram, ..Options::new(seed) });
                    if let Some((svg, drawn)) = svg.as_ref().zip(report.diagram)
                        && let Err(error) = std::fs::write(svg, drawn)
                    {
                        eprintln!("cannot write {svg}: {error}");
                    }
                    report.story.iter().for_each(|line| println!("{line}"));
                    if let Ok(mut sums) = sums.lock() {
                        report.effects.iter().for_each(|(effect, count)| *sums.0.entry(effect).or_default() += count);
                        sums.1 = sums.1.max(report.most);
                    }
                    if let Some(violation) = report.violation {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!("seed {seed}: {violation}");
                    }
                }
            });
        }
    });
    let (effects, most) = sums.lock().map(|sums| sums.clone()).unwrap_or_default();
    for (effect, count) in effects {
        println!("{count:>9} {effect}");
    }
    println!("{most:?}");
    let (seconds, ran) = (began.elapsed().as_secs_f64(), (next.load(Ordering::Relaxed) - first).min(count));
    println!("{ran} seeds, {} failed, {:.1} seeds a second", failed.load(Ordering::Relaxed), ran as f64 / seconds);
    ExitCode::from(u8::from(failed.load(Ordering::Relaxed) > 0))
}

fn usage() -> ExitCode {
    eprintln!("usage: seeds raft|model NODES FIRST COUNT [THREADS] [FAILURES]; NODES 0: drawn from the seed");
    ExitCode::from(2)
}
