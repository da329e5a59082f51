//! The sessions in pieces, as a snapshot holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Kept, Session, Sessions};
use crate::state::{Caller, RequestNumber, SessionId};

/// A piece of the sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The term of the last `Lead`.
    Term(u64),
    /// A session.
    Session(SessionRecord),
    /// A session that has ended; the one that ended first comes first. The first builds of data format 2 wrote none: a snapshot
    /// without them is of a state that remembers none.
    Ended(SessionId),
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// How long it lives after its last keep-alive.
    pub ttl_ms: u64,
    /// What it is.
    pub label: Box<str>,
    /// Where it runs.
    pub host: Box<str>,
    /// As which process.
    pub pid: u32,
    /// SHA-256 of its secret.
    pub secret_hash: Option<[u8; 32]>,
    /// Who opened it.
    pub caller: Caller,
    /// The client has seen every answer up to this one, except the missing ones.
    pub seen: RequestNumber,
    /// None is above `seen`.
    pub missing: BTreeSet<RequestNumber>,
    /// The requests that wait, and those whose answers have not been seen.
    pub requests: BTreeMap<RequestNumber, Kept>,
}

impl Sessions {
    /// All of them, in pieces.
    pub(in crate::state) fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let sessions = self.sessions.iter().map(|(&id, session)| {
            let Session { ttl_ms, ref label, ref host, pid, secret_hash, ref caller, .. } = **session;
            Record::Session(SessionRecord {
                id,
                ttl_ms,
                label: label.clone(),
                host: host.clone(),
                pid,
                secret_hash,
                caller: caller.clone(),
                seen: session.seen,
                missing: session.missing.clone(),
                requests: session.requests.clone(),
            })
        });
        let ended = self.ended.iter().map(Record::Ended);
        std::iter::once(Record::Term(self.term)).chain(sessions).chain(ended)
    }

    /// Adds a piece. Whether it fits the others is checked when all are there.
    pub(in crate::state) fn restore(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Term(term) => self.term = term,
            Record::Session(record) => {
                let SessionRecord { id, ttl_ms, label, host, pid, secret_hash, caller, seen, missing, requests } =
                    record;
                let session = Session { ttl_ms, label, host, pid, secret_hash, caller, seen, missing, requests };
                if self.sessions.insert(id, Arc::new(session)).is_some() {
                    return Err(format!("session {id} is there twice"));
                }
            }
            Record::Ended(id) => self.ended.restore(id)?,
        }
        Ok(())
    }

    /// Whether the sessions could have come about, or a sentence about the first that could not.
    pub(in crate::state) fn check(&self) -> Result<(), String> {
        self.ended.check()?;
        if let Some(id) = self.ended.iter().find(|id| self.sessions.contains_key(id)) {
            return Err(format!("session {id} is there, and has ended"));
        }
        let wrong = self.sessions.iter().find_map(|(id, session)| Some((id, session.check().err()?)));
        wrong.map_or(Ok(()), |(id, what)| Err(format!("session {id} {what}")))
    }
}
