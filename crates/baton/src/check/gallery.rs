//! `baton check --all`: check every algorithm, and print the table of verdicts.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use baton_check::gallery::{COLUMNS, Exhibit, gallery, row};
use baton_check::{CheckReport, Property, Verdict};
use baton_protocol::registry;

use super::{Args, LIMIT, watch};
use crate::output::{Failure, HELD, Outcome, VIOLATED, narrow_table, print, print_json, unwritable};
use crate::progress::Progress;

/// The text above the table in docs/checked.md.
const PREFACE: &str = "# What has been checked

`baton check --all --minutes 10 --memory 20GiB --markdown docs/checked.md` writes this page; `--only ALGORITHM` writes the rows of one
algorithm. The checker tries every interleaving of a small group, with the unchanged step functions.

A row may take 10 minutes if it has

- three processes with two requests each, or four processes with one request each,
- an election of three or four processes without faults,
- or requests *for ever*, if the number of states is known to be finite.

All other rows, and all algorithms that are broken on purpose, have 1 minute. `voting` has 10 minutes only for its rows with fifo links
and fewer timers.

The words of the table:

- *no verdict*: the check ran out of time, memory or states; the row says which. Such a row proves nothing. What is proved is the
  largest smaller model that holds.
- *entries*: how many requests each process makes.
- *for ever*: all processes request again and again, and in no fair run does a process wait for ever. States that differ only by a
  shift of their counters count as one state.
- *component*: a set of states in which a run can go on for ever.
- *budget*: the most faults, timers and application messages in one run. Timers count per process.
- *reachability*: violated if too little happens in the model to show anything.
- *fifo*: links keep the order of messages. If random choices or late messages make too many states, the check is repeated with fifo
  links, and with fewer timers.

Algorithms that are broken on purpose are here to show how they break. So are networks for which an algorithm is not made.

- **Crashes** may come at any time. Every live process is told of each crash, without mistakes. A crashed process comes back only after
  all have been told, and only as the algorithm allows: not at all, with its memory, or also without.
- **Messages** of one step are sent together, and arrive even if the sender crashes afterwards.
- **Liveness with a crash** means that no process waits for ever. Messages may go round for ever.
- **Elections**: if the budget has no crash, the leader is dead at the start. A wrong suspicion is a mistake of a detector or, without
  *deadlines right*, a deadline that ends too early.
- **Heartbeats** are told of no crash: they detect crashes themselves, and go on for ever.

The checker tells states apart by 64 bits of a hash. The chance to have missed a state is 1 in 3,700 for 100 million states, and 1 in 150
for 500 million.

The exit status of `baton check --all` is 1 if a property is violated that should hold. It does not count algorithms that are broken
on purpose, networks and faults that an algorithm is not made for, and ORDER if the algorithm does not promise it. Otherwise the status
is 3 if a limit was reached, and 0 if not.
";

pub fn run(args: &Args) -> Outcome {
    let only = args.only.iter().map(|name| registry::find(name).map(|about| about.name));
    let only: Vec<&str> = only.collect::<Result<_, _>>().map_err(Failure::bad_input)?;
    let page = args.markdown.as_deref().map(Page::open).transpose()?;
    let asked = |exhibit: &Exhibit| only.is_empty() || only.contains(&exhibit.algorithm);
    let exhibits: Vec<Exhibit> = gallery().into_iter().filter(asked).collect();
    let mut reports: Vec<CheckReport> = Vec::new();
    for (number, exhibit) in exhibits.iter().enumerate() {
        let progress = Progress::unbounded(format!("{}/{} {}", number + 1, exhibits.len(), exhibit.algorithm));
        let report = within_limits(exhibit, args, &progress).check().map_err(Failure::bad_input)?;
        progress.finish();
        if args.json {
            print_json(&report)?;
        }
        reports.push(report);
        // The page is written after each check, so that an early end loses no finished row.
        page.iter().try_for_each(|page| page.write(&rows(&reports)))?;
    }
    if !args.json {
        let head = COLUMNS.map(String::from).to_vec();
        let all: Vec<Vec<String>> = std::iter::once(head).chain(rows(&reports)).collect();
        print(&narrow_table(&all))?;
    }
    Ok(ExitCode::from(verdict(&reports)))
}

fn within_limits(exhibit: &Exhibit, args: &Args, progress: &Progress) -> Exhibit {
    let (asked, mut exhibit) = (args.options(), exhibit.clone());
    let time = asked.time.map(|longest| exhibit.time(longest));
    let options = &mut exhibit.options;
    (options.limit, options.memory, options.time) = (asked.limit, asked.memory, time);
    (options.threads, options.watch) = (asked.threads, Some(watch(progress)));
    exhibit
}

fn rows(reports: &[CheckReport]) -> Vec<Vec<String>> {
    reports.iter().map(|report| row(report).to_vec()).collect()
}

