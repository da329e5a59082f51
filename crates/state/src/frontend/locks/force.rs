//! Forced releases: a call for one command, whose answer names the holders.

use super::super::{CallId, Frontend};
use super::Note;
use crate::state::locks::{Command, Effect, LockName};
use crate::state::{self, Caller, Outcome};

impl Frontend {
    /// A call forces the release of a lock. The answer names the holders at that time.
    pub fn force(&mut self, call: CallId, lock: LockName, now: bool, caller: Caller) {
        self.call(call, Command::Force { lock, now, caller }.into());
    }
}

/// Tells the operator of a forced release, unless the lock had no holder and nothing changed.
pub(super) fn note(command: &Command, outcome: &Outcome) -> Option<Note> {
    let Command::Force { now, caller, .. } = command else { return None };
    outcome.effects.iter().find_map(|effect| match effect {
        state::Effect::Locks(Effect::Forced { lock, holders })
            if !(holders.is_empty() && outcome.changes.is_empty()) =>
        {
            Some(Note::Forced { lock: lock.clone(), now: *now, holders: holders.len(), by: caller.from })
        }
        _ => None,
    })
}
