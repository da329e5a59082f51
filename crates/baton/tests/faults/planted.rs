//! Mistakes put into the history of a round that went well. If the judge does not find them, its silence means nothing.

use crate::history::{End, History, Hold};
use crate::judge::{Rule, judge};

/// The lock of a client that asks for it again and again, alone.
const PROBE: &str = "probe";
/// The lock that a client holds from the beginning to the end.
const KEPT: &str = "kept";

/// What the judge does not find, or for what the history has no place.
pub fn unnoticed(history: &History) -> Vec<String> {
    type Mistake = fn(&mut History) -> Option<()>;
    let mistakes: [(Rule, Mistake); 6] = [
        (Rule::Unique, one_fence_twice),
        (Rule::RealTime, a_fence_that_comes_too_late),
        (Rule::Overlap, two_holders),
        (Rule::LostHold, a_hold_that_a_listing_lacks),
        (Rule::LostPlace, a_waiter_that_a_listing_lacks),
        (Rule::Unserved, a_waiter_that_is_never_served),
    ];
    let missed = mistakes.into_iter().filter_map(|(rule, mistake)| {
        let mut wrong = history.clone();
        let is_planted = mistake(&mut wrong).is_some();
        let is_found = judge(&wrong).iter().any(|violation| violation.rule == rule);
        (!is_planted || !is_found).then(|| format!("a mistake is not found ({rule:?}; planted: {is_planted})"))
    });
    missed.collect()
}

/// The first two holds of the client that is alone, in order.
fn two_holds(history: &mut History) -> Option<[&mut Hold; 2]> {
    let claims = history.claims.iter_mut().filter(|claim| claim.lock == PROBE);
    let mut holds = claims.filter_map(|claim| match &mut claim.end {
        End::Granted(hold) => Some(hold),
        End::Waits | End::NotGranted { .. } => None,
    });
    Some([holds.next()?, holds.next()?])
}

fn one_fence_twice(history: &mut History) -> Option<()> {
    let [one, two] = two_holds(history)?;
    two.fence = one.fence;
    Some(())
}

fn a_fence_that_comes_too_late(history: &mut History) -> Option<()> {
    let [one, two] = two_holds(history)?;
    std::mem::swap(&mut one.fence, &mut two.fence);
    Some(())
}

fn two_holders(history: &mut History) -> Option<()> {
    let [one, two] = two_holds(history)?;
    one.until = two.at + 1;
    Some(())
}

fn a_hold_that_a_listing_lacks(history: &mut History) -> Option<()> {
    let holds = history.claims.iter().filter(|claim| claim.lock == KEPT).filter_map(|claim| claim.hold());
    let held = holds.min_by_key(|hold| hold.at)?.clone();
    let mut sights = history.sights.iter_mut();
    let sight = sights.find(|sight| sight.asked >= held.at && sight.answered <= held.until)?;
    sight.locks.get_mut(KEPT)?.holder.take().map(drop)
}

/// The waiters of this lock do not give up.
fn a_waiter_that_a_listing_lacks(history: &mut History) -> Option<()> {
    let mut last = None;
    for queue in history.sights.iter_mut().filter_map(|sight| sight.locks.get_mut(KEPT)) {
        let waiter = queue.waiters.first().copied();
        if waiter.is_some() && waiter == last {
            queue.waiters.remove(0);
            return Some(());
        }
        last = waiter;
    }
    None
}

fn a_waiter_that_is_never_served(history: &mut History) -> Option<()> {
    history.claims.iter_mut().find(|claim| claim.lock == KEPT)?.end = End::Waits;
    Some(())
}
