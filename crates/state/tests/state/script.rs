//! Transcripts: one command per line, and below it, indented, its effects.
//!
//!     open a [ttl 5000] | resume a
//!     acquire a 1 deploy x|s|p3 [owner 7] [parent b] [timeout 100] [delay 50] [seen 4] [missing 1,3] [from eve]
//!     acquire a 1 one,two:s,three:p3 x             several locks; the last word is the mode of those without one
//!     release a 2 1 | cancel a 2 1 | close a 2     the numbers of the request and of the acquire
//!     expire a [term 2] | lead 2 | end-delay deploy 1 | cancel-wait a 1 | force deploy [now]
//!     lock deploy | session a | ended a | claims a | timers | counts | revision
//!     waiters deploy | claimed a | known a 1       number of waiters, number of claimed locks, whether the request is known
//!     changes                                      of the last command: index, position, revision, before -> after
//!     leads 7 [name] | feed                        a node begins to lead; the kept changes
//!     max-ttl 5000 | fences-from 7                  of the cluster
//!     closed 1500 | waited 1500 500                the cluster is closed for so long; its leader has waited a step
//!     begin-anew 7 | begin-anew 7 1500             with fences from 7; closed until all leases have ended, or for so long
//!     gated                                        as the first line: a peer group grants
//!     admit deploy 7 | deny deploy                 for a peer group: with this fence; for the reason "no"
//!
//! A session has one letter. Its owner has the same letter, unless the command names another owner. A parent is a
//! letter or a number. Names of locks are in the escaped form. The first command has index 101 and comes at 1 ms; the
//! next has index 102 and comes at 2 ms.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use baton_state::state::cluster;
use baton_state::state::feed::{KeptChange, KeptWhat, Leader, Place};
use baton_state::state::locks::{self, Acquire, Claim, Delay, Grants, LockName, Mode, Refusal, Want};
use baton_state::state::sessions::{self, Open};
use baton_state::state::{
    Answer, Caller, Cause, Change, Command, Effect, Operation, Outcome, OwnerId, PendingTimers, Principal, Record,
    Request, RequestNumber, SessionId, State, Timer, What,
};
use baton_types::limits::TTL_MS_MAX;
use baton_types::name::parse_escaped;
use expect_test::Expect;

/// Plays a transcript and compares the result. `UPDATE_EXPECT=1` writes the result into the test.
pub fn check(transcript: Expect) {
    transcript.assert_eq(&Script::play(transcript.data()));
}

/// A state and the time, which advances by a millisecond per command.
#[derive(Default)]
pub struct Script {
    pub state: State,
    grants: Grants,
    now_ms: u64,
    changes: Vec<Change>,
}

impl Script {
    /// Plays the commands of a transcript. Returns them with their effects.
    fn play(text: &str) -> String {
        let mut script = Script::default();
        let mut out = String::new();
        let indent = |line: &str| line.len() - line.trim_start().len();
        let lines = || text.lines().filter(|line| !line.trim().is_empty());
        let outermost = lines().map(indent).min().unwrap_or(0);
        for line in lines().filter(|line| indent(line) == outermost).map(str::trim) {
            writeln!(out, "{line}").unwrap();
            for said in script.line(line) {
                writeln!(out, "    {said}").unwrap();
            }
        }
        out
    }

