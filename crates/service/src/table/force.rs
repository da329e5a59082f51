//! Somebody who is not the holder wants a lock released.
//!
//! Without `now` the holders are told, and the lock stays theirs until they give it back (or close their session, or it
//! expires): nothing overlaps. With `now` it is taken from them at once, together with a lock-delay: whoever asks for that takes
//! the risk that a holder still runs. Its release, when it comes, is answered by Released all the same.

use super::locks::LockId;
use super::session::Place;
use super::{Effect, Ended, Table};

impl Table {
    pub(super) fn force(&mut self, name: &str, now: bool, effects: &mut Vec<Effect>) {
        let Some(id) = self.locks.find(name) else { return };
        let Some(lock) = self.locks.get_mut(id) else { return };
        for holder in &mut lock.holders {
            holder.revoked = true;
            effects.push(Effect::Revoked { session: holder.claim.session, acquire: holder.claim.number });
        }
        if now {
            self.take_at_once(id);
            self.grant_next(id, effects);
        }
    }

    fn take_at_once(&mut self, id: LockId) {
        self.locks.set_delay(id, None);
        let tickets: Vec<_> = match self.locks.get(id) {
            Some(lock) => lock.holders.iter().map(|holder| holder.claim.ticket).collect(),
            None => return,
        };
        // From the last on, so that none has to move up; remembered from the first on.
        let holders: Vec<_> =
            tickets.into_iter().rev().filter_map(|ticket| self.locks.remove_holder(id, ticket)).collect();
        for holder in holders.iter().rev() {
            self.remember(id, holder, Ended::Forced);
            if let Some(session) = self.sessions.get_mut(&holder.claim.session) {
                session.forced(holder.claim.number);
            }
        }
    }

    pub(super) fn is_revoked(&self, place: Place) -> bool {
        let holder = |lock: &super::lock::Lock| lock.holder(place.ticket).map(|i| lock.holders[i].revoked);
        self.locks.get(place.lock).and_then(holder).unwrap_or(false)
    }
}
