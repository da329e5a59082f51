//! `baton check`: try every interleaving of the steps of a small group.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use baton_check::explore::Progress as Explored;
use baton_check::gallery::{budget, components, delays, is_for_ever};
use baton_check::{CheckReport, Faults, LinkOrder, Options, Property, Unchecked, Verdict, Watch, check};
use baton_protocol::registry::{self, Family, Params};
use baton_trace::diagram;

use crate::extent::ExtentArgs;
use crate::output::{Failure, HELD, Outcome, Target, VIOLATED, folded, print, print_json, unwritable, warn};
use crate::progress::Progress;
use crate::sim::OrderArg;

mod gallery;

/// Exit status: no verdict, because a limit was reached first.
const LIMIT: u8 = 3;

/// More threads do not make any check faster.
const THREADS_MAX: usize = 1_024;

/// Try every interleaving of a small group, and show the shortest run that violates a property
///
/// The words of the output (budget, component, ...) are explained in docs/glossary.md.
///
/// Exit status 0: everything holds; 1: a property is violated; 2: bad input; 3: no verdict within the limits; 74: the
/// output cannot be written.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub struct Args {
    // Must be the first field, because `mut_args` changes all options that are already defined.
    #[command(flatten)]
    model: ModelArgs,
    /// Check every algorithm, and print a table of verdicts
    #[arg(long)]
    all: bool,
    /// With --all: write the table to a file, too
    #[arg(long, value_name = "FILE", requires = "all")]
    markdown: Option<PathBuf>,
    /// With --all: check only this algorithm; the file keeps its rows of the other algorithms
    #[arg(long, value_name = "ALGORITHM", value_delimiter = ',', requires = "all")]
    only: Vec<String>,
    /// Give up after this many states [default: 20000000; with --minutes no limit]
    #[arg(long, value_name = "STATES")]
    limit: Option<usize>,
    /// Give up at this much memory, in MiB, or as in 20GiB [default: most of what is free]
    #[arg(long, value_name = "MIB", value_parser = bytes)]
    memory: Option<usize>,
    /// Give up after this many minutes. With --all: for each of the main models; the other models have a tenth of it
    /// [default: no limit]
    #[arg(long, value_name = "M", value_parser = minutes)]
    minutes: Option<Duration>,
    /// Number of threads [default: one for each core]
    #[arg(long, value_name = "THREADS")]
    threads: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The options for one algorithm. They conflict with --all, which has fixed models.
#[derive(clap::Args)]
#[command(mut_args = |arg| arg.conflicts_with("all"))]
struct ModelArgs {
    /// The algorithm, or a part of its name that fits no other one; `baton algorithms` lists them
    #[arg(required_unless_present = "all")]
    algorithm: Option<String>,
    /// Number of processes that request the lock
    #[arg(short, default_value_t = 3)]
    n: usize,
    /// Variant of the algorithm; `baton algorithms NAME` lists them
    #[arg(long)]
    variant: Option<String>,
    /// Number of coordinators that vote
    #[arg(long, value_name = "C")]
    coordinators: Option<usize>,
    /// Number of votes that win
    #[arg(long, value_name = "M")]
    votes: Option<usize>,
    /// Number of requests of each process [default: 1]
    #[arg(long, value_name = "K")]
    entries: Option<u32>,
    /// Whether messages keep their order [default: the weakest order that the algorithm tolerates]
    #[arg(long)]
    order: Option<OrderArg>,
    /// What to check: safety, deadlock, liveness, order, fence [default: all that the algorithm promises; then the
    /// search for starvation stops after 300,000 states, but not with --property liveness]
    #[arg(long, value_delimiter = ',', value_name = "PROPERTY")]
    property: Vec<Property>,
    /// Number of messages that may get lost
    #[arg(long, value_name = "K", default_value_t = 0)]
    loss: u8,
    /// Number of messages that may arrive twice
    #[arg(long, value_name = "K", default_value_t = 0)]
    duplicate: u8,
    /// Number of crashes. Every live process gets a report of each crash, in any order. A crashed process may recover,
    /// with or without its memory, as the algorithm tolerates it (with --ignore-assumptions: both ways). Heartbeat
    /// detectors get no reports: they detect crashes themselves
    #[arg(long, value_name = "K", default_value_t = 0)]
    crash: u8,
    /// Number of crashed processes that may recover [default: all; none if the algorithm does not tolerate recovery]
    #[arg(long, value_name = "K")]
    recover: Option<u8>,
    /// Number of wrong suspicions: a live process is reported as crashed, until the detector corrects the report. In
    /// elections also the number of deadlines that may end too early
    #[arg(long, value_name = "K", default_value_t = 0)]
    suspect: u8,
    /// Elections, with --suspect: only detectors make mistakes, and no deadline ends too early
    #[arg(long)]
    detectors_only: bool,
    /// Number of application messages [default: 1 where order is checked, else none]
    #[arg(long, value_name = "K")]
    app_messages: Option<u8>,
    /// Number of timers that may fire at each process, for algorithms that retry for ever [default: 2]
    #[arg(long, value_name = "K")]
    timers: Option<u32>,
    /// Elections and heartbeats: the bound on delays that the processes believe in, in ticks [default: 1]
    #[arg(long, value_name = "D")]
    delay_max: Option<u64>,
    /// Elections and heartbeats: the longest real delay of a message, in ticks [default: the bound]
    #[arg(long, value_name = "TICKS")]
    delay: Option<u64>,
    /// Elections: the failure detectors report a crash or a recovery within so many ticks, each at a time of its own
    /// [default: 10 times the bound on delays]
    #[arg(long, value_name = "TICKS")]
    detector_spread: Option<u64>,
    /// Allow a network or faults that the algorithm does not tolerate
    #[arg(long)]
    ignore_assumptions: bool,
    /// Write the counterexample to a file, as a trace
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw the counterexample as a space-time diagram
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    extent: ExtentArgs,
}

