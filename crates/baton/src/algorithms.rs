//! `baton algorithms`: what there is.

use std::process::ExitCode;

use baton_protocol::registry::{ALGORITHMS, About, Crashes, Family, Overlap};
use serde_json::{Value, json};

use crate::output::{Outcome, print, print_json, table};

/// List the algorithms, what each assumes and promises, and its variants
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    if args.json {
        let all: Vec<Value> = ALGORITHMS.iter().map(|about| to_json(about)).collect();
        print_json(&json!({ "algorithms": all }))?;
    } else {
        print(&to_text())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn to_text() -> String {
    let mut rows = vec![["ALGORITHM", "FAMILY", "ASSUMES", "PROMISES", ""].map(String::from).to_vec()];
    for about in ALGORITHMS {
        rows.push(vec![
            about.name.into(),
            family(about).into(),
            assumes(about).join(", "),
            promises(about).join(", "),
            about.summary.into(),
        ]);
        for variant in about.variants {
            let name = format!("  --variant {}", variant.name);
            rows.push(vec![name, String::new(), String::new(), String::new(), variant.summary.into()]);
        }
    }
    table(&rows)
}

fn to_json(about: &About) -> Value {
    let variants: Vec<Value> =
        about.variants.iter().map(|variant| json!({ "name": variant.name, "summary": variant.summary })).collect();
    json!({
        "name": about.name,
        "family": family(about),
        "summary": about.summary,
        "assumes": assumes(about),
        "promises": promises(about),
        "variants": variants,
        "broken": about.broken,
    })
}

fn family(about: &About) -> &'static str {
    match about.family {
        Family::Mutex => "mutex",
        Family::Election => "election",
        Family::Detector => "detector",
        Family::Append => "append",
    }
}

fn assumes(about: &About) -> Vec<&'static str> {
    let assumes = about.assumes;
    let network = [
        (assumes.fifo, "fifo"),
        (assumes.lossless, "lossless"),
        (assumes.no_duplicates, "no duplicates"),
        (assumes.synchronous, "synchronous"),
    ];
    let crashes = match assumes.crashes {
        Crashes::Never => "no crashes",
        Crashes::Detected => "crashes detected",
        Crashes::Final => "crashes detected, for good",
        Crashes::ButOne => "crashes detected, of all helpers but one",
        Crashes::Coordinators => "only coordinators crash",
        Crashes::Any => "any crash",
    };
    let overlap = match assumes.overlap {
        Overlap::Any => None,
        Overlap::Final => Some("no crash during a recovery"),
        Overlap::SameOrder => Some("crashes told in one order"),
    };
    let network = network.into_iter().filter_map(|(assumed, name)| assumed.then_some(name));
    network.chain([crashes]).chain(overlap).collect()
}

fn promises(about: &About) -> Vec<&'static str> {
    if about.broken.is_some() {
        return vec!["broken on purpose"];
    }
    about.promises.each().into_iter().filter(|(_, promised)| *promised).map(|(name, _)| name).collect()
}
