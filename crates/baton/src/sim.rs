//! `baton sim`: run an algorithm in virtual time, measure it and judge it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use baton_protocol::registry;
use baton_sim::app::mutex::{Load, StoreKind};
use baton_sim::faults::Fault;
use baton_sim::metrics::DelaySummary;
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{AppendReport, DetectorReport, ElectionReport, MutexReport, Properties, Report};
use baton_sim::run::{Options, run as simulate};
use clap::ValueEnum;

use crate::output::{Failure, HELD, Outcome, VIOLATED, print, print_json, table};

/// Run an algorithm in virtual time, measure it and judge it
///
/// Exit status 0: every property that the algorithm promises held; 1: one was violated; 2: bad input.
#[derive(clap::Args)]
pub struct Args {
    /// Which algorithm; `baton algorithms` lists them
    algorithm: String,
    /// How many processes may ask
    #[arg(short, default_value_t = 5)]
    n: usize,
    /// Another way to run it
    #[arg(long)]
    variant: Option<String>,
    /// How many coordinators vote
    #[arg(long, value_name = "C")]
    coordinators: Option<usize>,
    /// How many of their votes win
    #[arg(long, value_name = "M")]
    votes: Option<usize>,
    /// Who asks when
    #[arg(long, value_enum, default_value = "all")]
    load: LoadArg,
    /// How many requests in all [default: 20 for each process]
    #[arg(long, value_name = "K")]
    entries: Option<u64>,
    /// How long each stays inside, in T
    #[arg(long, value_name = "E", default_value_t = 1.0)]
    hold: f64,
    /// How long each waits before it asks again, in T; the mean of it for `--load random` [default: 0, or 10 n]
    #[arg(long, value_name = "MEAN")]
    think: Option<f64>,
    /// `sync` takes 1 T for every message, `async` draws heavy-tailed delays
    #[arg(long, value_enum, default_value = "sync")]
    network: NetworkArg,
    /// How long a message takes: const:1, uniform:A,B, exp:MEAN or pareto:MEAN,SHAPE
    #[arg(long)]
    delay: Option<Delay>,
    /// Whether messages keep their order [default: fifo if the algorithm needs it, else unordered]
    #[arg(long, value_enum)]
    order: Option<OrderArg>,
    /// The probability that a message is lost
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    loss: f64,
    /// The probability that a message arrives twice
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    duplicate: f64,
    /// `crash P @ T`, `recover P @ T [without-memory]`, `pause P @ T for D`, `partition A,B|C,D @ T [for D]` or
    /// `oneway A->B @ T [for D]`; may be given several times
    #[arg(long, value_name = "SPEC")]
    fault: Vec<Fault>,
    /// Whoever asks tells somebody else to ask too, by a message of the application
    #[arg(long)]
    app_messages: bool,
    /// Whoever enters reads a counter in a store, and writes it back one higher halfway through its stay
    #[arg(long, value_enum, value_name = "KIND")]
    store: Option<StoreArg>,
    /// Of all randomness
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Run it on a network, or with faults, that it is not made for
    #[arg(long)]
    ignore_assumptions: bool,
    /// Write what happens to a file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum LoadArg {
    /// One request at a time, in turns
    Solo,
    /// One request at a time, the next by a random other
    SoloRandom,
    /// Everybody always wants to enter
    All,
    /// Everybody asks at random times
    Random,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NetworkArg {
    Sync,
    Async,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderArg {
    Fifo,
    Unordered,
}

#[derive(Clone, Copy, ValueEnum)]
enum StoreArg {
    /// It refuses whoever shows a lower fence than it has seen
    Fenced,
    /// It takes what comes
    Unfenced,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let options = args.options()?;
    let trace = args.trace.as_ref().map(|path| match File::create(path) {
        Ok(file) => Ok(Box::new(BufWriter::new(file)) as Box<dyn Write>),
        Err(error) => Err(Failure::bad_input(format!("cannot write {}: {error}", path.display()))),
    });
    let report = simulate(&options, trace.transpose()?).map_err(Failure::bad_input)?;
    if args.json {
        print_json(&report)?;
    } else {
        print(&to_text(&report))?;
    }
    Ok(ExitCode::from(if report.broken_promises().is_empty() { HELD } else { VIOLATED }))
}

impl Args {
    fn options(&self) -> Result<Options, Failure> {
        let about = registry::find(&self.algorithm).map_err(Failure::bad_input)?;
        let mut options = Options::new(&self.algorithm, self.n);
        options.network.delay = self.delay.unwrap_or(match self.network {
            NetworkArg::Sync => Delay::Constant(1.0),
            NetworkArg::Async => Delay::Pareto(1.0, 1.5),
        });
        options.network.fifo = self.order.map_or(about.assumes.fifo, |order| order == OrderArg::Fifo);
        options.network.loss = self.loss;
        options.network.duplicate = self.duplicate;
        options.params.delay_max = options.network.delay.guess();
        options.params.variant = self.variant.clone();
        options.params.coordinators = self.coordinators;
        options.params.votes = self.votes;
        options.workload.load = match self.load {
            LoadArg::Solo => Load::Solo,
            LoadArg::SoloRandom => Load::SoloRandom,
            LoadArg::All => Load::All,
            LoadArg::Random => Load::Random,
        };
        options.workload.entries = self.entries.unwrap_or(options.workload.entries);
        options.workload.hold = self.hold;
        let think = if options.workload.load == Load::Random { 10.0 * self.n as f64 } else { 0.0 };
        options.workload.think = self.think.unwrap_or(think);
        options.workload.app_messages = self.app_messages;
        options.workload.store = self.store.map(|kind| match kind {
            StoreArg::Fenced => StoreKind::Fenced,
            StoreArg::Unfenced => StoreKind::Unfenced,
        });
        options.faults = self.fault.clone();
        options.seed = self.seed;
        options.ignore_assumptions = self.ignore_assumptions;
        Ok(options)
    }
}

fn to_text(report: &Report) -> String {
    match report {
        Report::Mutex(report) => mutex_to_text(report),
        Report::Election(report) => election_to_text(report),
        Report::Detector(report) => detector_to_text(report),
        Report::Append(report) => append_to_text(report),
    }
}

fn mutex_to_text(report: &MutexReport) -> String {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
    let mut rows = vec![
        vec!["entries".into(), report.entries.to_string()],
        vec!["messages".into(), format!("{}  ({})", report.messages, by_kind.join(", "))],
        vec![
            "per entry".into(),
            format!(
                "{} messages, {} of them in leaving; {} if one multicast counts once",
                number(report.messages_per_entry),
                number(report.exit_messages),
                number(report.multicasts_per_entry)
            ),
        ],
        vec!["bytes".into(), report.bytes.to_string()],
    ];
    for (name, delay) in [("client delay", report.client_delay), ("sync delay", report.sync_delay)] {
        rows.push(vec![name.into(), delay_to_text(delay)]);
    }
    if let Some(store) = &report.store {
        let damage = store.data.detail.as_ref().map(|detail| format!("; {detail}")).unwrap_or_default();
        let text = format!("{} writes, {} refused, {} LOST{damage}", store.writes, store.refused, store.lost);
        rows.push(vec!["store".into(), if store.lost > 0 { text } else { text.to_lowercase() }]);
    }
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, seed {}\n\n{}{}",
        report.seed,
        table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
}

fn election_to_text(report: &ElectionReport) -> String {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let rows = vec![
        vec!["leader".into(), report.leader.map_or("none".into(), |leader| format!("P{leader}"))],
        vec!["messages".into(), format!("{}  ({} in all)", report.messages, by_kind.join(", "))],
        vec!["time".into(), report.time.map_or("-".into(), |time| format!("{time:.3} T"))],
    ];
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, seed {}\n\n{}{}",
        report.seed,
        table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
}

fn detector_to_text(report: &DetectorReport) -> String {
    let rows = vec![
        vec!["crashes".into(), report.crashes.to_string()],
        vec!["detection time".into(), delay_to_text(report.detection_time)],
        vec![
            "mistakes".into(),
            format!("{}, {:.6} per T and pair, in {:.0} T", report.mistakes, report.mistake_rate, report.time),
        ],
        vec!["mistake time".into(), delay_to_text(report.mistake_time)],
        vec!["messages".into(), format!("{}, a beat every {} T", report.messages, report.period)],
    ];
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, seed {}\n\n{}{}",
        report.seed,
        table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
}

fn append_to_text(report: &AppendReport) -> String {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let per_append = report.messages_per_append.map_or("-".into(), |messages| format!("{messages:.3} messages"));
    let rows = vec![
        vec!["appends".into(), format!("{}, {:.3} per T", report.appends, report.throughput)],
        vec![
            "file".into(),
            format!("{} records, {} padding, {} repeats", report.records, report.padding, report.repeats),
        ],
        vec!["messages".into(), format!("{}  ({})", report.messages, by_kind.join(", "))],
        vec!["per append".into(), per_append],
        vec!["bytes".into(), report.bytes.to_string()],
        vec!["client delay".into(), delay_to_text(report.client_delay)],
    ];
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, {} replicas, seed {}\n\n{}{}",
        report.replicas,
        report.seed,
        table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
}

fn delay_to_text(delay: Option<DelaySummary>) -> String {
    delay.map_or("-".into(), |delay| {
        format!("mean {:.3} T, median {:.3}, p99 {:.3}, max {:.3}", delay.mean, delay.p50, delay.p99, delay.max)
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
        .map(|(name, finding)| {
            let verdict = match finding.verdict {
                Verdict::Held => "held",
                Verdict::Violated if broken.contains(&name) => "VIOLATED",
                Verdict::Violated => "violated, not promised",
                Verdict::Unchecked => "unchecked",
            };
            vec![name.into(), verdict.into(), finding.detail.clone().unwrap_or_default()]
        })
        .collect();
    format!("\n{}", table(&rows))
}