pub fn run(args: &Args) -> Outcome {
    match args.threads {
        Some(0) => return Err(Failure::bad_input("0 threads are too few; allow at least 1")),
        Some(threads) if threads > THREADS_MAX => {
            return Err(Failure::bad_input(format!("{threads} threads are too many; allow at most {THREADS_MAX}")));
        }
        _ => {}
    }
    let Some(algorithm) = &args.model.algorithm else { return gallery::run(args) };
    // With an algorithm, which conflicts with --all, clap does not check that these options require --all.
    for (given, option) in [(args.markdown.is_some(), "--markdown"), (!args.only.is_empty(), "--only")] {
        if given {
            let why = "means nothing for one algorithm: it goes with --all; leave it out";
            return Err(Failure::bad_input(format!("{option} {why}")));
        }
    }
    args.model.refuse_what_means_nothing(algorithm)?;
    let new_files = [&args.model.trace, &args.model.svg].into_iter().flatten().map(|path| Target::open(path));
    let new_files: Vec<Target> = new_files.collect::<Result<_, _>>()?;
    let progress = Progress::unbounded(algorithm.clone());
    let options = Options { watch: Some(watch(&progress)), ..args.options() };
    let report = check(algorithm, &args.model.params(), &options).map_err(Failure::bad_input);
    progress.finish();
    let written = report.as_ref().is_ok_and(|report| report.trace.is_some());
    new_files.into_iter().filter(|_| !written).for_each(Target::leave_as_it_was);
    let report = report?;
    args.model.write_counterexample(&report)?;
    if let Some(missing) = args.model.unwritten(&report) {
        warn(format_args!("there is no counterexample, so {missing} not written"));
    }
    if args.json {
        print_json(&report)?
    } else {
        print(&to_text(&report))?
    }
    Ok(ExitCode::from(status(report.result)))
}

/// A number of MiB, or of GiB if the text ends with `GiB`, in bytes.
fn bytes(text: &str) -> Result<usize, &'static str> {
    let (number, unit) = match text.strip_suffix("GiB") {
        Some(number) => (number, 1 << 30),
        None => (text.strip_suffix("MiB").unwrap_or(text), 1 << 20),
    };
    let number: Option<usize> = number.parse().ok().filter(|number| *number > 0);
    let number = number.ok_or("give a number of MiB above 0, as 500, or of GiB, as 20GiB")?;
    Ok(number.saturating_mul(unit))
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: Option<f64> = text.parse().ok();
    let time = minutes.filter(|minutes| *minutes > 0.0).map(|minutes| Duration::try_from_secs_f64(60.0 * minutes));
    time.and_then(Result::ok).ok_or_else(|| "give a number of minutes above 0, as 10 or 0.5".to_owned())
}

