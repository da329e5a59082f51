//! `baton sim`: run an algorithm in virtual time, measure it and judge it.

use std::path::PathBuf;
use std::process::ExitCode;

use baton_sim::app::mutex::{Load, StoreKind};
use baton_sim::metrics::DelaySummary;
use baton_sim::oracle::Verdict;
use baton_sim::report::{AppendReport, DetectorReport, ElectionReport, MutexReport, Properties, Report};
use baton_sim::run::{Options, check_runs, run as simulate, seeds};
use baton_sim::spec::{LinkOrder, NetworkKind, Spec};
use baton_theory::election::ElectionCosts;
use baton_theory::mutex::Costs;
use clap::ValueEnum;
use serde_json::json;

use crate::extent::ExtentArgs;
use crate::output::{Failure, HELD, Outcome, VIOLATED, narrow_table, print, print_json};
use crate::progress::Progress;
use crate::sink::Sink;
use crate::theory::{
    AppendTheory, DetectorTheory, WithTheory, beside, of_append, of_detector, of_election, of_mutex, too_short,
};

mod replay;
mod scenario;

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
    /// Play a scenario file, and compare the result with the expected one in the file
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Repeat a trace step by step, and judge the run again. A violation counts even if the algorithm does not promise the property
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

/// The options of a run. They conflict with a scenario and a trace, which contain their own options.
#[derive(clap::Args)]
#[command(mut_args = |arg| arg.conflicts_with_all(["scenario", "replay"]))]
struct RunArgs {
    /// The algorithm; `baton algorithms` lists them
    #[arg(required_unless_present_any = ["scenario", "replay"])]
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
    /// Number of requests of all processes together [default: 20 for each process]
    #[arg(long, value_name = "K")]
    entries: Option<u64>,
    /// Time that a process stays in the critical section, in T [default: 1]
    #[arg(long, value_name = "E")]
    hold: Option<f64>,
    /// Time between leaving and the next request, in T; the mean for `--load random` [default: 0; random: 10 n]
    #[arg(long, value_name = "MEAN")]
    think: Option<f64>,
    /// `sync`: every message takes 1 T; `async`: random delays with a heavy tail
    #[arg(long, value_enum, default_value = "sync")]
    network: NetworkArg,
    /// Delay of a message, in T: const:1, uniform:A,B, exp:MEAN or pareto:MEAN,SHAPE
    #[arg(long)]
    delay: Option<String>,
    /// The longest delay that the processes believe in, in T [default: the real bound if there is one, else a guess]
    #[arg(long, value_name = "D")]
    delay_max: Option<f64>,
    /// Whether messages keep their order [default: fifo if the algorithm needs it, else unordered]
    #[arg(long, value_enum)]
    order: Option<OrderArg>,
    /// The probability that a message is lost
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    loss: f64,
    /// How much the clocks and timers of the processes may be fast or slow: 0.1 is one tenth
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    drift: f64,
    /// The probability that a message arrives twice
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    duplicate: f64,
    /// `crash P @ T`, `recover P @ T [without-memory]`, `pause P @ T for D`, `partition A,B|C,D @ T [for D]` or
    /// `oneway A->B @ T [for D]`; may be given several times. `random` draws faults from the seed, of the kinds that the
    /// algorithm tolerates
    #[arg(long, value_name = "SPEC")]
    fault: Vec<String>,
    /// Each request also sends an application message to another process, which then requests the lock, too
    #[arg(long)]
    app_messages: bool,
    /// In the critical section each process reads a counter from a store, and writes it back plus one
    #[arg(long, value_enum, value_name = "KIND")]
    store: Option<StoreArg>,
    /// Seed of all randomness
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Number of seeds to run, from S on; the seed of every failure is reported
    #[arg(long, value_name = "R", default_value_t = 1)]
    runs: u64,
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
    if let Some(path) = &args.scenario {
        return scenario::play(args, path);
    }
    if let Some(path) = &args.replay {
        return replay::repeat(args, path);
    }
    let mut options = args.run.spec().options().map_err(Failure::bad_input)?;
    let progress = Progress::bar(&options.algorithm);
    options.watch = Some(progress.watch());
    check_runs(&options, args.run.runs).map_err(Failure::bad_input)?;
    match args.run.runs {
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
        print_json(&WithTheory::new(options, &report))?
    } else {
        print(&to_text(&report, Some(options)))?
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
            let broken = report.broken_promises();
            let details =
                report.properties().each().into_iter().filter(|(property, _)| broken.contains(&property.name()));
            let details: Vec<String> = details
                .map(|(property, finding)| format!("{property}: {}", finding.detail.as_deref().unwrap_or("")))
                .collect();
            text.push_str(&format!("  seed {seed}  {}\n", details.join("; ")));
        }
        print(&text)?;
    }
    Ok(ExitCode::from(if failures.is_empty() { HELD } else { VIOLATED }))
}