/// The exit status. A violation counts unless it [is expected](is_expected).
fn verdict(reports: &[CheckReport]) -> u8 {
    let unexpected = |report: &&CheckReport| report.result == Verdict::Violated && !is_expected(report);
    if reports.iter().any(|report| unexpected(&report)) {
        return VIOLATED;
    }
    if reports.iter().any(|report| report.result == Verdict::Limit) { LIMIT } else { HELD }
}

/// A violation is expected from an algorithm that is broken on purpose, in a model that ignores its assumptions, and for
/// ORDER if the algorithm does not promise it.
fn is_expected(report: &CheckReport) -> bool {
    let Ok(about) = registry::find(report.algorithm) else { return false };
    let unpromised = report.property == Some(Property::Order) && !about.promises.order;
    about.broken.is_some() || report.ignored_assumptions || unpromised
}

struct Page<'a> {
    path: &'a Path,
    /// The text of the file before this run.
    before: String,
}

impl<'a> Page<'a> {
    /// Returns an error now if the file cannot be written, not after the first check.
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let opened = fs::OpenOptions::new().append(true).create(true).open(path);
        opened
            .and_then(|_| fs::read_to_string(path))
            .map_or_else(|error| Err(unwritable(path, &error)), |before| Ok(Page { path, before }))
    }

    fn write(&self, rows: &[Vec<String>]) -> Result<(), Failure> {
        fs::write(self.path, markdown(rows, &self.before)).map_err(|error| unwritable(self.path, &error))
    }
}

/// The page with these rows. Algorithms without a new row keep their rows of `before`.
fn markdown(rows: &[Vec<String>], before: &str) -> String {
    let line = |cells: &[String]| {
        format!("| {} |\n", cells.iter().map(|cell| emphasized(cell)).collect::<Vec<_>>().join(" | "))
    };
    let mut text = format!("{PREFACE}\n{}", line(&COLUMNS.map(String::from)));
    text.push_str(&format!("|{}\n", "---|".repeat(COLUMNS.len())));
    let mut algorithms: Vec<&str> = gallery().iter().map(|exhibit| exhibit.algorithm).collect();
    algorithms.dedup();
    for algorithm in algorithms {
        let mut new = rows.iter().filter(|row| name(&row[0]) == algorithm).peekable();
        if new.peek().is_none() {
            let old = before.lines().filter(|line| line.strip_prefix("| ").is_some_and(|cell| name(cell) == algorithm));
            old.for_each(|line| text.push_str(&format!("{line}\n")));
        }
        new.for_each(|row| text.push_str(&line(row)));
    }
    text
}

/// Makes a violation bold.
fn emphasized(cell: &str) -> String {
    let violated = cell.strip_prefix("violated: ").and_then(|rest| rest.split_once(": "));
    violated.map_or_else(|| cell.to_owned(), |(what, how)| format!("**violated: {what}**: {how}"))
}

/// The name of the algorithm at the beginning of a row; a variant may follow.
fn name(cell: &str) -> &str {
    cell.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use baton_check::{Options, check};
    use baton_protocol::registry::Params;

    use super::*;

    fn report(algorithm: &str, limit: usize) -> CheckReport {
        let properties = Some(vec![Property::Safety]);
        check(algorithm, &Params::new(2, 1), &Options { properties, limit, ..Options::default() }).unwrap()
    }

    #[test]
    fn what_should_hold_decides_the_status() {
        let (holds, limit, broken) = (report("central", 1_000), report("central", 5), report("no-lock", 1_000));
        assert_eq!(broken.result, Verdict::Violated);
        let violated = CheckReport { algorithm: "central", ..broken.clone() };
        assert_eq!(verdict(&[holds.clone(), broken.clone()]), HELD);
        assert_eq!(verdict(&[limit.clone(), broken]), LIMIT);
        assert_eq!(verdict(&[limit, violated, holds]), VIOLATED);
    }

    #[test]
    fn a_part_of_the_table_can_be_written_again() {
        let row = |algorithm: &str, verdict: &str| {
            let mut row = vec![algorithm.to_owned(); COLUMNS.len()];
            row[COLUMNS.len() - 1] = verdict.to_owned();
            row
        };
        let page = markdown(&[row("central", "old"), row("bully", "old"), row("bully (quorum)", "old")], "");
        let violated = markdown(&[row("no-lock", "violated: safety in 2 steps: P0 and P1: both")], "");
        assert!(violated.ends_with(" | **violated: safety in 2 steps**: P0 and P1: both |\n"), "{violated}");
        let page = markdown(&[row("raymond", "new"), row("central", "new"), row("central", "newer")], &page);
        let lines: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| ")).skip(1).collect();
        let ends = lines.iter().map(|line| (name(line), line.trim_end_matches(" |").rsplit(' ').next().unwrap()));
        let expected =
            [("central", "new"), ("central", "newer"), ("raymond", "new"), ("bully", "old"), ("bully", "old")];
        assert!(ends.eq(expected), "{lines:?}");
    }
}
