//! `baton status`: show the state of a server.

use std::process::ExitCode;

use crate::output::{Outcome, print, print_json, table};
use crate::service_args::{ServerArgs, block_on, no_server};
use crate::view::{Status, duration, size};

/// Show the server's role, log, counts and free space
///
/// Exit status 0: the server answered; 2: bad input; 69: no server answered; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

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
        row("free space", free_space(status)),
        row("up for", duration(status.uptime_ms)),
        row("version", status.version.clone()),
    ])
}

fn free_space(status: &Status) -> String {
    let free = status.free_bytes.map_or_else(|| "unknown".to_owned(), size);
    if status.low_space { format!("{free}: too little for new sessions and acquires") } else { free }
}

#[cfg(test)]
mod tests {
    use baton_types::views;

    use super::*;

    #[test]
    fn the_text_tells_how_much_space_is_free() {
        let line = |free_bytes, low_space| {
            let status = Status::from(views::Status { free_bytes, low_space, ..views::Status::default() });
            let text = to_text(&status);
            text.lines().find_map(|line| line.strip_prefix("free space  ")).map(String::from)
        };
        assert_eq!(line(Some(5 << 30), false).as_deref(), Some("5.0 GiB"));
        assert_eq!(line(Some(3 << 20), true).as_deref(), Some("3.0 MiB: too little for new sessions and acquires"));
        assert_eq!(line(None, false).as_deref(), Some("unknown"));
    }
}
