//! One session: who it is, and the answers that its client may not have seen.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Open;
use crate::state::{Answer, Caller, RequestNumber};

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// How long it lives after its last keep-alive.
    pub ttl_ms: u64,
    /// What it is, for people.
    pub label: Box<str>,
    /// Where it runs, for people.
    pub host: Box<str>,
    /// As which process, for people.
    pub pid: u32,
    /// SHA-256 of a secret that only its client knows, if it has one.
    pub secret_hash: Option<[u8; 32]>,
    /// Who began it.
    pub caller: Caller,
    /// The client has seen every answer up to this one, except the missing ones.
    pub(super) seen: RequestNumber,
    /// None is above `seen`. They wait, or their answers are on the way, or they never arrived and will be sent again.
    pub(super) missing: BTreeSet<RequestNumber>,
    /// Requests that wait, and those whose answers are not seen. The answer to an acquire that a cancel overtook is here before
    /// the acquire is.
    pub(super) requests: BTreeMap<RequestNumber, Kept>,
}

/// What is kept of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Of the operation. None if it is not known: it is not there yet, or came with data format 1.
    pub fingerprint: Option<u64>,
    /// None while it waits.
    pub answer: Option<Answer>,
}

/// Where a request of this number stands.
pub(super) enum Place<'a> {
    /// There was none.
    Free,
    /// It waits.
    Pending,
    /// It was answered, and the client may not have seen it.
    Answered(&'a Answer),
    /// The client has seen its answer.
    Seen,
    /// The number belongs to another request.
    Reused,
}

impl Session {
    pub(super) fn new(open: &Open) -> Self {
        Session {
            ttl_ms: open.ttl_ms,
            label: open.label.as_str().into(),
            host: open.host.as_str().into(),
            pid: open.pid,
            secret_hash: open.secret_hash,
            caller: open.caller.clone(),
            seen: 0,
            missing: BTreeSet::new(),
            requests: BTreeMap::new(),
        }
    }

    /// The client has seen the answers up to `seen`, except the missing ones, which are in order: they are forgotten. What it
    /// said that it has seen stays seen, whatever an older request says.
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

    /// Whether it has so many requests that wait or whose answers are not seen.
    pub(super) fn is_full(&self, limit: usize) -> bool {
        self.requests.len() >= limit
    }

    /// The request is there, and will be answered. Number 0 is no number, and nothing is kept of it.
    pub(super) fn pending(&mut self, number: RequestNumber, fingerprint: u64) {
        if number > 0 {
            let before = self.requests.insert(number, Kept { fingerprint: Some(fingerprint), answer: None });
            assert!(before.is_none(), "request {number} was new, and is there already");
        }
    }

    /// Keeps an answer until it is seen.
    pub(super) fn answer(&mut self, number: RequestNumber, answer: &Answer) {
        if number == 0 {
            return;
        }
        // A client may have said that it has seen the answer before there was one.
        if self.has_seen(number) {
            self.requests.remove(&number);
            return;
        }
        let kept = self.requests.entry(number).or_insert(Kept { fingerprint: None, answer: None });
        assert!(kept.answer.is_none(), "request {number} is answered twice");
        kept.answer = Some(answer.clone());
    }

    /// Whether it has arrived, or was answered before it arrived.
    pub(in crate::state) fn is_known(&self, number: RequestNumber) -> bool {
        self.has_seen(number) || self.requests.contains_key(&number)
    }

    /// The requests that wait, in the order of their numbers.
    pub(in crate::state) fn waiting(&self) -> impl Iterator<Item = RequestNumber> {
        self.requests.iter().filter(|(_, kept)| kept.answer.is_none()).map(|(&number, _)| number)
    }

    /// Whether the request has been answered, seen or not.
    pub(in crate::state) fn is_answered(&self, number: RequestNumber) -> bool {
        self.requests.get(&number).map_or_else(|| self.has_seen(number), |kept| kept.answer.is_some())
    }

    /// Whether its requests could have come about, or what is wrong with them.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(number) = self.missing.iter().find(|number| !(1..=self.seen).contains(*number)) {
            return Err(format!("misses the answer {number}, and has seen those from 1 to {}", self.seen));
        }
        if self.requests.contains_key(&0) {
            return Err("has a request with the number 0".to_owned());
        }
        let is_over = |(number, kept): &(&RequestNumber, &Kept)| kept.answer.is_some() && self.has_seen(**number);
        match self.requests.iter().find(is_over) {
            Some((number, _)) => Err(format!("keeps the answer {number}, which was seen")),
            None => Ok(()),
        }
    }

    fn has_seen(&self, number: RequestNumber) -> bool {
        0 < number && number <= self.seen && !self.missing.contains(&number)
    }
}
