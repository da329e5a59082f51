//! `baton release --force`: take a lock from its holders.

use std::process::ExitCode;

use baton_types::name::{self, Quoted};
use baton_types::views::Holder;
use serde_json::json;

use crate::elsewhere::Unheld;
use crate::output::{Failure, Outcome, VIOLATED, print, print_json, shown};
use crate::service_args::{NameArgs, ServerArgs, block_on, no_server};
use crate::view::place;

/// Take a lock from its holders
///
/// For locks whose holder does not release them. The server tells the holders to stop. The lock is free as soon as
/// every holder has released it or has lost its lease. With --now the lock is free at once, and a lock-delay ends.
///
/// The words (holder, lease, lock-delay, ...) are explained in docs/glossary.md.
///
/// A member of a peer group takes a lock only from its own clients.
///
/// Exit status 0: success, also if the lock has no holder; 1: a client of another member of the peer group may hold the
/// lock; 2: bad input; 69: no server answered; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    name: NameArgs,
    /// Required: confirms that the lock is to be taken from its holders
    #[arg(long)]
    force: bool,
    /// Free the lock at once. The old holders may still be at work: only data whose store checks fences is safe
    #[arg(long, requires = "force")]
    now: bool,
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object: the lock and its holders
    #[arg(long)]
    json: bool,
}

const DELAY_OVER: &str = "; a lock-delay that kept it closed is over";

pub fn run(args: &Args) -> Outcome {
    let name = args.name.bytes()?;
    if !args.force {
        let name = Quoted(&name);
        return Err(Failure::bad_input(format!(
            "the lock {name} is released when its holder ends; to take it from its holders, add --force"
        )));
    }
    let (elsewhere, holders) = block_on(async {
        let client = args.server.connect().await?;
        let holders = client.force_release(&name, args.now).await.map_err(no_server)?;
        let unheld = if holders.is_empty() { Unheld::of(&client).await? } else { Unheld::Free };
        let elsewhere = if let Unheld::Elsewhere(elsewhere) = unheld { Some(elsewhere) } else { None };
        Ok((elsewhere, holders))
    })?;
    if args.json {
        let (name, escaped) = name::shown(&name);
        let mut released = json!({ "name": name, "now": args.now, "holders": holders });
        if escaped {
            released["escaped"] = true.into();
        }
        print_json(&released)?;
    } else if elsewhere.is_none() {
        print(&to_text(&name, args.now, &holders))?;
    }
    match elsewhere {
        Some(elsewhere) => {
            let delay = if args.now { DELAY_OVER } else { "" };
            let message = format!("the lock {} is {elsewhere}: ask that member (--server){delay}", Quoted(&name));
            Err(Failure { message, status: ExitCode::from(VIOLATED) })
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

fn to_text(name: &[u8], now: bool, holders: &[Holder]) -> String {
    if holders.is_empty() {
        let delay = if now { DELAY_OVER } else { "" };
        return format!("the lock {} has no holder{delay}\n", Quoted(name));
    }
    let line = |holder: &Holder| {
        let (label, place, fence) = (shown(&holder.label), shown(&place(&holder.host, holder.pid)), holder.fence);
        match now {
            true => format!("taken from {label} at {place}, fence {fence}; that holder may still be at work\n"),
            false => format!("told {label} at {place}, fence {fence}, to stop\n"),
        }
    };
    holders.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any client can choose its label and host freely.
    #[test]
    fn no_control_character_of_a_holder_reaches_the_terminal() {
        let (label, host) = ("job\x1b[2J".to_owned(), "here\r".to_owned());
        let holder = Holder { label, host, ..Holder::default() };
        for now in [false, true] {
            let text = to_text(b"a", now, std::slice::from_ref(&holder));
            assert_eq!(text.chars().filter(|char| char.is_control()).collect::<String>(), "\n", "{text:?}");
        }
    }
}
