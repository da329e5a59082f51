//! `baton locks`: list the locks.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use baton_client::events::Kind;
use baton_client::{Client, ListLocks};
use baton_types::locks::Mode;
use baton_types::name;
use baton_types::views::{Holder, Lock};

use crate::elsewhere::Unheld;
use crate::events::{not_followed, tell};
use crate::output::{Failure, Outcome, narrow_table, print, print_while_read, shown};
use crate::service_args::{ReadArgs, ServerArgs, block_on, no_server, tell_age, typed_bytes};
use crate::view::{Aged, ago, duration, lease, or_dash, place};

/// List the locks with their holders and the number of waiters
///
/// The words of the output (holder, fence, lease, ...) are explained in docs/glossary.md.
///
/// Exit status 0: success; 2: bad input; 69: no server answered, or the server went away while the JSON was printed;
/// 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Only locks whose names begin with these bytes
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: OsString,
    /// PREFIX is in the escaped form: \xNN is a byte, \\ is a backslash
    #[arg(long)]
    escaped: bool,
    /// Also list locks that are free and have a history
    #[arg(long)]
    all: bool,
    /// Print JSON: an array of locks; with --local each has `age_ms`, null if the server does not know
    #[arg(long)]
    json: bool,
    /// Include the earlier holders of each lock; without this, `history` is empty
    #[arg(long, requires = "json")]
    history: bool,
    /// Show the table again whenever it changes, until Ctrl-C
    #[arg(long, conflicts_with_all = ["json", "local"])]
    watch: bool,
    #[command(flatten)]
    read: ReadArgs,
}

pub fn run(args: &Args) -> Outcome {
    let prefix = typed_bytes("prefix", &args.prefix, args.escaped)?;
    block_on(async {
        let client = args.server.connect().await?;
        if args.watch {
            return watch(&client, &prefix, args.all).await;
        }
        let local = args.read.local;
        let mut listing = client.locks().prefix(prefix).history(args.history).all(args.all).local(local);
        match args.json {
            true => print_array(&mut listing, local).await?,
            false => print(&table(&client, &mut listing, local).await?)?,
        }
        if local {
            tell_age(listing.age());
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints each page of locks as it arrives, because all locks together may not fit into memory.
async fn print_array(listing: &mut ListLocks, local: bool) -> Result<(), Failure> {
    let mut separator = '[';
    while let Some(locks) = listing.next().await.map_err(no_server)? {
        let mut text = String::new();
        for lock in locks {
            text.push(separator);
            let json = match local {
                true => serde_json::to_string(&Aged::new(lock.without_leases(), listing.age())),
                false => serde_json::to_string(&lock),
            };
            text += &json.map_err(Failure::bad_input)?;
            separator = ',';
        }
        if !print_while_read(&text)? {
            return Ok(());
        }
    }
    print(if separator == '[' { "[]\n" } else { "]\n" })
}

/// At most so often the table is shown again.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Shows the table again after each change, on the same screen if it goes to a terminal. The feed says when; the table is
/// listed anew, because the leases in it do not come from the feed.
async fn watch(client: &Client, prefix: &[u8], all: bool) -> Result<(), Failure> {
    let kinds = Kind::ALL.iter().copied().filter(|kind| !matches!(kind, Kind::Member | Kind::Leader));
    let mut changes = client.changes().kinds(kinds).prefix(prefix).follow().await.map_err(not_followed)?;
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    loop {
        let mut listing = client.locks().prefix(prefix).all(all);
        let table = table(client, &mut listing, false).await?;
        if !print_while_read(&format!("{clear}{table}"))? {
            return Ok(());
        }
        // At least one change, and all that come soon after it.
        let Some(heard) = changes.next().await.map_err(not_followed)? else { return Ok(()) };
        tell(&heard);
        let pause = tokio::time::sleep(SHOW_EVERY);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                heard = changes.next() => match heard.map_err(not_followed)? {
                    Some(heard) => tell(&heard),
                    None => return Ok(()),
                },
            }
        }
    }
}

/// All locks at once, because the width of a column depends on all of them.
async fn table(client: &Client, listing: &mut ListLocks, local: bool) -> Result<String, Failure> {
    let mut rows =
        vec![["LOCK", "MODE", "HOLDER", "PROCESS", "FENCE", "HELD FOR", "LEASE", "WAITERS"].map(String::from).to_vec()];
    // Asked once, and only if it matters.
    let mut unheld = None;
    while let Some(locks) = listing.next().await.map_err(no_server)? {
        if unheld.is_none() && locks.iter().any(|lock| lock.holders.is_empty()) {
            unheld = Some(match Unheld::of(client).await? {
                Unheld::Elsewhere(_) => "(not held here)".to_owned(),
                Unheld::Closed { left_ms } => closed_for(left_ms),
                Unheld::Free => "(free)".to_owned(),
            });
        }
        let unheld = unheld.as_deref().unwrap_or_default();
        let shown = |lock: Lock| if local { lock.without_leases() } else { lock };
        locks.into_iter().for_each(|lock| rows.extend(to_rows(&shown(lock), unheld)));
    }
    Ok(narrow_table(&rows))
}

fn closed_for(left_ms: u64) -> String {
    format!("(closed for {})", duration(left_ms))
}

/// One row for each holder, or one row if there is no holder. `unheld` stands for the holder of an open lock without one.
fn to_rows(lock: &Lock, unheld: &str) -> Vec<Vec<String>> {
    let mut first = vec![shown(&name::shown(&lock.name).0), or_dash(lock.mode.map(Mode::word))];
    let waiters = lock.waiters.len().to_string();
    if lock.holders.is_empty() {
        // The brackets tell it from the label of a holder.
        first.push(match lock.lock_delay_ms {
            0 => unheld.to_owned(),
            delay_ms => closed_for(delay_ms),
        });
        first.extend(vec!["-".to_owned(); 4]);
        first.push(waiters);
        return vec![first];
    }
    let row = |(index, holder): (usize, &Holder)| {
        let mut row = if index == 0 { std::mem::take(&mut first) } else { vec![String::new(); 2] };
        row.extend([
            shown(&holder.label),
            shown(&place(&holder.host, holder.pid)),
            holder.fence.to_string(),
            ago(holder.since_ms),
            lease(holder.deadline_in_ms),
            if index == 0 { waiters.clone() } else { String::new() },
        ]);
        row
    };
    lock.holders.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_nobody_holds_is_free_or_closed_for_a_while() {
        let holder = |lock_delay_ms| {
            let lock = Lock { name: b"a".to_vec(), lock_delay_ms, ..Lock::default() };
            to_rows(&lock, "(free)")[0][2].clone()
        };
        assert_eq!((holder(0).as_str(), holder(2_000).as_str()), ("(free)", "(closed for 2.0 s)"));
    }
}
