//! The sessions that ended last.
//!
//! An Open that comes late would begin a session anew that its client has closed. It is applied all the same, since it always
//! was; whoever proposes can ask here first.

use imbl::{OrdSet, Vector};

use super::limits::ENDED_MAX;
use crate::state::SessionId;

/// The ids of the last [`ENDED_MAX`] sessions that ended and were not begun anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The one that ended first comes first.
    order: Vector<SessionId>,
    /// The same, to be found.
    ids: OrdSet<SessionId>,
}

impl Ended {
    pub fn contains(&self, id: SessionId) -> bool {
        self.ids.contains(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.order.iter().copied()
    }

    /// A session has ended. If that is one too many, the first is forgotten.
    pub fn push(&mut self, id: SessionId) {
        self.restore(id).expect("a session that ends was there");
        if self.order.len() > ENDED_MAX {
            let first = self.order.pop_front().expect("there are too many");
            self.ids.remove(&first);
        }
    }

    /// A session begins. If it had ended, it is looked for among all: that hardly ever happens.
    pub fn remove(&mut self, id: SessionId) {
        if self.ids.remove(&id).is_some() {
            let at = self.order.index_of(&id).expect("what can be found is there");
            self.order.remove(at);
        }
    }

    /// Adds what a snapshot says, however much that is.
    pub fn restore(&mut self, id: SessionId) -> Result<(), String> {
        if self.ids.insert(id).is_some() {
            return Err(format!("session {id} is there twice among those that have ended"));
        }
        self.order.push_back(id);
        Ok(())
    }

    /// Whether there are not too many, or a sentence about it.
    pub fn check(&self) -> Result<(), String> {
        match self.order.len() {
            0..=ENDED_MAX => Ok(()),
            many => Err(format!("{many} ended sessions are remembered; at most {ENDED_MAX}")),
        }
    }
}
