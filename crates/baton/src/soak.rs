//! `baton soak`: the whole lock service in virtual time, over many seeds.

use std::ops::Range;
use std::process::ExitCode;

use baton_sim::service::{CLIENTS_MAX, Options, SoakReport, run as simulate};
use serde_json::json;

use crate::compare::parallel;
use crate::output::{Failure, HELD, Outcome, VIOLATED, print, print_json};

/// The number of seeds that one thread takes at a time.
const BATCH: u64 = 200;
const FAILURES_SHOWN_MAX: usize = 20;

/// Simulate the whole lock service under faults, over many seeds
///
/// The front end, the state and the clients are the real ones. The log, the network, the clocks and the faults are
/// simulated. Each run checks that no two clients believe in holds that exclude each other, that fences grow, that
/// locks are granted in order and not before their lock-delay is over, that a request is refused as a deadlock if and
/// only if it is one, that a repeated request is applied once, and that every client is served after the last fault.
///
/// The words of the output (deadlock, forced release, ...) are explained in docs/glossary.md.
///
/// Exit status 0: every run passed; 1: a run failed; 2: bad input; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Number of seeds, from S on
    #[arg(long, value_name = "R", default_value_t = 10_000)]
    runs: u64,
    /// Number of clients [default: drawn from the seed, 2 to 4]
    #[arg(long, value_name = "N")]
    clients: Option<usize>,
    /// Print every event of the run of the first seed
    #[arg(long, conflicts_with = "json")]
    story: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The sums over some runs.
#[derive(Default)]
struct Sum {
    grants: u64,
    refusals: u64,
    forced: u64,
    taken: u64,
    deadlocks: u64,
    thefts: u64,
    entries: u64,
    events: u64,
    failures: Vec<(u64, String)>,
}

pub fn run(args: &Args) -> Outcome {
    if args.runs == 0 {
        return Err(Failure::bad_input("--runs cannot be 0; ask for at least 1"));
    }
    if args.clients.is_some_and(|clients| !(1..=CLIENTS_MAX).contains(&clients)) {
        return Err(Failure::bad_input(format!("--clients must be from 1 to {CLIENTS_MAX}")));
    }
    let end = args
        .seed
        .checked_add(args.runs)
        .ok_or_else(|| Failure::bad_input("--seed plus --runs must be less than 2^64"))?;
    if args.story {
        return tell(args);
    }
    let batches: Vec<Range<u64>> = (0..args.runs.div_ceil(BATCH))
        .map(|batch| args.seed + batch * BATCH)
        .map(|from| from..end.min(from + BATCH))
        .collect();
    let sums = parallel::map(&batches, "soak", |seeds| sum(seeds.clone(), args.clients));
    let sum = sums.into_iter().fold(Sum::default(), |mut all, sum| {
        all.grants += sum.grants;
        all.refusals += sum.refusals;
        all.forced += sum.forced;
        all.taken += sum.taken;
        all.deadlocks += sum.deadlocks;
        all.thefts += sum.thefts;
        all.entries += sum.entries;
        all.events += sum.events;
        all.failures.extend(sum.failures);
        all
    });
    report(args, &sum)?;
    Ok(ExitCode::from(if sum.failures.is_empty() { HELD } else { VIOLATED }))
}

fn sum(seeds: Range<u64>, clients: Option<usize>) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        let report = simulate(Options { clients, ..Options::new(seed) });
        let SoakReport { violation, grants, refusals, forced, taken, deadlocks, thefts, entries, events, .. } = report;
        sum.grants += grants;
        sum.refusals += refusals;
        sum.forced += forced;
        sum.taken += taken;
        sum.deadlocks += deadlocks;
        sum.thefts += thefts;
        sum.entries += entries;
        sum.events += events;
        sum.failures.extend(violation.map(|violation| (seed, violation)));
    }
    sum
}

fn report(args: &Args, sum: &Sum) -> Result<(), Failure> {
    let Sum { grants, refusals, forced, taken, deadlocks, thefts, entries, events, failures } = sum;
    if args.json {
        let failures: Vec<_> =
            failures.iter().map(|(seed, violation)| json!({ "seed": seed, "violation": violation })).collect();
        let (seed, runs) = (args.seed, args.runs);
        return print_json(&json!({
            "seed": seed, "runs": runs, "events": events, "entries": entries, "grants": grants, "refusals": refusals,
            "forced": forced, "taken": taken, "deadlocks": deadlocks, "thefts": thefts, "failures": failures,
        }));
    }
    let mut text = format!(
        "lock service: {} runs, {} failed; {events} events, {entries} log entries, {grants} grants,\n  \
         {deadlocks} deadlocks refused, {refusals} requests refused at a limit,\n  \
         {forced} forced releases, {taken} holds taken at once, {thefts} attempts to steal a session refused\n",
        args.runs,
        failures.len()
    );
    for (seed, violation) in failures.iter().take(FAILURES_SHOWN_MAX) {
        text.push_str(&format!("  seed {seed}: {violation}\n"));
    }
    if let Some((seed, _)) = failures.first() {
        text.push_str(&format!("try: baton soak --seed {seed} --story\n"));
    }
    print(&text)
}

fn tell(args: &Args) -> Outcome {
    let report = simulate(Options { clients: args.clients, story: true, ..Options::new(args.seed) });
    let mut text = report.story.join("\n");
    let verdict = report.violation.as_deref().unwrap_or("no violation");
    text.push_str(&format!("\nseed {}: {verdict}\n", args.seed));
    print(&text)?;
    Ok(ExitCode::from(if report.violation.is_none() { HELD } else { VIOLATED }))
}
