//! `baton demo`: small demonstrations for a lecture.

mod real;
pub mod worker;

use std::process::ExitCode;

use baton_protocol::registry::{self, Family};
use baton_sim::app::mutex::{Load, StoreKind};
use baton_sim::report::Report;
use baton_sim::run::{Options, run as simulate};
use baton_sim::spec::Spec;
use clap::Subcommand;
use serde_json::json;

use crate::output::{COLUMNS, Failure, HELD, Outcome, VIOLATED, counted, print, print_json, table, wrapped};
use crate::progress::Progress;

/// Small demonstrations for a lecture
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    story: Story,
}

#[derive(Subcommand)]
enum Story {
    Counter(Counter),
}

/// Processes increment one counter: first without a lock, then with a lock
///
/// Every process reads a shared counter, adds one and writes the sum, again and again. The processes are simulated; with
/// --real they are processes of this machine, and the counter is in a file.
///
/// Exit status 0: with the lock, no increment is lost; 1: with the lock, an increment is lost or never made, or a real
/// process fails; 2: bad input; 74: the output cannot be written.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
struct Counter {
    /// The algorithm for the lock; `baton algorithms` lists them
    #[arg(long, default_value = "suzuki-kasami")]
    algorithm: String,
    /// Number of processes
    #[arg(long, default_value_t = 10)]
    processes: usize,
    /// Number of increments of each process [default: 1000000; with --real: 1000]
    #[arg(long)]
    increments: Option<u64>,
    /// Start real processes, which run the algorithm between each other
    #[arg(long)]
    real: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

struct Counted {
    total: u64,
    /// Number of increments that were written, including those that were lost.
    made: u64,
    messages: u64,
    /// In T, or in seconds.
    time: f64,
}

/// The two runs of one demonstration.
struct Told {
    without: Counted,
    with: Counted,
    /// How many runs without a lock lost nothing, and were repeated.
    lucky: u32,
}

/// How often the run without a lock is repeated if it loses nothing.
const LUCK_MAX: u32 = 5;

pub fn run(args: &Args) -> Outcome {
    let Story::Counter(counter) = &args.story;
    counter.tell()
}

impl Counter {
    fn tell(&self) -> Outcome {
        let about = registry::find(&self.algorithm).map_err(Failure::bad_input)?;
        if about.family != Family::Mutex {
            return Err(not_a_lock(about.name));
        }
        let increments = self.increments();
        let expected = increments.checked_mul(self.processes as u64).filter(|&entries| entries <= 1_000_000_000);
        let expected = expected
            .ok_or_else(|| Failure::bad_input("these are too many increments; at most 1,000,000,000 in all"))?;
        // The run with the lock comes first, because the algorithm may refuse this number of processes.
        let told = if self.real {
            let with = real::count(Some(about), self.processes, increments)?;
            let mut without = real::count(None, self.processes, increments)?;
            let mut lucky = 0;
            while without.total == expected && lucky < LUCK_MAX {
                lucky += 1;
                without = real::count(None, self.processes, increments)?;
            }
            Told { without, with, lucky }
        } else {
            let with = self.simulate(about.name, expected)?;
            Told { without: self.simulate("no-lock", expected)?, with, lucky: 0 }
        };
        let Told { without, with, lucky } = &told;
        if self.json {
            print_json(&json!({
                "algorithm": about.name,
                "processes": self.processes,
                "increments": increments,
                "real": self.real,
                "pause_us": self.real.then_some(worker::PAUSE.as_micros() as u64),
                "expected": expected,
                "without_lock": without.total,
                "with_lock": with.total,
                "never_made": expected - with.made.min(expected),
                "messages": with.messages,
                "repeated": lucky,
            }))?;
        } else {
            print(&self.to_text(about.name, expected, &told))?;
        }
        Ok(ExitCode::from(if with.total == expected { HELD } else { VIOLATED }))
    }

