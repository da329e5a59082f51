//! `--replay`: repeat the steps of a trace, and judge the run again.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use baton_protocol::registry::{self, Family};
use baton_sim::judge::counts;
use baton_sim::replay::{Replayed, replay};
use baton_trace::diagram;
use serde_json::{Value, json};

use super::Args;
use crate::output::{Failure, HELD, Outcome, VIOLATED, counted, folded, print, print_json, unreadable, unwritable};
use crate::progress::Progress;

pub fn repeat(args: &Args, path: &Path) -> Outcome {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let wrong = |error: &dyn std::fmt::Display| Failure::bad_input(format!("{}: {error}", path.display()));
    let progress = Progress::bar(path.display().to_string());
    let bytes = file.metadata().map_or(0, |file| file.len());
    let (header, records) =
        baton_trace::read(BufReader::new(progress.reading(file, bytes))).map_err(|error| wrong(&error))?;
    let replayed = replay(&header, &records);
    progress.finish();
    let replayed = replayed.map_err(|error| wrong(&error))?;
    if let Some(svg) = &args.svg {
        fs::write(svg, diagram::draw(&header, &records, args.extent.extent()))
            .map_err(|error| unwritable(svg, &error))?;
    }
    let about = registry::find_for(&header.algorithm, &header.group_params()).map_err(Failure::bad_input)?;
    let promises = header.promises(about);
    let promised = |property: &str| counts(&promises, property);
    // The property that a counterexample violates counts, even if the algorithm does not promise it.
    let shown = |property: &str| replayed.shown.as_deref() == Some(property);
    let (held, unpromised): (Vec<&str>, Vec<&str>) = replayed.held.iter().partition(|property| promised(property));
    if args.json {
        let violation = |(property, detail): &(&str, String)| -> Value {
            json!({
                "property": property,
                "promised": promised(property),
                "asked": shown(property),
                "detail": detail,
            })
        };
        let violations: Vec<Value> = replayed.violations.iter().map(violation).collect();
        let Replayed { steps, entries, .. } = &replayed;
        print_json(&json!({
            "algorithm": about.name,
            "records": steps,
            "entries": entries,
            "violations": violations,
            "held": held,
            "held_not_promised": unpromised,
        }))?;
    } else {
        let entries = match about.family {
            Family::Mutex => format!(", {}", counted(replayed.entries, "entry", "entries")),
            _ => String::new(),
        };
        let records = counted(replayed.steps as u64, "record", "records");
        print(&format!("{}: {records} repeated step by step{entries}\n", about.name))?;
        for (property, detail) in &replayed.violations {
            let verdict = match (promised(property), shown(property)) {
                (true, _) => "VIOLATED",
                (false, true) => "VIOLATED, though not promised; the trace was written to show it",
                (false, false) => "violated, not promised",
            };
            print(&folded(&format!("{property} {verdict}: {detail}")))?;
        }
        for (verdict, properties) in [("held", held), ("held, not promised", unpromised)] {
            if !properties.is_empty() {
                print(&format!("{verdict}: {}\n", properties.join(", ")))?;
            }
        }
    }
    let broken = replayed.violations.iter().any(|(property, _)| promised(property) || shown(property));
    Ok(ExitCode::from(if broken { VIOLATED } else { HELD }))
}
