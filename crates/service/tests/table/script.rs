//! Transcripts: commands, one a line, and under each, indented, what followed.
//!
//!     open a [ttl 5000] | resume a
//!     acquire a 1 deploy x|s|p3 [owner 7] [timeout 100] [delay 50] [seen 4] [missing 1,3]
//!     release a 2 1 | cancel a 2 1 | close a 2      the numbers: of the request, and of the acquire it speaks of
//!     expire a [term 2] | lead 2 | end-delay deploy 1 | cancel-wait a 1 | force deploy [now]
//!     lock deploy | session a | timers | counts
//!
//! Sessions have one letter; their owner, unless another is named, has the same.

use std::fmt::Write;

use expect_test::Expect;

use baton_service::table::{
    Answer, Command, Effect, Mode, Operation, OwnerId, Refusal, RequestNumber, SessionId, Table,
};

/// Plays a transcript and compares. `UPDATE_EXPECT=1` writes down what came out.
pub fn check(transcript: Expect) {
    transcript.assert_eq(&Script::play(transcript.data()));
}

/// A table and the time, which goes on by a millisecond a command.
#[derive(Default)]
pub struct Script {
    pub table: Table,
    now_ms: u64,
}

impl Script {
    /// Plays the commands of a transcript; gives them back with what followed.
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

    /// Plays one command.
    pub fn line(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["lock", name] => self.lock(name),
            ["session", id] => self.session(id),
            ["timers"] => vec![format!("{:?}", self.table.pending_timers())],
            ["counts"] => vec![format!("{:?}", self.table.counts())],
            _ => {
                let command = command(&words).unwrap_or_else(|| panic!("no such command: {line}"));
                self.apply(&command).iter().map(show).collect()
            }
        }
    }

    /// Applies one command.
    pub fn apply(&mut self, command: &Command) -> Vec<Effect> {
        self.now_ms += 1;
        let mut effects = Vec::new();
        self.table.apply(self.now_ms, command, &mut effects);
        effects
    }

    fn lock(&self, name: &str) -> Vec<String> {
        let Some(lock) = self.table.lock(name) else { return vec!["forgotten".into()] };
        let mut out = vec![format!("permits {}", lock.permits())];
        out.extend(lock.delay().map(|delay| format!("closed, generation {}, {} ms", delay.generation, delay.delay_ms)));
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
        let Some(session) = self.table.session(session(id)) else { return vec!["none".into()] };
        let names = |names: Vec<&str>| names.join(" ");
        let (holds, waits) = (names(session.holds().collect()), names(session.waits().collect()));
        vec![format!("{}, ttl {} ms, holds [{holds}], waits [{waits}]", session.label, session.ttl_ms)]
    }
}

/// A session, by its letter.
pub fn session(name: &str) -> SessionId {
    SessionId(u64::from(name.as_bytes()[0]))
}

fn letter(session: SessionId) -> char {
    char::from(session.0 as u8)
}

fn command(words: &[&str]) -> Option<Command> {
    let number = |text: &str| text.parse::<u64>().ok();
    let option = |name: &str| {
        let at = words.iter().position(|&word| word == name)?;
        number(words.get(at + 1)?)
    };
    let request = |id: &str, of: &str, operation: Operation| {
        let seen = option("seen").unwrap_or(0);
        let missing = words.iter().skip_while(|&&word| word != "missing").nth(1);
        let missing = missing.map_or(Some(vec![]), |numbers| numbers.split(',').map(number).collect())?;
        Some(Command::Request { session: session(id), number: number(of)?, seen, missing, operation })
    };
    match *words {
        ["lead", term] => Some(Command::Lead { term: number(term)? }),
        [word @ ("open" | "resume"), id, ..] => Some(Command::Open {
            session: session(id),
            ttl_ms: option("ttl").unwrap_or(10_000),
            label: id.to_uppercase(),
            host: "host".into(),
            pid: 1,
            resume: word == "resume",
        }),
        ["acquire", id, of, lock, mode, ..] => {
            let mode = match mode.split_at(1) {
                ("x", "") => Mode::Exclusive,
                ("s", "") => Mode::Shared,
                ("p", of) => Mode::Permit { of: of.parse().ok()? },
                _ => return None,
            };
            let owner = OwnerId(option("owner").unwrap_or(session(id).0));
            let (timeout_ms, lock_delay_ms) = (option("timeout"), option("delay").unwrap_or(0));
            request(id, of, Operation::Acquire { lock: lock.into(), mode, owner, timeout_ms, lock_delay_ms })
        }
        ["release", id, of, acquire, ..] => request(id, of, Operation::Release { acquire: number(acquire)? }),
        ["cancel", id, of, acquire, ..] => request(id, of, Operation::Cancel { acquire: number(acquire)? }),
        ["close", id, of, ..] => request(id, of, Operation::Close),
        ["expire", id, ..] => Some(Command::Expire { session: session(id), term: option("term").unwrap_or(0) }),
        ["end-delay", lock, generation] => {
            Some(Command::EndLockDelay { lock: lock.into(), generation: number(generation)? })
        }
        ["cancel-wait", id, of] => Some(Command::CancelWait { session: session(id), number: number(of)? }),
        ["force", lock] => Some(Command::Force { lock: lock.into(), now: false }),
        ["force", lock, "now"] => Some(Command::Force { lock: lock.into(), now: true }),
        _ => None,
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Opened { session, ttl_ms } => format!("{} open, ttl {ttl_ms} ms", letter(*session)),
        Effect::Answer { session, number, answer } => format!("{} {number}: {}", letter(*session), show_answer(answer)),
        Effect::Revoked { session, acquire } => format!("{} {acquire} revoked", letter(*session)),
        Effect::Ended { session, reason } => format!("{} ended, {reason:?}", letter(*session)),
        Effect::Waits { session, number, timeout_ms } => {
            format!("{} {number} waits, at most {timeout_ms} ms", letter(*session))
        }
        Effect::LockDelay { lock, generation, delay_ms } => {
            format!("{lock} closed, generation {generation}, {delay_ms} ms")
        }
    }
}

fn show_answer(answer: &Answer) -> String {
    match answer {
        Answer::Granted { fence } => format!("granted, fence {fence}"),
        Answer::Refused(Refusal::Deadlock(cycle)) => {
            let steps: Vec<String> = cycle.iter().map(|step| format!("{} -> {}", step.label, step.lock)).collect();
            format!("deadlock: {}", steps.join(", "))
        }
        Answer::Refused(refusal) => format!("{refusal}"),
        answer => format!("{answer:?}"),
    }
}

/// A request of a session.
pub fn request(id: SessionId, number: RequestNumber, seen: RequestNumber, operation: Operation) -> Command {
    Command::Request { session: id, number, seen, missing: vec![], operation }
}
