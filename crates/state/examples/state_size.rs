//! Measures the memory and the time of the state: many held locks with names of 20 bytes, held by one session and by a
//! thousand; then acquires and releases beside them, a snapshot, many waiters for one lock, and many leases.
//!
//!     cargo run --release -p baton-state --example state_size -- 100000
//!
//! Resident memory is read from /proc, so it is shown only on Linux.

use std::fs;
use std::time::Instant;

use baton_state::leases::Leases;
use baton_state::state::locks::{Acquire, Mode, Operation};
use baton_state::state::sessions::{self, Open};
use baton_state::state::{self, Caller, Command, Outcome, OwnerId, PendingTimers, Record, Request, SessionId, State};

/// A field of /proc/self/status: resident memory now, or its peak, in KiB.
fn memory_kib(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// A state, and the last request number of each session.
#[derive(Default)]
struct Load {
    state: State,
    numbers: Vec<u64>,
    outcome: Outcome,
}

impl Load {
    fn open(&mut self) {
        let session = SessionId(self.numbers.len() as u64);
        let (label, host) = ("worker".to_string(), "host-1.example.org".to_string());
        let (secret_hash, caller) = (None, Caller::default());
        let open = Open { session, ttl_ms: 10_000, label, host, pid: 4_711, resume: false, secret_hash, caller };
        self.apply(&sessions::Command::Open(open).into());
        self.numbers.push(0);
    }

    fn apply(&mut self, command: &Command) {
        self.outcome.effects.clear();
        self.outcome.changes.clear();
        self.state.apply(0, 1_700_000_000_000, command, &mut self.outcome);
    }

    fn request(&mut self, session: usize, operation: Operation) {
        self.numbers[session] += 1;
        let number = self.numbers[session];
        let seen = number.saturating_sub(8);
        let session = SessionId(session as u64);
        let (missing, caller, operation) = (Vec::new(), Caller::default(), state::Operation::Locks(operation));
        self.apply(&Command::Request(Request { session, number, seen, missing, caller, operation }));
    }

    fn acquire(&mut self, session: usize, owner: u64, lock: String) {
        let acquire = Acquire::one(&lock, Mode::Exclusive, OwnerId(owner));
        self.request(session, Operation::Acquire(acquire));
    }
}

fn held(sessions: usize, locks: usize) {
    let before_kib = memory_kib("VmRSS");
    let mut load = Load::default();
    for _ in 0..sessions {
        load.open();
    }
    let began = Instant::now();
    for lock in 0..locks {
        load.acquire(lock % sessions, (lock % sessions) as u64, format!("service/lock-{lock:07}"));
    }
    let each_us = began.elapsed().as_secs_f64() * 1e6 / locks as f64;
    let used_kib = memory_kib("VmRSS").saturating_sub(before_kib);
    println!("{locks} locks, {sessions} sessions: {used_kib} KiB resident, {each_us:.2} us an acquire");

    let began = Instant::now();
    let rounds = 200_000;
    for round in 0..rounds {
        load.acquire(round % sessions, 7, format!("other/lock-{:09}", round % 1_000));
        let acquire = load.numbers[round % sessions];
        load.request(round % sessions, Operation::Release { acquire });
    }
    let each_us = began.elapsed().as_secs_f64() * 1e6 / rounds as f64;
    println!("  acquire and release beside them: {each_us:.2} us");
    let began = Instant::now();
    for round in 0..rounds {
        load.acquire(round % sessions, 7, format!("fresh/lock-{round:09}"));
        let acquire = load.numbers[round % sessions];
        load.request(round % sessions, Operation::Release { acquire });
    }
    let each_us = began.elapsed().as_secs_f64() * 1e6 / rounds as f64;
    let used_kib = memory_kib("VmRSS").saturating_sub(before_kib);
    println!("  the same with a fresh name each time: {each_us:.2} us; with all the history then {used_kib} KiB");

    let began = Instant::now();
    let kept = load.state.clone();
    let cloned = began.elapsed();
    let write = |bytes, record: Record| postcard::to_extend(&record, bytes).expect("a record can be written");
    let bytes: Vec<u8> = kept.records().fold(Vec::new(), write);
    let wrote = began.elapsed();
    let peak_kib = memory_kib("VmHWM");
    println!("  a snapshot: cloned in {cloned:.0?}, {} KiB in {wrote:.0?}, {peak_kib} KiB at most", bytes.len() / 1024);
    let began = Instant::now();
    let mut rest = &bytes[..];
    let records = std::iter::from_fn(|| {
        let (record, after) = postcard::take_from_bytes(rest).ok()?;
        rest = after;
        Some(Ok::<Record, String>(record))
    });
    let read = State::restore(records).expect("a state can be read");
    println!("  read again in {:.0?}, equal: {}", began.elapsed(), read == load.state);
}

/// Many claims wait for one lock. Measures each further acquire: by an owner that no claim waits for, and by an owner
/// that another claim waits for.
fn waited_for(waiters: usize) {
    let mut load = Load::default();
    for _ in 0..waiters + 2 {
        load.open();
    }
    load.acquire(0, 0, "wanted".into());
    let began = Instant::now();
    for session in 1..=waiters {
        load.acquire(session, session as u64, "wanted".into());
    }
    let each_us = began.elapsed().as_secs_f64() * 1e6 / waiters as f64;
    let (holder, other) = (waiters + 1, 1);
    load.acquire(holder, holder as u64, "own".into());
    load.acquire(other, other as u64 + 1_000_000, "own".into());
    let began = Instant::now();
    load.acquire(holder, holder as u64, "wanted".into());
    let slow = began.elapsed();
    println!("{waiters} wait for one lock: {each_us:.2} us to join; {slow:.0?} for an owner that is waited for itself");
    assert_eq!(load.state.counts().waiters, waiters + 2);
}

/// The leases of many sessions: a keep-alive of each, and the expiry of all.
fn leased(sessions: u64) {
    let mut leases = Leases::default();
    let pending = (0..sessions).map(|session| (SessionId(session), 10_000)).collect();
    leases.lead(0, 1, &PendingTimers { sessions: pending, ..PendingTimers::default() });
    let began = Instant::now();
    for session in 0..sessions {
        leases.keep_alive(SessionId(session), session / 100);
    }
    let each_us = began.elapsed().as_secs_f64() * 1e6 / sessions as f64;
    let began = Instant::now();
    let expired = leases.due(u64::MAX).len();
    let took = began.elapsed();
    println!("{sessions} leases: {each_us:.2} us a keep-alive; {expired} expire at once in {took:.0?}");
}

fn main() {
    let locks = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse());
    match (locks, std::env::args().nth(2).as_deref()) {
        (Ok(locks), None) => {
            held(1_000, locks);
            waited_for(10_000);
            leased(100_000);
        }
        (Ok(locks), Some("one")) => held(1, locks),
        _ => {
            eprintln!("the first argument is a number of locks, the second, if any, `one`: one session");
            std::process::exit(2);
        }
    }
}
