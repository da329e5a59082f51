//! One session: its description, and the answers that its client may not have seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Open;
use crate::state::{Answer, Caller, RequestNumber, SessionId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// How long the session lives after its last keep-alive.
    pub ttl_ms: u64,
    /// Shared with the changes that the feed keeps.
    pub who: Arc<Who>,
    /// SHA-256 of a secret that only its client knows, if it has one.
    pub secret_hash: Option<[u8; 32]>,
    /// The client has seen every answer up to this number, except the missing ones.
    pub(super) seen: RequestNumber,
    /// None is above `seen`. These requests wait, or their answers are on the way, or they never arrived and will be
    /// sent again.
    pub(super) missing: BTreeSet<RequestNumber>,
    /// Requests that wait, and requests whose answers the client has not seen. If a cancel overtakes its acquire, the
    /// answer to the acquire is here before the acquire arrives.
    pub(super) requests: BTreeMap<RequestNumber, Kept>,
}

/// A session and its process, for people to read. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub session: SessionId,
    pub label: Box<str>,
    pub host: Box<str>,
    pub pid: u32,
    /// The caller that began the session.
    pub caller: Caller,
}

/// What the state keeps of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The fingerprint of the operation. None if it is not known: the request has not arrived yet, or is very
    /// old.
    pub fingerprint: Option<u64>,
    /// None while the request waits.
    pub answer: Option<Answer>,
}

/// What the session knows of a request number.
pub(super) enum Place<'a> {
    Free,
    /// The request waits.
    Pending,
    /// The client may not have seen the answer.
    Answered(&'a Answer),
    /// The client has seen the answer.
    Seen,
    /// The number belongs to another request.
    Reused,
}

impl Session {
    pub(super) fn new(open: &Open) -> Self {
        let who = Who {
            session: open.session,
            label: open.label.as_str().into(),
            host: open.host.as_str().into(),
            pid: open.pid,
            caller: open.caller.clone(),
        };
        Session {
            ttl_ms: open.ttl_ms,
            who: Arc::new(who),
            secret_hash: open.secret_hash,
            seen: 0,
            missing: BTreeSet::new(),
            requests: BTreeMap::new(),
        }
    }

    /// The client has seen the answers up to `seen`, except those in `missing`, which is ascending. Forgets the seen
    /// answers. An older request with a lower `seen` does not undo this.
    pub(super) fn saw(&mut self, seen: RequestNumber, missing: &[RequestNumber]) {
        let is_seen = |number: &RequestNumber| missing.binary_search(number).is_err();
        for number in self.missing.extract_if(..=seen, is_seen) {
            if self.requests.get(&number).is_some_and(|kept| kept.answer.is_some()) {
                self.requests.remove(&number);
            }
        }
        if seen > self.seen {
            let since = self.seen + 1;
            let is_over = |number: &RequestNumber, kept: &mut Kept| kept.answer.is_some() && is_seen(number);
            self.requests.extract_if(since..=seen, is_over).for_each(drop);
            self.missing.extend(missing.iter().filter(|number| **number >= since));
            self.seen = seen;
        }
    }

    pub(super) fn place(&self, number: RequestNumber, fingerprint: u64) -> Place<'_> {
        match self.requests.get(&number) {
            Some(kept) if kept.fingerprint.is_some_and(|of_another| of_another != fingerprint) => Place::Reused,
            Some(Kept { answer: Some(answer), .. }) => Place::Answered(answer),
            Some(Kept { answer: None, .. }) => Place::Pending,
            None if self.has_seen(number) => Place::Seen,
            None => Place::Free,
        }
    }

    /// Whether the session has at least `limit` requests that wait or whose answers are not seen.
    pub(super) fn is_full(&self, limit: usize) -> bool {
        self.requests.len() >= limit
    }

    /// Registers a request that will be answered. Number 0 is invalid, and nothing is kept of it.
    pub(super) fn pending(&mut self, number: RequestNumber, fingerprint: u64) {
        if number > 0 {
            let before = self.requests.insert(number, Kept { fingerprint: Some(fingerprint), answer: None });
            assert!(before.is_none(), "request {number} is new, but exists already");
        }
    }

    /// Keeps an answer until the client has seen it.
    pub(super) fn answer(&mut self, number: RequestNumber, answer: &Answer) {
        if number == 0 {
            return;
        }
        // A client may have claimed to have seen the answer before there was one.
        if self.has_seen(number) {
            self.requests.remove(&number);
            return;
        }
        let kept = self.requests.entry(number).or_insert(Kept { fingerprint: None, answer: None });
        assert!(kept.answer.is_none(), "request {number} is answered twice");
        kept.answer = Some(answer.clone());
    }

    /// Whether the request has arrived, or was answered before it arrived.
    pub(in crate::state) fn is_known(&self, number: RequestNumber) -> bool {
        self.has_seen(number) || self.requests.contains_key(&number)
    }

    /// The requests that wait, in the order of their numbers.
    pub(in crate::state) fn waiting(&self) -> impl Iterator<Item = RequestNumber> {
        self.requests.iter().filter(|(_, kept)| kept.answer.is_none()).map(|(&number, _)| number)
    }

    /// Whether the request was answered, seen or not.
    pub(in crate::state) fn is_answered(&self, number: RequestNumber) -> bool {
        self.requests.get(&number).map_or_else(|| self.has_seen(number), |kept| kept.answer.is_some())
    }

    /// Fails with the end of a sentence if the requests are inconsistent.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(number) = self.missing.iter().find(|number| !(1..=self.seen).contains(*number)) {
            return Err(format!("lists the answer {number} as missing, but has seen only 1 to {}", self.seen));
        }
        if self.requests.contains_key(&0) {
            return Err("has a request with the number 0".to_owned());
        }
        let is_over = |(number, kept): &(&RequestNumber, &Kept)| kept.answer.is_some() && self.has_seen(**number);
        match self.requests.iter().find(is_over) {
            Some((number, _)) => Err(format!("keeps the answer {number}, which its client has seen")),
            None => Ok(()),
        }
    }

    fn has_seen(&self, number: RequestNumber) -> bool {
        0 < number && number <= self.seen && !self.missing.contains(&number)
    }
}
