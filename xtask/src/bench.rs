//! `cargo xtask bench`: how fast things are, next to what is asked of them. All of it in one run, since machines are
//! noisy and only what was measured together can be compared.

use std::process::Command;

use serde_json::Value;

use crate::{cargo, output, succeed};

/// How often each measurement is repeated; the best counts, since noise only ever slows down.
const REPETITIONS: usize = 3;

/// Measures everything and prints the table.
pub fn run() -> Result<(), String> {
    succeed(&mut cargo(&["build", "--release", "--package=baton", "--quiet"]))?;
    println!("{:58} {:>12} {:>12} {:>8}", "", "measured", "asked for", "ratio");
    deliveries("Ricart-Agrawala, n = 64, everybody wants, deliveries/s", &[], 5_000_000.0)?;
    deliveries("the same with heavy-tailed delays", &["--network=async"], 0.0)?;
    Ok(())
}

fn deliveries(name: &str, extra: &[&str], asked: f64) -> Result<(), String> {
    let args = ["sim", "ricart-agrawala", "-n", "64", "--load=all", "--entries=40000", "--json"];
    let mut best = 0.0_f64;
    for _ in 0..REPETITIONS {
        let report = json(baton().args(args).args(extra))?;
        let measured = report["events_per_s"].as_f64().ok_or("the report has no events_per_s")?;
        best = best.max(measured);
    }
    row(name, best, asked);
    Ok(())
}

fn row(name: &str, measured: f64, asked: f64) {
    if asked > 0.0 {
        println!("{name:58} {measured:>12.0} {asked:>12.0} {:>8.2}", measured / asked);
    } else {
        println!("{name:58} {measured:>12.0}");
    }
}

fn baton() -> Command {
    cargo(&["run", "--release", "--package=baton", "--quiet", "--"])
}

fn json(command: &mut Command) -> Result<Value, String> {
    let text = output(command)?;
    serde_json::from_str(&text).map_err(|error| format!("{command:?} printed no JSON: {error}"))
}