    fn increments(&self) -> u64 {
        self.increments.unwrap_or(if self.real { 1_000 } else { 1_000_000 })
    }

    fn simulate(&self, algorithm: &str, entries: u64) -> Result<Counted, Failure> {
        let spec = Spec {
            algorithm: algorithm.into(),
            n: Some(self.processes),
            load: Some(Load::All),
            entries: Some(entries),
            store: Some(StoreKind::Unfenced),
            ..Spec::default()
        };
        let progress = Progress::bar(format!("counting with {algorithm}"));
        let options = spec.options().map_err(Failure::bad_input)?;
        let options = Options { watch: Some(progress.watch()), ..options };
        let report = simulate(&options, None);
        progress.finish();
        let report = report.map_err(Failure::bad_input)?;
        let Report::Mutex(report) = report else { return Err(not_a_lock(algorithm)) };
        let store = report.store.as_ref().ok_or_else(|| Failure::bad_input("nothing was counted"))?;
        Ok(Counted {
            total: store.writes - store.lost,
            made: store.writes,
            messages: report.messages,
            time: report.time,
        })
    }

    fn to_text(&self, algorithm: &str, expected: u64, Told { without, with, lucky }: &Told) -> String {
        let row = |name: &str, counted: &Counted| {
            let lost = counted.made.min(expected) - counted.total.min(expected);
            vec![
                name.into(),
                counted.total.to_string(),
                lost.to_string(),
                counted.messages.to_string(),
                if self.real { format!("{:.1} s", counted.time) } else { format!("{:.0} T", counted.time) },
            ]
        };
        let rows = vec![
            ["", "total", "lost", "messages", if self.real { "time" } else { "virtual time" }]
                .map(String::from)
                .to_vec(),
            row("without a lock", without),
            row(&format!("with {algorithm}"), with),
        ];
        let (processes, increments) = (self.processes, self.increments());
        let never = expected - with.made.min(expected);
        let stuck = if never == 0 {
            String::new()
        } else {
            format!("\n{never} increments were never made: all processes wait\n")
        };
        let luck = match lucky {
            0 => String::new(),
            _ => format!("\n{}\n", luck_text(u64::from(*lucky), without.total == expected)),
        };
        let pause = match self.real {
            true => format!("\n{}\n", wrapped(&pause_text(), COLUMNS).join("\n")),
            false => String::new(),
        };
        let real = if self.real { "real " } else { "" };
        let head = format!("{processes} {real}processes, {increments} increments each: {expected} in all");
        format!("{head}\n\n{}{stuck}{luck}{pause}", table(&rows))
    }
}

/// Real processes lose few updates by themselves.
fn pause_text() -> String {
    let pause = worker::PAUSE.as_micros();
    format!(
        "Every process sleeps for {pause} us between a read and the write that follows, with the lock and without it. \
         Without this pause fewer increments would be lost."
    )
}

fn luck_text(lucky: u64, is_exact: bool) -> String {
    let runs = counted(lucky, "run", "runs");
    match is_exact {
        true => format!("no run without a lock lost an increment; {runs} more were tried: use more --increments"),
        false => format!("by luck {runs} without a lock lost nothing before this one"),
    }
}

fn not_a_lock(algorithm: &str) -> Failure {
    Failure::bad_input(format!("`{algorithm}` is not a lock; name an algorithm for mutual exclusion"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_processes_say_that_they_pause_between_read_and_write() {
        let told = |real: bool| {
            let counted = |total| Counted { total, made: 2, messages: 0, time: 1.0 };
            let told = Told { without: counted(1), with: counted(2), lucky: 0 };
            Counter { algorithm: "central".into(), processes: 2, increments: Some(1), real, json: false }
                .to_text("central", 2, &told)
        };
        assert!(told(true).contains("Every process sleeps for 20 us between a read and the write that follows"));
        assert!(!told(false).contains("sleeps"));
    }
}
