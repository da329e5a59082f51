//! The oracle's own definition of a deadlock, independent of the service's search: play out what can still happen.
//!
//! A child of an owner is an owner whose claims name the first owner as their parent. An owner can finish if it waits
//! for no lock and none of its children has claims. An owner that finishes gives back all that it holds, and the next
//! claims are granted. When no owner can finish any more, the claims that still wait are never served. Such a claim
//! waits for itself if the chain of owners that it waits for leads back to its own owner. (Otherwise it waits for a
//! deadlock of other owners, which only a later claim has revealed: the service does not know the parent of an owner
//! without claims.)

use std::collections::BTreeSet;

use baton_state::state::OwnerId;
use baton_state::state::locks::Mode;

use super::lines::{Asked, Claim};

/// Whether this waiting claim waits for itself. `waiting` is in the order of the requests.
pub(super) fn waits_for_itself(holding: &[Claim], waiting: &[Claim], asked: Asked) -> bool {
    let (holding, waiting) = play_out(holding, waiting);
    let Some(place) = waiting.iter().position(|claim| claim.asked == asked) else { return false };
    let blockers = |place: usize| {
        let claim = waiting[place];
        let before = holding.iter().chain(&waiting[..place]).filter(|other| other.lock == claim.lock);
        before.filter(|other| (claim.mode, other.mode) != (Mode::Shared, Mode::Shared)).map(|other| other.owner)
    };
    let mut to_visit: Vec<OwnerId> = blockers(place).collect();
    let mut reached = BTreeSet::new();
    while let Some(owner) = to_visit.pop() {
        if !reached.insert(owner) {
            continue;
        }
        let waits = (0..waiting.len()).filter(|place| waiting[*place].owner == owner);
        to_visit.extend(waits.flat_map(blockers));
        let children = holding.iter().chain(&waiting).filter(|claim| claim.parent == Some(owner));
        to_visit.extend(children.map(|claim| claim.owner));
    }
    reached.contains(&waiting[place].owner)
}

/// The claims that still hold and still wait when all owners that can finish have finished.
fn play_out<'a>(holding: &'a [Claim], waiting: &'a [Claim]) -> (Vec<&'a Claim>, Vec<&'a Claim>) {
    let mut holding: Vec<&Claim> = holding.iter().collect();
    let mut waiting: Vec<&Claim> = waiting.iter().collect();
    loop {
        let is_next = |place: usize| waiting[..place].iter().all(|earlier| earlier.lock != waiting[place].lock);
        let goes_in = |place: &usize| is_next(*place) && waiting[*place].goes_with(holding.iter().copied());
        if let Some(place) = (0..waiting.len()).find(goes_in) {
            holding.push(waiting.remove(place));
            continue;
        }
        let waits = |owner: OwnerId| waiting.iter().any(|claim| claim.owner == owner);
        let has_children = |owner: OwnerId| holding.iter().chain(&waiting).any(|claim| claim.parent == Some(owner));
        let held = holding.len();
        let unfinished = |claim: &&&Claim| waits(claim.owner) || has_children(claim.owner);
        holding = holding.iter().filter(unfinished).copied().collect();
        if holding.len() == held {
            return (holding, waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use baton_state::state::SessionId;
    use baton_state::state::locks::Acquire;

    use super::*;

    /// The next request number, so that each claim has its own.
    static REQUESTS: AtomicU64 = AtomicU64::new(1);

    fn claim(lock: &str, mode: Mode, owner: u64, parent: Option<u64>) -> Claim {
        let acquire = Acquire { parent: parent.map(OwnerId), ..Acquire::one(lock, mode, OwnerId(owner)) };
        Claim::new((SessionId(1), REQUESTS.fetch_add(1, Ordering::Relaxed)), &acquire).expect("it wants one lock")
    }

    /// Whether the last waiting claim is served.
    fn is_served(holding: &[Claim], waiting: &[Claim]) -> bool {
        let last = waiting.last().expect("a claim waits").asked;
        !waits_for_itself(holding, waiting, last)
    }

    fn exclusive(lock: &str, owner: u64, parent: Option<u64>) -> Claim {
        claim(lock, Mode::Exclusive, owner, parent)
    }

    #[test]
    fn an_owner_that_waits_for_itself_is_a_deadlock() {
        let held = [exclusive("a", 1, None)];
        assert!(!is_served(&held, &[exclusive("a", 1, None)]));
        assert!(is_served(&held, &[exclusive("a", 2, None)]));
        let crossed = [exclusive("a", 1, None), exclusive("b", 2, None)];
        assert!(!is_served(&crossed, &[exclusive("b", 1, None), exclusive("a", 2, None)]));
    }

    #[test]
    fn a_waiter_needs_one_of_several_permits() {
        let permit = |owner| claim("p", Mode::Permit { of: 2 }, owner, None);
        assert!(is_served(&[permit(1), permit(2)], &[permit(1)]));
        assert!(!is_served(&[permit(1), permit(1)], &[permit(1)]));
    }

    #[test]
    fn waiting_for_an_ancestor_is_a_deadlock_and_for_a_sibling_or_a_child_is_not() {
        let family = [exclusive("parent's", 1, None), exclusive("child's", 2, Some(1)), exclusive("3's", 3, Some(2))];
        assert!(!is_served(&family, &[exclusive("parent's", 4, Some(1))]));
        assert!(!is_served(&family, &[exclusive("parent's", 3, Some(2))]));
        assert!(!is_served(&family, &[exclusive("parent's", 5, Some(3))]));
        assert!(is_served(&family, &[exclusive("child's", 4, Some(1))]));
        assert!(is_served(&family, &[exclusive("child's", 1, None)]));
        assert!(is_served(&family, &[exclusive("parent's", 9, None)]));
    }

    #[test]
    fn a_claim_waits_also_for_those_before_it_in_the_line() {
        let held = [claim("a", Mode::Shared, 1, None), exclusive("b", 3, None)];
        let [waits, shares] = [exclusive("a", 2, None), claim("a", Mode::Shared, 3, None)];
        assert!(is_served(&held, &[waits.clone(), shares.clone()]));
        // Owner 2 is before owner 3 in the queue of `a`, and waits for owner 3 at `b`.
        assert!(!is_served(&held, &[waits, exclusive("b", 2, None), shares]));
    }

    #[test]
    fn a_claim_that_waits_for_a_deadlock_of_others_does_not_wait_for_itself() {
        let held = [exclusive("a", 1, None), exclusive("b", 2, Some(1))];
        // Owner 3, a child of owner 2, waits for owner 1.
        let stuck = exclusive("a", 3, Some(2));
        assert!(is_served(&held, &[stuck.clone(), exclusive("a", 9, None)]));
        assert!(!is_served(&held, &[stuck, exclusive("b", 1, None)]));
    }
}
