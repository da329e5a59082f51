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
    succeed(&mut cargo(&["build", "--release", "--package=baton-check", "--example=against_stateright", "--quiet"]))?;
    for threads in ["1", "2"] {
        against_stateright("n = 3, three entries", ["3", "3"], threads)?;
        against_stateright("n = 4, one entry", ["4", "1"], threads)?;
    }
    Ok(())
}

/// The same model, Ricart-Agrawala, through our checker and through stateright's BFS, each in a process of its own: distinct
/// states a second, and memory. Both stop at so many states if there are more.
fn against_stateright(name: &str, [n, entries]: [&str; 2], threads: &str) -> Result<(), String> {
    const STATES_MAX: &str = "3000000";
    let example = ["run", "--release", "--package=baton-check", "--example=against_stateright", "--quiet", "--"];
    let measure = |checker: &str| -> Result<(f64, f64), String> {
        let (mut rate, mut memory) = (0.0_f64, f64::MAX);
        for _ in 0..REPETITIONS {
            let args = [checker, "ricart-agrawala", n, entries, threads, STATES_MAX];
            let report = json(cargo(&example).args(args))?;
            let number = |key: &str| report[key].as_f64().ok_or(format!("the report has no {key}"));
            rate = rate.max(number("states")? / number("seconds")?);
            memory = memory.min(number("memory_kib")?);
        }
        Ok((rate, memory))
    };
    let (ours, theirs) = (measure("baton")?, measure("stateright")?);
    let name = |what| format!("check, {name}, {threads} threads: {what}");
    row(&name("states/s, 1.5 x stateright"), ours.0, 1.5 * theirs.0);
    row(&name("KiB, half of stateright"), ours.1, 0.5 * theirs.1);
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