    pub fn line(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["lock", name] => self.lock(name),
            ["session", id] => self.session(id),
            ["claims", id] => self.claims(id),
            ["timers"] => vec![show_timers(&self.state.pending_timers())],
            ["waiters", lock] => vec![self.state.waiters_of(parse_escaped(lock).unwrap()).to_string()],
            ["claimed", id] => vec![self.state.claimed_by(session(id)).to_string()],
            ["known", id, number] => {
                vec![self.state.request_known(session(id), number.parse().unwrap()).to_string()]
            }
            ["ended", id] => vec![self.state.has_ended(session(id)).to_string()],
            ["counts"] => vec![format!("{:?}", self.state.counts())],
            ["revision"] => vec![self.state.revision().to_string()],
            ["changes"] => self.changes.iter().map(show_change).collect(),
            ["feed"] => self.state.feed().from(Place::default()).map(show_kept).collect(),
            ["gated"] => {
                self.grants = Grants::ByGroup;
                vec![]
            }
            ["closed", closed_ms] => {
                let (secret, closed_ms) = (None, closed_ms.parse().unwrap());
                let closed = cluster::Record::Cluster { secret, max_ttl_ms: TTL_MS_MAX, closed_ms };
                let records = self.state.records().chain([Record::Cluster(closed)]);
                self.state = State::restore(records.map(Ok::<_, String>)).unwrap();
                vec![]
            }
            ["admit", lock, fence] => {
                let fence = fence.parse().unwrap();
                self.outside(line, |state, index, now_ms| state.admit(index, now_ms, &name(lock), fence))
            }
            ["deny", lock] => {
                self.outside(line, |state, index, now_ms| state.deny(index, now_ms, &name(lock), "no".to_owned()))
            }
            _ => {
                let command = command(&words).unwrap_or_else(|| panic!("no such command: {line}"));
                let effects = self.apply(&command);
                assert_eq!(self.state.check_by(self.grants), Ok(()), "after {line}");
                effects.iter().map(show).collect()
            }
        }
    }

    pub fn apply(&mut self, command: &Command) -> Vec<Effect> {
        let grants = self.grants;
        self.change(|state, index, now_ms| {
            let mut outcome = Outcome::default();
            state.apply_by(grants, index, now_ms, command, &mut outcome);
            outcome
        })
    }

    fn outside(&mut self, line: &str, change: impl FnOnce(&mut State, u64, u64) -> Outcome) -> Vec<String> {
        let effects = self.change(change);
        assert_eq!(self.state.check_by(self.grants), Ok(()), "after {line}");
        effects.iter().map(show).collect()
    }

    fn change(&mut self, change: impl FnOnce(&mut State, u64, u64) -> Outcome) -> Vec<Effect> {
        self.now_ms += 1;
        let outcome = change(&mut self.state, self.now_ms + 100, self.now_ms);
        self.changes = outcome.changes.into_vec();
        outcome.effects.into_vec()
    }

    fn lock(&self, name: &str) -> Vec<String> {
        let Some(lock) = self.state.lock(parse_escaped(name).unwrap()) else { return vec!["forgotten".into()] };
        let mut out = vec![format!("permits {}", lock.permits())];
        out.extend(lock.delay().map(|delay| format!("closed, {}", show_delay(&delay))));
        out.extend(lock.holders().map(|holder| {
            let revoked = if holder.revoked { ", revoked" } else { "" };
            let who = (letter(holder.session), holder.acquire);
            format!("held by {} {}, fence {}, since {}{revoked}", who.0, who.1, holder.fence, holder.since_ms)
        }));
        out.extend(lock.waiters().map(|waiter| {
            let who = (letter(waiter.session), waiter.acquire);
            format!("{}. {} {} waits since {}", waiter.position, who.0, who.1, waiter.since_ms)
        }));
        out.extend(lock.history().iter().map(|past| {
            let who = (letter(past.session), past.fence);
            format!("was {}'s, fence {}, {} to {}, {:?}", who.0, who.1, past.from_ms, past.to_ms, past.ended)
        }));
        out
    }

    fn session(&self, id: &str) -> Vec<String> {
        let Some(view) = self.state.session(session(id)) else { return vec!["none".into()] };
        let names = |names: Vec<&LockName>| names.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let (holds, waits) = (names(view.holds().collect()), names(view.waits().collect()));
        vec![format!("{}, ttl {} ms, holds [{holds}], waits [{waits}]", view.session.who.label, view.session.ttl_ms)]
    }

    fn claims(&self, id: &str) -> Vec<String> {
        let Some(view) = self.state.session(session(id)) else { return vec!["none".into()] };
        let show = |claim: &Claim| {
            let entered = (claim.ticket, claim.revision);
            format!("{}, ticket {}, revision {}: {}", show_key(claim), entered.0, entered.1, show_claim(claim))
        };
        view.claims().map(show).collect()
    }
}

fn name(escaped: &str) -> LockName {
    LockName::from(&parse_escaped(escaped).unwrap())
}

/// A session, by its letter.
pub fn session(name: &str) -> SessionId {
    SessionId(u64::from(name.as_bytes()[0]))
}

