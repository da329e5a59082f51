//! Deadlocks, by trying: everybody gives back what it can, and whoever still waits then waits for ever.

use baton_service::state::locks::{LockName, Mode, WaitFor};
use baton_service::state::{OwnerId, SessionId};

use super::claims::permits;
use super::{Claim, Model, Told};

impl Model {
    /// Whether this acquire waits for ever although everybody who waits for nothing gives back all that it has.
    pub(super) fn is_stuck(&self, id: SessionId, number: u64) -> bool {
        let mut rest = self.clone();
        rest.delays.clear();
        let mut locks: Vec<LockName> = self.claims.iter().flat_map(Claim::locks).collect();
        locks.sort();
        locks.dedup();
        loop {
            rest.grant(locks.clone(), &mut Told::default());
            let waits = |owner| rest.claims.iter().any(|claim| claim.owner == owner && claim.fence.is_none());
            let Some(owner) = rest.claims.iter().map(|claim| claim.owner).find(|&owner| !waits(owner)) else { break };
            rest.claims.retain(|claim| claim.owner != owner);
        }
        let stuck = rest.claims.iter().any(|claim| (claim.session, claim.number) == (id, number));
        assert_eq!(stuck, !rest.claims.is_empty(), "if anybody is stuck it is because of this request");
        stuck
    }

    /// Whether each waits for the next, and the last for the first, once this request waits.
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
                    && waits_for(&claims, at, &step.lock, next.owner)
            })
        };
        !cycle.is_empty() && cycle.iter().zip(nexts).enumerate().all(is_step)
    }
}

/// Whether the claim at this place waits at this lock for a claim of this owner. It waits for nobody where it could go in: a
/// closed lock opens by itself.
fn waits_for(claims: &[Claim], at: usize, lock: &LockName, owner: OwnerId) -> bool {
    let claim = &claims[at];
    let Some(mode) = claim.mode(lock).filter(|_| claim.fence.is_none()) else { return false };
    let before: Vec<&Claim> = claims[..at].iter().filter(|other| other.mode(lock).is_some()).collect();
    let shares = |other: &Claim| mode == Mode::Shared && other.mode(lock) == Some(Mode::Shared);
    let all_hold = before.iter().all(|other| other.fence.is_some());
    let is_free = all_hold && (before.iter().all(|other| shares(other)) || before.len() < permits(mode) as usize);
    // Those who wait for several locks are not overtaken, even by whoever could share with them.
    let is_not_overtaken = |other: &Claim| other.fence.is_none() && other.wants.len() > 1;
    let blocks = |other: &&Claim| other.owner == owner && (!shares(other) || is_not_overtaken(other));
    !is_free && before.iter().any(blocks)
}
