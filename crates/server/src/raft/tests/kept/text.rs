//! Prints a state as text for the kept folders: see `tests/kept/format-3/README.md`. The text is the same as the old
//! version printed.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::state::locks::{self, Acquire, LockName, Mode, Refusal};
use crate::state::sessions::{self, Open};
use crate::state::{Answer, Caller, Command, Effect, Operation, Outcome, OwnerId, Request, SessionId, State, Timer};

/// Everything visible of a state, one fact per line.
pub fn seen(state: &State) -> String {
    let counts = state.counts();
    let mut out = format!(
        "term {}\nnow_ms {}\nlast_fence {}\ncount locks {}\ncount sessions {}\ncount holders {}\ncount waiters {}\n",
        state.term(),
        state.now_ms(),
        state.last_fence(),
        counts.locks,
        counts.sessions,
        counts.holders,
        counts.waiters
    );
    see_locks(state, &mut out);
    for view in state.sessions() {
        let (id, session) = (view.id.0, view.session);
        let (ttl_ms, label, host, pid) = (session.ttl_ms, &session.who.label, &session.who.host, session.who.pid);
        writeln!(out, "session {id} ttl_ms {ttl_ms} label {label:?} host {host:?} pid {pid}").unwrap();
        view.holds().for_each(|lock| writeln!(out, "session {id} holds {lock:?}").unwrap());
        view.waits().for_each(|lock| writeln!(out, "session {id} waits {lock:?}").unwrap());
    }
    see_timers(state, &mut out);
    out
}

fn see_locks(state: &State, out: &mut String) {
    for lock in state.locks() {
        let name = lock.name();
        let mode = lock.mode().map_or("none".to_owned(), mode_word);
        writeln!(out, "lock {name:?} used {} permits {} mode {mode}", lock.is_used(), lock.permits()).unwrap();
        if let Some(locks::Delay { generation, delay_ms, since_ms }) = lock.delay() {
            writeln!(out, "lock {name:?} delay generation {generation} delay_ms {delay_ms} since_ms {since_ms}")
                .unwrap();
        }
        for (i, holder) in lock.holders().enumerate() {
            let (session, acquire, owner) = (holder.session.0, holder.acquire, holder.owner.0);
            write!(out, "lock {name:?} holder {} session {session} acquire {acquire} owner {owner} ", i + 1).unwrap();
            let (mode, fence, since_ms) = (mode_word(holder.mode), holder.fence, holder.since_ms);
            write!(out, "mode {mode} fence {fence} since_ms {since_ms} revoked {} ", holder.revoked).unwrap();
            writeln!(out, "label {:?} host {:?} pid {}", holder.label, holder.host, holder.pid).unwrap();
        }
        for waiter in lock.waiters() {
            let (i, session, acquire, owner) = (waiter.position, waiter.session.0, waiter.acquire, waiter.owner.0);
            write!(out, "lock {name:?} waiter {i} session {session} acquire {acquire} owner {owner} ").unwrap();
            let timeout_ms = waiter.timeout_ms.map_or("none".to_owned(), |timeout_ms| timeout_ms.to_string());
            let (mode, since_ms) = (mode_word(waiter.mode), waiter.since_ms);
            write!(out, "mode {mode} timeout_ms {timeout_ms} since_ms {since_ms} ").unwrap();
            writeln!(out, "label {:?} host {:?} pid {}", waiter.label, waiter.host, waiter.pid).unwrap();
        }
        for (i, past) in lock.history().iter().enumerate() {
            let (session, label, fence) = (past.session.0, &past.label, past.fence);
            write!(out, "lock {name:?} past {} session {session} label {label:?} fence {fence} ", i + 1).unwrap();
            writeln!(out, "from_ms {} to_ms {} ended {:?}", past.from_ms, past.to_ms, past.ended).unwrap();
        }
    }
}

fn see_timers(state: &State, out: &mut String) {
    let mut timers = state.pending_timers();
    timers.sessions.sort();
    timers.timers.sort();
    for (session, ttl_ms) in timers.sessions {
        writeln!(out, "timer session {} ttl_ms {ttl_ms}", session.0).unwrap();
    }
    for (timer, ms) in timers.timers {
        match timer {
            Timer::Locks(locks::Timer::Wait { session, number }) => {
                writeln!(out, "timer wait session {} acquire {number} timeout_ms {ms}", session.0).unwrap();
            }
            Timer::Locks(locks::Timer::Delay { lock, generation }) => {
                writeln!(out, "timer delay {lock:?} generation {generation} delay_ms {ms}").unwrap();
            }
            #[allow(unreachable_patterns, reason = "only tests have another module")]
            other => panic!("{other:?}"),
        }
    }
}

