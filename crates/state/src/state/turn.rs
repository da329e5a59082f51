//! What a module may do while a command is applied.

use super::locks::Grants;
use super::sessions::{Open, Sessions};
use super::{Answer, Change, Effect, Outcome, RequestNumber, SessionId, What};

/// The context of one command: the parts of the state that every module may use, and the outcome.
pub(super) struct Turn<'a> {
    pub index: u64,
    pub now_ms: u64,
    pub grants: Grants,
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

    pub fn change(&mut self, revision: Option<u64>, what: impl Into<What>) {
        let (position, what) = (self.outcome.changes.len() as u32, what.into());
        self.outcome.changes.push(Change { index: self.index, position, revision, what });
    }

    /// Begins or resumes a session. Returns whether the session exists now.
    pub fn open(&mut self, open: &Open, max_ttl_ms: u64) -> bool {
        if let Some(begun) = self.sessions.open(open, max_ttl_ms) {
            self.change(None, What::Session { id: open.session, before: None, after: Some(begun) });
        }
        let opened = match self.sessions.get(open.session) {
            Some(session) => Effect::Opened { session: open.session, ttl_ms: session.ttl_ms },
            None => Effect::Ended { session: open.session, reason: super::EndReason::Unknown },
        };
        let is_open = matches!(opened, Effect::Opened { .. });
        self.tell(opened);
        is_open
    }

    pub fn end(&mut self, id: SessionId) {
        let before = Some(self.sessions.end(id));
        self.change(None, What::Session { id, before, after: None });
    }
}
