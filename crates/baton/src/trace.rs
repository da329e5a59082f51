//! `baton trace`: merge the traces of a group's members, judge a trace by its events, export it.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use baton_sim::judge::{JudgedProperty, Judgement, judge};
use baton_sim::oracle::Verdict;
use baton_trace::merge::{Merged, Part, merge};
use baton_trace::{Header, Record, Trace, Unit, Writer, diagram, resource, shiviz};
use serde_json::json;

use crate::extent::ExtentArgs;
use crate::output::{
    Failure, HELD, Outcome, VIOLATED, counted, narrow_table, print, print_json, shown, unreadable, unwritable, warn,
    written,
};
use crate::progress::Progress;

/// The most rows of the table of `baton trace check`.
const ROWS_MAX: usize = 60;

/// Merge the traces of a group's members, judge a trace, or export it
///
/// A trace is a file that `--trace` of `baton sim`, `baton check` or `baton peer` has written. docs/traces.md explains
/// these commands, docs/trace-format.md the format.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Merge(MergeArgs),
    Check(CheckArgs),
    Shiviz(ShivizArgs),
}

/// Make one trace of the traces of all members: every delivery after its send, otherwise in the order of time
///
/// Exit status 0: done; 2: bad input; 74: the output cannot be written.
#[derive(clap::Args)]
struct MergeArgs {
    /// The traces, one for each member
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the merged trace to this file, not to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the merged trace as a space-time diagram
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    extent: ExtentArgs,
    /// The resource to draw, if there are several; written as in the trace
    #[arg(long, value_name = "NAME", requires = "svg")]
    resource: Option<String>,
}

/// Judge a trace by its events: a merged trace, or one of `baton sim` or `baton check`
///
/// Exit status 0: everything that was checked held; 1: a promise or a rule of traces was broken; 2: bad input; 74: the
/// output cannot be written.
#[derive(clap::Args)]
struct CheckArgs {
    /// The trace
    file: PathBuf,
    /// Judge only this resource; written as in the trace
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Draw the trace as a space-time diagram
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    extent: ExtentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Export a trace as a log with vector clocks, for the web page ShiViz (docs/traces.md has its address)
///
/// Exit status 0: done; 2: bad input; 74: the output cannot be written.
#[derive(clap::Args)]
struct ShivizArgs {
    /// The trace
    file: PathBuf,
    /// Write the log to this file, not to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The resource to export, if there are several; written as in the trace
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
}

pub fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Merge(args) => run_merge(args),
        Command::Check(args) => run_check(args),
        Command::Shiviz(args) => run_shiviz(args),
    }
}

fn run_merge(args: &MergeArgs) -> Outcome {
    let part = |path: &PathBuf| Ok(Part { name: path.display().to_string(), trace: read(path)? });
    let parts = args.files.iter().map(part).collect::<Result<Vec<Part>, Failure>>()?;
    let (files, merged) = (parts.len(), merge(parts));
    let Merged { header, records, warnings } = merged.map_err(Failure::bad_input)?;
    let mut outputs = [&args.output, &args.svg].into_iter().flatten();
    outputs.try_for_each(|output| refuse_input(output, &args.files))?;
    let drawing = draw(&header, &records, args.resource.as_deref(), args.svg.as_deref(), &args.extent)?;
    let resources = resource::resources(&records).len() as u64;
    write_to(args.output.as_deref(), |sink| write_trace(&header, &records, sink))?;
    save(drawing)?;
    warnings.iter().for_each(warn);
    if let Some(output) = &args.output {
        let resources = match resources {
            0 => String::new(),
            count => format!(" of {}", counted(count, "resource", "resources")),
        };
        let records = counted(records.len() as u64, "record", "records");
        let files = counted(files as u64, "trace", "traces");
        print(&format!("{files} merged: {records}{resources} in {}\n", output.display()))?;
    }
    Ok(ExitCode::from(HELD))
}

fn write_trace(header: &Header, records: &[Record], sink: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer::new(sink, header)?;
    for record in records {
        writer.write(record)?;
    }
    writer.flush()
}

fn run_check(args: &CheckArgs) -> Outcome {
    let Trace { header, mut records, .. } = read(&args.file)?;
    let wrong = |error: &dyn std::fmt::Display| Failure::bad_input(format!("{}: {error}", args.file.display()));
    if let Some(name) = &args.resource {
        records = resource::choose(records, Some(name)).map_err(|error| wrong(&error))?;
    }
    let mut judgement = judge(&header, &records).map_err(|error| wrong(&error))?;
    if args.resource.is_some() {
        judgement.resources.retain(|judged| judged.resource == args.resource);
    }
    if let Some(svg) = &args.svg {
        refuse_input(svg, std::slice::from_ref(&args.file))?;
        save(draw(&header, &records, args.resource.as_deref(), Some(svg), &args.extent)?)?;
    }
    let is_broken = judgement.is_broken();
    if args.json {
        print_json(&json!({ "held": !is_broken, "judgement": judgement }))?;
    } else {
        print(&to_text(&judgement, header.unit))?;
    }
    Ok(ExitCode::from(if is_broken { VIOLATED } else { HELD }))
}

fn run_shiviz(args: &ShivizArgs) -> Outcome {
    let Trace { header, records, .. } = read(&args.file)?;
    let wrong = |error: &dyn std::fmt::Display| Failure::bad_input(format!("{}: {error}", args.file.display()));
    if header.processes > shiviz::PROCESSES_MAX {
        let (found, most) = (header.processes, shiviz::PROCESSES_MAX);
        return Err(wrong(&format!("the trace has {found} processes; a log with vector clocks has at most {most}")));
    }
    let records = resource::choose(records, args.resource.as_deref()).map_err(|error| wrong(&error))?;
    if let Some(output) = &args.output {
        refuse_input(output, std::slice::from_ref(&args.file))?;
    }
    write_to(args.output.as_deref(), |sink| shiviz::write(header.processes, &records, sink))?;
    Ok(ExitCode::from(HELD))
}

