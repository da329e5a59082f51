//! The messages between candidates, leaders and judges.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::election::judge::Verdict;

impl<M> From<Verdict> for Message<M> {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Consent(term) => Message::Consent(term),
            Verdict::Refuse(term) => Message::Refuse(term),
            Verdict::StepDown(term) => Message::StepDown(term),
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message<M> {
    /// A message of the election inside.
    Election(M),
    /// Candidate to judge: may I lead in this term?
    Ask(u64),
    /// Judge to candidate: yes, in this term.
    Consent(u64),
    /// Judge to candidate or leader: no, I have consented to this term already.
    Refuse(u64),
    /// Judge to candidate or leader of this term: a better candidate waits.
    StepDown(u64),
    /// Candidate or leader to judges, and leader to all members: I do not lead in this term, and never will.
    Resign(u64),
    /// Leader to all members: I lead in this term.
    Leads(u64),
    /// To a process that the sender no longer suspects: do you lead, or ask to lead?
    Who,
}

/// The derived implementation would show the nesting of the election inside, which traces do not need.
impl<M: fmt::Debug> fmt::Debug for Message<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Election(message) => message.fmt(f),
            Message::Ask(term) => f.debug_struct("Ask").field("term", term).finish(),
            Message::Consent(term) => f.debug_struct("Consent").field("term", term).finish(),
            Message::Refuse(term) => f.debug_struct("Refuse").field("term", term).finish(),
            Message::StepDown(term) => f.debug_struct("StepDown").field("term", term).finish(),
            Message::Resign(term) => f.debug_struct("Resign").field("term", term).finish(),
            Message::Leads(term) => f.debug_struct("Leads").field("term", term).finish(),
            Message::Who => f.write_str("Who"),
        }
    }
}

impl<M: crate::Message> crate::Message for Message<M> {
    fn kind(&self) -> &'static str {
        match self {
            Message::Election(message) => message.kind(),
            Message::Ask(_) => "ASK",
            Message::Consent(_) => "CONSENT",
            Message::Refuse(_) => "REFUSE",
            Message::StepDown(_) => "STEP-DOWN",
            Message::Resign(_) => "RESIGN",
            Message::Leads(_) => "LEADS",
            Message::Who => "WHO",
        }
    }
}
