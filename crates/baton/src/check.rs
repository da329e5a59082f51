//! `baton check`: try every interleaving of a small group.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use baton_check::{Options, Order, Property, Report, Verdict, check};
use baton_protocol::registry::Params;
use baton_trace::diagram;

use crate::output::{Failure, HELD, Outcome, VIOLATED, print, print_json, unwritable};

/// No verdict: the limit was reached first.
const LIMIT: u8 = 3;

/// Try every interleaving of a small group, and show the shortest way to break what breaks
///
/// Exit status 0: everything holds; 1: a property is violated; 2: bad input; 3: no verdict within the limit.
#[derive(clap::Args)]
pub struct Args {
    /// Which algorithm; `baton algorithms` lists them
    algorithm: String,
    /// How many processes may ask
    #[arg(short, default_value_t = 3)]
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
    /// How often each process asks
    #[arg(long, value_name = "K", default_value_t = 1)]
    entries: u32,
    /// Whether messages keep their order: fifo or unordered [default: the weakest that the algorithm can bear]
    #[arg(long)]
    order: Option<Order>,
    /// What to check: safety, deadlock, liveness, order, fence [default: all that the algorithm promises]
    #[arg(long, value_delimiter = ',', value_name = "PROPERTY")]
    property: Vec<Property>,
    /// How many application messages there may be [default: 1 where order is checked, else none]
    #[arg(long, value_name = "K")]
    app_messages: Option<u32>,
    /// How many timers may fire at each process, where an algorithm retries for ever
    #[arg(long, value_name = "K", default_value_t = 2)]
    timers: u32,
    /// Elections: the bound on delays that the processes believe in, in ticks
    #[arg(long, value_name = "D", default_value_t = 1)]
    delay_max: u64,
    /// Elections: how many ticks a message may really take [default: the bound]
    #[arg(long, value_name = "TICKS")]
    delay: Option<u64>,
    /// Check it on a network that it is not made for
    #[arg(long)]
    ignore_assumptions: bool,
    /// How many states to see before giving up
    #[arg(long, value_name = "STATES", default_value_t = 20_000_000)]
    limit: usize,
    /// Write the counterexample to a file, as a trace
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw the counterexample as a space-time diagram
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let report = check(&args.algorithm, &args.params(), &args.options()).map_err(Failure::bad_input)?;
    if let Some(trace) = &report.trace {
        if let Some(path) = &args.trace {
            let file = File::create(path).map_err(|error| unwritable(path, &error))?;
            trace.write(BufWriter::new(file)).map_err(|error| unwritable(path, &error))?;
        }
        if let Some(path) = &args.svg {
            let picture = diagram::draw(&trace.header, &trace.records);
            fs::write(path, picture).map_err(|error| unwritable(path, &error))?;
        }
    }
    if args.json {
        print_json(&report)?
    } else {
        print(&to_text(&report))?
    }
    Ok(ExitCode::from(match report.result {
        Verdict::Holds => HELD,
        Verdict::Violated => VIOLATED,
        Verdict::Limit => LIMIT,
    }))
}

impl Args {
    fn params(&self) -> Params {
        Params {
            n: self.n,
            variant: self.variant.clone(),
            coordinators: self.coordinators,
            votes: self.votes,
            delay_max: self.delay_max,
        }
    }

    fn options(&self) -> Options {
        Options {
            entries: self.entries,
            order: self.order,
            properties: (!self.property.is_empty()).then(|| self.property.clone()),
            app_messages: self.app_messages,
            timers: self.timers,
            delay: self.delay,
            limit: self.limit,
            ignore_assumptions: self.ignore_assumptions,
            ..Options::default()
        }
    }
}

fn to_text(report: &Report) -> String {
    let names: Vec<String> = report.properties.iter().map(Property::to_string).collect();
    let budget = report.timers.map(|timers| format!(", at most {timers} timers each")).unwrap_or_default();
    let entries = match report.entries {
        0 => String::new(),
        entries => format!(", asking {entries} times each"),
    };
    let (algorithm, n, order) = (report.algorithm, report.n, report.order);
    let mut text = format!("{algorithm}, n = {n}{entries}, {order} links{budget}: {}\n", names.join(", "));
    text.push_str(&match report.result {
        Verdict::Holds => "holds in every state\n".to_owned(),
        Verdict::Limit => "no verdict: the limit of states is reached\n".to_owned(),
        Verdict::Violated => {
            let property = report.property.map(|property| property.to_string()).unwrap_or_default();
            let (steps, detail) = (report.steps.unwrap_or_default(), report.detail.clone().unwrap_or_default());
            format!("{property} is violated in {steps} steps: {detail}\n")
        }
    });
    for line in report.counterexample.iter().flatten() {
        text.push_str(&format!("  {line}\n"));
    }
    let rate = report.states as f64 / report.seconds.max(1e-9);
    text.push_str(&format!(
        "{} states, {} steps between them, {} deep, {:.2} s ({rate:.0} states/s)\n",
        report.states, report.transitions, report.depth, report.seconds
    ));
    text
}
