//! The indices of claims and locks.

use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use smallvec::SmallVec;

use super::lock::Lock;
use super::{Claim, Delay, LockName, Locks};
use crate::state::{OwnerId, RequestNumber, SessionId};

impl Locks {
    /// Adds a new claim to the derived indices. `is_alone`: no other claim is at any of its locks. The caller has just seen
    /// these locks.
    pub(super) fn index(&mut self, claim: &Claim, is_alone: bool) {
        let index = if claim.holds() { &mut self.holds } else { &mut self.waits };
        index.insert(claim.owner_key());
        if claim.revoked {
            self.revoked.insert(claim.key());
        }
        self.claimed += claim.wants.len();
        count(&mut self.counts, claim.session, claim.wants.len());
        if let Some((parent, child)) = claim.kinship() {
            count(&mut self.children, (parent, child), 1);
            self.parents.insert((child, parent));
        } else if claim.holds() && is_alone {
            // Most claims hold and are alone, so they are not relevant (see `is_relevant`). This saves lookups.
            return;
        }
        self.tangle(claim);
        for want in &claim.wants {
            // If there are more, the others have been contended before.
            let line = &self.locks[&want.lock].line;
            let other = if line.len() == 2 { line.iter().find(|other| other.ticket != claim.ticket) } else { None };
            if let Some(other) = other.cloned() {
                self.tangle(&other);
            }
        }
    }

    /// Removes an ending claim from the derived indices.
    pub(super) fn unindex(&mut self, claim: &Claim) {
        let index = if claim.holds() { &mut self.holds } else { &mut self.waits };
        index.remove(&claim.owner_key()).expect("the index of owners has every claim");
        if claim.revoked {
            self.revoked.remove(&claim.key()).expect("the index of revoked claims has every revoked claim");
        }
        self.claimed -= claim.wants.len();
        uncount(&mut self.counts, &claim.session, claim.wants.len());
        if let Some((parent, child)) = claim.kinship() {
            uncount(&mut self.children, &(parent, child), 1);
            if !self.children.contains_key(&(parent, child)) {
                self.parents.remove(&(child, parent));
            }
        }
        let was_contended = self.contended.remove(&claim.owner_key()).is_some();
        if claim.holds() && !was_contended && claim.kinship().is_none() {
            return;
        }
        self.tangle_owners(claim);
        for want in &claim.wants {
            let line = &self.locks[&want.lock].line;
            let alone = if line.len() == 1 { line.last().cloned() } else { None };
            if let Some(alone) = alone {
                self.tangle(&alone);
            }
        }
    }

    /// Whether another claim waits for this one, or could: it waits, or it is not alone at one of its locks.
    pub(super) fn is_relevant(&self, claim: &Claim) -> bool {
        !claim.holds() || claim.wants.iter().any(|want| self.locks[&want.lock].line.len() > 1)
    }

    /// Whether a claim of a line can lead a search for deadlocks to other lines: it wants several locks, or its owner
    /// has other relevant claims, a parent or children.
    pub(super) fn is_tangled(&self, claim: &Claim) -> bool {
        let is_other = |other: &Claim| other.key() != claim.key();
        self.is_relevant(claim)
            && (claim.wants_several()
                || self.relevant_of(claim.owner).take(2).any(is_other)
                || self.parents_of(claim.owner).next().is_some()
                || self.children_of(claim.owner).next().is_some())
    }

    /// Updates the indices of contended holds and of tangled claims, because this claim is new, or was granted, or came
    /// to be alone, or is not alone any more.
    pub(super) fn tangle(&mut self, claim: &Claim) {
        let is_contended = claim.holds() && self.is_relevant(claim);
        match self.contended.contains(&claim.owner_key()) {
            false if is_contended => drop(self.contended.insert(claim.owner_key())),
            true if !is_contended => drop(self.contended.remove(&claim.owner_key())),
            _ => {}
        }
        self.mark(claim);
        self.tangle_owners(claim);
    }

    /// Updates the index of tangled claims, because one relevant claim of an owner came or went. Other claims of the
    /// owner, or of its parent, can have changed only if there are at most two: three are tangled by each other. So this
    /// must follow each single change.
    fn tangle_owners(&mut self, claim: &Claim) {
        for owner in [Some(claim.owner), claim.kinship().map(|(parent, _)| parent)].into_iter().flatten() {
            let few: SmallVec<[(SessionId, RequestNumber); 3]> =
                self.relevant_of(owner).map(Claim::key).take(3).collect();
            if few.len() < 3 {
                few.into_iter().for_each(|key| self.mark(&self.claims[&key].clone()));
            }
        }
    }

    fn mark(&mut self, claim: &Claim) {
        let is_tangled = self.is_tangled(claim);
        for want in &claim.wants {
            if self.locks[&want.lock].line.is_tangled(claim.ticket) != is_tangled {
                self.lock_mut(&want.lock).line.set_tangled(claim.ticket, is_tangled);
            }
        }
    }