impl RunArgs {
    fn spec(&self) -> Spec {
        Spec {
            algorithm: self.algorithm.clone().unwrap_or_default(),
            n: self.n,
            variant: self.variant.clone(),
            coordinators: self.coordinators,
            votes: self.votes,
            load: self.load.map(Load::from),
            entries: self.entries,
            hold: self.hold,
            think: self.think,
            network: match self.network {
                NetworkArg::Sync => NetworkKind::Sync,
                NetworkArg::Async => NetworkKind::Async,
            },
            delay: self.delay.clone(),
            delay_max: self.delay_max,
            order: self.order.map(|order| match order {
                OrderArg::Fifo => LinkOrder::Fifo,
                OrderArg::Unordered => LinkOrder::Unordered,
            }),
            loss: self.loss,
            duplicate: self.duplicate,
            drift: self.drift,
            faults: self.fault.clone(),
            app_messages: self.app_messages,
            store: self.store.map(|kind| match kind {
                StoreArg::Fenced => StoreKind::Fenced,
                StoreArg::Unfenced => StoreKind::Unfenced,
            }),
            seed: Some(self.seed),
            ignore_assumptions: self.ignore_assumptions,
            patience: self.patience,
            events_max: None,
        }
    }
}

/// The report as text. With `options`, the text also has the values that theory expects.
fn to_text(report: &Report, options: Option<&Options>) -> String {
    match report {
        Report::Mutex(report) => {
            let theory = options.map(|options| of_mutex(options, report)).unwrap_or_default();
            mutex_to_text(report, &theory, options.and_then(too_short))
        }
        Report::Election(report) => election_to_text(report, &options.map(of_election).unwrap_or_default()),
        Report::Detector(report) => {
            detector_to_text(report, &options.map(|options| of_detector(options, report)).unwrap_or_default())
        }
        Report::Append(report) => {
            append_to_text(report, &options.map(|options| of_append(options, report)).unwrap_or_default())
        }
    }
}

fn mutex_to_text(report: &MutexReport, theory: &Costs, no_theory: Option<String>) -> String {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
    let mut rows = vec![
        vec!["entries".into(), entries_to_text(report)],
        vec!["messages".into(), format!("{}  ({})", report.messages, by_kind.join(", "))],
        vec![
            "per entry".into(),
            format!(
                "{} messages{}{}",
                number(report.messages_per_entry),
                beside(&theory.messages_per_entry),
                report.messages_per_entry_max.map_or(String::new(), |most| format!("; at most {most} for one entry")),
            ),
        ],
        vec!["on leaving".into(), format!("{} messages per entry", number(report.exit_messages))],
        vec![
            "multicasts".into(),
            format!("{} messages per entry, if a multicast counts as one", number(report.multicasts_per_entry)),
        ],
        vec!["bytes".into(), report.bytes.to_string()],
    ];
    let delays = [
        ("client delay", report.client_delay, &theory.client_delay),
        ("sync delay", report.sync_delay, &theory.sync_delay),
    ];
    for (name, delay, theory) in delays {
        rows.push(vec![name.into(), delay_to_text(delay, &beside(theory))]);
    }
    if let Some(bypass) = report.bypass {
        let text = format!("mean {:.3}, max {} later requests granted first", bypass.mean, bypass.max);
        rows.push(vec!["bypass".into(), text]);
    }
    if let Some(store) = &report.store {
        let damage = store.data.detail.as_ref().map(|detail| format!("; {detail}")).unwrap_or_default();
        let text = format!("{} writes, {} refused, {} LOST{damage}", store.writes, store.refused, store.lost);
        rows.push(vec!["store".into(), if store.lost > 0 { text } else { text.to_lowercase() }]);
    }
    rows.extend(no_theory.map(|reason| vec!["theory".into(), reason]));
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, seed {}\n\n{}{}",
        report.seed,
        narrow_table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
}

