//! Who gets a lock, and when.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::claim::Claim;
use super::{Answer, LockName, Locks, Names, What};
use crate::state::turn::Turn;

impl Locks {
    /// Whether a new claim can have all its locks now: nobody waits for one of them, and each admits it.
    pub(super) fn is_free_for(&self, claim: &Claim) -> bool {
        claim.wants.iter().all(|want| match self.locks.get(&want.lock) {
            None => true,
            Some(lock) => lock.next_waiter().is_none() && lock.admits(&want.lock, want.mode),
        })
    }

    /// The fence of a grant. A claim of one lock that shares it takes the fence of the lock's last grant; every other claim has
    /// one of its own. So the fences of a lock never fall, in the order of its grants.
    pub(super) fn fence_for(&mut self, claim: &Claim) -> NonZeroU64 {
        if let [want] = &claim.wants[..]
            && let Some(fence) = self.locks.get(&want.lock).and_then(|lock| lock.shared_fence(&want.lock, want.mode))
        {
            return fence;
        }
        self.last_fence += 1;
        NonZeroU64::new(self.last_fence).expect("fences go from 1 on")
    }

    /// Grants these locks, one after the other, to as many waiters as can have them now, and forgets those of which nothing is
    /// left. Whoever stood behind a claim of several locks that is granted may be next at the others: they are looked at
    /// last.
    pub(super) fn grant_next(&mut self, turn: &mut Turn<'_>, mut names: Names) {
        let mut looked_at = 0;
        while let Some(name) = names.get(looked_at).cloned() {
            looked_at += 1;
            while let Some(claim) = self.grantable(&name) {
                let others = claim.wants.iter().map(|want| &want.lock).filter(|lock| **lock != name);
                names.extend(others.cloned());
                self.grant(turn, &claim);
            }
            self.forget_if_idle(&name);
        }
    }

    /// The first waiter of the lock, if it can have all its locks now: it is the first waiter of each of them.
    pub(super) fn grantable(&self, name: &LockName) -> Option<Arc<Claim>> {
        let first = self.locks.get(name)?.next_waiter()?;
        let is_next = |want: &super::Want| {
            let lock = self.locks.get(&want.lock).expect("a claim's locks are there");
            lock.next_waiter().is_some_and(|next| next.ticket == first.ticket) && lock.admits(&want.lock, want.mode)
        };
        first.wants.iter().all(is_next).then(|| first.clone())
    }

    fn grant(&mut self, turn: &mut Turn<'_>, waiter: &Arc<Claim>) {
        let fence = self.fence_for(waiter);
        let holder = Claim { fence: Some(fence), since_ms: turn.now_ms, timeout_ms: None, ..Claim::clone(waiter) };
        let holder = Arc::new(holder);
        self.replace(&holder);
        for want in &holder.wants {
            self.lock_mut(&want.lock).held += 1;
        }
        self.waits.remove(&holder.owner_key()).expect("a waiter is found by its owner");
        self.index(&holder);
        turn.change(None, What::Claim { before: Some(waiter.clone()), after: Some(holder.clone()) });
        turn.answer(holder.session, holder.number, Answer::Granted { fence: fence.get() });
    }

    /// Puts a claim in the place of what it was before.
    pub(super) fn replace(&mut self, claim: &Arc<Claim>) {
        for want in &claim.wants {
            let lock = self.lock_mut(&want.lock);
            let at = lock.position(claim.ticket);
            lock.line[at] = claim.clone();
        }
        let before = self.claims.insert(claim.key(), claim.clone());
        assert!(before.is_some_and(|before| before.ticket == claim.ticket), "a claim changes in its place");
    }
}
