//! The state of a member together with its turns. Pure.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use baton_state::state::locks::{self, Grants, LockName};
use baton_state::state::{Entry, Outcome, RequestNumber, SessionId, State, What};

use crate::turns::{Action, Seen, Turns};

pub struct Local {
    state: State,
    turns: Turns,
    /// Counts the changes, as the index of a log would.
    index: u64,
}

impl Local {
    pub fn new() -> Self {
        Local { state: State::default(), turns: Turns::default(), index: 0 }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn index(&self) -> u64 {
        self.index
    }

    pub fn apply(&mut self, entry: &Entry) -> Outcome {
        self.index += 1;
        let mut outcome = Outcome::default();
        for command in &entry.commands {
            self.state.apply_by(Grants::ByGroup, self.index, entry.now_ms, command, &mut outcome);
        }
        self.look(&outcome);
        outcome
    }

    /// The group lets the member in, with this fence.
    pub fn granted(&mut self, now_ms: u64, lock: &LockName, fence: NonZeroU64) -> Outcome {
        self.index += 1;
        if !self.turns.granted(lock, Seen::of(&self.state, lock)) {
            return Outcome::default();
        }
        let outcome = self.state.admit(self.index, now_ms, lock, fence);
        self.look(&outcome);
        outcome
    }

    /// The group cannot let the member in. The first waiter is refused; the member asks again for the next one.
    pub fn refused(&mut self, now_ms: u64, lock: &LockName, why: String) -> Outcome {
        self.index += 1;
        self.turns.refused(lock);
        let outcome = self.state.deny(self.index, now_ms, lock, why);
        self.look(&outcome);
        outcome
    }

    /// The lock that this acquire waits for, and since when, if it does.
    pub fn waits_for(&self, session: SessionId, number: RequestNumber) -> Option<(LockName, u64)> {
        let session = self.state.session(session)?;
        let claim = session.claims_from(number).next().filter(|claim| claim.number == number && !claim.holds())?;
        claim.wants.first().map(|want| (want.lock.clone(), claim.since_ms))
    }

    /// The group cannot let the member in, and this acquire waits no longer.
    pub fn cannot_wait(&mut self, now_ms: u64, session: SessionId, number: RequestNumber, why: String) -> Outcome {
        self.index += 1;
        let outcome = self.state.deny_one(self.index, now_ms, session, number, why);
        self.look(&outcome);
        outcome
    }

    /// What the member must tell its group, in order. Each action is returned once.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.turns.take_actions()
    }

    /// The locks that the member has asked for.
    pub fn asked_for(&self) -> impl Iterator<Item = &LockName> {
        self.turns.asked_for()
    }

    /// Takes the turns of all locks that changed.
    fn look(&mut self, outcome: &Outcome) {
        let mut changed = BTreeSet::new();
        for change in &outcome.changes {
            match &change.what {
                What::Session { .. } | What::Member { .. } | What::Leader { .. } => {}
                What::Locks(locks::What::Claim { before, after }) => {
                    let claims = before.iter().chain(after);
                    changed.extend(claims.flat_map(|claim| &claim.wants).map(|want| &want.lock));
                }
                What::Locks(locks::What::Delay { lock, .. }) => drop(changed.insert(lock)),
                #[allow(unreachable_patterns, reason = "only tests have another module")]
                _ => {}
            }
        }
        for lock in changed {
            self.turns.look(lock, Seen::of(&self.state, lock));
        }
    }
}
