//! `baton algorithms`: list the algorithms, or describe one.

use std::process::ExitCode;

use baton_compare::claims::{self, Claim};
use baton_protocol::registry::{self, ALGORITHMS, About, Crashes, Family, Overlap};
use serde_json::{Value, json};

use crate::output::{COLUMNS, Failure, Outcome, print, print_json, wrapped};

/// List the algorithms, or describe one: what it assumes and promises, its variants, what is said about it and what a
/// run shows
///
/// The words of the output (safety, liveness, order, fence) are explained in docs/glossary.md.
///
/// Exit status 0: done; 2: bad input; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    /// The algorithm to describe, or a part of its name that fits no other one; without a name, all algorithms are listed
    name: Option<String>,
    /// Print one JSON object with all details
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let one = args.name.as_deref().map(registry::find).transpose().map_err(Failure::bad_input)?;
    let claims = one.map_or(Ok(Vec::new()), |about| claims::of(about.name)).map_err(Failure::bad_input)?;
    if args.json {
        let all: Vec<Value> = match one {
            Some(about) => {
                let mut all = to_json(about);
                all["claims"] = json!(claims);
                vec![all]
            }
            None => ALGORITHMS.iter().map(|about| to_json(about)).collect(),
        };
        print_json(&json!({ "algorithms": all }))?;
    } else {
        print(&one.map_or_else(list, |about| describe(about, &claims)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All algorithms by family, each with a sentence. In each family, those that are broken on purpose come last.
fn list() -> String {
    let mut text = String::new();
    for family in [Family::Mutex, Family::Election, Family::Detector, Family::Append] {
        for is_broken in [false, true] {
            let of_kind = |about: &&&About| about.family == family && about.broken.is_some() == is_broken;
            let rows: Vec<_> = ALGORITHMS.iter().filter(of_kind).map(|about| (about.name, about.summary)).collect();
            if !rows.is_empty() {
                let kind = if is_broken { ", broken on purpose" } else { "" };
                text += &format!("{}{kind}\n{}\n", family_name(family), aligned(&rows));
            }
        }
    }
    text + "`baton algorithms NAME` shows what an algorithm assumes and promises, and what is said about it\n"
}

fn describe(about: &About, claims: &[Claim]) -> String {
    let (assumes, mut promises) = (assumes(about).join(", "), promises(about).join(", "));
    if about.broken.is_some() {
        promises += &format!("; broken on purpose: breaks {}", breaks(about).join(", "));
    }
    let mut facts = vec![("family", family(about)), ("summary", about.summary)];
    facts.extend([("assumes", &*assumes), ("promises", &*promises)]);
    facts.extend(about.broken.map(|broken| ("how it breaks", broken.how)));
    let mut text = format!("{}\n{}", about.name, aligned(&facts));
    if !about.variants.is_empty() {
        let variants: Vec<_> = about.variants.iter().map(|variant| (variant.name, variant.summary)).collect();
        text += &format!("\nvariants (--variant NAME)\n{}", aligned(&variants));
    }
    if !claims.is_empty() {
        text += "\nwhat documents and papers say, and what a run shows\n";
        text += &claims.iter().map(claim_to_text).collect::<Vec<_>>().join("\n");
    }
    text
}

/// The claim, the verdict and the command.
fn claim_to_text(claim: &Claim) -> String {
    let Claim { subject, documents, measured, verdict, why, command, .. } = claim;
    let why = if why.is_empty() { String::new() } else { format!(". {why}") };
    let verdict = format!("{}: {measured}{why}", verdict.name());
    let indent = " ".repeat(CLAIM_SUBJECT + 4);
    let command = continued(command, COLUMNS - indent.len() - 2).join(&format!(" \\\n{indent}    "));
    format!("{}{indent}$ {command}\n", aligned_to(&[(subject, documents), ("", &verdict)], CLAIM_SUBJECT))
}

/// The parts of a command that are short enough for a line, each with whole options. In a shell, a backslash joins them.
fn continued(command: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, option) in command.split(" --").enumerate() {
        let option = if index == 0 { option.to_owned() } else { format!("--{option}") };
        match lines.last_mut() {
            // The next line begins with four spaces, and this one may end with a backslash.
            Some(line) if line.len() + 1 + option.len() + 6 <= width => *line += &format!(" {option}"),
            _ => lines.push(option),
        }
    }
    lines
}

/// The width of the column with the subject of a claim.
const CLAIM_SUBJECT: usize = 12;

/// Two columns, with long texts wrapped.
fn aligned(rows: &[(&str, &str)]) -> String {
    aligned_to(rows, rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default())
}

/// Two columns, the first of which has this width.
fn aligned_to(rows: &[(&str, &str)], width: usize) -> String {
    let mut text = String::new();
    for &(name, told) in rows {
        let mut first = name;
        for line in wrapped(told, COLUMNS - width - 4) {
            text += &format!("  {first:width$}  {line}\n");
            first = "";
        }
    }
    text
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
        "breaks": breaks(about),
        "broken": about.broken.map(|broken| broken.how),
    })
}

fn family(about: &About) -> &'static str {
    family_name(about.family)
}

fn family_name(family: Family) -> &'static str {
    match family {
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
        Crashes::ButSource => "crashes detected, of all but the source of views",
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
    about.promises.each().into_iter().filter(|(_, promised)| **promised).map(|(property, _)| property.name()).collect()
}

/// The promises that an algorithm breaks on purpose.
fn breaks(about: &About) -> Vec<&'static str> {
    about.broken.into_iter().flat_map(|broken| broken.breaks).map(|property| property.name()).collect()
}

#[cfg(test)]
pub mod tests {
    use clap::Parser;

    use super::*;
    use crate::Cli;

    /// The commands of all claims that begin with `begin`, parsed, with the runs that decide the claims.
    pub fn commands_of_claims(begin: &str) -> Vec<(String, Option<Value>, Cli)> {
        let all = ALGORITHMS.iter().flat_map(|about| claims::commands(about.name));
        let all = all.filter(|(command, _)| command.starts_with(begin));
        all.map(|(command, spec)| (command.clone(), spec, typed(&command))).collect()
    }

    /// A command as the program reads it.
    pub fn typed(command: &str) -> Cli {
        let quoted = command.split('\'').enumerate();
        let words = quoted.flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    #[test]
    fn a_long_command_is_broken_between_its_options() {
        let command = "baton sim voting -n 3 --fault 'crash 3 @ 10' --no-detector";
        assert_eq!(continued(command, 100), [command]);
        assert_eq!(continued(command, 42), ["baton sim voting -n 3", "--fault 'crash 3 @ 10' --no-detector"]);
    }
}
