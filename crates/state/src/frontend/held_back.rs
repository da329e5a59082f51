//! Requests that need not hurry, such as acquires that wait behind others anyway: each goes into the log with the next
//! proposal.
//!
//! When a lock with a queue is released, two requests come at the same time: the client that released it asks for it
//! again, and the client that has it now releases it soon. If the first went into the log alone, the release would wait
//! until the disks have it. Held back, both share a sync.

use super::modules::Modules;
use super::{Frontend, Output, Standing};
use crate::state::{Command, Request, State};

/// The longest time that a request is held back.
pub const HELD_BACK_MS: u64 = 2;

/// Proposals that are held back, in order. They count as under way.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldBack {
    commands: Vec<Command>,
    until_ms: u64,
}

impl HeldBack {
    pub fn add(&mut self, now_ms: u64, command: Command) {
        if self.commands.is_empty() {
            self.until_ms = now_ms.saturating_add(HELD_BACK_MS);
        }
        self.commands.push(command);
    }

    pub fn next_wake(&self) -> Option<u64> {
        (!self.commands.is_empty()).then_some(self.until_ms)
    }
}

impl Frontend {
    /// Proposes what is held back. Comes before every other proposal, so that the order is kept.
    pub(super) fn propose_held_back(&mut self) {
        if let Standing::Leads { term } = self.standing {
            let propose = |command| Output::Propose { term, command };
            self.out.extend(self.held_back.commands.drain(..).map(propose));
        }
    }
}

/// Whether a request need not hurry. A repeated one may get its answer at once.
pub(super) fn may_be_held_back(state: &State, request: &Request) -> bool {
    Modules::may_be_held_back(state, &request.operation) && !state.request_known(request.session, request.number)
}
