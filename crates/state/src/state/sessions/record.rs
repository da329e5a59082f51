//! The sessions as records, for snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Kept, Session, Sessions, Who};
use crate::state::{Answer, Caller, RequestNumber, SessionId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The term of the last `Lead`.
    Term(u64),
    Session(SessionRecord),
    /// A session that has ended, the earliest end first. The first builds of data format 2 wrote none; a state from
    /// such a snapshot remembers no ended session.
    Ended(SessionId),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub id: SessionId,
    /// How long the session lives after its last keep-alive.
    pub ttl_ms: u64,
    pub label: Box<str>,
    pub host: Box<str>,
    pub pid: u32,
    /// SHA-256 of its secret.
    pub secret_hash: Option<[u8; 32]>,
    /// The caller that began the session.
    pub caller: Caller,
    /// The client has seen every answer up to this number, except the missing ones.
    pub seen: RequestNumber,
    /// None is above `seen`.
    pub missing: BTreeSet<RequestNumber>,
    /// Requests that wait, and requests whose answers the client has not seen.
    pub requests: BTreeMap<RequestNumber, Kept>,
}

impl Sessions {
    pub(in crate::state) fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let sessions = self.sessions.iter().map(|(&id, session)| {
            let Session { ttl_ms, ref who, secret_hash, .. } = **session;
            let Who { session: _, label, host, pid, caller } = &**who;
            Record::Session(SessionRecord {
                id,
                ttl_ms,
                label: label.clone(),
                host: host.clone(),
                pid: *pid,
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

    /// Adds a record. The consistency of all records is checked at the end.
    pub(in crate::state) fn restore(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Term(term) => self.term = term,
            Record::Session(record) => {
                let SessionRecord { id, ttl_ms, label, host, pid, secret_hash, caller, seen, missing, mut requests } =
                    record;
                for kept in requests.values_mut() {
                    kept.answer = kept.answer.take().map(Answer::shortened);
                }
                let who = Arc::new(Who { session: id, label, host, pid, caller });
                let session = Session { ttl_ms, who, secret_hash, seen, missing, requests };
                if self.sessions.insert(id, Arc::new(session)).is_some() {
                    return Err(format!("session {id} appears twice"));
                }
            }
            Record::Ended(id) => self.ended.restore(id)?,
        }
        Ok(())
    }

    /// Returns a sentence about the first inconsistent session.
    pub(in crate::state) fn check(&self) -> Result<(), String> {
        self.ended.check()?;
        if let Some(id) = self.ended.iter().find(|id| self.sessions.contains_key(id)) {
            return Err(format!("session {id} exists, but is also listed as ended"));
        }
        let wrong = self.sessions.iter().find_map(|(id, session)| Some((id, session.check().err()?)));
        wrong.map_or(Ok(()), |(id, what)| Err(format!("session {id} {what}")))
    }
}
