//! `baton sim`: run an algorithm in virtual time, measure it and judge it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use baton_protocol::registry;
use baton_sim::app::mutex::Load;
use baton_sim::faults::Fault;
use baton_sim::network::Delay;
use baton_sim::oracle::Verdict;
use baton_sim::report::{ElectionReport, MutexReport, Properties, Report};
use baton_sim::run::{Options, run as simulate};
use baton_theory::election::ElectionCosts;
use baton_theory::mutex::Costs;
use clap::ValueEnum;

use crate::output::{Failure, HELD, Outcome, VIOLATED, print, print_json, table};
use crate::theory::{Theory, WithTheory, beside};

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

/// Who asks when.
#[derive(Clone, Copy, ValueEnum)]
pub enum LoadArg {
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

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let options = args.options()?;
    let trace = args.trace.as_ref().map(|path| match File::create(path) {
        Ok(file) => Ok(Box::new(BufWriter::new(file)) as Box<dyn Write>),
        Err(error) => Err(Failure::bad_input(format!("cannot write {}: {error}", path.display()))),
    });
    let report = simulate(&options, trace.transpose()?).map_err(Failure::bad_input)?;
    let report = WithTheory::new(&options, report);
    if args.json {
        print_json(&report)?;
    } else {
        print(&to_text(&report))?;
    }
    let report = report.report;
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
        options.workload.load = self.load.into();
        options.workload.entries = self.entries.unwrap_or(options.workload.entries);
        options.workload.hold = self.hold;
        let think = if options.workload.load == Load::Random { 10.0 * self.n as f64 } else { 0.0 };
        options.workload.think = self.think.unwrap_or(think);
        options.workload.app_messages = self.app_messages;
        options.faults = self.fault.clone();
        options.seed = self.seed;
        options.ignore_assumptions = self.ignore_assumptions;
        Ok(options)
    }
}

fn to_text(report: &WithTheory) -> String {
    match (&report.report, &report.theory) {
        (Report::Mutex(report), Theory::Mutex(theory)) => mutex_to_text(report, theory),
        (Report::Mutex(report), Theory::Election(_)) => mutex_to_text(report, &Costs::default()),
        (Report::Election(report), Theory::Election(theory)) => election_to_text(report, theory),
        (Report::Election(report), Theory::Mutex(_)) => election_to_text(report, &ElectionCosts::default()),
    }
}

fn mutex_to_text(report: &MutexReport, theory: &Costs) -> String {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
    let mut rows = vec![
        vec!["entries".into(), report.entries.to_string()],
        vec!["messages".into(), format!("{}  ({})", report.messages, by_kind.join(", "))],
        vec![
            "per entry".into(),
            format!(
                "{} messages{}, {} of them in leaving; {} if one multicast counts once",
                number(report.messages_per_entry),
                beside(&theory.messages_per_entry),
                number(report.exit_messages),
                number(report.multicasts_per_entry)
            ),
        ],
        vec!["bytes".into(), report.bytes.to_string()],
    ];
    let delays = [
        ("client delay", report.client_delay, &theory.client_delay),
        ("sync delay", report.sync_delay, &theory.sync_delay),
    ];
    for (name, delay, theory) in delays {
        let text = delay.map_or("-".into(), |delay| {
            let mean = format!("mean {:.3} T{}", delay.mean, beside(theory));
            format!("{mean}, median {:.3}, p99 {:.3}, max {:.3}", delay.p50, delay.p99, delay.max)
        });
        rows.push(vec![name.into(), text]);
    }
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, seed {}\n\n{}{}",
        report.seed,
        table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
}

fn election_to_text(report: &ElectionReport, theory: &ElectionCosts) -> String {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let rows = vec![
        vec!["leader".into(), report.leader.map_or("none".into(), |leader| format!("P{leader}"))],
        vec![
            "messages".into(),
            format!("{}{}  ({} in all)", report.messages, beside(&theory.messages), by_kind.join(", ")),
        ],
        vec!["time".into(), report.time.map_or("-".into(), |time| format!("{time:.3} T{}", beside(&theory.time)))],
    ];
    let title = title(report.algorithm, &report.variant, report.n);
    format!(
        "{title}, seed {}\n\n{}{}",
        report.seed,
        table(&rows),
        verdicts(&report.properties, &report.broken_promises)
    )
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
