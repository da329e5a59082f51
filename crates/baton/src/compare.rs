//! `baton compare`: measure every algorithm for mutual exclusion and compare it with theory.

mod chart;
mod extra;
mod html;
pub mod parallel;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use baton_protocol::registry::{ALGORITHMS, About, Family};
use baton_sim::app::mutex::Load;
use baton_sim::report::{MutexReport, Properties, Report};
use baton_sim::run::{Options, run as simulate};
use baton_theory::mutex::{Costs, closed_loop_client_delay};
use baton_theory::{Expectation, Kind, MEAN_TOLERANCE};
use serde::Serialize;

use crate::output::{COLUMNS, Failure, HELD, Outcome, VIOLATED, narrow_table, print, print_json, unwritable, wrapped};
use crate::theory::{in_words, number, of_mutex};

/// Measure all algorithms for mutual exclusion, and compare them with theory
///
/// The words of the table are explained in docs/glossary.md.
///
/// Exit status 0: every measurement agrees with theory and every promise held; 1: a measurement differs or a promise
/// was broken; 2: bad input; 74: the output cannot be written.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub struct Args {
    /// Numbers of processes that request the lock
    #[arg(short, value_name = "N,...", default_value = "4,9,25,49,100")]
    n: String,
    /// When the processes request the lock: solo, solo-random, all or random
    #[arg(long, value_name = "LOAD,...", default_value = "solo,all")]
    loads: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The largest group. Some algorithms need n messages for each entry, so the work of a round grows with n squared.
const SIZE_MAX: usize = 1_000;

fn size(text: &str) -> Result<usize, Failure> {
    let wrong = match text.trim().parse() {
        Ok(n @ 0..=1) => format!("a group of {n} is too small; it takes at least 2 processes"),
        Ok(n) if n > SIZE_MAX => format!("{n} processes take too long to compare; at most {SIZE_MAX}"),
        Ok(n) => return Ok(n),
        Err(_) => format!("`{text}` is not a number of processes; give numbers from 2 to {SIZE_MAX}, such as 4,9,25"),
    };
    Err(Failure::bad_input(wrong))
}

fn load(text: &str) -> Result<Load, Failure> {
    let known = [Load::Solo, Load::SoloRandom, Load::All, Load::Random];
    known.into_iter().find(|&load| load_name(load) == text.trim()).ok_or_else(|| {
        let names = known.map(load_name).join(", ");
        Failure::bad_input(format!("there is no load `{text}`; there are {names}"))
    })
}

/// The items of a list that is separated by commas, without repetitions.
fn list<T: PartialEq>(text: &str, one: fn(&str) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let part = one(part)?;
        if !all.contains(&part) {
            all.push(part);
        }
    }
    Ok(all)
}

/// Variants that get rows of their own.
const VARIANTS: [(&str, &str); 6] = [
    ("maekawa", "yield-at-once"),
    ("token-ring", "parked"),
    ("raymond", "chain"),
    ("raymond", "star"),
    ("voting", "ask-all"),
    ("voting", "stored-fence"),
];

/// The measured rounds after the warm-up: each process enters once a round.
const ROUNDS: u64 = 8;
/// The least number of measured entries, so that means settle.
const ENTRIES: u64 = 2_000;

/// How long each process stays in the critical section, in T.
const HOLD: f64 = 1.0;

/// One line of the comparison.
#[derive(Serialize)]
struct Row {
    algorithm: &'static str,
    variant: Option<&'static str>,
    n: usize,
    load: Load,
    messages_per_entry: Option<f64>,
    expected: Option<f64>,
    expected_kind: Option<Kind>,
    formula: Option<String>,
    client_delay_mean: Option<f64>,
    sync_delay_mean: Option<f64>,
    bytes_per_entry: Option<f64>,
    properties: Option<Properties>,
    broken_promises: Vec<&'static str>,
    /// Whether no measurement differs from theory.
    agrees: bool,
    /// One sentence for each measurement that differs.
    differences: Vec<String>,
    /// Why the algorithm cannot run with this number of processes.
    refused: Option<String>,
    #[serde(skip)]
    costs: Costs,
}

