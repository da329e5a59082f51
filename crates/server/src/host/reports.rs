//! How a replica reports to its host.

use std::sync::{Arc, Weak};

use baton_types::frames::Hopeless;

use super::Shell;
use crate::frontend::Frontend;
use crate::replica::Replica;
use crate::state::locks::LockName;
use crate::state::{Entry, Outcome, State};

/// Through this a replica reports to its host. A report takes the lock of the front end, and never the replica's state.
pub struct Reports<R>(Weak<Shell<R>>);

impl<R> Clone for Reports<R> {
    fn clone(&self) -> Self {
        Reports(self.0.clone())
    }
}

impl<R: Replica> Reports<R> {
    pub(super) fn new(shell: &Arc<Shell<R>>) -> Self {
        Reports(Arc::downgrade(shell))
    }

    /// An entry of this term was applied. `state` is the state right after it; no other entry may be applied meanwhile.
    pub fn applied(&self, term: u64, entry: &Entry, outcome: &Outcome, state: &State) {
        if let Some(command) = entry.of_frontend() {
            self.tell(|frontend, now_ms| frontend.applied(now_ms, state, term, command, outcome));
        }
    }

    /// A proposal of this term may be lost: see [`Frontend::lost`].
    pub fn lost(&self, term: u64, is_lead: bool) {
        self.tell(|frontend, now_ms| frontend.lost(now_ms, term, is_lead));
    }

    /// A lock of a member of a peer group was granted or denied: see [`State::admit`]. `state` is the state right after that.
    pub fn admitted(&self, outcome: &Outcome, state: &State) {
        self.tell(|frontend, now_ms| frontend.admitted(now_ms, state, outcome));
    }

    /// The waiters for these locks wait without hope: see [`Frontend::hopeless`].
    pub fn hopeless<'a>(&self, state: &State, locks: impl IntoIterator<Item = &'a LockName>, why: &Hopeless) {
        self.tell(|frontend, now_ms| frontend.hopeless(now_ms, state, locks, why));
    }

    /// Whether the front end answers clients. It never does so again once the host has stopped.
    pub fn serves(&self) -> bool {
        self.0.upgrade().is_some_and(|shell| shell.inner().frontend.leads())
    }

    /// Does nothing while the replica opens. A node of Raft then applies the entries that it had applied before; it does
    /// not lead yet, so the front end needs none of them.
    fn tell(&self, tell: impl FnOnce(&mut Frontend, u64)) {
        // A weak reference, because the shell owns the replica, and the replica owns this.
        if let Some(shell) = self.0.upgrade().filter(|shell| shell.replica.get().is_some()) {
            shell.step(tell);
        }
    }
}