fn letter(session: SessionId) -> char {
    char::from(session.0 as u8)
}

pub fn request(id: SessionId, number: RequestNumber, seen: RequestNumber, operation: locks::Operation) -> Command {
    let operation = Operation::Locks(operation);
    Command::Request(Request { session: id, number, seen, missing: vec![], caller: Caller::default(), operation })
}

/// An acquire of one lock for owner 1 that waits without a limit.
pub fn acquire(lock: &str) -> locks::Operation {
    locks::Operation::Acquire(Acquire::one(lock, Mode::Exclusive, OwnerId(1)))
}

/// Parses a command.
pub fn command(words: &[&str]) -> Option<Command> {
    let number = |text: &str| text.parse::<u64>().ok();
    let name = |text: &str| Some(LockName::from(&parse_escaped(text).ok()?));
    let after = |name: &str| words.iter().skip_while(|word| **word != name).nth(1).copied();
    let option = |name: &str| after(name).and_then(number);
    let caller = || {
        let named = |name: &str| Principal::Named(name.into());
        after("from").map_or_else(Caller::default, |name| Caller {
            principal: named(name),
            from: Some(SocketAddr::from(([10, 0, 0, 1], name.len() as u16))),
        })
    };
    let request = |id: &str, of: &str, operation: Operation| {
        let missing = after("missing").map_or(Some(vec![]), |numbers| numbers.split(',').map(number).collect())?;
        let (session, number, seen) = (session(id), number(of)?, option("seen").unwrap_or(0));
        Some(Command::Request(Request { session, number, seen, missing, caller: caller(), operation }))
    };
    let locks = |operation| Operation::Locks(operation);
    match *words {
        ["lead", term] => Some(sessions::Command::Lead { term: number(term)? }.into()),
        [word @ ("open" | "resume"), id, ..] => {
            let open = Open {
                session: session(id),
                ttl_ms: option("ttl").unwrap_or(10_000),
                label: id.to_uppercase(),
                host: "host".into(),
                pid: 1,
                resume: word == "resume",
                secret_hash: None,
                caller: caller(),
            };
            Some(sessions::Command::Open(open).into())
        }
        ["acquire", id, of, names, mode_of_others, ..] => {
            let want = |text: &str| {
                let (lock, own) = text.split_once(':').unwrap_or((text, mode_of_others));
                Some(Want { lock: name(lock)?, mode: mode(own)? })
            };
            let acquire = Acquire {
                wants: names.split(',').map(want).collect::<Option<_>>()?,
                owner: OwnerId(option("owner").unwrap_or(session(id).0)),
                parent: after("parent").map(|name| OwnerId(number(name).unwrap_or_else(|| session(name).0))),
                timeout_ms: option("timeout"),
                lock_delay_ms: option("delay").unwrap_or(0),
            };
            request(id, of, locks(locks::Operation::Acquire(acquire)))
        }
        ["release", id, of, acquire, ..] => {
            request(id, of, locks(locks::Operation::Release { acquire: number(acquire)? }))
        }
        ["cancel", id, of, acquire, ..] => {
            request(id, of, locks(locks::Operation::Cancel { acquire: number(acquire)? }))
        }
        ["close", id, of, ..] => request(id, of, Operation::Close),
        ["expire", id, ..] => {
            Some(sessions::Command::Expire { session: session(id), term: option("term").unwrap_or(0) }.into())
        }
        ["end-delay", lock, generation] => {
            Some(locks::Command::EndLockDelay { lock: name(lock)?, generation: number(generation)? }.into())
        }
        ["cancel-wait", id, of] => {
            Some(locks::Command::CancelWait { session: session(id), number: number(of)? }.into())
        }
        ["max-ttl", max_ttl_ms] => Some(cluster::Command::SetMaxTtl { max_ttl_ms: number(max_ttl_ms)? }.into()),
        ["leads", node, ref name @ ..] => {
            let (node, name) = (number(node)?, name.concat().into());
            Some(cluster::Command::Leads(Leader { node, name, term: node }).into())
        }
        ["begin-anew", from] => Some(begin_anew(number(from)?, None)),
        ["begin-anew", from, wait_ms] => Some(begin_anew(number(from)?, Some(number(wait_ms)?))),
        ["fences-from", from] => Some(cluster::Command::RaiseFences { from: number(from)? }.into()),
        ["waited", from_ms, to_ms] => {
            Some(cluster::Command::Waited { from_ms: number(from_ms)?, to_ms: number(to_ms)? }.into())
        }
        ["force", lock] => Some(locks::Command::Force { lock: name(lock)?, now: false, caller: caller() }.into()),
        ["force", lock, "now"] => Some(locks::Command::Force { lock: name(lock)?, now: true, caller: caller() }.into()),
        _ => None,
    }
}

