//! `--scenario`: play a scenario file, and compare the result with the expected one.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use baton_sim::run::{run as simulate, seeds};
use baton_sim::scenario::{Played, Scenario};
use serde_json::json;

use super::{Args, to_text};
use crate::output::{
    COLUMNS, Failure, HELD, Outcome, VIOLATED, counted, folded, print, print_json, unreadable, wrapped,
};
use crate::progress::Progress;
use crate::sink::Sink;

/// Plays all runs of the scenario, and shows the one with the most violations.
pub fn play(args: &Args, path: &Path) -> Outcome {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let wrong = |error| Failure::bad_input(format!("{}: {error}", path.display()));
    let scenario = Scenario::parse(&text).map_err(wrong)?;
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
    if writer.is_some() {
        // The same seed gives the same run again, now with a trace.
        let options = scenario.run.options().map_err(Failure::bad_input)?;
        let telling = played.telling().map_or(0, |(index, _)| index);
        if let Some(options) = seeds(&options, scenario.runs).nth(telling) {
            simulate(&options, writer).map_err(Failure::bad_input)?;
        }
        sink.draw()?;
    }
    if args.json {
        show_json(&scenario, &played)?
    } else {
        show(&scenario, &played)?
    }
    Ok(ExitCode::from(if played.differences.is_empty() { HELD } else { VIOLATED }))
}

fn show_json(scenario: &Scenario, played: &Played) -> Result<(), Failure> {
    let report = played.telling().map(|(_, report)| report);
    let (title, runs, differences) = (&scenario.title, played.reports.len(), &played.differences);
    print_json(&json!({ "title": title, "runs": runs, "differences": differences, "report": report }))
}

fn show(scenario: &Scenario, played: &Played) -> Result<(), Failure> {
    print(&format!("{}\n{}\n", folded(&scenario.title), paragraphs(&scenario.story)))?;
    if let Some((_, report)) = played.telling() {
        print(&to_text(report, None))?;
    }
    match played.differences.as_slice() {
        [] => {
            let runs = counted(played.reports.len() as u64, "run", "runs");
            print(&format!("\nthe result is as expected, in {runs}\n"))
        }
        differences => print(&format!("\n{}", folded(&differences.join("\n")))),
    }
}

/// The story with its paragraphs wrapped: its lines in the file are longer than a terminal is wide.
fn paragraphs(story: &str) -> String {
    let paragraphs = story.trim().split("\n\n").map(|paragraph| wrapped(paragraph, COLUMNS).join("\n") + "\n");
    paragraphs.collect::<Vec<_>>().join("\n")
}