/// A callback with which the checker reports its progress.
fn watch(progress: &Progress) -> Watch {
    let progress = progress.clone();
    Watch(Arc::new(move |explored: &Explored| {
        let Explored { states, depth, queue, seconds } = *explored;
        let rate = states as f64 / seconds.max(1e-9);
        progress.tell(|| format!("{states} states, {rate:.0} states/s, {depth} deep, {queue} in the queue"));
    }))
}

fn status(result: Verdict) -> u8 {
    match result {
        Verdict::Holds => HELD,
        Verdict::Violated => VIOLATED,
        Verdict::Limit => LIMIT,
    }
}

impl Args {
    fn options(&self) -> Options {
        let asked = self.model.options();
        let limit = self.limit.unwrap_or(if self.minutes.is_some() { usize::MAX } else { asked.limit });
        Options { limit, memory: self.memory, time: self.minutes, threads: self.threads, ..asked }
    }
}

impl ModelArgs {
    fn params(&self) -> Params {
        Params {
            n: self.n,
            variant: self.variant.clone(),
            coordinators: self.coordinators,
            votes: self.votes,
            delay_max: self.delay_max.unwrap_or(1),
        }
    }

    /// Without the limits of states, memory and time.
    fn options(&self) -> Options {
        let defaults = Options::default();
        Options {
            entries: self.entries.unwrap_or(defaults.entries),
            order: self.order.map(|order| match order {
                OrderArg::Fifo => LinkOrder::Fifo,
                OrderArg::Unordered => LinkOrder::Unordered,
            }),
            properties: (!self.property.is_empty()).then(|| self.property.clone()),
            app_messages: self.app_messages,
            timers: self.timers.unwrap_or(defaults.timers),
            delay: self.delay,
            detector_spread: self.detector_spread,
            faults: Faults {
                loss: self.loss,
                duplicate: self.duplicate,
                crash: self.crash,
                recover: self.recover,
                suspect: self.suspect,
                detectors_only: self.detectors_only,
            },
            ignore_assumptions: self.ignore_assumptions,
            ..defaults
        }
    }

    /// Returns an error for an option that has no effect on this algorithm, because it is probably a mistake.
    fn refuse_what_means_nothing(&self, algorithm: &str) -> Result<(), Failure> {
        let about = registry::find(algorithm).map_err(Failure::bad_input)?;
        let no_time = "models of mutual exclusion have no time";
        let unlimited = "a check of liveness alone has requests without limit";
        let silent = "a check of liveness alone has no application messages";
        let no_lock = "only algorithms for mutual exclusion use it";
        let no_timers = "it sets no timers";
        let alone = self.property == [Property::Liveness];
        let faults = self.options().faults.of_processes();
        let given: &[(bool, &str, &str)] = match about.family {
            Family::Mutex => &[
                (self.delay.is_some(), "--delay", no_time),
                (self.delay_max.is_some(), "--delay-max", no_time),
                (self.detectors_only, "--detectors-only", no_time),
                (self.detector_spread.is_some(), "--detector-spread", "its detectors report at any time, in any order"),
                (alone && !faults && self.entries.is_some(), "--entries", unlimited),
                (alone && self.app_messages.is_some(), "--app-messages", silent),
                (alone && self.timers.is_some(), "--timers", "a check of liveness alone has timers without limit"),
                (self.timers.is_some() && !about.sets_timers(&self.params()), "--timers", no_timers),
            ],
            Family::Election => &[
                (self.entries.is_some(), "--entries", no_lock),
                (self.app_messages.is_some(), "--app-messages", no_lock),
                (self.timers.is_some(), "--timers", no_lock),
            ],
            Family::Detector => &[
                (self.entries.is_some(), "--entries", no_lock),
                (self.app_messages.is_some(), "--app-messages", no_lock),
                (self.timers.is_some(), "--timers", "its processes send heartbeats for ever"),
                (self.detector_spread.is_some(), "--detector-spread", "the check itself finds when they suspect"),
            ],
            Family::Append => &[],
        };
        match given.iter().find(|(given, ..)| *given) {
            Some((_, option, why)) => {
                Err(Failure::bad_input(format!("{option} means nothing for `{algorithm}`: {why}; leave it out")))
            }
            None => Ok(()),
        }
    }