    /// The fence of the latest grant; 0 if there was none.
    pub fn last_fence(&self) -> u64 {
        self.last_fence
    }

    /// Number of locks that are held, waited for, closed or remembered.
    pub(in crate::state) fn len(&self) -> usize {
        self.locks.len()
    }

    /// Number of locks that are held, waited for or closed.
    pub(in crate::state) fn used(&self) -> usize {
        self.used
    }

    /// Number of claims that hold.
    pub(in crate::state) fn holding(&self) -> usize {
        self.holds.len()
    }

    /// Number of claims that wait.
    pub(in crate::state) fn waiting(&self) -> usize {
        self.waits.len()
    }

    /// Number of locks in all claims. A lock counts once for each claim that wants it.
    pub(in crate::state) fn claimed(&self) -> usize {
        self.claimed
    }

    /// Number of locks in the claims of a session.
    pub(in crate::state) fn claimed_by(&self, session: SessionId) -> usize {
        self.counts.get(&session).copied().unwrap_or(0)
    }

    /// A lock that is held, waited for, closed or remembered.
    pub(in crate::state) fn get(&self, name: &[u8]) -> Option<(&LockName, &Lock)> {
        self.locks.get_key_value(name).map(|(name, lock)| (name, lock.as_ref()))
    }

    /// All locks from this name on, in order of name.
    pub(in crate::state) fn from<'a>(
        &'a self,
        name: &[u8],
    ) -> impl Iterator<Item = (&'a LockName, &'a Lock)> + use<'a> {
        let range = (Bound::Included(name), Bound::<&[u8]>::Unbounded);
        self.locks.range::<_, [u8]>(range).map(|(name, lock)| (name, lock.as_ref()))
    }

    /// The claims of a session, in the order of their numbers.
    pub(in crate::state) fn claims_of(&self, session: SessionId) -> impl Iterator<Item = &Arc<Claim>> {
        self.claims_from(session, 0)
    }

    /// The claims of a session from this number on, in the order of their numbers.
    pub(in crate::state) fn claims_from(
        &self,
        session: SessionId,
        number: RequestNumber,
    ) -> impl Iterator<Item = &Arc<Claim>> {
        self.claims.range((session, number)..=(session, RequestNumber::MAX)).map(|(_, claim)| claim)
    }

    pub(super) fn waiting_claims(&self) -> impl Iterator<Item = &Claim> {
        self.waits.iter().map(|&(_, session, number)| self.claim(session, number))
    }

    pub(in crate::state) fn closed(&self) -> impl Iterator<Item = (&LockName, Delay)> {
        self.delays.iter().map(|name| (name, self.locks[name].delay().expect("a lock in this index is closed")))
    }

    /// The claims of the owner that wait or are contended.
    pub(super) fn relevant_of(&self, owner: OwnerId) -> impl Iterator<Item = &Claim> {
        self.claims_in(&self.contended, owner).chain(self.waits_of(owner))
    }

    pub(super) fn waits_of(&self, owner: OwnerId) -> impl Iterator<Item = &Claim> {
        self.claims_in(&self.waits, owner)
    }

    /// The owners that act for this one: they have a claim that names this owner as parent.
    pub(super) fn children_of(&self, owner: OwnerId) -> impl Iterator<Item = OwnerId> {
        self.children.range((owner, OwnerId(0))..=(owner, OwnerId(u64::MAX))).map(|(&(_, child), _)| child)
    }

    /// The owners that this one acts for.
    pub(super) fn parents_of(&self, owner: OwnerId) -> impl Iterator<Item = OwnerId> {
        self.parents.range((owner, OwnerId(0))..=(owner, OwnerId(u64::MAX))).map(|&(_, parent)| parent)
    }

    fn claims_in<'a>(
        &'a self,
        index: &'a OrdSet<(OwnerId, SessionId, RequestNumber)>,
        owner: OwnerId,
    ) -> impl Iterator<Item = &'a Claim> {
        let all = (owner, SessionId(0), 0)..=(owner, SessionId(u64::MAX), RequestNumber::MAX);
        index.range(all).map(|&(_, session, number)| self.claim(session, number))
    }

    fn claim(&self, session: SessionId, number: RequestNumber) -> &Claim {
        self.claims.get(&(session, number)).expect("an index names only existing claims")
    }

    /// The sessions that have claims or forced releases. A session appears once per claim.
    pub(super) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.claims.keys().map(|&(session, _)| session).chain(self.forced.keys().copied())
    }
}

fn count<K: Ord + Clone>(counts: &mut OrdMap<K, usize>, key: K, more: usize) {
    match counts.get_mut(&key) {
        Some(count) => *count += more,
        None => drop(counts.insert(key, more)),
    }
}

/// The key must be counted.
fn uncount<K: Ord + Clone>(counts: &mut OrdMap<K, usize>, key: &K, fewer: usize) {
    let count = counts.get_mut(key).expect("every claim is counted");
    *count -= fewer;
    if *count == 0 {
        counts.remove(key);
    }
}
