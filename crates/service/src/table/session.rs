//! One session: what it has, and the answers that its client may not have seen.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::limits::{FORCED_MAX, REQUESTS_MAX};
use super::lock::Ticket;
use super::locks::LockId;
use super::{Answer, Operation, RequestNumber};

/// Where an acquire that holds or waits is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub lock: LockId,
    pub ticket: Ticket,
    pub holds: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    pub ttl_ms: u64,
    pub label: Box<str>,
    pub host: Box<str>,
    pub pid: u32,
    /// The client has seen every answer up to this one, but for the missing ones.
    seen: RequestNumber,
    /// None is above `seen`. They wait, or their answers are on the way, or they never arrived and will be sent again.
    missing: BTreeSet<RequestNumber>,
    /// Answers that are not seen. That to an acquire which a cancel overtook is here before the acquire is.
    answers: BTreeMap<RequestNumber, Answer>,
    /// By the number of the acquire.
    places: BTreeMap<RequestNumber, Place>,
    /// How many of the places are of waiters.
    waits: usize,
    /// Acquires whose holds were ended by force, and of which the client has not spoken since: its word about them is no
    /// error, and it is told again when it takes up the session.
    forced: BTreeSet<RequestNumber>,
}

/// What is to be done with a request that arrived.
pub(super) enum Arrival<'a> {
    /// It is there for the first time.
    New,
    /// It was answered before.
    Answered(&'a Answer),
    /// It waits already, or its client has seen its answer.
    Known,
    /// No room for its answer: it is refused, and that is not written down.
    TooMany { limit: usize },
}

impl Session {
    pub fn new(ttl_ms: u64, label: &str, host: &str, pid: u32) -> Self {
        Session {
            ttl_ms,
            label: label.into(),
            host: host.into(),
            pid,
            seen: 0,
            missing: BTreeSet::new(),
            answers: BTreeMap::new(),
            places: BTreeMap::new(),
            waits: 0,
            forced: BTreeSet::new(),
        }
    }

    /// The client has seen the answers up to `seen`, but for the missing ones, which are in order: they are forgotten. What it
    /// said that it has seen stays seen, whatever an older request says.
    pub fn saw(&mut self, seen: RequestNumber, missing: &[RequestNumber]) {
        let is_seen = |number: &RequestNumber| missing.binary_search(number).is_err();
        for number in self.missing.extract_if(..=seen, is_seen) {
            self.answers.remove(&number);
        }
        if seen > self.seen {
            let since = self.seen + 1;
            self.answers.extract_if(since..=seen, |number, _| is_seen(number)).for_each(drop);
            self.missing.extend(missing.iter().filter(|number| **number >= since));
            self.seen = seen;
        }
    }

    pub fn arrives(&self, number: RequestNumber, operation: &Operation) -> Arrival<'_> {
        if let Some(answer) = self.answers.get(&number) {
            return Arrival::Answered(answer);
        }
        if self.has_seen(number) || self.places.contains_key(&number) {
            return Arrival::Known;
        }
        let limit = match operation {
            Operation::Acquire { .. } => REQUESTS_MAX,
            Operation::Release { .. } | Operation::Cancel { .. } => 2 * REQUESTS_MAX,
            Operation::Close => usize::MAX,
        };
        if self.answers.len() + self.waits >= limit { Arrival::TooMany { limit } } else { Arrival::New }
    }

    pub fn has_seen(&self, number: RequestNumber) -> bool {
        0 < number && number <= self.seen && !self.missing.contains(&number)
    }

    /// Keeps an answer until it is seen.
    pub fn keep(&mut self, number: RequestNumber, answer: &Answer) {
        if number > 0 && !self.has_seen(number) {
            self.answers.insert(number, answer.clone());
        }
    }

    pub fn is_answered(&self, number: RequestNumber) -> bool {
        self.has_seen(number) || self.answers.contains_key(&number)
    }

    pub fn place(&self, acquire: RequestNumber) -> Option<Place> {
        self.places.get(&acquire).copied()
    }

    pub fn places(&self) -> impl Iterator<Item = (RequestNumber, Place)> {
        self.places.iter().map(|(&number, &place)| (number, place))
    }

    pub fn put(&mut self, acquire: RequestNumber, place: Place) {
        let before = self.places.insert(acquire, place);
        self.waits += usize::from(!place.holds);
        self.waits -= usize::from(before.is_some_and(|place| !place.holds));
    }

    pub fn remove(&mut self, acquire: RequestNumber) {
        if let Some(place) = self.places.remove(&acquire) {
            self.waits -= usize::from(!place.holds);
        }
    }

    /// The hold of this acquire has been ended by force.
    pub fn forced(&mut self, acquire: RequestNumber) {
        self.remove(acquire);
        self.forced.insert(acquire);
        if self.forced.len() > FORCED_MAX {
            self.forced.pop_first();
        }
    }

    /// Whether the client speaks of a hold that has been ended by force. It is not reminded of it again.
    pub fn forget_forced(&mut self, acquire: RequestNumber) -> bool {
        self.forced.remove(&acquire)
    }

    pub fn forced_acquires(&self) -> impl Iterator<Item = RequestNumber> {
        self.forced.iter().copied()
    }
}