    /// If there is no counterexample: the files that were not written, with a verb.
    fn unwritten(&self, report: &CheckReport) -> Option<String> {
        let files = [&self.trace, &self.svg].into_iter().flatten().map(|path| path.display().to_string());
        let files: Vec<String> = files.filter(|_| report.trace.is_none()).collect();
        match files.len() {
            0 => None,
            1 => Some(format!("{} was", files[0])),
            _ => Some(format!("{} were", files.join(" and "))),
        }
    }

    fn write_counterexample(&self, report: &CheckReport) -> Result<(), Failure> {
        let Some(trace) = &report.trace else { return Ok(()) };
        if let Some(path) = &self.trace {
            let file = File::create(path).map_err(|error| unwritable(path, &error))?;
            trace.write(BufWriter::new(file)).map_err(|error| unwritable(path, &error))?;
        }
        if let Some(path) = &self.svg {
            let picture = diagram::draw(&trace.header, &trace.records, self.extent.extent());
            fs::write(path, picture).map_err(|error| unwritable(path, &error))?;
        }
        Ok(())
    }
}

fn to_text(report: &CheckReport) -> String {
    let mut text = format!("{}: {}\n{}\n", model(report), listed(&report.properties), verdict(report));
    for line in report.counterexample.iter().flatten() {
        text.push_str(&format!("  {line}\n"));
    }
    if let Some(cyclic) = &report.cyclic {
        let (states, components) = (cyclic.states, components(cyclic.components));
        let runs = if report.faults.of_processes() { "with these faults" } else { "each requests for ever" };
        text.push_str(&match (cyclic.result, &cyclic.detail) {
            (Verdict::Holds, _) if cyclic.components == 0 => {
                format!("{runs}: {states} states, every run ends, and no process is left waiting\n")
            }
            (Verdict::Holds, _) => {
                format!("{runs}: {states} states, {components} with cycles, no process starves\n")
            }
            (Verdict::Violated, _) => format!("{runs}: {states} states, {components} with cycles\n"),
            (Verdict::Limit, Some(why)) if !is_alone(report) => {
                format!("liveness: no verdict: {runs}, {why}, and {states} states have been seen\n")
            }
            (Verdict::Limit, _) => String::new(),
        });
        text.extend(cyclic.hint.map(|hint| format!("hint: {hint}\n")));
    } else if !report.unsettled.is_empty() {
        text.push_str(&format!(
            "{}: not checked, because there is no verdict on the rest\n",
            listed(&report.unsettled)
        ));
    }
    if !report.unchecked.is_empty() {
        text.push_str(&format!("not checked here: {}\n", unchecked(&report.unchecked)));
    }
    // `seconds` covers both models, so the rate counts the states of both.
    let more = report.cyclic.as_ref().filter(|_| !is_alone(report));
    let seen = report.states + more.map_or(0, |cyclic| cyclic.states);
    let rate = seen as f64 / report.seconds.max(1e-9);
    text.push_str(&format!(
        "{} states, {} steps between them, {} deep, {:.2} s ({rate:.0} states/s)\n",
        report.states, report.transitions, report.depth, report.seconds
    ));
    folded(&text)
}

/// A line that describes the checked model.
fn model(report: &CheckReport) -> String {
    let (algorithm, n, order) = (report.algorithm, report.n, report.order);
    let variant = report.variant.as_deref().map(|variant| format!(" ({variant})")).unwrap_or_default();
    let is_witnessed = report.variant.iter().any(|variant| variant.split('+').any(|part| part == "witness"));
    // The witness is not one of the n members, so its id is n.
    let witness = if is_witnessed { format!(", P{n} the witness") } else { String::new() };
    let entries = match report.entries {
        0 => String::new(),
        _ if is_for_ever(report) => ", each requests for ever".to_owned(),
        1 => ", each requests once".to_owned(),
        entries => format!(", each requests {entries} times"),
    };
    let budget = budget(report).map(|budget| format!(", at most {budget}")).unwrap_or_default();
    let delays = delays(report);
    format!("{algorithm}{variant}, n = {n}{witness}{entries}, {order} links{delays}{budget}")
}

