//! Detects deadlocks: whether a request would wait for itself.
//!
//! The vertices are owners. An owner that waits for nothing can finish: it releases all its locks, and the next claims
//! in their lines are granted. If the owner of such a claim then waits for nothing more, that owner can finish, too.
//! This reduction of the graph is needed because of permits: if several claims hold permits of a lock, a waiter needs
//! only one of them to finish, so a cycle alone is no deadlock. A new claim waits for itself if it is not granted even
//! after every owner that can finish has finished. If no owner has a parent, only the new claim can cause a deadlock:
//! before it, every owner could finish, and no claim waits behind it yet.
//!
//! A claim that waits with a time-out counts as one that waits for ever. A closed lock counts as one that will open.
//!
//! Parents: a parent process waits for its children, so an owner can finish only when every owner that acts for it has
//! finished. An owner acts for another one if it has a claim, waiting or holding, that names the other one as parent.
//! So waiting for an ancestor is a deadlock, and waiting for a sibling is not. Clients may be wrong about parents:
//!
//! - An owner that names itself has no parent.
//! - Owners that are each other's ancestors cannot finish: each waits for the others.
//! - A claim that is granted at once is never refused, because it waits for no owner. The parent that it names may
//!   reveal a deadlock that existed before, or may be false. Hence a new claim that is not granted may find owners that
//!   could not finish before it. It is refused only if a path leads from it back to its own owner; otherwise it waits.
//!
//! **The answer is a part of the log's meaning**: which claims are refused, and with which cycle, must never change. The
//! cycle is the shortest one; among several of one length, the order in which `search.rs` visits the lines decides.
//! `naive.rs`, which reads whole lines, says what is right.
//!
//! Work: see `search.rs`. It does not grow with the claims that only wait in one line, as nearly all claims do. The front
//! end lets no acquire into the log whose check would be long ([`Locks::is_check_long`]).

mod graph;
#[cfg(test)]
mod naive;
mod search;
#[cfg(test)]
mod tests;

use super::limits::{VISITS_MAX, WANTS_MAX};
use super::{Acquire, Claim, Locks, WaitFor, cycle};
use crate::state::sessions::Sessions;
use crate::state::{RequestNumber, SessionId};
use graph::Step;
use search::Search;

impl Locks {
    /// The cycle that this claim would close if it waited, beginning with itself.
    pub(super) fn cycle(&self, sessions: &Sessions, new: &Claim) -> Option<Vec<WaitFor>> {
        let steps = Search::new(self, new).cycle()?;
        let in_words =
            |Step { owner, session, lock }| WaitFor { owner, label: sessions.label(session).to_owned(), lock };
        Some(cycle::shown(steps.into_iter().map(in_words)))
    }

    /// Whether the check of this new acquire for a deadlock would take more than [`VISITS_MAX`] visits. An acquire that
    /// does not wait is not checked. The front end asks this before it proposes; the meaning of the log does not depend on it.
    pub(in crate::state) fn is_check_long(&self, session: SessionId, acquire: &Acquire) -> bool {
        // A search reads nothing else, each claim a few times per lock. So few claims never make it long.
        let claims_and_children = self.waits.len() + self.contended.len() + self.children.len();
        if claims_and_children < VISITS_MAX / WANTS_MAX || self.are_free(&acquire.wants) != Ok(false) {
            return false;
        }
        let claim = self.new_claim(session, RequestNumber::MAX, acquire, 0);
        Search::new(self, &claim).takes_more_than(VISITS_MAX)
    }
}
