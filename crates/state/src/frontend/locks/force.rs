//! Forced releases: a call for one command, whose answer names the holders.

use super::super::{CallId, Frontend, Note, Output, Reply, words};
use crate::state::locks::{Command, Effect, ForcedHolder, LockName};
use crate::state::{self, Caller, Outcome};

impl Frontend {
    /// A call forces the release of a lock. The answer names the holders at that time.
    pub fn force(&mut self, call: CallId, lock: LockName, now: bool, caller: Caller) {
        self.call(call, Command::Force { lock, now, caller }.into());
    }

    /// A call's `Force` was applied, and hit these holders.
    pub(in crate::frontend) fn forced(&mut self, now_ms: u64, call: CallId, holders: &[ForcedHolder]) {
        let shown =
            |holder: &ForcedHolder| words::holder(holder, self.leases.expires_in(holder.session, now_ms).unwrap_or(0));
        let shown = holders.iter().map(shown).collect();
        self.reply(call, Reply::Forced(shown));
    }

    /// Tells the operator of a forced release, unless the lock had no holder and nothing changed.
    pub(in crate::frontend) fn note_forced(&mut self, command: &state::Command, outcome: &Outcome) {
        let state::Command::Locks(Command::Force { now, caller, .. }) = command else { return };
        for effect in &outcome.effects {
            if let state::Effect::Locks(Effect::Forced { lock, holders }) = effect
                && !(holders.is_empty() && outcome.changes.is_empty())
            {
                let (lock, now, holders, by) = (lock.clone(), *now, holders.len(), caller.from);
                self.out.push_back(Output::Note(Note::Forced { lock, now, holders, by }));
            }
        }
    }
}
