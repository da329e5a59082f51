//! `baton locks`: who holds what, and who waits.

use std::process::ExitCode;

use crate::output::{Outcome, print, print_json, shown, table};
use crate::server::{ServerArgs, block_on, no_server};
use crate::view::{Lock, ago, duration, or_dash};

/// List the locks: who holds what, and how many wait
///
/// Exit status 0: they are listed; 2: bad usage; 69: no server answered.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Also those that nobody holds or waits for, and that are only remembered
    #[arg(long)]
    all: bool,
    /// Print JSON: an array of locks
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let locks: Vec<Lock> = block_on(async { args.server.connect().await?.list_locks().await.map_err(no_server) })?
        .into_iter()
        .map(Lock::from)
        .filter(|lock| args.all || lock.is_used())
        .collect();
    if args.json {
        print_json(&locks)?
    } else {
        print(&to_text(&locks))?
    }
    Ok(ExitCode::SUCCESS)
}

fn to_text(locks: &[Lock]) -> String {
    let mut rows =
        vec![["LOCK", "MODE", "HOLDER", "PROCESS", "FENCE", "HELD FOR", "LEASE", "WAITERS"].map(String::from).to_vec()];
    for lock in locks {
        let mut first = vec![shown(&lock.name), or_dash(lock.mode)];
        let waiters = lock.waiters.len().to_string();
        if lock.holders.is_empty() {
            first.extend(vec!["-".to_owned(); 5]);
            first.push(waiters);
            rows.push(first);
            continue;
        }
        for (index, holder) in lock.holders.iter().enumerate() {
            let mut row = if index == 0 { std::mem::take(&mut first) } else { vec![String::new(); 2] };
            row.extend([
                shown(&holder.label),
                shown(&holder.place()),
                holder.fence.to_string(),
                ago(holder.since_ms),
                duration(holder.deadline_in_ms),
                if index == 0 { waiters.clone() } else { String::new() },
            ]);
            rows.push(row);
        }
    }
    table(&rows)
}