/// The number of entries, and the number of measured entries if it differs.
fn entries_to_text(MutexReport { entries, measured_entries, .. }: &MutexReport) -> String {
    match measured_entries == entries {
        true => entries.to_string(),
        false => format!("{entries}; per-entry figures and delays are of {measured_entries}, after a warm-up"),
    }
}

/// Names the dead processes.
fn dead_to_text(dead: &[usize]) -> String {
    let names: Vec<String> = dead.iter().map(|process| format!("P{process}")).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} is dead"),
        many => format!("; {} are dead", many.join(", ")),
    }
}

fn election_to_text(report: &ElectionReport, theory: &ElectionCosts) -> String {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let by_kind = if by_kind.is_empty() { "none".into() } else { by_kind.join(", ") };
    let term = report.term.map(|term| format!(", term {term}")).unwrap_or_default();
    let leader = report.leader.map_or("none".into(), |leader| format!("P{leader}{term}"));
    let rows = vec![
        vec!["leader".into(), leader + &dead_to_text(&report.dead)],
        vec!["messages".into(), format!("{}{}  ({by_kind} in all)", report.messages, beside(&theory.messages))],
        vec!["time".into(), report.time.map_or("-".into(), |time| format!("{time:.3} T{}", beside(&theory.time)))],
        vec!["rivals".into(), format!("two or more processes led for {:.3} T", report.rivals)],
    ];
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, seed {}\n\n{}{}",
        report.seed,
        narrow_table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
}

fn detector_to_text(report: &DetectorReport, theory: &DetectorTheory) -> String {
    let rows = vec![
        vec!["crashes".into(), report.crashes.to_string()],
        vec!["detection time".into(), delay_to_text(report.detection_time, &beside(&theory.detection_time))],
        vec![
            "mistakes".into(),
            format!(
                "{}{}, {:.6} per T and pair, in {:.0} T",
                report.mistakes,
                beside(&theory.mistakes),
                report.mistake_rate,
                report.time
            ),
        ],
        vec!["mistake time".into(), delay_to_text(report.mistake_time, "")],
        vec!["messages".into(), format!("{}, a beat every {} T", report.messages, report.period)],
    ];
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, seed {}\n\n{}{}",
        report.seed,
        narrow_table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
}

fn append_to_text(report: &AppendReport, theory: &AppendTheory) -> String {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let theory = beside(&theory.messages_per_append);
    let per_append =
        report.messages_per_append.map_or("-".into(), |messages| format!("{messages:.3} messages{theory}"));
    let rows = vec![
        vec!["appends".into(), format!("{}, {:.3} per T", report.appends, report.throughput)],
        vec![
            "file".into(),
            format!(
                "{} records, {} padding, {} repeats, in {} copies",
                report.records, report.padding, report.repeats, report.copies
            ),
        ],
        vec!["messages".into(), format!("{}  ({})", report.messages, by_kind.join(", "))],
        vec!["per append".into(), per_append],
        vec!["bytes".into(), report.bytes.to_string()],
        vec!["client delay".into(), delay_to_text(report.client_delay, "")],
    ];
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, {} replicas, seed {}\n\n{}{}",
        report.replicas,
        report.seed,
        narrow_table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
}

/// `theory` follows the mean; it may be empty.
fn delay_to_text(delay: Option<DelaySummary>, theory: &str) -> String {
    delay.map_or("-".into(), |delay| {
        let DelaySummary { mean, p50, p99, max } = delay;
        format!("mean {mean:.3} T{theory}, median {p50:.3}, p99 {p99:.3}, max {max:.3}")
    })
}

fn title(algorithm: &str, variant: &Option<String>, n: usize) -> String {
    let variant = variant.as_ref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    format!("{algorithm}{variant}, n = {n}")
}

fn verdicts(properties: &Properties, broken: &[&str]) -> String {
    let rows: Vec<Vec<String>> = properties
        .each()
        .into_iter()
        .map(|(property, finding)| {
            let name = property.name();
            let verdict = match finding.verdict {
                Verdict::Held => "held",
                Verdict::Violated if broken.contains(&name) => "VIOLATED",
                Verdict::Violated => "violated, not promised",
                Verdict::Unchecked => "unchecked",
            };
            vec![name.into(), verdict.into(), finding.detail.clone().unwrap_or_default()]
        })
        .collect();
    format!("\n{}", narrow_table(&rows))
}
