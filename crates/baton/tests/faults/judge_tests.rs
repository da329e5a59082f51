//! Histories that are wrong on purpose, and the rules that find them.

use super::*;

/// A claim with the number as owner and client, which was granted and released.
fn granted(owner: u64, called: Micros, fence: u64, at: Micros, until: Micros) -> Claim {
    let end = End::Granted(Hold { fence, at, until, end: HoldEnd::Released(until + 1) });
    Claim { client: usize::try_from(owner).unwrap(), lock: "a".to_owned(), owner, called, is_steady: false, end }
}

fn ends(claim: Claim, end: HoldEnd) -> Claim {
    let hold = claim.hold().cloned().unwrap();
    Claim { end: End::Granted(Hold { end, ..hold }), ..claim }
}

fn sight(asked: Micros, holder: Option<(u64, u64)>, waiters: &[u64]) -> Sight {
    let locks = [("a".to_owned(), Queue { holder, waiters: waiters.to_vec() })].into();
    Sight { asked, answered: asked + 1, locks }
}

fn rules(claims: Vec<Claim>, sights: Vec<Sight>) -> Vec<Rule> {
    judge(&History { claims, sights }).into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn a_right_history_has_no_violation() {
    // 2 waits while 1 holds. 3 asks later and is granted later. 4 gives up.
    let gave_up = End::NotGranted { why: "it timed out".to_owned(), is_excused: true };
    let claims = vec![
        granted(1, 0, 10, 5, 50),
        granted(2, 10, 11, 60, 70),
        granted(3, 30, 12, 80, 90),
        Claim { end: gave_up, ..granted(4, 40, 0, 0, 0) },
    ];
    let sights = vec![
        sight(20, Some((1, 10)), &[2]),
        sight(42, Some((1, 10)), &[2, 3, 4]),
        sight(61, Some((2, 11)), &[3]),
        sight(75, Some((3, 12)), &[]),
        Sight { asked: 100, answered: 101, locks: BTreeMap::new() },
    ];
    assert_eq!(judge(&History { claims, sights }), []);
}

#[test]
fn two_grants_with_one_fence_are_found_on_different_locks_too() {
    let other = Claim { lock: "b".to_owned(), ..granted(2, 10, 7, 30, 40) };
    assert_eq!(rules(vec![granted(1, 0, 7, 5, 8), other], vec![]), [Rule::Unique]);
}

#[test]
fn a_fence_that_contradicts_real_time_is_found() {
    // 2 asked after 1 was told of its grant, and has a lower fence.
    assert_eq!(rules(vec![granted(1, 0, 9, 5, 6), granted(2, 20, 8, 30, 40)], vec![]), [Rule::RealTime, Rule::Overlap]);
    // Grants of different locks come from one counter.
    let other = Claim { lock: "b".to_owned(), ..granted(2, 20, 8, 30, 40) };
    assert_eq!(rules(vec![granted(1, 0, 9, 5, 6), other], vec![]), [Rule::RealTime]);
    // Not only the neighbour in the order of the fences counts.
    let claims = vec![granted(1, 0, 9, 5, 6), granted(2, 0, 10, 50, 51), granted(3, 20, 8, 30, 40)];
    assert_eq!(rules(claims, vec![]), [Rule::RealTime, Rule::Overlap]);
    // Two requests at the same time may be granted in any order, and the later grant may be received first.
    let other = Claim { lock: "b".to_owned(), ..granted(2, 3, 8, 30, 40) };
    assert_eq!(rules(vec![granted(1, 0, 9, 5, 6), other], vec![]), []);
}

#[test]
fn holds_that_overlap_are_found() {
    assert_eq!(rules(vec![granted(1, 0, 1, 5, 20), granted(2, 1, 2, 19, 30)], vec![]), [Rule::Overlap]);
    // A long hold overlaps with a hold that is not its neighbour.
    let claims = vec![granted(1, 0, 1, 5, 40), granted(2, 1, 2, 40, 40), granted(3, 1, 3, 39, 41)];
    assert_eq!(rules(claims, vec![]), [Rule::Overlap]);
    // Different locks do not exclude each other.
    let other = Claim { lock: "b".to_owned(), ..granted(2, 1, 2, 19, 30) };
    assert_eq!(rules(vec![granted(1, 0, 1, 5, 20), other], vec![]), []);
}

#[test]
fn a_place_in_the_queue_that_another_claim_takes_is_found() {
    // 2 was seen in the queue at 11. 3 asked later and is granted earlier.
    let claims = vec![granted(1, 0, 1, 5, 20), granted(2, 6, 3, 40, 50), granted(3, 15, 2, 22, 30)];
    let sights = vec![sight(10, Some((1, 1)), &[2]), sight(16, Some((1, 1)), &[3, 2])];
    assert_eq!(rules(claims.clone(), sights), [Rule::Queue]);
    // Nothing shows that 2 was in the queue before 3 asked.
    assert_eq!(rules(claims, vec![sight(16, Some((1, 1)), &[3, 2])]), []);
}

#[test]
fn a_place_in_the_queue_that_disappears_is_found() {
    let claims = vec![granted(1, 0, 1, 5, 20), granted(2, 6, 2, 40, 50)];
    let seen = sight(10, Some((1, 1)), &[2]);
    assert_eq!(rules(claims.clone(), vec![seen.clone(), sight(14, Some((1, 1)), &[])]), [Rule::LostPlace]);
    // The claim holds the lock before its client knows.
    assert_eq!(rules(claims, vec![seen, sight(30, Some((2, 2)), &[])]), []);
}

#[test]
fn a_hold_that_the_service_forgot_is_found() {
    let claims = vec![granted(1, 0, 1, 5, 20)];
    assert_eq!(rules(claims.clone(), vec![sight(8, None, &[])]), [Rule::LostHold]);
    assert_eq!(rules(claims.clone(), vec![Sight { asked: 8, answered: 9, locks: BTreeMap::new() }]), [Rule::LostHold]);
    // The client stopped to believe while the listing was on its way.
    assert_eq!(rules(claims, vec![Sight { asked: 18, answered: 21, locks: BTreeMap::new() }]), []);
}

#[test]
fn a_release_that_the_service_refused_or_forgot_is_found() {
    let claim = granted(1, 0, 1, 5, 20);
    let denied = ends(claim.clone(), HoldEnd::Denied("it is not the holder".to_owned()));
    assert_eq!(rules(vec![denied], vec![]), [Rule::LostHold]);
    // Confirmed at 21, and held again at 30.
    assert_eq!(rules(vec![claim.clone()], vec![sight(30, Some((1, 1)), &[])]), [Rule::LostRelease]);
    assert_eq!(rules(vec![claim], vec![sight(20, Some((1, 1)), &[])]), []);
}

#[test]
fn only_a_short_lease_excuses_a_loss() {
    let lost = ends(granted(1, 0, 1, 5, 20), HoldEnd::Lost("no keep-alive was acknowledged".to_owned()));
    assert_eq!(rules(vec![lost.clone()], vec![]), []);
    assert_eq!(rules(vec![Claim { is_steady: true, ..lost }], vec![]), [Rule::LostHold]);
    let end = |is_excused| End::NotGranted { why: "the session was lost".to_owned(), is_excused };
    let claim = granted(1, 0, 1, 5, 20);
    assert_eq!(rules(vec![Claim { end: end(true), ..claim.clone() }], vec![]), []);
    assert_eq!(rules(vec![Claim { end: end(false), ..claim.clone() }], vec![]), [Rule::Refused]);
    assert_eq!(rules(vec![Claim { is_steady: true, end: end(true), ..claim }], vec![]), [Rule::LostPlace]);
}

#[test]
fn a_client_that_still_waits_at_the_end_is_found() {
    let claim = granted(1, 0, 1, 5, 20);
    assert_eq!(rules(vec![Claim { end: End::Waits, ..claim.clone() }], vec![]), [Rule::Unserved]);
    assert_eq!(rules(vec![ends(claim, HoldEnd::Open)], vec![]), [Rule::Unserved]);
}