pub fn run(args: &Args) -> Outcome {
    let (mut sizes, loads) = (list(&args.n, size)?, list(&args.loads, load)?);
    sizes.sort_unstable();
    // An unwritable file is reported now, not after all the work.
    let page = args
        .html
        .as_ref()
        .map(|path| File::create(path).map(|file| (file, path)).map_err(|error| unwritable(path, &error)));
    let page = page.transpose()?;
    let tasks = tasks(&sizes, &loads);
    let rows = parallel::map(&tasks, "comparing", measure);
    if let Some((mut file, path)) = page {
        let text = html::page(&rows, &extra::fairness(&contestants()), &extra::utilization());
        file.write_all(text.as_bytes()).map_err(|error| unwritable(path, &error))?;
    }
    if args.json {
        print_json(&serde_json::json!({ "rows": rows }))?;
    } else {
        print(&to_text(&rows))?;
    }
    let fine = |row: &Row| row.agrees && row.broken_promises.is_empty();
    Ok(ExitCode::from(if rows.iter().all(fine) { HELD } else { VIOLATED }))
}

/// An algorithm in one variant.
#[derive(Clone, Copy)]
struct Contestant {
    about: &'static About,
    variant: Option<&'static str>,
}

impl Contestant {
    fn name(&self) -> String {
        full_name(self.about.name, self.variant)
    }

    /// A synchronous network, which keeps the order of messages if the algorithm assumes it.
    fn options(&self, n: usize, load: Load) -> Options {
        let mut options = Options::new(self.about.name, n);
        options.params.variant = self.variant.map(Into::into);
        options.network.fifo = self.about.assumes.fifo;
        options.workload.load = load;
        options.workload.hold = HOLD;
        options.workload.think = if load == Load::Random { 10.0 * n as f64 } else { 0.0 };
        options
    }
}

fn full_name(algorithm: &str, variant: Option<&str>) -> String {
    variant.map_or(algorithm.into(), |variant| format!("{algorithm} ({variant})"))
}

/// All algorithms for mutual exclusion that are not broken on purpose, with their variants.
fn contestants() -> Vec<Contestant> {
    let healthy = ALGORITHMS.iter().filter(|about| about.family == Family::Mutex && about.broken.is_none());
    let with_variants = healthy.flat_map(|about| {
        let has = |name: &str| about.variants.iter().any(|variant| variant.name == name);
        let variants = VARIANTS.iter().filter(move |(algorithm, name)| *algorithm == about.name && has(name));
        let variants = variants.map(|&(_, name)| Contestant { about, variant: Some(name) });
        [Contestant { about, variant: None }].into_iter().chain(variants.collect::<Vec<_>>())
    });
    with_variants.collect()
}

type Task = (Contestant, usize, Load);

fn tasks(sizes: &[usize], loads: &[Load]) -> Vec<Task> {
    let contestants = contestants();
    let each = contestants.iter().flat_map(|&contestant| loads.iter().map(move |&load| (contestant, load)));
    each.flat_map(|(contestant, load)| sizes.iter().map(move |&n| (contestant, n, load))).collect()
}

fn measure(&(contestant, n, load): &Task) -> Row {
    let mut options = contestant.options(n, load);
    let rounds = ROUNDS.max(ENTRIES.div_ceil(n as u64));
    // Three rounds of warm-up come first. In the last round, processes stop requesting.
    options.workload.entries = (3 + rounds + 1) * n as u64;
    let row = Row {
        algorithm: contestant.about.name,
        variant: contestant.variant,
        n,
        load,
        messages_per_entry: None,
        expected: None,
        expected_kind: None,
        formula: None,
        client_delay_mean: None,
        sync_delay_mean: None,
        bytes_per_entry: None,
        properties: None,
        broken_promises: Vec::new(),
        agrees: true,
        differences: Vec::new(),
        refused: None,
        costs: Costs::default(),
    };
    match simulate(&options, None) {
        Ok(Report::Mutex(report)) => row.with(of_mutex(&options, &report), *report),
        Ok(_) => row,
        Err(reason) => Row { refused: Some(reason.to_string()), ..row },
    }
}

impl Row {
    fn with(self, costs: Costs, report: MutexReport) -> Row {
        let differences = differences(&costs, &report);
        let messages = costs.messages_per_entry.as_ref();
        Row {
            messages_per_entry: report.messages_per_entry,
            expected: messages.map(|messages| messages.value),
            expected_kind: messages.map(|messages| messages.kind),
            formula: messages.map(|messages| messages.formula.clone()),
            client_delay_mean: report.client_delay.map(|delay| delay.mean),
            sync_delay_mean: report.sync_delay.map(|delay| delay.mean),
            bytes_per_entry: report.bytes_per_entry,
            properties: Some(report.properties),
            broken_promises: report.broken_promises,
            agrees: differences.is_empty(),
            differences,
            costs,
            ..self
        }
    }

