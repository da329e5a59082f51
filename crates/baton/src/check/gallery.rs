//! `baton check --all`: every algorithm there is, and the table of verdicts.

use std::fs;
use std::process::ExitCode;

use baton_check::gallery::{COLUMNS, gallery, row};
use baton_check::{Property, Report, Verdict};
use baton_protocol::registry;

use super::{Args, LIMIT, watch};
use crate::output::{Failure, HELD, Outcome, VIOLATED, print, print_json, table, unwritable};
use crate::progress::Progress;

/// Above the table.
/// `LIMIT` is how many states a row may have.
const PREFACE: &str = "# What has been checked

Written by `baton check --all --limit LIMIT --markdown docs/checked.md`: every interleaving of small groups, through the unchanged step
functions. *Entries* is how often each process asks; *for ever* means that all ask again and again, in normal form, and
that no fair run lets anybody wait for ever (the components are those of more than one state, or with a step back to the
same: runs that never end). *Budget* is what may happen besides, at most so often; timers count per process. *No
verdict* means that there are more states than the limit allows, and nothing else; asking for ever often has
infinitely many, because a message that nobody needs may stay on its way for ever. Algorithms that are
broken on purpose, and networks that an algorithm is not made for, are here to be found out.

Crashes may come at any time; who lives is told of each, without mistakes. Who has crashed comes back, with its memory or without,
once all have been told, unless the algorithm is made for crashes that are final. Elections: without a crash to come the leader
is dead at the start; a wrong suspicion is a detector that errs, or, unless deadlines are right, a deadline that ends too early.

The exit status of `baton check --all` is 1 if anything is violated that should hold: not if it is broken on purpose, on a network
or with faults that it is not made for, or ORDER of one that does not promise it. It is 3 if that is not so and a limit was
reached, and else 0.
";

/// Checks all, as far as the limits allow.
pub fn run(args: &Args) -> Outcome {
    if let Some(path) = &args.markdown {
        fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| unwritable(path, &error))?;
    }
    let exhibits = gallery();
    let mut reports = Vec::new();
    for (number, exhibit) in exhibits.iter().enumerate() {
        let mut exhibit = exhibit.clone();
        let asked = args.options();
        let progress = Progress::news(format!("{}/{} {}", number + 1, exhibits.len(), exhibit.algorithm));
        exhibit.options.limit = asked.limit;
        (exhibit.options.memory, exhibit.options.threads) = (asked.memory, asked.threads);
        exhibit.options.watch = Some(watch(&progress));
        let report = exhibit.check().map_err(Failure::bad_input)?;
        progress.finish();
        if args.json {
            print_json(&report)?;
        }
        reports.push(report);
    }
    let rows: Vec<Vec<String>> = reports.iter().map(|report| row(report).to_vec()).collect();
    if !args.json {
        let head = COLUMNS.map(String::from).to_vec();
        let all: Vec<Vec<String>> = std::iter::once(head).chain(rows.clone()).collect();
        print(&table(&all))?;
    }
    if let Some(path) = &args.markdown {
        fs::write(path, markdown(&rows, args.limit)).map_err(|error| unwritable(path, &error))?;
    }
    Ok(ExitCode::from(verdict(&reports)))
}

/// What is broken on purpose, or on a network that it is not made for, may well be; anything else may not.
fn verdict(reports: &[Report]) -> u8 {
    let unexpected = |report: &&Report| report.result == Verdict::Violated && !is_expected(report);
    if reports.iter().any(|report| unexpected(&report)) {
        return VIOLATED;
    }
    if reports.iter().any(|report| report.result == Verdict::Limit) { LIMIT } else { HELD }
}

fn is_expected(report: &Report) -> bool {
    let Ok(about) = registry::find(report.algorithm) else { return false };
    let unpromised = report.property == Some(Property::Order) && !about.promises.order;
    about.broken.is_some() || report.ignored_assumptions || unpromised
}

fn markdown(rows: &[Vec<String>], limit: usize) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("{}\n{}", PREFACE.replace("LIMIT", &limit.to_string()), line(&COLUMNS.map(String::from)));
    text.push_str(&format!("|{}\n", "---|".repeat(COLUMNS.len())));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}
