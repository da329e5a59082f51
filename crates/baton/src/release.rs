//! `baton release --force`: take a lock from whoever holds it.

use std::process::ExitCode;

use baton_types::name::{self, Quoted};
use serde_json::json;

use crate::output::{Failure, Outcome, print, print_json, shown};
use crate::server::{NameArgs, ServerArgs, block_on, no_server};
use crate::view::Holder;

/// Take a lock from whoever holds it
///
/// A holder releases its lock itself; this command is for when it cannot. The holders are told to stop, and the lock is free when
/// they have said that they did or when their leases have ended, whichever comes first. With --now a lock-delay ends, too.
///
/// Exit status 0: done, or nobody held it; 2: bad usage; 69: no server answered; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    name: NameArgs,
    /// Yes, take it from its holder
    #[arg(long)]
    force: bool,
    /// Do not wait for the holders' word: the next one may be granted while they are still at work, and only what checks
    /// fences is safe
    #[arg(long, requires = "force")]
    now: bool,
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object: the lock, and who held it
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let name = args.name.bytes()?;
    if !args.force {
        let name = Quoted(&name);
        return Err(Failure::bad_input(format!(
            "only its holder can release the lock {name}, by ending; to take it from its holder, add --force"
        )));
    }
    let release = async { args.server.connect().await?.force_release(&name, args.now).await.map_err(no_server) };
    let holders: Vec<Holder> = block_on(release)?.into_iter().map(Holder::from).collect();
    if args.json {
        let (name, escaped) = name::shown(&name);
        let mut released = json!({ "name": name, "now": args.now, "holders": holders });
        if escaped {
            released["escaped"] = true.into();
        }
        print_json(&released)?;
    } else {
        print(&to_text(&name, args.now, &holders))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn to_text(name: &[u8], now: bool, holders: &[Holder]) -> String {
    if holders.is_empty() {
        let delay = if now { "; if a lock-delay kept it closed, that is over" } else { "" };
        return format!("nobody holds the lock {}{delay}\n", Quoted(name));
    }
    let line = |holder: &Holder| {
        let (label, place, fence) = (shown(&holder.label), shown(&holder.place()), holder.fence);
        match now {
            true => format!("taken from {label} at {place}, fence {fence}: it may not have noticed yet\n"),
            false => format!("told {label} at {place}, fence {fence}, to stop\n"),
        }
    };
    holders.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_types::views;

    /// A label is what a stranger says of itself.
    #[test]
    fn no_control_character_of_a_holder_reaches_the_terminal() {
        let (label, host) = ("job\x1b[2J".to_owned(), "here\r".to_owned());
        let holder = Holder::from(views::Holder { label, host, ..views::Holder::default() });
        for now in [false, true] {
            let text = to_text(b"a", now, std::slice::from_ref(&holder));
            assert_eq!(text.chars().filter(|char| char.is_control()).collect::<String>(), "\n", "{text:?}");
        }
    }
}
