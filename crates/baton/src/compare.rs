//! `baton compare`: measure every algorithm for mutual exclusion and every election, and compare them with theory.

mod changes;
mod chart;
mod elections;
mod html;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use baton_compare::election;
use baton_compare::extra;
use baton_compare::mutex::{HOLD, Row, compare, contestants};
use baton_compare::theory::{in_words, number};
use baton_compare::verdict;
use baton_compare::views;
use baton_sim::app::mutex::Load;
use baton_theory::MEAN_TOLERANCE;

use crate::output::{COLUMNS, Failure, HELD, Outcome, VIOLATED, narrow_table, print, print_json, unwritable, wrapped};
use crate::progress::watched;

/// Measure all algorithms for mutual exclusion and all elections, and compare them with theory
///
/// The words of the table are explained in docs/glossary.md.
///
/// Exit status 0: every measurement agrees with theory and every promise held; 1: a measurement differs or a promise
/// was broken; 2: bad input; 74: the output cannot be written.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub struct Args {
    /// Numbers of processes
    #[arg(short, value_name = "N,...", default_value = "4,9,25,49,100")]
    n: String,
    /// When the processes request the lock: solo, solo-random, all or random
    #[arg(long, value_name = "LOAD,...", default_value = "solo,solo-random,all")]
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
    Load::ALL.into_iter().find(|load| load.name() == text.trim()).ok_or_else(|| {
        let names = Load::ALL.map(Load::name).join(", ");
        Failure::bad_input(format!("there is no load `{text}`; there are {names}"))
    })
}

/// The items of a list that is separated by commas.
fn list<T: PartialEq>(text: &str, one: fn(&str) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let item = one(part)?;
        if all.contains(&item) {
            return Err(Failure::bad_input(format!("`{}` is given twice; give each value once", part.trim())));
        }
        all.push(item);
    }
    Ok(all)
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
    let contestants = contestants();
    let rows = watched("comparing", |caller| compare(&contestants, &sizes, &loads, caller))?;
    let elections = watched("elections", |caller| election::compare(&sizes, caller))?;
    let changes = watched("views", |caller| views::compare(&sizes, caller))?;
    if let Some((mut file, path)) = page {
        let fairness = watched("fairness", |caller| extra::fairness(&contestants, caller))?;
        let utilization = watched("voting under contention", extra::utilization)?;
        let text = html::page(&rows, &elections, &fairness, &utilization);
        file.write_all(text.as_bytes()).map_err(|error| unwritable(path, &error))?;
    }
    if args.json {
        print_json(&serde_json::json!({ "rows": rows, "elections": elections, "views": changes }))?;
    } else {
        print(&format!("{}\n{}\n{}", to_text(&rows), elections::to_text(&elections), changes::to_text(&changes)))?;
    }
    let agree = elections.iter().all(election::Row::is_fine) && changes.iter().all(views::Row::is_fine);
    let fine = rows.iter().all(Row::is_fine) && agree;
    Ok(ExitCode::from(if fine { HELD } else { VIOLATED }))
}

/// The words of the table. The page explains its own words.
const COLUMN_WORDS: &str = "Messages are per entry; --json and --html also count bytes. CLIENT and SYNC are the client delay and \
    the synchronization delay, in T. BUSIEST is the number of messages that the busiest process sends and receives, per entry of \
    the whole group.";

fn to_text(rows: &[Row]) -> String {
    let head = ["ALGORITHM", "LOAD", "N", "MESSAGES", "IN THEORY", "CLIENT", "SYNC", "BUSIEST", ""];
    let mut cells = vec![head.map(String::from).to_vec()];
    let or_dash = |value: Option<f64>| value.map_or("-".into(), number);
    for row in rows {
        cells.push(vec![
            row.name(),
            row.load.name().into(),
            row.n.to_string(),
            or_dash(row.messages_per_entry),
            row.costs.messages_per_entry.as_ref().map_or("-".into(), in_words),
            or_dash(row.client_delay_mean),
            or_dash(row.sync_delay_mean),
            or_dash(row.messages_per_process.map(|load| load.max)),
            row.verdict(),
        ]);
    }
    let summary = format!("{COLUMN_WORDS} {}", summary(rows));
    format!("{}\n{}\n", narrow_table(&cells), wrapped(&summary, COLUMNS).join("\n"))
}

fn summary(rows: &[Row]) -> String {
    let count = |of: fn(&Row) -> bool| rows.iter().filter(|row| of(row)).count();
    let verdict = verdict::of_all(count(|row| !row.agrees), count(|row| !row.broken_promises.is_empty()));
    let refused = count(|row| row.refused.is_some());
    let refused = if refused > 0 { format!(" {refused} could not be run.") } else { String::new() };
    // Rows without theory cannot differ from it, so the summary counts them.
    let without = count(|row| row.refused.is_none() && row.expected_kind.is_none());
    let theory = if without > 0 { format!(", {without} of them without theory") } else { String::new() };
    let tolerance = number(100.0 * MEAN_TOLERANCE);
    format!(
        "Every process stays in the critical section for {HOLD} T. A mean, or an \"about\" value, agrees within {tolerance} %. \
         {} runs{theory}: {verdict}.{refused}",
        rows.len()
    )
}
