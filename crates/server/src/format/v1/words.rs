//! The commands and answers of the log in data format 1.

use serde::Deserialize;

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Entry {
    pub now_ms: u64,
    pub commands: Vec<Command>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) enum Command {
    Lead { term: u64 },
    Open { session: u64, ttl_ms: u64, label: String, host: String, pid: u32, resume: bool },
    Request { session: u64, number: u64, seen: u64, missing: Vec<u64>, operation: Operation },
    Expire { session: u64, term: u64 },
    EndLockDelay { lock: String, generation: u64 },
    CancelWait { session: u64, number: u64 },
    Force { lock: String, now: bool },
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) enum Operation {
    Acquire { lock: String, mode: Mode, owner: u64, timeout_ms: Option<u64>, lock_delay_ms: u64 },
    Release { acquire: u64 },
    Cancel { acquire: u64 },
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    Permit { of: u32 },
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) enum Answer {
    Granted { fence: u64 },
    Released,
    Cancelled(CancelOutcome),
    Closed,
    Refused(Refusal),
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) enum CancelOutcome {
    Removed,
    Released,
    Nothing,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) enum Refusal {
    NotAvailable,
    TimedOut,
    Cancelled,
    Deadlock(Vec<WaitFor>),
    PermitsDiffer { has: u32, says: u32 },
    NotHolder { acquire: u64 },
    Invalid(String),
    TooManyRequests { limit: u32 },
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct WaitFor {
    pub owner: u64,
    pub label: String,
    pub lock: String,
}
