//! `baton soak`: the whole lock service in virtual time, over many seeds.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use baton_compare::parallel;
use baton_soak::{CLIENTS_MAX, Engine, NODES_MAX, Options, SoakReport, run as simulate};
use serde_json::json;

use crate::output::{Failure, HELD, Outcome, Target, VIOLATED, print, print_json, unwritable};
use crate::progress::watched;

/// The number of seeds that one thread takes at a time: some tenths of a second.
fn batch(engine: EngineName) -> u64 {
    match engine {
        EngineName::Raft => 10,
        EngineName::Model => 200,
    }
}

const FAILURES_SHOWN_MAX: usize = 20;

/// Simulate the whole lock service under faults, over many seeds
///
/// The front end, the state and the clients are the real ones. The network, the disks, the clocks and the faults are
/// simulated: partitions (also in one direction), lost and late messages, restarts, pauses, clocks that drift. With
/// --engine raft, Raft is the real one as well, with its log, its snapshots and its members. Each run checks that no two
/// clients believe in holds that exclude each other, that fences grow, that locks are granted in order and not before
/// their lock-delay is over, that a request is refused as a deadlock if and only if it is one, that a repeated request
/// is applied once, that no stream outlives a term, and that every client is served after the last fault.
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
    /// Number of nodes [default: drawn from the seed, 1, 3 or 5]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// What replicates the log
    #[arg(long, value_enum, default_value_t)]
    engine: EngineName,
    /// Print every event of the run of the first seed
    #[arg(long, conflicts_with = "json")]
    story: bool,
    /// Draw the run of the first seed in this file: holders, faults and leaders over time
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum EngineName {
    /// The nodes that ship: Raft, log, snapshots and connections, on simulated disks and links
    Raft,
    /// A small Raft of the simulator, which is faster
    #[default]
    Model,
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
    terms: u64,
    carried: u64,
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
    if args.nodes.is_some_and(|nodes| !(1..=NODES_MAX).contains(&nodes)) {
        return Err(Failure::bad_input(format!("--nodes must be from 1 to {NODES_MAX}")));
    }
    let end = args
        .seed
        .checked_add(args.runs)
        .ok_or_else(|| Failure::bad_input("--seed plus --runs must be less than 2^64"))?;
    if args.story || args.svg.is_some() {
        return tell(args);
    }
    let batch = batch(args.engine);
    let batches: Vec<Range<u64>> = (0..args.runs.div_ceil(batch))
        .map(|number| args.seed + number * batch)
        .map(|from| from..end.min(from.saturating_add(batch)))
        .collect();
    let sums = watched("soak", |caller| parallel::map(&batches, caller, |seeds| sum(seeds.clone(), args)))?;
    let sum = sums.into_iter().fold(Sum::default(), |mut all, sum| {
        all.grants += sum.grants;
        all.refusals += sum.refusals;
        all.forced += sum.forced;
        all.taken += sum.taken;
        all.deadlocks += sum.deadlocks;
        all.thefts += sum.thefts;
        all.terms += sum.terms;
        all.carried += sum.carried;
        all.entries += sum.entries;
        all.events += sum.events;
        all.failures.extend(sum.failures);
        all
    });
    report(args, &sum)?;
    Ok(ExitCode::from(if sum.failures.is_empty() { HELD } else { VIOLATED }))
}

fn options(args: &Args, seed: u64) -> Options {
    let engine = match args.engine {
        EngineName::Raft => Engine::Raft,
        EngineName::Model => Engine::Model,
    };
    Options {
        clients: args.clients,
        nodes: args.nodes,
        engine,
        story: args.story,
        diagram: args.svg.is_some(),
        ..Options::new(seed)
    }
}

fn sum(seeds: Range<u64>, args: &Args) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        let report = simulate(options(args, seed));
        let SoakReport { violation, grants, refusals, forced, taken, deadlocks, thefts, .. } = report;
        let SoakReport { terms, carried, entries, events, .. } = report;
        sum.grants += grants;
        sum.refusals += refusals;
        sum.forced += forced;
        sum.taken += taken;
        sum.deadlocks += deadlocks;
        sum.thefts += thefts;
        sum.terms += terms;
        sum.carried += carried;
        sum.entries += entries;
        sum.events += events;
        sum.failures.extend(violation.map(|violation| (seed, violation)));
    }
    sum
}

fn report(args: &Args, sum: &Sum) -> Result<(), Failure> {
    let Sum { grants, refusals, forced, taken, deadlocks, thefts, terms, carried, entries, events, failures } = sum;
    if args.json {
        let failures: Vec<_> =
            failures.iter().map(|(seed, violation)| json!({ "seed": seed, "violation": violation })).collect();
        let (seed, runs) = (args.seed, args.runs);
        return print_json(&json!({
            "seed": seed, "runs": runs, "events": events, "entries": entries, "grants": grants, "refusals": refusals,
            "forced": forced, "taken": taken, "deadlocks": deadlocks, "thefts": thefts, "terms": terms,
            "carried": carried, "failures": failures,
        }));
    }
    let mut text = format!(
        "lock service: {} runs, {} failed; {events} events, {entries} log entries, {grants} grants,\n  \
         {terms} terms, {carried} streams carried by a follower,\n  \
         {deadlocks} deadlocks refused, {refusals} requests refused at a limit,\n  \
         {forced} forced releases, {taken} holds taken at once, {thefts} attempts to steal a session refused\n",
        args.runs,
        failures.len()
    );
    for (seed, violation) in failures.iter().take(FAILURES_SHOWN_MAX) {
        text.push_str(&format!("  seed {seed}: {violation}\n"));
    }
    if let Some((seed, _)) = failures.first() {
        text.push_str(&format!("try: baton soak --seed {seed}{} --story\n", again(args)));
    }
    print(&text)
}

/// The flags that make the same runs.
fn again(args: &Args) -> String {
    let flag = |name: &str, value: Option<usize>| value.map_or(String::new(), |value| format!(" --{name} {value}"));
    let engine = if args.engine == EngineName::Raft { " --engine raft" } else { "" };
    flag("clients", args.clients) + &flag("nodes", args.nodes) + engine
}

/// Shows the run of the first seed.
fn tell(args: &Args) -> Outcome {
    // A file that cannot be written is refused before the run.
    if let Some(path) = &args.svg {
        Target::open(path)?;
    }
    let report = simulate(options(args, args.seed));
    if let Some((path, diagram)) = args.svg.as_ref().zip(report.diagram.as_ref()) {
        fs::write(path, diagram).map_err(|error| unwritable(path, &error))?;
    }
    let story: String = report.story.iter().map(|line| format!("{line}\n")).collect();
    let verdict = report.violation.as_deref().unwrap_or("no violation");
    print(&format!("{story}seed {}: {verdict}\n", args.seed))?;
    Ok(ExitCode::from(if report.violation.is_none() { HELD } else { VIOLATED }))
}
