//! `baton sim`: run an algorithm in virtual time, measure it and judge it.

use std::path::PathBuf;
use std::process::ExitCode;

use baton_sim::app::mutex::{Load, StoreKind};
use baton_sim::oracle::Finding;
use baton_sim::run::{Options, check_runs, run as simulate, seeds};
use baton_sim::spec::{LinkOrder, NetworkKind, Spec};
use clap::ValueEnum;
use serde_json::json;

use crate::extent::ExtentArgs;
use crate::output::{Failure, HELD, Outcome, VIOLATED, print, print_json};
use crate::progress::Progress;
use crate::sink::Sink;
use no_theory::Explained;

mod no_theory;
mod replay;
mod scenario;
mod text;

/// Run an algorithm in virtual time, measure it and judge it
///
/// The words of the output (T, client delay, bypass, ...) are explained in docs/glossary.md.
///
/// Exit status 0: every property that the algorithm promises held; 1: one was violated; 2: bad input; 74: the output
/// cannot be written.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub struct Args {
    // Must be the first field, because `mut_args` changes all options that are already defined.
    #[command(flatten)]
    run: RunArgs,
    /// Play a scenario, and compare the result with the expected one. Other options replace the values of the scenario;
    /// if they change the run, the result is not compared
    #[arg(long, value_name = "NAME|FILE")]
    scenario: Option<PathBuf>,
    /// List the scenarios that --scenario knows by name
    #[arg(long, conflicts_with_all = ["scenario", "replay", "trace", "svg"])]
    scenarios: bool,
    /// Repeat a trace step by step, and judge the run again. What counts is what counted in the run; in a counterexample
    /// of `baton check` also the property that it was written to show, promised or not
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["scenario", "trace"])]
    replay: Option<PathBuf>,
    /// Write the trace of the run to a file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw the run as a space-time diagram
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    extent: ExtentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The options of a run. None: the value of the scenario if there is one, else the default. They conflict with a trace,
/// which contains its own options.
#[derive(clap::Args)]
#[command(mut_args = |arg| arg.conflicts_with_all(["replay", "scenarios"]))]
struct RunArgs {
    /// The algorithm, or a part of its name that fits no other one; `baton algorithms` lists them
    #[arg(required_unless_present_any = ["scenario", "scenarios", "replay"], conflicts_with = "scenario")]
    algorithm: Option<String>,
    /// Number of processes that request the lock [default: 5]
    #[arg(short)]
    n: Option<usize>,
    /// Variant of the algorithm; `baton algorithms NAME` lists them
    #[arg(long)]
    variant: Option<String>,
    /// Number of coordinators that vote
    #[arg(long, value_name = "C")]
    coordinators: Option<usize>,
    /// Number of votes that win
    #[arg(long, value_name = "M")]
    votes: Option<usize>,
    /// When the processes request the lock; in elections, which processes notice that there is no leader [default: all]
    #[arg(long, value_enum)]
    load: Option<LoadArg>,
    /// In elections, the one process that notices that there is no leader, instead of `--load`
    #[arg(long, value_name = "P", conflicts_with = "load")]
    noticed_by: Option<usize>,
    /// Number of requests of all processes together [default: 20 for each process]
    #[arg(long, value_name = "K")]
    entries: Option<u64>,
    /// Time that a process stays in the critical section, in T [default: 1]
    #[arg(long, value_name = "E")]
    hold: Option<f64>,
    /// Time between leaving and the next request, in T; the mean for `--load random` [default: 0; random: 10 n]
    #[arg(long, value_name = "MEAN")]
    think: Option<f64>,
    /// `sync`: every message takes 1 T; `async`: random delays with a heavy tail [default: sync]
    #[arg(long, value_enum)]
    network: Option<NetworkArg>,
    /// Delay of a message, in T: const:1, uniform:A,B, exp:MEAN or pareto:MEAN,SHAPE
    #[arg(long)]
    delay: Option<String>,
    /// The longest delay that the processes believe in, in T [default: the real bound if there is one, else a guess]
    #[arg(long, value_name = "D")]
    delay_max: Option<f64>,
    /// Whether messages keep their order [default: fifo if the algorithm needs it, else unordered]
    #[arg(long, value_enum)]
    order: Option<OrderArg>,
    /// The probability that a message is lost [default: 0]
    #[arg(long, value_name = "P")]
    loss: Option<f64>,
    /// How much the clocks and timers of the processes may be fast or slow: 0.1 is one tenth [default: 0]
    #[arg(long, value_name = "P")]
    drift: Option<f64>,
    /// The probability that a message arrives twice [default: 0]
    #[arg(long, value_name = "P")]
    duplicate: Option<f64>,
    /// `crash P @ T`, `recover P @ T [without-memory]`, `pause P @ T for D`, `partition A,B|C,D @ T [for D]` or
    /// `oneway A->B @ T [for D]`; may be given several times. A process that no side of a partition names reaches every
    /// side. `random` draws faults from the seed, of the kinds that the algorithm tolerates, and the report shows them
    #[arg(long, value_name = "SPEC")]
    fault: Vec<String>,
    /// No failure detector tells the processes of crashes and partitions. An algorithm with timers of its own, such as
    /// bully, still notices a process that does not answer. (In an election without --fault, the processes
    /// that --load names still notice the crash of the leader.)
    #[arg(long)]
    no_detector: bool,
    /// The failure detectors report a crash or a partition to one process after the other, at random times within T
    /// [default: 0, to all at once]
    #[arg(long, value_name = "T")]
    detector_spread: Option<f64>,
    /// Each request also sends an application message to another process, which then requests the lock, too
    #[arg(long)]
    app_messages: bool,
    /// In the critical section each process reads a counter from a store, and writes it back plus one
    #[arg(long, value_enum, value_name = "KIND")]
    store: Option<StoreArg>,
    /// Seed of all randomness [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Number of seeds to run, from S on; the seed of every failure is reported [default: 1]
    #[arg(long, value_name = "R")]
    runs: Option<u64>,
    /// Allow a network or faults that the algorithm does not tolerate
    #[arg(long)]
    ignore_assumptions: bool,
    /// Longest time that a request may wait after the last fault is over, in T [default: very long]
    #[arg(long, value_name = "T")]
    patience: Option<f64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LoadArg {
    /// One request at a time, by each process in turn
    Solo,
    /// One request at a time, each by a random other process
    SoloRandom,
    /// Every process always wants to enter
    All,
    /// Every process requests at random times
    Random,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NetworkArg {
    Sync,
    Async,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    Fifo,
    Unordered,
}

#[derive(Clone, Copy, ValueEnum)]
enum StoreArg {
    /// The store refuses a fence that is lower than one it has seen
    Fenced,
    /// The store accepts every write
    Unfenced,
    /// The store accepts every write, but each process checks before it writes that its lease is not over (for leases:
    /// `central --variant lease:L`)
    LeaseChecked,
}

impl From<LoadArg> for Load {
    fn from(load: LoadArg) -> Load {
        match load {
            LoadArg::Solo => Load::Solo,
            LoadArg::SoloRandom => Load::SoloRandom,
            LoadArg::All => Load::All,
            LoadArg::Random => Load::Random,
        }
    }
}

pub fn run(args: &Args) -> Outcome {
    if args.scenarios {
        return scenario::list(args.json);
    }
    if let Some(path) = &args.scenario {
        return scenario::play(args, path);
    }
    if let Some(path) = &args.replay {
        return replay::repeat(args, path);
    }
    let mut options = args.run.over(Spec::default()).options().map_err(Failure::bad_input)?;
    let runs = args.run.runs.unwrap_or(1);
    let progress = Progress::bar(&options.algorithm);
    options.watch = Some(progress.watch());
    check_runs(&options, runs).map_err(Failure::bad_input)?;
    match runs {
        0 => Err(Failure::bad_input("--runs cannot be 0; ask for at least 1")),
        1 => run_once(args, &options, &progress),
        _ if args.trace.is_some() || args.svg.is_some() => {
            Err(Failure::bad_input("--trace and --svg show one run; leave out --runs, and give its --seed"))
        }
        runs => run_many(args, &options, runs, &progress),
    }
}

fn run_once(args: &Args, options: &Options, progress: &Progress) -> Outcome {
    let (sink, writer) = Sink::open(args.trace.as_ref(), args.svg.as_ref(), args.extent.extent())?;
    let report = simulate(options, writer);
    progress.finish();
    let report = match report {
        Ok(report) => report,
        Err(reason) => {
            sink.leave_all_as_it_was();
            return Err(Failure::bad_input(reason));
        }
    };
    sink.draw()?;
    if args.json {
        print_json(&Explained::new(options, &report))?
    } else {
        print(&text::of(&report, options))?
    }
    Ok(ExitCode::from(if report.broken_promises().is_empty() { HELD } else { VIOLATED }))
}

fn run_many(args: &Args, options: &Options, runs: u64, progress: &Progress) -> Outcome {
    let mut failures = Vec::new();
    for options in seeds(options, runs) {
        let report = simulate(&options, None).map_err(Failure::bad_input)?;
        if !report.broken_promises().is_empty() {
            failures.push((options.seed, report));
        }
    }
    progress.finish();
    if args.json {
        let failures: Vec<_> =
            failures.iter().map(|(seed, report)| json!({ "seed": seed, "report": report })).collect();
        print_json(&json!({ "algorithm": options.algorithm, "runs": runs, "failures": failures }))?;
    } else {
        let mut text = format!("{}: {runs} runs, {} failed\n", options.algorithm, failures.len());
        for (seed, report) in &failures {
            let told =
                |(name, finding): (&str, &Finding)| format!("{name}: {}", finding.detail.as_deref().unwrap_or(""));
            let details: Vec<String> = report.broken().into_iter().map(told).collect();
            text.push_str(&format!("  seed {seed}  {}\n", details.join("; ")));
            text.extend(report.drawn().map(|drawn| format!("    drawn: {}\n", text::drawn(drawn))));
        }
        print(&text)?;
    }
    Ok(ExitCode::from(if failures.is_empty() { HELD } else { VIOLATED }))
}

impl RunArgs {
    /// The options that were given, and the values of `file` for the others.
    fn over(&self, mut file: Spec) -> Spec {
        // Each of the two options replaces the other.
        if self.load.is_some() || self.noticed_by.is_some() {
            (file.load, file.noticed_by) = (None, None);
        }
        Spec {
            algorithm: self.algorithm.clone().unwrap_or(file.algorithm),
            n: self.n.or(file.n),
            variant: self.variant.clone().or(file.variant),
            coordinators: self.coordinators.or(file.coordinators),
            votes: self.votes.or(file.votes),
            load: self.load.map(Load::from).or(file.load),
            noticed_by: self.noticed_by.or(file.noticed_by),
            entries: self.entries.or(file.entries),
            hold: self.hold.or(file.hold),
            think: self.think.or(file.think),
            network: self.network.map_or(file.network, |network| match network {
                NetworkArg::Sync => NetworkKind::Sync,
                NetworkArg::Async => NetworkKind::Async,
            }),
            delay: self.delay.clone().or(file.delay),
            delay_max: self.delay_max.or(file.delay_max),
            order: self.order.map_or(file.order, |order| {
                Some(match order {
                    OrderArg::Fifo => LinkOrder::Fifo,
                    OrderArg::Unordered => LinkOrder::Unordered,
                })
            }),
            loss: self.loss.unwrap_or(file.loss),
            duplicate: self.duplicate.unwrap_or(file.duplicate),
            drift: self.drift.unwrap_or(file.drift),
            faults: if self.fault.is_empty() { file.faults } else { self.fault.clone() },
            no_detector: self.no_detector || file.no_detector,
            detector_spread: self.detector_spread.unwrap_or(file.detector_spread),
            app_messages: self.app_messages || file.app_messages,
            store: self.store.map_or(file.store, |kind| {
                Some(match kind {
                    StoreArg::Fenced => StoreKind::Fenced,
                    StoreArg::Unfenced => StoreKind::Unfenced,
                    StoreArg::LeaseChecked => StoreKind::LeaseChecked,
                })
            }),
            seed: self.seed.or(file.seed),
            ignore_assumptions: self.ignore_assumptions || file.ignore_assumptions,
            patience: self.patience.or(file.patience),
            events_max: file.events_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_compare::command;
    use baton_sim::spec::Spec;

    use crate::Command;
    use crate::algorithms::tests::commands_of_claims;

    /// What a user types is what was measured.
    #[test]
    fn the_command_of_a_claim_is_its_run() {
        let all = commands_of_claims("baton sim ");
        assert!(all.len() > 50, "only {} commands", all.len());
        for (text, spec, cli) in all {
            let Command::Sim(args) = cli.command else { panic!("{text}") };
            let typed = args.run.over(Spec::default());
            assert_eq!((command::of_run(&typed), Some(command::to_json(&typed))), (text, spec));
        }
    }
}