fn mode(text: &str) -> Option<Mode> {
    match text.split_at_checked(1)? {
        ("x", "") => Some(Mode::Exclusive),
        ("s", "") => Some(Mode::Shared),
        ("p", of) => Some(Mode::Permit { of: of.parse().ok()? }),
        _ => None,
    }
}

fn begin_anew(fence_from: u64, wait_ms: Option<u64>) -> Command {
    cluster::Command::BeginAnew { secret: cluster::Secret([7; 32]), fence_from, wait_ms }.into()
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Opened { session, ttl_ms } => format!("{} open, ttl {ttl_ms} ms", letter(*session)),
        Effect::Answer { session, number, answer } => format!("{} {number}: {}", letter(*session), show_answer(answer)),
        Effect::Ended { session, reason } => format!("{} ended, {reason:?}", letter(*session)),
        Effect::Cluster(cluster::Effect::Closed { left_ms }) => format!("cluster closed, {left_ms} ms"),
        Effect::Locks(locks::Effect::Revoked { session, acquire }) => format!("{} {acquire} revoked", letter(*session)),
        Effect::Locks(locks::Effect::Forced { lock, holders }) => {
            let show = |holder: &locks::ForcedHolder| {
                format!("{} (fence {}, since {})", letter(holder.session), holder.fence, holder.since_ms)
            };
            let holders: Vec<String> = holders.iter().map(show).collect();
            if holders.is_empty() {
                format!("{lock} forced: nobody holds it")
            } else {
                format!("{lock} forced: {}", holders.join(", "))
            }
        }
        Effect::Locks(locks::Effect::Waits { session, number, timeout_ms }) => {
            format!("{} {number} waits, at most {timeout_ms} ms", letter(*session))
        }
        Effect::Locks(locks::Effect::LockDelay { lock, generation, delay_ms }) => {
            format!("{lock} closed, generation {generation}, {delay_ms} ms")
        }
        Effect::Counter(effect) => format!("{effect:?}"),
    }
}

fn show_answer(answer: &Answer) -> String {
    match answer {
        Answer::Locks(locks::Answer::Granted { fence }) => format!("granted, fence {fence}"),
        Answer::Locks(locks::Answer::Refused(Refusal::Deadlock(cycle))) => {
            let steps: Vec<String> = cycle.iter().map(|step| format!("{} -> {}", step.label, step.lock)).collect();
            format!("deadlock: {}", steps.join(", "))
        }
        Answer::Locks(locks::Answer::Refused(refusal)) => format!("{refusal}"),
        Answer::Refused(refusal) => format!("{refusal}"),
        Answer::Locks(answer) => format!("{answer:?}"),
        Answer::Closed => "Closed".to_owned(),
        Answer::Counter(answer) => format!("{answer:?}"),
    }
}

fn show_timers(pending: &PendingTimers) -> String {
    let (mut waits, mut delays) = (Vec::new(), Vec::new());
    for (timer, ms) in &pending.timers {
        match timer {
            Timer::Locks(locks::Timer::Wait { session, number }) => waits.push((*session, *number, *ms)),
            Timer::Locks(locks::Timer::Delay { lock, generation }) => delays.push((lock.clone(), *generation, *ms)),
            other => panic!("{other:?}"),
        }
    }
    let PendingTimers { sessions, closed_ms, .. } = pending;
    format!(
        "PendingTimers {{ sessions: {sessions:?}, waits: {waits:?}, delays: {delays:?}, closed_ms: {closed_ms:?} }}"
    )
}

