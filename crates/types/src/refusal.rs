//! Why the service refuses a request or a call: the one public shape, for every transport, the client and JSON. What the
//! state keeps on disk has types of its own, which the front end turns into this one.

use std::fmt;

use serde::Serialize;

use crate::hex::Hex;
use crate::locks::Wait;
use crate::name::{Quoted, short};
use crate::sentences;

/// Shown as its sentence, followed by the cycle in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub code: RefusalCode,
    /// One sentence for people.
    pub message: String,
    /// For a deadlock: each owner waits for the next one, and the last for the first. The message does not repeat it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<Wait>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The lock is not free, and the request does not wait.
    NotAvailable,
    /// The request has reached its time-out.
    TimedOut,
    Cancelled,
    /// The request would wait for itself.
    Deadlock,
    /// The lock is in use with another number of permits.
    PermitsDiffer,
    /// The session does not hold the lock that it releases.
    NotHolder,
    /// Repeating it does not help.
    Invalid,
    /// The session has too many requests whose answers its client has not seen.
    TooManyRequests,
    /// The server has too little free space.
    LowSpace,
    /// An earlier, different request of the session had this number.
    NumberReused,
    /// The server has reached its limit of locks.
    TooManyLocks,
    /// The lock has reached the limit of waiters.
    TooManyWaiters,
    /// The session has reached the limit of locks per session.
    TooManyHolds,
    /// The server cannot do this: it is a member of a peer group, or older than the client.
    Unsupported,
    /// The server, or its peer group, cannot do this now. Another server may, or the same one later.
    Unavailable,
    /// A newer server sent a reason that this client does not know, or a server gave none.
    Unknown,
}

impl Refusal {
    /// A refusal that says all in its sentence.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into(), cycle: Vec::new() }
    }

    /// The sentence of the server. If it sent none, the one that a server of this version sends.
    fn sentence(&self) -> &str {
        match self.code {
            _ if !self.message.is_empty() => &self.message,
            RefusalCode::NotAvailable => sentences::NOT_AVAILABLE,
            RefusalCode::TimedOut => sentences::TIMED_OUT,
            RefusalCode::Cancelled => sentences::CANCELLED,
            RefusalCode::Deadlock => sentences::WAITS_FOR_ITSELF,
            _ => "the server gave no reason",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())?;
        for (number, Wait { owner, label, lock }) in self.cycle.iter().enumerate() {
            f.write_str(if number == 0 { ": " } else { ", " })?;
            write!(f, "{} ({}) waits for {}", Hex(*owner), short(label), Quoted(lock))?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadlock_shows_its_cycle_in_words_and_in_json() {
        let wait = |owner, lock: &[u8]| Wait { owner, label: "x".to_owned(), lock: lock.to_vec() };
        let message = "the request would wait for itself".to_owned();
        let cycle = vec![wait(7, b"a"), wait(8, b"\xff")];
        let refusal = Refusal { code: RefusalCode::Deadlock, message, cycle };
        let steps = r#"0000000000000007 (x) waits for "a", 0000000000000008 (x) waits for "\xff""#;
        assert_eq!(refusal.to_string(), format!("the request would wait for itself: {steps}"));
        let expected = r#"{"code":"deadlock","message":"the request would wait for itself","cycle":[{"owner":"0000000000000007","label":"x","name":"a"},{"owner":"0000000000000008","label":"x","name":"\\xff","escaped":true}]}"#;
        assert_eq!(serde_json::to_string(&refusal).unwrap(), expected);
    }

    #[test]
    fn a_refusal_without_a_sentence_gets_one() {
        let said = |code| Refusal::new(code, "").to_string();
        assert_eq!(said(RefusalCode::TimedOut), "the lock was not granted within the time-out");
        assert_eq!(said(RefusalCode::TooManyLocks), "the server gave no reason");
        let json = serde_json::to_string(&Refusal::new(RefusalCode::TooManyLocks, "no")).unwrap();
        assert_eq!(json, r#"{"code":"too_many_locks","message":"no"}"#);
    }
}
