//! Decides which claim gets a lock, and when.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::claim::Claim;
use super::lock::Lock;
use super::{Answer, Grants, Locks, Mode, Names, Refusal, Want, What};
use crate::state::turn::Turn;

impl Locks {
    /// Whether a new claim can be granted now: no claim waits for one of its locks, and each lock admits it. While a
    /// lock is in use, all claims must name the same number of permits. Never true in a closed cluster.
    pub(super) fn are_free(&self, wants: &[Want]) -> Result<bool, Refusal> {
        let mut are_free = !self.closed;
        for want in wants {
            let Some(lock) = self.locks.get(&want.lock) else { continue };
            let says = want.mode.permits();
            if lock.in_use() && lock.permits != says {
                return Err(Refusal::PermitsDiffer { lock: Some(want.lock.clone()), has: lock.permits, says });
            }
            are_free &= lock.next_waiter().is_none() && lock.admits(&want.lock, want.mode);
        }
        Ok(are_free)
    }

    /// The fence of a grant. A shared claim of one lock takes the fence of the lock's last grant, if it joins shared
    /// holders. Every other claim gets a new fence. So the fences of a lock never fall, in the order of its grants.
    pub(super) fn fence_for(&mut self, wants: &[Want]) -> NonZeroU64 {
        if let [Want { lock: name, mode: mode @ Mode::Shared }] = wants
            && let Some(fence) = self.locks.get(name).and_then(|lock| lock.shared_fence(name, *mode))
        {
            return fence;
        }
        self.last_fence += 1;
        NonZeroU64::new(self.last_fence).expect("fences go from 1 on")
    }

    /// Grants these locks, one after the other, to as many waiters as possible, and forgets idle locks. If a claim of
    /// several locks is granted, the claims behind it may be next at its other locks. Those locks are checked last. If
    /// a group grants, or in a closed cluster, this only forgets idle locks.
    pub(super) fn grant_next(&mut self, turn: &mut Turn<'_>, mut names: Names) {
        let grants = turn.grants == Grants::ByState && !self.closed;
        let mut looked_at = 0;
        while let Some(name) = names.get(looked_at).cloned() {
            looked_at += 1;
            while let Some(lock) = self.locks.get(&name) {
                if let Some(claim) = self.grantable(lock).filter(|_| grants) {
                    let others = claim.wants.iter().map(|want| &want.lock).filter(|lock| **lock != name);
                    names.extend(others.cloned());
                    let fence = self.fence_for(&claim.wants);
                    self.grant(turn, &claim, fence);
                } else if lock.is_idle() {
                    self.locks.remove(&name);
                } else {
                    break;
                }
            }
        }
    }

    /// The first waiter of the lock, if it can be granted now: it must be the first waiter of each of its locks, and
    /// each must admit it.
    pub(super) fn grantable(&self, lock: &Lock) -> Option<Arc<Claim>> {
        let first = lock.next_waiter()?;
        let is_next = |want: &Want| {
            let lock = self.locks.get(&want.lock).expect("the locks of a claim must exist");
            lock.next_waiter().is_some_and(|next| next.ticket == first.ticket) && lock.admits(&want.lock, want.mode)
        };
        first.wants.iter().all(is_next).then(|| first.clone())
    }

    pub(super) fn grant(&mut self, turn: &mut Turn<'_>, waiter: &Arc<Claim>, fence: NonZeroU64) {
        let holder = Claim { fence: Some(fence), since_ms: turn.now_ms, timeout_ms: None, ..Claim::clone(waiter) };
        let holder = Arc::new(holder);
        self.replace(&holder);
        self.waits.remove(&holder.owner_key()).expect("the index of waiting owners has every waiter");
        self.holds.insert(holder.owner_key());
        self.tangle(&holder);
        let what = What::Claim { before: Some(waiter.clone()), after: Some(holder.clone()) };
        turn.change(holder.session, None, what, None);
        turn.answer(holder.session, holder.number, Answer::Granted { fence: fence.get() });
    }

    /// Replaces the old version of a claim everywhere.
    pub(super) fn replace(&mut self, claim: &Arc<Claim>) {
        for want in &claim.wants {
            self.lock_mut(&want.lock).replace(claim.clone());
        }
        let before = self.claims.insert(claim.key(), claim.clone());
        assert!(before.is_some_and(|before| before.ticket == claim.ticket), "a claim keeps its ticket");
    }
}
