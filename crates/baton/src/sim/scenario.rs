//! `--scenario`: play a scenario, and compare the result with the expected one. `--scenarios`: list them.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use baton_sim::run::{Options, run as simulate, seeds};
use baton_sim::scenario::{BUILT_IN, Played, Scenario, find};
use baton_sim::spec::Spec;
use serde_json::{Value, json};

use super::{Args, text};
use crate::output::{
    COLUMNS, Failure, HELD, Outcome, VIOLATED, counted, folded, print, print_json, table, unreadable, wrapped,
};
use crate::progress::Progress;
use crate::sink::Sink;

/// The list of scenarios that are part of the program.
pub fn list(json: bool) -> Outcome {
    let parsed = BUILT_IN.iter().map(|(name, text)| Scenario::parse(text).map(|scenario| (*name, scenario)));
    let all: Vec<(&str, Scenario)> = parsed.collect::<Result<_, _>>().map_err(Failure::bad_input)?;
    if json {
        let described = all.iter().map(|(name, Scenario { title, story, runs, run, .. })| {
            json!({ "name": name, "title": title, "story": story.trim(), "algorithm": run.algorithm, "runs": runs })
        });
        print_json(&json!({ "scenarios": described.collect::<Vec<_>>() }))?;
    } else {
        let rows: Vec<Vec<String>> =
            all.into_iter().map(|(name, scenario)| vec![name.into(), scenario.title]).collect();
        print(&format!("{}\n`baton sim --scenario NAME` plays one and tells its story\n", table(&rows)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A name is looked up in the list, and everything else is a path: it has a slash, the ending `.toml`, or a file.
fn read(asked: &Path) -> Result<String, Failure> {
    let name = asked.to_str().filter(|name| !name.contains('/') && !name.ends_with(".toml"));
    match name.map(find) {
        Some(Ok(text)) => Ok(text.to_owned()),
        Some(Err(unknown)) if !asked.exists() => Err(Failure::bad_input(unknown)),
        _ => fs::read_to_string(asked).map_err(|error| {
            match asked.to_str().and_then(|name| name.strip_suffix(".toml")) {
                Some(name) if find(name).is_ok() => Failure::bad_input(format!(
                    "cannot read {}: {error}; the scenario of that name is part of the program: --scenario {name}",
                    asked.display()
                )),
                _ => unreadable(asked, &error),
            }
        }),
    }
}

/// Plays all runs of the scenario, and shows the one with the most violations.
pub fn play(args: &Args, path: &Path) -> Outcome {
    let text = read(path)?;
    let wrong = |error| Failure::bad_input(format!("{}: {error}", path.display()));
    let mut scenario = Scenario::parse(&text).map_err(wrong)?;
    let file = scenario.clone();
    let change = change(&mut scenario, args);
    if scenario.runs == 0 {
        return Err(Failure::bad_input("--runs cannot be 0; ask for at least 1"));
    }
    let options = scenario.run.options().map_err(|error| wrong(error.into()))?;
    let (sink, writer) = Sink::open(args.trace.as_ref(), args.svg.as_ref(), args.extent.extent())?;
    let progress = Progress::bar(&scenario.title);
    let played = scenario.play_watched(Some(progress.watch()));
    progress.finish();
    let played = match played {
        Ok(played) => played,
        Err(error) => {
            sink.leave_all_as_it_was();
            return Err(wrong(error));
        }
    };
    let is_changed = match change {
        Change::None => false,
        Change::Seed => !is_same(&played, &file.play().map_err(wrong)?),
        Change::Run => true,
    };
    let telling = played.telling().map_or(0, |(index, _)| index);
    let options = seeds(&options, scenario.runs).nth(telling).unwrap_or(options.clone());
    if writer.is_some() {
        // The same seed gives the same run again, now with a trace.
        simulate(&options, writer).map_err(Failure::bad_input)?;
        sink.draw()?;
    }
    if args.json {
        show_json(&scenario, &played, is_changed)?
    } else {
        show(&scenario, &played, is_changed, &options)?
    }
    let fine = match is_changed {
        true => played.reports.iter().all(|report| report.broken_promises().is_empty()),
        false => played.differences.is_empty(),
    };
    Ok(ExitCode::from(if fine { HELD } else { VIOLATED }))
}

/// What the given options change in a scenario.
enum Change {
    None,
    /// Only the seed, which a run without randomness does not use.
    Seed,
    Run,
}

/// Puts the given options in the place of those of the file. Says what that changes: the file expects results of its own
/// run only.
fn change(scenario: &mut Scenario, args: &Args) -> Change {
    let Scenario { run: file, runs: file_runs, .. } = scenario.clone();
    scenario.run = args.run.over(file.clone());
    scenario.runs = args.run.runs.unwrap_or(file_runs);
    // A file without a seed has the default seed.
    let seed = |spec: &Spec| spec.seed.unwrap_or(1);
    let other_run = Spec { seed: file.seed, ..scenario.run.clone() } != file;
    match seed(&scenario.run) != seed(&file) {
        _ if other_run || scenario.runs != file_runs => Change::Run,
        true => Change::Seed,
        false => Change::None,
    }
}

/// Whether the reports differ in nothing but their seeds, and how fast the program was.
fn is_same(one: &Played, other: &Played) -> bool {
    let comparable = |played: &Played| {
        let mut reports = json!(played.reports);
        for report in reports.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            report.retain(|field, _| field != "seed" && field != "events_per_s");
        }
        reports
    };
    comparable(one) == comparable(other)
}

fn show_json(scenario: &Scenario, played: &Played, is_changed: bool) -> Result<(), Failure> {
    let report = played.telling().map(|(_, report)| report);
    let (title, runs) = (&scenario.title, played.reports.len());
    let differences = if is_changed { &[] } else { played.differences.as_slice() };
    print_json(&json!({
        "title": title,
        "runs": runs,
        "changed": is_changed,
        "differences": differences,
        "report": report,
    }))
}

fn show(scenario: &Scenario, played: &Played, is_changed: bool, options: &Options) -> Result<(), Failure> {
    let changed =
        "the options change the run: the story and the expected result of the scenario are of another run\n\n";
    let changed = if is_changed { folded(changed) } else { String::new() };
    print(&format!("{changed}{}\n{}\n", folded(&scenario.title), paragraphs(&scenario.story)))?;
    if let Some((_, report)) = played.telling() {
        print(&text::of(report, options))?;
    }
    let runs = counted(played.reports.len() as u64, "run", "runs");
    match played.differences.as_slice() {
        _ if is_changed => {
            let broken = played.reports.iter().filter(|report| !report.broken_promises().is_empty()).count();
            print(&folded(&format!(
                "\nthe options change the run, so the expected result of the scenario does not apply; \
                 a promise was broken in {broken} of {runs}"
            )))
        }
        [] => print(&format!("\nthe result is as expected, in {runs}\n")),
        differences => print(&format!("\n{}", folded(&differences.join("\n")))),
    }
}

/// The story with its paragraphs wrapped: its lines in the file are longer than a terminal is wide.
fn paragraphs(story: &str) -> String {
    let paragraphs = story.trim().split("\n\n").map(|paragraph| wrapped(paragraph, COLUMNS).join("\n") + "\n");
    paragraphs.collect::<Vec<_>>().join("\n")
}