    fn name(&self) -> String {
        full_name(self.algorithm, self.variant)
    }

    fn verdict(&self) -> String {
        if let Some(reason) = &self.refused {
            return format!("cannot: {reason}");
        }
        if !self.broken_promises.is_empty() {
            return format!("BROKEN: {}", self.broken_promises.join(", "));
        }
        if !self.agrees {
            return format!("DIFFERS: {}", self.differences.join("; "));
        }
        match self.expected_kind {
            Some(Kind::Exact) => "exact".into(),
            Some(Kind::Bound) => "within bounds".into(),
            Some(Kind::Mean) => "mean".into(),
            None => "no theory".into(),
        }
    }
}

/// The measurements that differ from theory.
fn differences(costs: &Costs, report: &MutexReport) -> Vec<String> {
    let (client_delay, sync_delay) = (report.client_delay, report.sync_delay);
    let mut checks = vec![
        ("messages", costs.messages_per_entry.clone(), report.messages_per_entry),
        ("client delay", costs.client_delay.clone(), client_delay.map(|delay| delay.mean)),
        ("sync delay", costs.sync_delay.clone(), sync_delay.map(|delay| delay.mean)),
        ("longest sync delay", costs.sync_delay_max.clone(), sync_delay.map(|delay| delay.max)),
    ];
    if let (Load::All, Some(sync_delay)) = (report.load, sync_delay) {
        // The measured S must explain how long clients wait.
        let value = closed_loop_client_delay(report.n, HOLD, sync_delay.mean);
        let expected = Expectation::mean(format!("n(E+S)-E, S = {}", number(sync_delay.mean)), value);
        checks.push(("client delay", Some(expected), client_delay.map(|delay| delay.mean)));
    }
    let differs = |(what, expected, measured): (&str, Option<Expectation>, Option<f64>)| {
        let (expected, measured) = (expected?, measured?);
        (!expected.agrees(measured)).then(|| format!("{what} {}, not {}", number(measured), in_words(&expected)))
    };
    checks.into_iter().filter_map(differs).collect()
}

fn to_text(rows: &[Row]) -> String {
    let head = ["ALGORITHM", "LOAD", "N", "MESSAGES", "IN THEORY", "CLIENT", "SYNC", "BYTES", ""];
    let mut cells = vec![head.map(String::from).to_vec()];
    let or_dash = |value: Option<f64>| value.map_or("-".into(), number);
    for row in rows {
        cells.push(vec![
            row.name(),
            load_name(row.load).into(),
            row.n.to_string(),
            or_dash(row.messages_per_entry),
            row.costs.messages_per_entry.as_ref().map_or("-".into(), in_words),
            or_dash(row.client_delay_mean),
            or_dash(row.sync_delay_mean),
            or_dash(row.bytes_per_entry),
            row.verdict(),
        ]);
    }
    format!("{}\n{}\n", narrow_table(&cells), wrapped(&summary(rows), COLUMNS).join("\n"))
}

fn summary(rows: &[Row]) -> String {
    let count = |of: fn(&Row) -> bool| rows.iter().filter(|row| of(row)).count();
    let (differ, broken) = (count(|row| !row.agrees), count(|row| !row.broken_promises.is_empty()));
    let verdict = match (differ, broken) {
        (0, 0) => "none differs from theory, and every promise held".into(),
        _ => format!("{differ} differ from theory, and in {broken} a promise was broken"),
    };
    let refused = count(|row| row.refused.is_some());
    let refused = if refused > 0 { format!(" {refused} could not be run.") } else { String::new() };
    // Rows without theory cannot differ from it, so the summary counts them.
    let without = count(|row| row.refused.is_none() && row.expected_kind.is_none());
    let theory = if without > 0 { format!(", {without} of them without theory") } else { String::new() };
    let tolerance = number(100.0 * MEAN_TOLERANCE);
    format!(
        "Messages and bytes are per entry; CLIENT and SYNC are the client delay and the synchronization delay, in T; every \
         process stays in the critical section for {HOLD} T. A mean, or an \"about\" value, agrees within {tolerance} %. \
         {} runs{theory}: {verdict}.{refused}",
        rows.len()
    )
}

fn load_name(load: Load) -> &'static str {
    match load {
        Load::Solo => "solo",
        Load::SoloRandom => "solo-random",
        Load::All => "all",
        Load::Random => "random",
    }
}
