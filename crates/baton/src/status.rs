//! `baton status`: how a server is.

use std::process::ExitCode;

use crate::output::{Outcome, print, print_json, table};
use crate::server::{ServerArgs, block_on, no_server};
use crate::view::{Status, duration};

/// Show how the server is
///
/// Exit status 0: it answered; 2: bad usage; 69: no server answered; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let status = block_on(async { args.server.connect().await?.status().await.map_err(no_server) })?;
    let status = Status::from(status);
    if args.json {
        print_json(&status)?
    } else {
        print(&to_text(&status))?
    }
    Ok(ExitCode::SUCCESS)
}

fn to_text(status: &Status) -> String {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    table(&[
        row("node", format!("{}, {}", status.node, status.role)),
        row("term", status.term.to_string()),
        row("log", format!("{} committed, {} applied", status.commit, status.applied)),
        row("locks", status.locks.to_string()),
        row("sessions", status.sessions.to_string()),
        row("waiters", status.waiters.to_string()),
        row("up for", duration(status.uptime_ms)),
        row("version", status.version.clone()),
    ])
}