/// The answers of a state to each request. Each request starts from the same state.
pub fn answers(state: &State, requests: &str) -> String {
    let mut out = String::new();
    let mut ask = |what: String, command: Command| {
        let mut outcome = Outcome::default();
        state.clone().apply(1_000_000, state.now_ms(), &command, &mut outcome);
        // The texts do not say which holders a Force hit.
        let is_forced = |effect: &&Effect| matches!(effect, Effect::Locks(locks::Effect::Forced { .. }));
        let effects: Vec<String> = outcome.effects.iter().filter(|effect| !is_forced(effect)).map(effect).collect();
        let effects = if effects.is_empty() { "nothing".to_owned() } else { effects.join("; ") };
        writeln!(out, "{what}: {effects}").unwrap();
    };
    let mut sessions: BTreeSet<SessionId> = state.sessions().map(|session| session.id).collect();
    let there = sessions.clone();
    for line in requests.lines() {
        let (session, number, operation, word) = parse(line);
        sessions.insert(session);
        ask(format!("retry {} {number} {word}", session.0), request(session, number, operation));
    }
    for session in sessions {
        let open = Open {
            session,
            ttl_ms: 5_000,
            label: String::new(),
            host: String::new(),
            pid: 1,
            resume: true,
            secret_hash: None,
            caller: Caller::default(),
        };
        ask(format!("resume {}", session.0), sessions::Command::Open(open).into());
    }
    for session in there {
        ask(format!("expire {}", session.0), sessions::Command::Expire { session, term: state.term() }.into());
    }
    for lock in state.locks() {
        let name = lock.name();
        for holder in lock.holders() {
            let release = Operation::Locks(locks::Operation::Release { acquire: holder.acquire });
            ask(format!("release {} {}", holder.session.0, holder.acquire), request(holder.session, 1 << 40, release));
        }
        for waiter in lock.waiters() {
            let (session, number) = (waiter.session, waiter.acquire);
            ask(format!("cancel-wait {} {number}", session.0), locks::Command::CancelWait { session, number }.into());
        }
        if let Some(locks::Delay { generation, .. }) = lock.delay() {
            let end = locks::Command::EndLockDelay { lock: name.clone(), generation };
            ask(format!("end-delay {name:?} {generation}"), end.into());
        }
        for (word, now) in [("force", false), ("force-now", true)] {
            let force = locks::Command::Force { lock: name.clone(), now, caller: Caller::default() };
            ask(format!("{word} {name:?}"), force.into());
        }
    }
    out
}

fn request(session: SessionId, number: u64, operation: Operation) -> Command {
    Command::Request(Request { session, number, seen: 0, missing: Vec::new(), caller: Caller::default(), operation })
}

/// An effect in the words of the texts: without the modules that some types are in.
fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Answer { session, number, answer } => {
            let answer = match answer {
                Answer::Locks(locks::Answer::Refused(Refusal::PermitsDiffer { has, says, .. })) => {
                    format!("Refused(PermitsDiffer {{ has: {has}, says: {says} }})")
                }
                Answer::Locks(answer) => format!("{answer:?}"),
                answer => format!("{answer:?}"),
            };
            format!("Answer {{ session: {session:?}, number: {number}, answer: {answer} }}")
        }
        Effect::Locks(effect) => format!("{effect:?}"),
        effect => format!("{effect:?}"),
    }
}

/// Parses one line of `requests.txt` into session, number, operation, and the word of the operation.
fn parse(line: &str) -> (SessionId, u64, Operation, &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |i: usize| words[i].parse::<u64>().unwrap();
    let operation = match words[5] {
        "acquire" => {
            let mode = match words[6].split_once(':') {
                Some((_, of)) => Mode::Permit { of: of.parse().unwrap() },
                None if words[6] == "shared" => Mode::Shared,
                None => Mode::Exclusive,
            };
            let timeout_ms = (words[8] != "none").then(|| number(8));
            let name = words[10].strip_prefix("name=").unwrap().as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
            let lock = LockName::from(&name.chunks(2).map(byte).collect::<Vec<u8>>());
            let one = Acquire::one(lock, mode, OwnerId(number(7)));
            Operation::Locks(locks::Operation::Acquire(Acquire { timeout_ms, lock_delay_ms: number(9), ..one }))
        }
        "release" => Operation::Locks(locks::Operation::Release { acquire: number(6) }),
        "cancel" => Operation::Locks(locks::Operation::Cancel { acquire: number(6) }),
        _ => Operation::Close,
    };
    (SessionId(number(1)), number(2), operation, words[5])
}

fn mode_word(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "exclusive".to_owned(),
        Mode::Shared => "shared".to_owned(),
        Mode::Permit { of } => format!("permit:{of}"),
    }
}