fn show_change(change: &Change) -> String {
    fn pair<T>(before: Option<T>, after: Option<T>, show: impl Fn(T) -> String) -> String {
        let show = |side: Option<T>| side.map_or_else(|| "nothing".to_owned(), &show);
        format!("{} -> {}", show(before), show(after))
    }
    let what = match &change.what {
        What::Session { id, before, after, .. } => {
            let show = |session: &sessions::Session| format!("{}, ttl {} ms", session.who.label, session.ttl_ms);
            format!("session {}: {}", letter(*id), pair(before.as_deref(), after.as_deref(), show))
        }
        What::Locks(locks::What::Claim { before, after }) => {
            let claim = before.as_ref().or(after.as_ref()).expect("a change of something");
            format!("claim {}: {}", show_key(claim), pair(before.as_deref(), after.as_deref(), show_claim))
        }
        What::Locks(locks::What::Delay { lock, before, after }) => {
            format!("delay of {lock}: {}", pair(before.as_ref(), after.as_ref(), show_delay))
        }
        other => format!("{other:?}"),
    };
    let revision = change.revision.map(|revision| format!(" revision {revision}")).unwrap_or_default();
    format!("{}.{}{revision} {what}", change.index, change.position)
}

/// Place, kind, session, what it is about, and why.
fn show_kept(change: &KeptChange) -> String {
    let pair = |before: &Option<_>, after: &Option<_>| {
        let show =
            |side: &Option<_>| side.as_ref().map_or("nothing".to_owned(), |claim: &Arc<Claim>| show_claim(claim));
        format!("{} -> {}", show(before), show(after))
    };
    let (what, cause) = match &change.what {
        KeptWhat::Opened { ttl_ms, .. } => (format!("ttl {ttl_ms} ms"), &None),
        KeptWhat::Ended(end) => {
            let names: Vec<String> = end.held.names.iter().map(ToString::to_string).collect();
            (format!("held {} [{}]", end.held.count, names.join(", ")), &end.cause)
        }
        KeptWhat::Claim { before, after, cause } => {
            let claim = after.as_ref().or(before.as_ref()).expect("a change of something");
            (format!("{}: {}", show_key(claim), pair(before, after)), cause)
        }
        KeptWhat::Lock(change) => {
            let show = |delay: Option<Delay>| delay.as_ref().map_or("open".to_owned(), show_delay);
            (format!("{}: {} -> {}", change.lock, show(change.before), show(change.after)), &change.cause)
        }
        KeptWhat::Member(change) => (format!("{change:?}"), &None),
        KeptWhat::Leader { before, after } => {
            let show = |leader: &Leader| format!("node {} {} in term {}", leader.node, leader.name, leader.term);
            (format!("{} -> {}", before.as_deref().map_or("nothing".to_owned(), show), show(after)), &None)
        }
    };
    let who = change.who.as_ref().map(|who| format!(" {}", letter(who.session))).unwrap_or_default();
    let cause = cause.as_ref().map(|cause| match cause {
        Cause::Forced(by) => format!(", forced by {by:?}"),
        cause => format!(", {cause:?}"),
    });
    let Place { index, number } = change.place;
    format!("{index}.{number} {}{who} {what}{}", change.kind(), cause.unwrap_or_default())
}

/// Session, number and wants of a claim.
fn show_key(claim: &Claim) -> String {
    let show = |want: &Want| match want.mode {
        Mode::Exclusive => format!("{} x", want.lock),
        Mode::Shared => format!("{} s", want.lock),
        Mode::Permit { of } => format!("{} p{of}", want.lock),
    };
    let wants: Vec<String> = claim.wants.iter().map(show).collect();
    format!("{} {} ({})", letter(claim.session), claim.number, wants.join(", "))
}

fn show_claim(claim: &Claim) -> String {
    let revoked = if claim.revoked { ", revoked" } else { "" };
    match (claim.fence, claim.timeout_ms) {
        (Some(fence), _) => format!("fence {fence} since {}{revoked}", claim.since_ms),
        (None, Some(timeout_ms)) => format!("waits since {}, at most {timeout_ms} ms", claim.since_ms),
        (None, None) => format!("waits since {}", claim.since_ms),
    }
}

fn show_delay(delay: &Delay) -> String {
    format!("generation {}, {} ms", delay.generation, delay.delay_ms)
}
