//! Finds deadlocks by trying: every owner that can finish releases its locks. A claim that still waits then waits for
//! ever.

use baton_state::state::locks::{LockName, Mode, WaitFor};
use baton_state::state::{OwnerId, SessionId};

use super::claims::permits;
use super::{Claim, Model, Told};

impl Model {
    /// Whether this acquire waits for ever, and for itself, although every owner that waits for nothing releases all
    /// its locks. An owner waits for its own claims, and for the owners that name it as their parent.
    pub(super) fn is_stuck(&self, id: SessionId, number: u64) -> bool {
        let mut rest = self.clone();
        rest.delays.clear();
        let mut locks: Vec<LockName> = self.claims.iter().flat_map(Claim::locks).collect();
        locks.sort();
        locks.dedup();
        loop {
            rest.grant(locks.clone(), &mut Told::default());
            let waits = |owner| {
                let mut own = rest.claims.iter().filter(|claim| claim.owner == owner);
                own.any(|claim| claim.fence.is_none()) || !children(&rest.claims, owner).is_empty()
            };
            let Some(owner) = rest.claims.iter().map(|claim| claim.owner).find(|&owner| !waits(owner)) else { break };
            rest.claims.retain(|claim| claim.owner != owner);
        }
        let new = rest.claims.iter().position(|claim| (claim.session, claim.number) == (id, number));
        if self.claims.iter().all(|claim| claim.parent.is_none()) {
            assert_eq!(new.is_some(), !rest.claims.is_empty(), "if anybody is stuck it is because of this request");
        }
        // If clients name false parents, owners may have been stuck before. A claim that only waits for such owners
        // does not wait for itself.
        new.is_some_and(|new| all_waited_for(&rest.claims, new).contains(&rest.claims[new].owner))
    }

    /// Whether, once this request waits, each step waits for the owner of the next step or an ancestor of it, and the
    /// last step for the first.
    pub fn is_cycle(&self, new: &Claim, cycle: &[WaitFor]) -> bool {
        let mut claims = self.claims.clone();
        claims.push(new.clone());
        let nexts = cycle.iter().cycle().skip(1);
        let is_step = |(place, (step, next)): (usize, (&WaitFor, &WaitFor))| {
            // The first step is that of the new request itself.
            let from = if place == 0 { claims.len() - 1 } else { 0 };
            (from..claims.len()).any(|at| {
                let session = self.sessions.iter().find(|session| session.id == claims[at].session);
                claims[at].owner == step.owner
                    && session.is_some_and(|session| session.label == step.label)
                    && with_descendants(&claims, waited_for(&claims, at, &step.lock)).contains(&next.owner)
            })
        };
        !cycle.is_empty() && cycle.iter().zip(nexts).enumerate().all(is_step)
    }
}

/// The owners that the claim at this place waits for at this lock. It waits for no owner if the lock admits it: a
/// closed lock opens by itself.
fn waited_for(claims: &[Claim], at: usize, lock: &LockName) -> Vec<OwnerId> {
    let claim = &claims[at];
    let Some(mode) = claim.mode(lock).filter(|_| claim.fence.is_none()) else { return vec![] };
    let before: Vec<&Claim> = claims[..at].iter().filter(|other| other.mode(lock).is_some()).collect();
    let shares = |other: &Claim| mode == Mode::Shared && other.mode(lock) == Some(Mode::Shared);
    let all_hold = before.iter().all(|other| other.fence.is_some());
    let is_free = all_hold && (before.iter().all(|other| shares(other)) || before.len() < permits(mode) as usize);
    // A waiting claim of several locks is not overtaken, even by a claim that could share with it.
    let is_not_overtaken = |other: &Claim| other.fence.is_none() && other.wants.len() > 1;
    let blocks = |other: &&&Claim| !is_free && (!shares(other) || is_not_overtaken(other));
    before.iter().filter(blocks).map(|other| other.owner).collect()
}

/// The other owners that name this owner as their parent.
fn children(claims: &[Claim], owner: OwnerId) -> Vec<OwnerId> {
    let names_it = |claim: &&Claim| claim.parent == Some(owner) && claim.owner != owner;
    claims.iter().filter(names_it).map(|claim| claim.owner).collect()
}

/// All owners that the claim at this place waits for, directly or through others.
fn all_waited_for(claims: &[Claim], at: usize) -> Vec<OwnerId> {
    let of_claim = |at: usize| claims[at].locks().flat_map(move |lock| waited_for(claims, at, &lock));
    let of_owner = |owner: OwnerId| {
        let own = (0..claims.len()).filter(move |&at| claims[at].owner == owner);
        own.flat_map(of_claim).chain(children(claims, owner)).collect()
    };
    closure(of_claim(at).collect(), of_owner)
}

/// These owners and all their descendants.
fn with_descendants(claims: &[Claim], owners: Vec<OwnerId>) -> Vec<OwnerId> {
    closure(owners, |owner| children(claims, owner))
}

fn closure(first: Vec<OwnerId>, next: impl Fn(OwnerId) -> Vec<OwnerId>) -> Vec<OwnerId> {
    let (mut found, mut left) = (vec![], first);
    while let Some(owner) = left.pop() {
        if !found.contains(&owner) {
            found.push(owner);
            left.extend(next(owner));
        }
    }
    found
}
