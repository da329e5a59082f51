//! `baton sessions`: list the sessions with their locks.

use std::process::ExitCode;

use baton_client::Local;
use baton_types::hex::Hex;
use baton_types::name;
use baton_types::views::Session;

use crate::output::{Outcome, narrow_table, print, print_json, shown};
use crate::service_args::{ReadArgs, ServerArgs, block_on, no_server, tell_age};
use crate::view::{Aged, duration, lease, place};

/// List the sessions with the locks that they hold and wait for
///
/// Exit status 0: success; 2: bad input; 69: no server answered; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Print JSON: an array of sessions; with --local each has `age_ms`, null if the server does not know
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

pub fn run(args: &Args) -> Outcome {
    let local = args.read.local;
    let Local { value, age } = block_on(async {
        let client = args.server.connect().await?;
        let sessions = match local {
            true => client.list_sessions_locally().await,
            false => client.list_sessions().await.map(|value| Local { value, age: None }),
        };
        sessions.map_err(no_server)
    })?;
    let shown = |session: Session| if local { session.without_leases() } else { session };
    let sessions: Vec<Session> = value.into_iter().map(shown).collect();
    match (args.json, local) {
        (true, true) => print_json(&sessions.iter().map(|session| Aged::new(session, age)).collect::<Vec<_>>())?,
        (true, false) => print_json(&sessions)?,
        (false, _) => print(&to_text(&sessions))?,
    }
    if local {
        tell_age(age);
    }
    Ok(ExitCode::SUCCESS)
}

/// The first names, and the number of the others.
fn names(names: &[Vec<u8>]) -> String {
    const SHOWN_MAX: usize = 3;
    let shown: Vec<String> = names.iter().take(SHOWN_MAX).map(|name| shown(&name::shown(name).0)).collect();
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn to_text(sessions: &[Session]) -> String {
    let mut rows =
        vec![["SESSION", "LABEL", "PROCESS", "TTL", "LEASE", "HOLDS", "WAITS FOR"].map(String::from).to_vec()];
    rows.extend(sessions.iter().map(|session| {
        vec![
            Hex(session.id).to_string(),
            shown(&session.label),
            shown(&place(&session.host, session.pid)),
            duration(session.ttl_ms),
            lease(session.expires_in_ms),
            names(&session.holds),
            names(&session.waits),
        ]
    }));
    narrow_table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_locks_the_first_are_named_and_the_others_counted() {
        let told = |count: usize| {
            names(&["a", "b", "c", "d", "e"][..count].iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>())
        };
        assert_eq!([0, 1, 3, 4, 5].map(told), ["", "a", "a, b, c", "a, b, c and 1 more", "a, b, c and 2 more"]);
    }
}
