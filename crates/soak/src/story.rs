//! Texts for the story of a run, for people: lock names as text, and no secrets.

use baton_client::session::{Event, NotGranted, Wait};
use baton_client::{Refusal, RefusalCode};
use baton_state::state::{Command, sessions};
use baton_types::frames::{Operation, Request, ToServer};
use baton_types::locks::{self, Acquire};
use baton_types::name::Quoted;

use super::clock::Micros;
use super::world::MS;

/// A line of the story.
pub(super) fn line(now: Micros, text: &str) -> String {
    format!("{:>9.3} ms  {text}", now as f64 / MS as f64)
}

/// A frame that a client sends.
pub(super) fn said(said: &ToServer) -> String {
    let ToServer::Request(Request {
        number,
        seen,
        missing,
        operation: Operation::Locks(locks::Operation::Acquire(acquire)),
    }) = said
    else {
        return format!("{said:?}");
    };
    let Acquire { name, mode, owner, parent, timeout_ms, lock_delay_ms } = acquire;
    let name = Quoted(name);
    format!(
        "Request {{ number: {number}, seen: {seen}, missing: {missing:?}, operation: Acquire {{ name: {name}, \
         mode: {mode:?}, owner: {owner}, parent: {parent:?}, timeout_ms: {timeout_ms:?}, \
         lock_delay_ms: {lock_delay_ms} }} }}"
    )
}

/// An event of a client's session.
pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Refused {
            acquire,
            refusal: NotGranted::Refused(Refusal { code: RefusalCode::Deadlock, cycle, .. }),
        } => {
            let step = |Wait { owner, lock, .. }: &Wait| format!("owner {owner} waits for {}", Quoted(lock));
            let steps: Vec<String> = cycle.iter().map(step).collect();
            format!("Refused {{ acquire: {acquire}, refusal: Deadlock {{ {} }} }}", steps.join(", "))
        }
        other => format!("{other:?}"),
    }
}

/// A committed command.
pub(super) fn command(command: &Command) -> String {
    let Command::Sessions(sessions::Command::Open(open)) = command else { return format!("{command:?}") };
    let sessions::Open { session, ttl_ms, resume, .. } = open;
    format!("Open {{ session: {session:?}, ttl_ms: {ttl_ms}, resume: {resume}, .. }}")
}
