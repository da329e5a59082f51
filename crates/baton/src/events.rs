//! `baton events`: follow what happens: sessions, locks, members and leaders.

use std::ffi::OsString;
use std::process::ExitCode;

use baton_client::events::{About, ClaimValue, Event, Kind, LeaderValue, Listing, MemberValue, Position, Start, Why};
use baton_client::{CallError, CallRefusal, Heard};
use baton_types::name;
use baton_types::views::{Lock, Session};
use serde::Serialize;

use crate::output::{Failure, Outcome, print_while_read, shown, warn};
use crate::service_args::{ServerArgs, block_on, no_server, typed_bytes};
use crate::view::{duration, place};

/// Follow the changes of sessions, locks, members and leaders: a line for each
///
/// Any server tells what it has applied, also one that does not lead. If the server is lost, the command goes on at any
/// server of the list where it was, and says so on standard error. Each change comes once, in order.
///
/// Exit status 0: success; 2: bad input; 69: no server answered; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Only changes that name a lock whose name begins with these bytes
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: OsString,
    /// PREFIX is in the escaped form: \xNN is a byte, \\ is a backslash
    #[arg(long)]
    escaped: bool,
    /// Only changes of these kinds: session-opened, session-ended, queued, granted, released, cancelled, expired, revoked,
    /// forced, lock-closed, lock-opened, member, leader
    #[arg(long = "kind", value_name = "KIND,...", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Begin with the first change at or after this position, as an earlier line shows it; `oldest`: with the oldest change
    /// that the servers still have
    #[arg(long, value_name = "POSITION")]
    from: Option<String>,
    /// End after what the server has now; without --from, begin with the oldest change
    #[arg(long)]
    no_follow: bool,
    /// Print a JSON object on each line
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let prefix = typed_bytes("prefix", &args.prefix, args.escaped)?;
    let kinds = args.kinds.iter().map(|word| word.trim().parse()).collect::<Result<Vec<Kind>, _>>();
    let kinds = kinds.map_err(Failure::bad_input)?;
    let start = match args.from.as_deref() {
        Some("oldest") => Start::Oldest,
        Some(position) => Start::Position(position.parse().map_err(Failure::bad_input)?),
        None if args.no_follow => Start::Oldest,
        None => Start::Now,
    };
    block_on(async {
        let client = args.server.connect().await?;
        let follow = client.changes().kinds(kinds).prefix(prefix).start(start).end_at_the_end(args.no_follow);
        let mut changes = follow.follow().await.map_err(not_followed)?;
        while let Some(heard) = changes.next().await.map_err(not_followed)? {
            let text = if args.json { to_json(&heard)? } else { to_text(&heard) };
            tell(&heard);
            if !text.is_empty() && !print_while_read(&text)? {
                break;
            }
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What the user has got wrong, or that no server answers.
pub fn not_followed(error: CallError) -> Failure {
    match error {
        CallError::Refused { kind: CallRefusal::Invalid | CallRefusal::NotYet, message } => Failure::bad_input(message),
        CallError::Refused { kind: CallRefusal::Unsupported, .. } => {
            Failure::bad_input("the server is older than this client, and has no feed of changes; upgrade it")
        }
        error => no_server(error),
    }
}

/// Says on standard error what has become of the reading.
pub fn tell(heard: &Heard) {
    match heard {
        Heard::Gone { oldest } => warn(format!(
            "the changes before {oldest} are not kept any more; here is what is there now, and then what changes"
        )),
        Heard::TooSlow => warn("the server had to cut this reader, because it was too slow; it goes on"),
        Heard::Lost { why } => warn(format!("lost {why}; looking for a server")),
        Heard::Back { server } => warn(format!("goes on at {server}")),
        Heard::Event(_) | Heard::Listing(_) => {}
    }
}

fn to_text(heard: &Heard) -> String {
    match heard {
        Heard::Event(event) => line(event) + "\n",
        Heard::Listing(listing) => listing_text(listing),
        _ => String::new(),
    }
}

/// `12:03:04  1042.0    granted         deploy: nightly (web1:4711), fence 17, waited 2.1 s`
fn line(event: &Event) -> String {
    let position = event.position.short().to_string();
    format!("{}  {position:<8}  {:<14}  {}", time(event.at_ms), event.kind, about(event))
}

/// The time of day in UTC.
fn time(at_ms: u64) -> String {
    let seconds = at_ms / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Empty if the change is about no session.
fn who(event: &Event) -> String {
    event.who.as_ref().map_or_else(String::new, |who| {
        let process = shown(&place(&who.host, who.pid));
        if who.label.is_empty() { process } else { format!("{} ({process})", shown(&who.label)) }
    })
}

fn about(event: &Event) -> String {
    let names: Vec<String> = event.locks().iter().map(|name| shown(&name::shown(&name.0).0)).collect();
    let (names, who) = (names.join(", "), who(event));
    let by = event.by.as_ref().map(|by| format!(", by an operator at {}", shown(by))).unwrap_or_default();
    match &event.about {
        About::Session { after: Some(after), .. } => format!("{who}, ttl {}", duration(after.ttl_ms)),
        About::Session { why, held_count, .. } => {
            let more = held_count.saturating_sub(event.locks().len() as u64);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let held = if *held_count > 0 { format!(", held {names}{more}") } else { String::new() };
            format!("{who}, {}{held}", session_why(*why))
        }
        About::Claim { before, after, why, .. } => {
            let how = claim(event.kind, event.at_ms, before.as_ref(), after.as_ref(), *why);
            format!("{names}: {who}{how}{by}")
        }
        About::Lock { after: Some(after), .. } => {
            format!("{names} for {}, after {who} expired", duration(after.delay_ms))
        }
        About::Lock { .. } => format!("{names}{by}"),
        About::Member { node, before, after } => member(*node, before.as_ref(), after.as_ref()),
        About::Leader { before, after } => {
            let before = before.as_ref().map(|before| format!(", after {}", leader(before))).unwrap_or_default();
            let after = after.as_ref().map_or_else(|| "none".to_owned(), leader);
            format!("{after}{before}")
        }
    }
}

fn session_why(why: Option<Why>) -> &'static str {
    match why {
        Some(Why::Expired) => "its lease ended",
        _ => "closed",
    }
}

fn claim(kind: Kind, at_ms: u64, before: Option<&ClaimValue>, after: Option<&ClaimValue>, why: Option<Why>) -> String {
    let fence = |value: Option<&ClaimValue>| {
        value.and_then(|value| value.fence).map(|fence| format!(", fence {fence}")).unwrap_or_default()
    };
    let since = |value: Option<&ClaimValue>| value.map_or(0, |value| at_ms.saturating_sub(value.since_ms));
    match kind {
        Kind::Queued => String::new(),
        Kind::Granted if before.is_some() => format!("{}, waited {}", fence(after), duration(since(before))),
        Kind::Granted | Kind::Revoked => fence(after),
        Kind::Cancelled => {
            let why = match why {
                Some(Why::TimedOut) => ", timed out",
                Some(Why::Closed) => ", session closed",
                _ => "",
            };
            format!("{why}, waited {}", duration(since(before)))
        }
        _ if before.is_some_and(|before| before.fence.is_none()) => format!(", waited {}", duration(since(before))),
        _ => format!("{}, held {}", fence(before), duration(since(before))),
    }
}

fn member(node: u64, before: Option<&MemberValue>, after: Option<&MemberValue>) -> String {
    let role = |member: &MemberValue| if member.voter { "voter" } else { "learner" };
    let called = |member: &MemberValue| format!("{} ({node})", shown(&member.name));
    match (before, after) {
        (None, Some(after)) => format!("{} added as {}", called(after), role(after)),
        (Some(before), None) => format!("{} removed", called(before)),
        (Some(before), Some(after)) if before.voter != after.voter => {
            format!("{} is {} now", called(after), role(after))
        }
        (Some(_), Some(after)) => {
            format!(
                "{} is at {}, for clients at {}",
                called(after),
                shown(&after.peer_address),
                shown(&after.client_address)
            )
        }
        (None, None) => format!("node {node}"),
    }
}

fn leader(leader: &LeaderValue) -> String {
    format!("{} in term {}", shown(&leader.name), leader.term)
}

fn listing_text(listing: &Listing) -> String {
    let mut text = String::new();
    for lock in &listing.locks {
        let name = shown(&name::shown(&lock.name).0);
        for holder in &lock.holders {
            let process = shown(&place(&holder.host, holder.pid));
            text += &format!("there: {name} held by {} ({process})\n", shown(&holder.label));
        }
        for waiter in &lock.waiters {
            text += &format!("there: {name} waited for by {}\n", shown(&waiter.label));
        }
    }
    for session in &listing.sessions {
        let process = shown(&place(&session.host, session.pid));
        text += &format!("there: session {} ({process})\n", shown(&session.label));
    }
    for (node, value) in &listing.members {
        text += &format!("there: member {} ({node})\n", shown(&value.name));
    }
    if let Some(value) = &listing.leader {
        text += &format!("there: leader {}\n", leader(value));
    }
    text
}

/// What is there, as a line of JSON.
#[derive(Serialize)]
struct There {
    kind: &'static str,
    /// The position of the first change that is not in it.
    next: Option<Position>,
    locks: Vec<Lock>,
    sessions: Vec<Session>,
    members: Vec<MemberValue>,
    leader: Option<LeaderValue>,
}

#[derive(Serialize)]
struct Note<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest: Option<Position>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

fn to_json(heard: &Heard) -> Result<String, Failure> {
    let json = match heard {
        Heard::Event(event) => serde_json::to_string(event),
        Heard::Listing(listing) => {
            let Listing { locks, sessions, members, leader, next } = Listing::clone(listing);
            serde_json::to_string(&There {
                kind: "listing",
                next,
                locks,
                sessions,
                members: members.into_iter().map(|(_, value)| value).collect(),
                leader,
            })
        }
        Heard::Gone { oldest } => serde_json::to_string(&Note { kind: "gone", oldest: Some(*oldest), why: None }),
        Heard::TooSlow | Heard::Lost { .. } | Heard::Back { .. } => return Ok(String::new()),
    };
    json.map(|line| line + "\n").map_err(Failure::bad_input)
}

#[cfg(test)]
mod tests {
    use baton_client::events::{ClaimedLock, Name, Who};

    use super::*;

    fn granted(label: &str, lock: &[u8]) -> Event {
        let who = Who { session: 1, label: label.into(), host: "web1".into(), pid: 4711, from: None };
        Event {
            position: "00000000000000ab:1042.0".parse().unwrap(),
            at_ms: 43_384_000,
            kind: Kind::Granted,
            revision: Some(7),
            who: Some(who),
            by: None,
            about: About::Claim {
                acquire: 1,
                owner: 2,
                locks: vec![ClaimedLock { lock: Name(lock.to_vec()), mode: Default::default() }],
                before: Some(ClaimValue { fence: None, since_ms: 43_382_000, revoked: false }),
                after: Some(ClaimValue { fence: Some(17), since_ms: 43_384_000, revoked: false }),
                why: None,
            },
        }
    }

    #[test]
    fn a_change_is_one_line_also_with_hostile_names() {
        let told = line(&granted("nightly", b"deploy"));
        assert_eq!(told, "12:03:04  1042.0    granted         deploy: nightly (web1:4711), fence 17, waited 2.0 s");
        let told = line(&granted("a\nb\x1b[31m", b"x\n\x07\xff"));
        assert!(!told.contains(char::is_control), "{told:?}");
        let json = to_json(&Heard::Event(Box::new(granted("a\nb", b"x\n")))).unwrap_or_default();
        assert_eq!(json.lines().count(), 1);
    }

    #[test]
    fn json_has_the_values_before_and_after() {
        let json = to_json(&Heard::Event(Box::new(granted("nightly", b"caf\xe9")))).unwrap_or_default();
        assert_eq!(
            json,
            concat!(
                r#"{"position":"00000000000000ab:1042.0","at_ms":43384000,"kind":"granted","revision":7,"#,
                r#""who":{"session":"0000000000000001","label":"nightly","host":"web1","pid":4711,"from":null},"#,
                r#""acquire":1,"owner":"0000000000000002","#,
                r#""locks":[{"name":"caf\\xe9","escaped":true,"mode":"exclusive"}],"#,
                r#""before":{"fence":null,"since_ms":43382000,"revoked":false},"#,
                r#""after":{"fence":17,"since_ms":43384000,"revoked":false}}"#,
                "\n"
            )
        );
    }
}
