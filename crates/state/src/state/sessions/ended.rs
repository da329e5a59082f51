//! The sessions that ended last.
//!
//! A late Open could begin a session again that its client has closed. The state applies such an Open, because it
//! always did, and replaying a log must not give another result. The front end asks here before it proposes an Open.

use imbl::{OrdSet, Vector};

use super::limits::ENDED_MAX;
use crate::state::SessionId;

/// The ids of the last [`ENDED_MAX`] sessions that ended and did not begin again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The earliest end comes first.
    order: Vector<SessionId>,
    /// The same ids, for lookups.
    ids: OrdSet<SessionId>,
}

impl Ended {
    pub fn contains(&self, id: SessionId) -> bool {
        self.ids.contains(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.order.iter().copied()
    }

    /// Adds a session that has ended. Beyond the limit, forgets the earliest one.
    pub fn push(&mut self, id: SessionId) {
        self.restore(id).expect("an ended session is added once");
        if self.order.len() > ENDED_MAX {
            let first = self.order.pop_front().expect("the list is not empty");
            self.ids.remove(&first);
        }
    }

    /// Removes a session that begins again. The search is linear, but this is very rare.
    pub fn remove(&mut self, id: SessionId) {
        if self.ids.remove(&id).is_some() {
            let at = self.order.index_of(&id).expect("both lists have the same ids");
            self.order.remove(at);
        }
    }

    /// Adds an id from a snapshot. Does not apply the limit; `check` does.
    pub fn restore(&mut self, id: SessionId) -> Result<(), String> {
        if self.ids.insert(id).is_some() {
            return Err(format!("session {id} appears twice among the ended sessions"));
        }
        self.order.push_back(id);
        Ok(())
    }

    /// Fails if there are too many.
    pub fn check(&self) -> Result<(), String> {
        match self.order.len() {
            0..=ENDED_MAX => Ok(()),
            many => Err(format!("{many} ended sessions are remembered; the limit is {ENDED_MAX}")),
        }
    }
}
