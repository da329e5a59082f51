//! What a module may do while a command is applied.

use std::sync::Arc;

use super::change::{Cause, Held};
use super::locks::Grants;
use super::sessions::{EndReason, Open, Sessions, Who};
use super::{Answer, Change, Effect, Outcome, RequestNumber, SessionId, What};

/// The context of one command: the parts of the state that every module may use, and the outcome.
pub(super) struct Turn<'a> {
    pub index: u64,
    pub now_ms: u64,
    pub grants: Grants,
    /// Whether the feed keeps the changes.
    pub is_kept: bool,
    pub revision: &'a mut u64,
    /// True if this command has raised the revision.
    pub raised: bool,
    pub sessions: &'a mut Sessions,
    pub outcome: &'a mut Outcome,
}

impl Turn<'_> {
    pub fn tell(&mut self, effect: impl Into<Effect>) {
        self.outcome.effects.push(effect.into());
    }

    /// Answers a request, and keeps the answer until the client has seen it.
    pub fn answer(&mut self, session: SessionId, number: RequestNumber, answer: impl Into<Answer>) {
        let answer = answer.into();
        self.sessions.answer(session, number, &answer);
        self.tell(Effect::Answer { session, number, answer });
    }

    /// Raises the revision at the first call within a command. Returns the raised revision.
    pub fn revise(&mut self) -> u64 {
        if !self.raised {
            *self.revision += 1;
            self.raised = true;
        }
        *self.revision
    }

    /// Adds a change that is about this session.
    pub fn change(&mut self, session: SessionId, revision: Option<u64>, what: impl Into<What>, cause: Option<Cause>) {
        let who = self.is_kept.then(|| self.sessions.who(session).clone());
        self.add(revision, who, what.into(), cause);
    }

    /// Adds a change that is about no session.
    pub fn change_alone(&mut self, what: impl Into<What>, cause: Option<Cause>) {
        self.add(None, None, what.into(), cause);
    }

    fn add(&mut self, revision: Option<u64>, who: Option<Arc<Who>>, what: What, cause: Option<Cause>) {
        let position = self.outcome.changes.len() as u32;
        self.outcome.changes.push(Change { index: self.index, position, revision, who, cause, what });
    }

    /// Begins or resumes a session. Returns whether the session exists now.
    pub fn open(&mut self, open: &Open, max_ttl_ms: u64) -> bool {
        if let Some(begun) = self.sessions.open(open, max_ttl_ms) {
            let what = What::Session { id: open.session, before: None, after: Some(begun), held: None };
            self.change(open.session, None, what, None);
        }
        let opened = match self.sessions.get(open.session) {
            Some(session) => Effect::Opened { session: open.session, ttl_ms: session.ttl_ms },
            None => Effect::Ended { session: open.session, reason: super::EndReason::Unknown },
        };
        let is_open = matches!(opened, Effect::Opened { .. });
        self.tell(opened);
        is_open
    }

    /// `held`: the locks that it held, if the feed keeps the change.
    pub fn end(&mut self, id: SessionId, reason: EndReason, held: Option<Held>) {
        let before = self.sessions.end(id);
        let cause = if reason == EndReason::Expired { Cause::Expired } else { Cause::Closed };
        let who = self.is_kept.then(|| before.who.clone());
        let what = What::Session { id, before: Some(before), after: None, held: held.map(Arc::new) };
        self.add(None, who, what, Some(cause));
    }
}
