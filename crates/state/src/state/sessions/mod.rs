//! The open sessions, and that each request is applied once. This module does not look into the requests.

mod ended;
pub mod limits;
mod record;
mod session;
mod words;

use std::sync::Arc;

use imbl::OrdMap;

pub use record::{Record, SessionRecord};
pub use session::{Kept, Session, Who};
pub use words::{Command, EndReason, Open, Refusal};

use super::{Answer, Request, RequestNumber, SessionId};
use ended::Ended;
use session::Place;

/// The record of the term, in words, which every snapshot must have once.
pub(in crate::state) const HEAD: &str = "the term";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// The term of the last `Lead`.
    term: u64,
    sessions: OrdMap<SessionId, Arc<Session>>,
    ended: Ended,
}

/// What to do with a request that has arrived.
pub(super) enum Arrival {
    /// The request came for the first time. It must be applied and answered.
    New,
    /// The request came for the first time, and is invalid.
    Invalid(String),
    /// The request was answered before.
    Answered(Answer),
    /// The request waits already, or its client has seen its answer.
    Known,
    /// The request is refused, and the refusal is not kept.
    Refused(Refusal),
    NoSession,
}

impl Sessions {
    /// A session that has not ended.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id).map(Arc::as_ref)
    }

    /// All sessions from this id on, in order of id.
    pub fn from(&self, id: SessionId) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.range(id..).map(|(&id, session)| (id, session.as_ref()))
    }

    /// The longest TTL of all sessions; 0 if there is none.
    pub(super) fn longest_ttl_ms(&self) -> u64 {
        self.sessions.values().map(|session| session.ttl_ms).max().unwrap_or(0)
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the session is one of the last that ended, and did not begin again.
    pub fn has_ended(&self, id: SessionId) -> bool {
        self.ended.contains(id)
    }

    /// Whether no session was ever opened, as far as this is remembered.
    pub(super) fn is_untouched(&self) -> bool {
        self.sessions.is_empty() && self.ended.iter().next().is_none()
    }

    /// The term of the last `Lead`.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The session must exist.
    pub(super) fn label(&self, id: SessionId) -> &str {
        &self.there(id).who.label
    }

    /// The session must exist.
    pub(super) fn who(&self, id: SessionId) -> &Arc<Who> {
        &self.there(id).who
    }

    pub(super) fn lead(&mut self, term: u64) {
        self.term = term;
    }

    /// Begins the session, unless it exists, the Open is a resume, or the Open is invalid. Returns the session if it
    /// begins. An Open may be invalid if it did not come from our front end.
    pub(super) fn open(&mut self, open: &Open, max_ttl_ms: u64) -> Option<Arc<Session>> {
        let begins = !open.resume
            && !self.sessions.contains_key(&open.session)
            && open.ttl_ms <= max_ttl_ms
            && limits::check_open(open.ttl_ms, &open.label, &open.host).is_ok();
        let session = begins.then(|| Arc::new(Session::new(open)))?;
        self.sessions.insert(open.session, session.clone());
        self.ended.remove(open.session);
        Some(session)
    }

    /// Whether an Expire that was counted in this term ends the session.
    pub(super) fn may_expire(&self, id: SessionId, term: u64) -> bool {
        term == self.term && self.sessions.contains_key(&id)
    }

    pub(super) fn end(&mut self, id: SessionId) -> Arc<Session> {
        let session = self.sessions.remove(&id).expect("a session that ends must exist");
        self.ended.push(id);
        session
    }

    /// Registers a request. If it is new, it is pending from now on.
    pub(super) fn arrives(&mut self, request: &Request) -> Arrival {
        let Some(session) = self.sessions.get_mut(&request.session).map(Arc::make_mut) else {
            return Arrival::NoSession;
        };
        // An invalid request does not mark any answer as seen.
        let sense = limits::check_seen(request.number, request.seen, &request.missing);
        if sense.is_ok() {
            session.saw(request.seen, &request.missing);
        }
        let fingerprint = request.operation.fingerprint();
        match session.place(request.number, fingerprint) {
            Place::Reused => return Arrival::Refused(Refusal::NumberReused),
            Place::Answered(answer) => return Arrival::Answered(answer.clone()),
            Place::Pending | Place::Seen => return Arrival::Known,
            Place::Free => {}
        }
        let limit = request.operation.requests_max();
        if session.is_full(limit) {
            return Arrival::Refused(Refusal::TooManyRequests { limit: limit as u32 });
        }
        session.pending(request.number, fingerprint);
        match sense.and_then(|()| limits::check_number(request.number)) {
            Err(invalid) => Arrival::Invalid(invalid.to_string()),
            Ok(()) => request.operation.check(request.number).map_or_else(Arrival::Invalid, |()| Arrival::New),
        }
    }

    /// Keeps an answer until the client has seen it.
    pub(super) fn answer(&mut self, id: SessionId, number: RequestNumber, answer: &Answer) {
        self.there_mut(id).answer(number, answer);
    }

    /// Keeps an answer to a request that has not arrived yet. Does nothing if the request is known. The request gets
    /// the answer when it arrives.
    pub(super) fn answer_ahead(&mut self, id: SessionId, number: RequestNumber, answer: Answer) {
        let session = self.there_mut(id);
        if !session.is_known(number) {
            session.answer(number, &answer);
        }
    }

    fn there(&self, id: SessionId) -> &Session {
        self.get(id).expect("a session with claims or requests must exist")
    }

    fn there_mut(&mut self, id: SessionId) -> &mut Session {
        let session = self.sessions.get_mut(&id).expect("a session with claims or requests must exist");
        Arc::make_mut(session)
    }
}
