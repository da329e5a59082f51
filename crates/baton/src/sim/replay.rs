//! `--replay`: the same steps with the same outcome, judged again.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use baton_protocol::registry;
use baton_sim::replay::replay;
use baton_trace::diagram;
use serde_json::{Value, json};

use super::Args;
use crate::output::{Failure, HELD, Outcome, VIOLATED, print, print_json, unreadable, unwritable};
use crate::progress::Progress;

/// Repeats a trace.
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
        fs::write(svg, diagram::draw(&header, &records)).map_err(|error| unwritable(svg, &error))?;
    }
    let promises = registry::find(&header.algorithm).map_err(Failure::bad_input)?.promises;
    // The checker tells deadlock from starvation; who promises to serve everybody promises both.
    let promised = |property: &str| {
        let property = if property == "deadlock" { "liveness" } else { property };
        promises.each().contains(&(property, true))
    };
    let (steps, entries) = (replayed.steps, replayed.entries);
    if args.json {
        let violation = |(property, detail): &(&str, String)| -> Value {
            json!({ "property": property, "promised": promised(property), "detail": detail })
        };
        let violations: Vec<Value> = replayed.violations.iter().map(violation).collect();
        let algorithm = &header.algorithm;
        print_json(&json!({ "algorithm": algorithm, "records": steps, "entries": entries, "violations": violations }))?;
    } else {
        print(&format!("{}: {steps} records repeated step by step, {entries} entries\n", header.algorithm))?;
        for (property, detail) in &replayed.violations {
            let verdict = if promised(property) { "VIOLATED" } else { "violated, not promised" };
            print(&format!("{property} {verdict}: {detail}\n"))?;
        }
    }
    let broken = replayed.violations.iter().any(|(property, _)| promised(property));
    Ok(ExitCode::from(if broken { VIOLATED } else { HELD }))
}