fn verdict(report: &CheckReport) -> String {
    let detail = report.detail.as_deref();
    match report.result {
        Verdict::Holds if report.unsettled.is_empty() => "holds in every state".to_owned(),
        Verdict::Holds => format!("holds in every state: {}", listed(&report.properties)),
        Verdict::Limit => {
            let cyclic = report.cyclic.as_ref().map(|cyclic| cyclic.states);
            let (why, states) = (detail.unwrap_or("a limit is reached"), cyclic.unwrap_or(report.states));
            format!("no verdict: {why}, and {states} states have been seen")
        }
        Verdict::Violated => {
            let property = report.property.map(|property| property.to_string()).unwrap_or_default();
            let steps = report.steps.map(|steps| format!(" in {steps} steps")).unwrap_or_default();
            format!("{property} is violated{steps}: {}", detail.unwrap_or_default())
        }
    }
}

/// Whether the check was only about liveness.
fn is_alone(report: &CheckReport) -> bool {
    report.properties == [Property::Liveness]
}

fn listed(properties: &[Property]) -> String {
    let names: Vec<&str> = properties.iter().map(|property| property.name()).collect();
    names.join(", ")
}

/// The promised properties that were not checked. Properties with the same reason are listed together.
fn unchecked(unchecked: &[Unchecked]) -> String {
    let for_a_reason = unchecked.chunk_by(|one, other| one.why == other.why).map(|those| {
        let properties: Vec<Property> = those.iter().map(|it| it.property).collect();
        format!("{} ({})", listed(&properties), those[0].why)
    });
    for_a_reason.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use baton_compare::claims;
    use baton_protocol::registry::ALGORITHMS;

    use super::*;
    use crate::Command;
    use crate::algorithms::tests::typed;

    /// What a user types gives what the claim says: the same verdict, after as many steps or in as many states.
    #[test]
    fn the_command_of_a_claim_is_its_check() {
        let claims = ALGORITHMS.iter().flat_map(|about| claims::of(about.name).unwrap());
        let checks: Vec<_> = claims.filter(|claim| claim.command.starts_with("baton check ")).collect();
        assert!(checks.len() > 15, "only {} commands", checks.len());
        for claim in checks {
            let Command::Check(args) = typed(&claim.command).command else { panic!("{}", claim.command) };
            let algorithm = args.model.algorithm.clone().unwrap();
            let report = check(&algorithm, &args.model.params(), &args.options()).unwrap();
            let found = match (report.property, report.steps) {
                (Some(property), Some(steps)) => format!("{property} violated in {steps} steps"),
                _ => format!(": holds in all {} states", report.states),
            };
            assert!(claim.measured.ends_with(&found), "{}: {}, and not {found}", claim.command, claim.measured);
        }
    }

    #[test]
    fn memory_is_in_mib_unless_it_says_gib() {
        assert_eq!(["500", "500MiB", "20GiB"].map(bytes), [Ok(500 << 20), Ok(500 << 20), Ok(20 << 30)]);
        assert!(["", "GiB", "-1", "20GB", "1.5GiB", "0", "0GiB"].into_iter().all(|text| bytes(text).is_err()));
    }

    #[test]
    fn a_hint_has_a_line_of_its_own() {
        let options = Options { properties: Some(vec![Property::Liveness]), limit: 100, ..Options::default() };
        let mut report = check("carvalho-roucairol", &Params::new(2, 1), &options).unwrap();
        assert!(!to_text(&report).contains("hint"));
        report.cyclic.as_mut().unwrap().hint = Some("name the counters");
        assert!(to_text(&report).contains(" states have been seen\nhint: name the counters\n"), "{}", to_text(&report));
    }

    #[test]
    fn minutes_may_be_parts_of_one_and_never_none() {
        assert_eq!(["10", "0.5"].map(minutes), [Ok(Duration::from_secs(600)), Ok(Duration::from_secs(30))]);
        assert!(["0", "-1", "nan", "inf", "1e300", "ten"].into_iter().all(|text| minutes(text).is_err()));
    }
}
