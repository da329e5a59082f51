//! `baton lock-info`: one lock, with its queue and its history.

use std::process::ExitCode;

use baton_client::Local;
use baton_types::locks::Mode;
use baton_types::name::Quoted;
use baton_types::views::Lock;

use crate::elsewhere::Unheld;
use crate::output::{Failure, Outcome, VIOLATED, narrow_table, print, print_json, shown};
use crate::service_args::{NameArgs, ReadArgs, ServerArgs, block_on, no_server, tell_age};
use crate::view::{Aged, ago, duration, lease, place};

/// Show one lock: its holders, its waiters and its history
///
/// The words of the output (holder, fence, lease, ...) are explained in docs/glossary.md.
///
/// A member of a peer group knows only its own clients.
///
/// Exit status 0: success; 1: the lock has no holder, no waiter and no history there; 2: bad input; 69: no server answered;
/// 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object; with --local it has `age_ms`, null if the server does not know
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

pub fn run(args: &Args) -> Outcome {
    let name = args.name.bytes()?;
    let local = args.read.local;
    let (Local { value: lock, age }, unheld) = block_on(async {
        let client = args.server.connect().await?;
        let lock = match local {
            true => client.get_lock_locally(&name).await,
            false => client.get_lock(&name).await.map(|value| Local { value, age: None }),
        };
        let lock = lock.map_err(no_server)?;
        let is_held = lock.value.as_ref().is_some_and(|lock| !lock.holders.is_empty());
        let unheld = if is_held { Unheld::Free } else { Unheld::of(&client).await? };
        Ok((lock, unheld))
    })?;
    let Some(lock) = lock.map(|lock| if local { lock.without_leases() } else { lock }) else {
        let message = match unheld {
            Unheld::Elsewhere(elsewhere) => format!("the lock {} is {elsewhere}", Quoted(&name)),
            Unheld::Free | Unheld::Closed { .. } => {
                format!("the lock {} has no holder, no waiter and no history", Quoted(&name))
            }
        };
        return Err(Failure { message, status: ExitCode::from(VIOLATED) });
    };
    match (args.json, local) {
        (true, true) => print_json(&Aged::new(&lock, age))?,
        (true, false) => print_json(&lock)?,
        (false, _) => print(&to_text(&name, &lock, &unheld))?,
    }
    if local && !args.json {
        tell_age(age);
    }
    Ok(ExitCode::SUCCESS)
}

fn to_text(name: &[u8], lock: &Lock, unheld: &Unheld) -> String {
    // While a lock-delay keeps a lock closed at a member, no client of another member has it.
    let unheld = if lock.lock_delay_ms == 0 { unheld } else { &Unheld::Free };
    let mut text = format!(
        "lock {}: {}",
        Quoted(name),
        lock.mode.map_or_else(|| unheld.to_string(), |mode| mode.word().to_owned())
    );
    if matches!(lock.mode, Some(Mode::Permit { .. })) {
        text += &format!(", {} of {}", lock.holders.len(), lock.permits);
    }
    if lock.lock_delay_ms > 0 {
        text += &format!("; closed for another {} (lock-delay)", duration(lock.lock_delay_ms));
    }
    text.push('\n');
    let mut section = |title: &str, head: &[&str], rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            let head = vec![head.iter().map(|cell| (*cell).to_owned()).collect()];
            text += &format!("\n{title}\n{}", narrow_table(&[head, rows].concat()));
        }
    };
    let holders = lock.holders.iter().map(|holder| {
        let (held, lease) = (ago(holder.since_ms), lease(holder.deadline_in_ms));
        vec![shown(&holder.label), shown(&place(&holder.host, holder.pid)), holder.fence.to_string(), held, lease]
    });
    section("holders", &["LABEL", "PROCESS", "FENCE", "HELD FOR", "LEASE"], holders.collect());
    let waiters = lock.waiters.iter().map(|waiter| {
        let waiting = duration(waiter.waiting_ms);
        vec![waiter.position.to_string(), shown(&waiter.label), waiter.mode.word().to_owned(), waiting]
    });
    section("waiters", &["PLACE", "LABEL", "MODE", "WAITING FOR"], waiters.collect());
    let history = lock.history.iter().map(|past| {
        let held = duration(past.to_ms.saturating_sub(past.from_ms));
        vec![
            shown(&past.label),
            past.fence.to_string(),
            held,
            format!("{} ago", ago(past.to_ms)),
            past.ended.word().to_owned(),
        ]
    });
    section("history", &["LABEL", "FENCE", "HELD FOR", "UNTIL", "ENDED"], history.collect());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unheld(lock_delay_ms: u64) -> Lock {
        Lock { name: "g2".into(), lock_delay_ms, ..Lock::default() }
    }

    #[test]
    fn a_lock_in_its_lock_delay_says_for_how_long_it_is_closed() {
        assert_eq!(
            to_text(b"g2", &unheld(2_000), &Unheld::Free),
            "lock \"g2\": free; closed for another 2.0 s (lock-delay)\n"
        );
    }

    #[test]
    fn a_lock_of_a_cluster_that_grants_nothing_yet_is_not_free() {
        let told = "lock \"g2\": nothing is granted for another 15 s, because the cluster began anew and leases of before may \
                    still run\n";
        assert_eq!(to_text(b"g2", &unheld(0), &Unheld::Closed { left_ms: 15_000 }), told);
    }
}
