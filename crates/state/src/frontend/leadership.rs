//! When this node begins and ceases to lead.

use super::{Closing, Frontend, Note, Output, Standing};
use crate::state::{State, sessions};

/// Pause before this node proposes `Lead` again after a lost proposal.
pub const LEAD_AGAIN_MS: u64 = 100;

/// Whether this node leads, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// A majority has confirmed that this node leads. A member of a peer group always leads: its clients are its own.
    Leads { term: u64 },
    /// This node does not lead, or no majority has confirmed it yet.
    DoesNotLead {
        /// The node that leads, if this node knows it.
        leader: Option<u64>,
    },
}

impl Frontend {
    /// The leadership has changed. The shell may miss a change, but not the latest one.
    pub fn told(&mut self, leadership: Leadership) {
        match leadership {
            Leadership::Leads { term } => self.elected(term),
            Leadership::DoesNotLead { .. } => self.deposed(),
        }
    }

    /// This node was elected, or a majority confirms it again. It leads once its own `Lead` is applied: after that, no
    /// entry of an earlier term follows in the log.
    pub(super) fn elected(&mut self, term: u64) {
        let known = match self.standing {
            Standing::Begins { term, .. } | Standing::Leads { term } => Some(term),
            Standing::Follows => None,
            Standing::Stopped => return,
        };
        if known <= Some(term) {
            // The shell tells only changes. So if it tells the same term again, it missed that this node had lost its
            // majority.
            let why = if known == Some(term) { Closing::NotLeading } else { Closing::TermEnded };
            self.reset(&why);
            self.begin_to_lead(term);
        }
    }

    /// This node no longer leads, or cannot be sure.
    pub(super) fn deposed(&mut self) {
        if self.standing != Standing::Stopped {
            self.reset(&Closing::NotLeading);
            self.standing = Standing::Follows;
        }
    }

    /// A proposal of this term was refused, or may be lost. Earlier proposals may be applied or not, so this node
    /// begins to lead again. Old proposals that are still applied come before the new `Lead`. `is_lead` is true if the
    /// lost proposal was a `Lead`, for which this node must not wait. It goes on to wait for its other `Lead`s: the term
    /// may go on, and then they are applied.
    pub fn lost(&mut self, now_ms: u64, lost_in: u64, is_lead: bool) {
        if is_lead {
            self.lead_is_over(lost_in);
        }
        match self.standing {
            Standing::Begins { term, .. } | Standing::Leads { term } if term == lost_in => {
                self.reset(&Closing::TermEnded);
                self.standing = Standing::Begins { term, again_ms: Some(now_ms.saturating_add(LEAD_AGAIN_MS)) };
            }
            _ => {}
        }
    }

    pub(super) fn begin_to_lead(&mut self, term: u64) {
        self.standing = Standing::Begins { term, again_ms: None };
        let before = if self.leads_under_way.0 == term { self.leads_under_way.1 } else { 0 };
        self.leads_under_way = (term, before + 1);
        let command = sessions::Command::Lead { term }.into();
        self.out.push_back(Output::Propose { term, command });
    }

    /// A `Lead` of this term is applied. Returns whether it is the last one that this node proposed: between an older one
    /// and the last one there may be proposals that this node has forgotten.
    pub(super) fn is_last_lead(&mut self, term: u64) -> bool {
        self.lead_is_over(term);
        self.leads_under_way.1 == 0
    }

    /// A `Lead` of this term is applied, or lost.
    fn lead_is_over(&mut self, term: u64) {
        let (of, under_way) = &mut self.leads_under_way;
        if *of == term {
            *under_way = under_way.saturating_sub(1);
        }
    }

    /// The last `Lead` of this term is applied: all leases start again, with their full TTL.
    pub(super) fn lead(&mut self, now_ms: u64, state: &State, term: u64) {
        self.standing = Standing::Leads { term };
        self.leases.lead(now_ms, term, &state.pending_timers());
        self.out.push_back(Output::Note(Note::Leads { term, sessions: self.leases.sessions() }));
    }
}
