//! `baton peer`: run one member of a group over real sockets.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use baton_peer::{MemberReport, Options, PeerGroup, RunError, Turns, Warning, run_election, run_turns};
use baton_protocol::registry::Family;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::output::{Failure, Outcome, VIOLATED, print, print_json, table, unwritable, warn};

/// Run one member of a group over TCP
///
/// All members share one file with the algorithm and the address of each member:
///
///   algorithm = "ricart-agrawala"
///   members = ["127.0.0.1:7501", "127.0.0.1:7502", "127.0.0.1:7503"]
///
/// Members of a mutual exclusion group enter the critical section in turn, and
/// end when all are done. Members of an election print each change of the leader,
/// until SIGINT or SIGTERM.
///
/// The words of the output (entry, fence, ...) are explained in docs/glossary.md.
///
/// Exit status:
///   0    done
///   1    a member that the algorithm needs was lost, or a client was lost
///        before it was done
///   2    bad input, or the group was not complete in time
///   74   the output cannot be written
#[derive(clap::Args)]
#[command(verbatim_doc_comment, allow_negative_numbers = true)]
pub struct Args {
    /// The file that all members share, in TOML
    group: PathBuf,
    /// The id of this member: its place in `members`, from 0 on
    #[arg(long)]
    id: usize,
    /// Number of entries of this member
    #[arg(long, value_name = "K", default_value_t = 10)]
    entries: u64,
    /// Time in the critical section, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=86_400_000))]
    hold_ms: u64,
    /// Longest time to wait for the other members to start, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=86_400))]
    start_within: u64,
    /// Write the trace of this member to a file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print JSON: one object at the end; in elections, also one for every change of leader
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let group = PeerGroup::read(&args.group).map_err(Failure::bad_input)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::bad_input(format!("cannot start the event loop: {error}")))?;
    runtime.block_on(async {
        match group.about().family {
            Family::Mutex => take_turns(args, &group).await,
            _ => elect(args, &group).await,
        }
    })
}

async fn take_turns(args: &Args, group: &PeerGroup) -> Outcome {
    let turns = Turns { entries: args.entries, hold: Duration::from_millis(args.hold_ms) };
    let report = run_turns(group, args.id, turns, args.options()?).await.map_err(failure)?;
    if args.json {
        print_json(&report)?
    } else {
        print(&to_text(&report))?
    }
    Ok(ExitCode::SUCCESS)
}

async fn elect(args: &Args, group: &PeerGroup) -> Outcome {
    let unwatched = |error| Failure::bad_input(format!("cannot watch for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unwatched)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unwatched)?;
    let stop = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let mut printed = Ok(());
    let on_change = |leader: baton_peer::Leader| {
        let line = if args.json {
            print_json(&leader)
        } else {
            print(&leader.id.map_or("no leader\n".into(), |leader| format!("leader: P{leader}\n")))
        };
        printed = std::mem::replace(&mut printed, Ok(())).and(line);
    };
    let stats = run_election(group, args.id, args.options()?, stop, on_change).await.map_err(failure)?;
    printed?;
    if args.json {
        print_json(&stats)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn options(&self) -> Result<Options, Failure> {
        let trace = self.trace.as_ref().map(|path| match File::create(path) {
            Ok(file) => Ok(Box::new(BufWriter::new(file)) as Box<dyn Write + Send>),
            Err(error) => Err(unwritable(path, &error)),
        });
        Ok(Options {
            listener: None,
            start_within: Duration::from_secs(self.start_within),
            trace: trace.transpose()?,
            warnings: Some(tell_of_warnings()),
        })
    }
}

/// Prints each warning of the member to standard error.
fn tell_of_warnings() -> mpsc::Sender<Warning> {
    let (sender, mut warnings) = mpsc::channel::<Warning>(64);
    tokio::spawn(async move {
        while let Some(notice) = warnings.recv().await {
            warn(notice);
        }
    });
    sender
}

fn failure(error: RunError) -> Failure {
    match error {
        RunError::Lost { .. } => Failure { message: error.to_string(), status: ExitCode::from(VIOLATED) },
        other => Failure::bad_input(other),
    }
}

fn to_text(report: &MemberReport) -> String {
    let by_kind: Vec<String> = report.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let fences: Vec<String> = report.fences.iter().map(u64::to_string).collect();
    let rows = vec![
        vec!["member".into(), format!("P{}", report.id)],
        vec!["entries".into(), report.entries.to_string()],
        vec!["messages sent".into(), format!("{}  ({})", report.messages, by_kind.join(", "))],
        vec!["fences".into(), fences.join(" ")],
    ];
    table(&rows)
}
