//! A forced release: an operator, not the holder, wants a lock released.
//!
//! Without `now` the holders are told, and keep the lock until they release it, close their session, or their session
//! expires. So no two holders overlap. With `now` their claims end at once, and so does a lock-delay: the operator
//! takes the risk that a holder still runs. A later release by such a holder is still answered with Released.
//!
//! The effect names the holders at the time of the command: a moment earlier or later the lock may have other holders.
//!
//! A claim of several locks ends, or is told, as a whole.

use std::sync::Arc;

use super::limits::FORCED_MAX;
use super::{Claim, Effect, Ended, ForcedHolder, LockName, LockView, Locks, Names, What};
use crate::state::turn::Turn;
use crate::state::{Caller, Cause};

impl Locks {
    pub(super) fn force(&mut self, turn: &mut Turn<'_>, name: &LockName, now: bool, caller: &Caller) {
        let lock = self.locks.get(name);
        let hit = lock.into_iter().flat_map(|lock| LockView::new(turn.sessions, name, lock).holders());
        let holders = hit.map(ForcedHolder::from).collect();
        turn.tell(Effect::Forced { lock: name.clone(), holders });
        let Some(lock) = lock else { return };
        let holders: Vec<Arc<Claim>> = lock.holders().cloned().collect();
        for holder in &holders {
            turn.tell(Effect::Revoked { session: holder.session, acquire: holder.number });
        }
        let cause = Cause::Forced(Arc::new(caller.clone()));
        if now {
            self.take_at_once(turn, name, &holders, &cause);
        } else {
            holders.iter().filter(|holder| !holder.revoked).for_each(|holder| self.revoke(turn, holder, &cause));
        }
    }

    fn revoke(&mut self, turn: &mut Turn<'_>, holder: &Arc<Claim>, cause: &Cause) {
        let revoked = Arc::new(Claim { revoked: true, ..Claim::clone(holder) });
        self.replace(&revoked);
        self.revoked.insert(revoked.key());
        let what = What::Claim { before: Some(holder.clone()), after: Some(revoked) };
        turn.change(holder.session, None, what, Some(cause.clone()));
    }

    fn take_at_once(&mut self, turn: &mut Turn<'_>, name: &LockName, holders: &[Arc<Claim>], cause: &Cause) {
        self.set_delay(turn, name, None, None, Some(cause.clone()));
        let mut freed = Names::from_elem(name.clone(), 1);
        for holder in holders {
            freed.extend(self.leave(turn, holder, Ended::Forced, cause.clone()));
            let acquires = self.forced.entry(holder.session).or_default();
            acquires.insert(holder.number);
            if acquires.len() > FORCED_MAX {
                acquires.pop_first();
            }
            freed.extend(holder.wants.iter().map(|want| want.lock.clone()).filter(|lock| lock != name));
        }
        self.grant_next(turn, freed);
    }
}