fn read(path: &Path) -> Result<Trace, Failure> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let progress = Progress::bar(path.display().to_string());
    let bytes = file.metadata().map_or(0, |file| file.len());
    let trace = Trace::read(BufReader::new(progress.reading(file, bytes)));
    progress.finish();
    trace.map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))
}

/// An output must not replace an input: the traces of a run cannot be made again.
fn refuse_input(output: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let same = |input: &&PathBuf| matches!((output.canonicalize(), input.canonicalize()), (Ok(output), Ok(input)) if output == input);
    match inputs.iter().find(same) {
        Some(input) => Err(Failure::bad_input(format!(
            "{} would replace the trace {}; name another file",
            output.display(),
            input.display()
        ))),
        None => Ok(()),
    }
}

/// Writes to the file, or to standard output.
fn write_to(output: Option<&Path>, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    match output {
        Some(path) => {
            let file = File::create(path).map(BufWriter::new);
            file.and_then(|mut file| write(&mut file).and_then(|()| file.flush()))
                .map_err(|error| unwritable(path, &error))
        }
        None => {
            let mut stdout = BufWriter::new(io::stdout().lock());
            let result = written(write(&mut stdout).and_then(|()| stdout.flush()));
            // What is left in the buffer could not be written, and would be tried again.
            let _ = stdout.into_parts();
            result.map(drop)
        }
    }
}

/// A drawing, and the file for it.
type Drawing<'a> = (&'a Path, String);

fn draw<'a>(
    header: &Header,
    records: &[Record],
    name: Option<&str>,
    svg: Option<&'a Path>,
    extent: &ExtentArgs,
) -> Result<Option<Drawing<'a>>, Failure> {
    let Some(svg) = svg else { return Ok(None) };
    let records = resource::choose(records.to_vec(), name).map_err(Failure::bad_input)?;
    Ok(Some((svg, diagram::draw(header, &records, extent.extent()))))
}

fn save(drawing: Option<Drawing<'_>>) -> Result<(), Failure> {
    let Some((path, svg)) = drawing else { return Ok(()) };
    fs::write(path, svg).map_err(|error| unwritable(path, &error))
}

fn to_text(judgement: &Judgement, unit: Unit) -> String {
    let Judgement { algorithm, variant, processes, records, resources } = judgement;
    let variant = variant.as_ref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    let entries: u64 = resources.iter().map(|resource| resource.entries).sum();
    let messages: u64 = resources.iter().map(|resource| resource.messages).sum();
    let is_named = resources.len() > 1;
    let several = if is_named { format!(", {} resources", resources.len()) } else { String::new() };
    let title = format!(
        "{algorithm}{variant}, {processes} processes{several}: {}, {}, {}\n\n",
        counted(*records as u64, "record", "records"),
        counted(entries, "entry", "entries"),
        counted(messages, "message", "messages"),
    );
    let mut all: Vec<(&Option<String>, &JudgedProperty)> = Vec::new();
    for resource in resources {
        all.extend(resource.properties.iter().map(|judged| (&resource.resource, judged)));
    }
    if is_named {
        all.sort_by_key(|(_, judged)| rank(judged));
    }
    let row = |(name, judged): &(&Option<String>, &JudgedProperty)| {
        let cells = vec![judged.property.clone(), verdict(judged).to_owned(), detail(judged, unit)];
        let name = is_named.then(|| name.as_deref().map_or("-".to_owned(), shown));
        name.into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = all.iter().take(ROWS_MAX).map(row).collect();
    let mut text = title + &narrow_table(&rows);
    if all.len() > ROWS_MAX {
        let rest = &all[ROWS_MAX..];
        let broken = rest.iter().filter(|(_, judged)| judged.is_broken()).count();
        let more = counted(rest.len() as u64, "row", "rows");
        text +=
            &format!("\n{more} more, {broken} of them VIOLATED; --resource shows one resource, --json all of them\n");
    }
    text
}

/// Violations come first, then what could not be judged.
fn rank(judged: &JudgedProperty) -> u8 {
    match judged.finding.verdict {
        Verdict::Violated if judged.counts => 0,
        Verdict::Violated => 1,
        Verdict::Unchecked | Verdict::Untested => 2,
        Verdict::Held => 3,
    }
}

fn verdict(judged: &JudgedProperty) -> &'static str {
    match judged.finding.verdict {
        Verdict::Held if judged.counts => "held",
        Verdict::Held => "held, not promised",
        Verdict::Violated if judged.counts => "VIOLATED",
        Verdict::Violated => "violated, not promised",
        Verdict::Unchecked => "unchecked",
        Verdict::Untested => "not tested",
    }
}

/// What was checked, or what was found and in which records.
fn detail(judged: &JudgedProperty, unit: Unit) -> String {
    let unit = match unit {
        Unit::T => "T",
        Unit::Seconds => "s",
    };
    let Some(detail) = &judged.finding.detail else { return judged.checked.clone() };
    let events: Vec<String> =
        judged.events.iter().map(|place| format!("seq {} at {} {unit}", place.seq, rounded(place.t))).collect();
    match events.is_empty() {
        true => detail.clone(),
        false => format!("{detail}: {}", events.join(", ")),
    }
}

/// To the microsecond: a real clock shows more digits than it knows.
fn rounded(t: f64) -> f64 {
    (t * 1e6).round() / 1e6
}
